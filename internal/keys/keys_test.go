package keys

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"optibfm/internal/errtest"
)

type inner struct {
	Speeds []float64 `yaml:"speeds" rule:"(0, 10]"`
}

type chosen struct {
	Task  string   `yaml:"task"`
	Tasks []string `yaml:"tasks"`
}

func (chosen) Choices(key string) []string {
	return map[string][]string{"task": {"spin", "drive"}, "tasks": {"spin", "drive"}}[key]
}

type config struct {
	inner   `yaml:",inline"`
	Address int     `yaml:"address" rule:"0|0x28|41"`
	Angle   float64 `yaml:"angle" rule:"[-pi, inf)"`
	Offset  float64 `yaml:"offset" rule:"finite"`
	Mode    string  `yaml:"mode,omitempty" rule:"imu|ndof|"`
	Free    string  `yaml:"free"`
	Hidden  int     `yaml:"-"`
	Chosen  chosen  `yaml:"chosen"`
	Levels  int     `yaml:"levels" rule:"0|-1|[2, 1000]"`

	Gains map[string]float64 `yaml:"gains" rule:"[0, 1]"`
}

func TestCheck_NamesEachKeyThatBreaksItsRule(t *testing.T) {
	good := config{inner: inner{[]float64{1, 10}}, Address: 0x28, Angle: 1e300, Chosen: chosen{"spin", []string{"spin"}}}
	for _, good.Levels = range []int{0, -1, 2, 1000} {
		errtest.Nil(t, Check("it", good))
	}
	bad := config{
		inner: inner{[]float64{1, 0}}, Address: 40 + 2, Angle: math.NaN(), Offset: math.Inf(1), Mode: "x",
		Chosen: chosen{"walk", []string{"spin", "fly"}}, Levels: 1, Gains: map[string]float64{"left": 2, "right": 1},
	}
	err := Check("it", bad)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"it: speeds[1] is out of range (0); choose a value above 0, at most 10",
		"it: address is out of range (42); choose one of 0, 0x28, 41",
		"it: angle is out of range (NaN); choose a finite number of at least -3.14159",
		"it: offset is out of range (+Inf); choose a finite number",
		`it: mode is unknown ("x"); choose one of imu, ndof`,
		`it: chosen.task is unknown ("walk"); choose one of spin, drive`,
		`it: chosen.tasks[1] is unknown ("fly"); choose one of spin, drive`,
		"it: levels is out of range (1); choose 0, -1, or a value from 2 to 1000",
		"it: gains.left is out of range (2); choose a value from 0 to 1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

func TestRule_WritesWholeNumbersInFull(t *testing.T) {
	for want, r := range map[string]Rule{
		"a value from 1 to 10000000":                  {Ranged: true, Min: 1, Max: 1e7},
		"a value above -1000000, at most 0.5":         {Ranged: true, Min: -1e6, Max: 0.5, Above: true},
		"a finite number of at least 999999999999999": {Ranged: true, Min: 1e15 - 1, Max: math.MaxFloat64},
		"a value from 1e-07 to 1e+15":                 {Ranged: true, Min: 1e-7, Max: 1e15},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOf_ListsTheKeysInOrder(t *testing.T) {
	want := []string{"speeds", "address", "angle", "offset", "mode", "free", "chosen", "levels", "gains"}
	if got := Of(reflect.ValueOf(config{})); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if f, ok := Find(reflect.ValueOf(config{}), "mode"); !ok || !f.OmitEmpty || f.Name != "Mode" {
		t.Errorf("%+v, %v", f, ok)
	}
}
