package keys

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Speeds []float64 `yaml:"speeds" rule:"(0, 10]"`
}

type chosen struct {
	Task string `yaml:"task"`
}

func (chosen) Choices(key string) []string {
	return map[string][]string{"task": {"spin", "drive"}}[key]
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
}

func TestCheck_NamesEachKeyThatBreaksItsRule(t *testing.T) {
	good := config{inner: inner{[]float64{1, 10}}, Address: 0x28, Angle: 1e300, Chosen: chosen{"spin"}}
	if err := Check("it", good); err != nil {
		t.Error(err)
	}
	bad := config{
		inner: inner{[]float64{1, 0}}, Address: 40 + 2, Angle: math.NaN(), Offset: math.Inf(1), Mode: "x",
		Chosen: chosen{"walk"},
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
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

func TestOf_ListsTheKeysInOrder(t *testing.T) {
	want := []string{"speeds", "address", "angle", "offset", "mode", "free", "chosen"}
	if got := Of(reflect.ValueOf(config{})); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if f, ok := Find(reflect.ValueOf(config{}), "mode"); !ok || !f.OmitEmpty || f.Name != "Mode" {
		t.Errorf("%+v, %v", f, ok)
	}
}
