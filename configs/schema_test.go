package configs

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write schema.json")

// makeSchema describes File. Descriptions are the comments of the fields.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{FieldNameTag: "yaml", DoNotReference: true, Anonymous: true, RequiredFromJSONSchemaTags: true}
	for _, dir := range []string{".", "../controller", "../rtloop", "../hal/rover", "../hal/bridge", "../hal/composite", "../hal/bno055", "../hal/mpu6050", "../hal/pca9685", "../hal/serial", "../hal/mcu", "../hal/dynamixel", "../hal/feetech", "../hal/mit", "../rewardsrc/scripted", "../rewardsrc/keyboard", "../rewardsrc/panel", "../rewardsrc/evdev", "../rewardsrc/gpio", "../rewardsrc/web", "../tflite/tensorflow"} {
		if err := r.AddGoComments("optibfm/configs", dir, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	s := r.Reflect(&File{})
	s.Title = "optibfm configuration"
	s.Required = []string{"version"}
	(&refiner{t: t, comments: r.CommentMap}).refine(s, reflect.ValueOf(Default()), "")
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

type refiner struct {
	t        *testing.T
	comments map[string]string
}

// refine adds choices, ranges and defaults, and joins the lines of
// descriptions. A key without a comment is described by its type's, or by its
// section's.
func (r *refiner) refine(s *jsonschema.Schema, v reflect.Value, path string) {
	r.t.Helper()
	if s.Description == "" {
		s.Description = r.comments[v.Type().PkgPath()+"."+v.Type().Name()]
	}
	s.Description = strings.Join(strings.Fields(s.Description), " ")
	if v.Kind() == reflect.Struct {
		for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
			field, ok := fieldOf(v, pair.Key)
			if !ok {
				r.t.Fatalf("%s.%s: the schema has a key that the loader does not know", path, pair.Key)
			}
			if pair.Value.Description == "" && field.Kind() != reflect.Struct {
				pair.Value.Description = s.Description
			}
			r.refine(pair.Value, field, join2(path, pair.Key))
		}
		return
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
		r.refine(s.Items, reflect.New(v.Type().Elem()).Elem(), path+"[]")
		return
	}
	if v.Kind() != reflect.Slice && !strings.Contains(path, "[]") {
		s.Default = v.Interface()
	}
	for _, choice := range enums()[path] {
		s.Enum = append(s.Enum, choice)
	}
	l, ok := limits()[path]
	if !ok {
		return
	}
	if l.above {
		s.ExclusiveMinimum = number(l.min)
	} else {
		s.Minimum = number(l.min)
	}
	if l.max != noMax {
		s.Maximum = number(l.max)
	}
}

func number(v float64) json.Number { return json.Number(strconv.FormatFloat(v, 'g', -1, 64)) }

func TestTheSchemaIsUpToDate(t *testing.T) {
	want := makeSchema(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("schema.json does not fit the types: run 'go test ./configs -run Schema -update'")
	}
}

func TestEveryKeyHasADescriptionAndNoOtherKeyIsAllowed(t *testing.T) {
	var check func(map[string]any, string)
	check = func(s map[string]any, path string) {
		if d, _ := s["description"].(string); d == "" && path != "" {
			t.Errorf("%s has no description", path)
		}
		properties, isSection := s["properties"].(map[string]any)
		if isSection && s["additionalProperties"] != false {
			t.Errorf("%s allows other keys", path)
		}
		for key, p := range properties {
			check(p.(map[string]any), join2(path, key))
		}
		if items, ok := s["items"].(map[string]any); ok && items["properties"] != nil {
			check(items, path+"[]")
		}
	}
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	check(s, "")
}

func TestTheLoaderEnforcesTheLimitsOfTheSchema(t *testing.T) {
	for path, l := range limits() {
		cfg := Default()
		if strings.HasPrefix(path, "robot.bridge") {
			cfg.Robot.Driver = DriverBridge
			cfg.Robot.Bridge.Address = "unix:/tmp/x"
		}
		if strings.HasPrefix(path, "robot.composite") {
			var err error
			if cfg, err = Load("composite"); err != nil {
				t.Fatal(err)
			}
		}
		field, _, ok := lookup(reflect.ValueOf(&cfg).Elem(), path)
		if !ok {
			t.Errorf("%s: no such key", path)
			continue
		}
		if below := beyond(field, l.min, -1); set(field, below) && !complains(cfg, path) {
			t.Errorf("%s: %v is below the minimum and accepted", path, below)
		}
		if l.above && set(field, l.min) && !complains(cfg, path) {
			t.Errorf("%s: %g is accepted, the schema excludes it", path, l.min)
		}
		if above := beyond(field, l.max, 1); l.max != noMax && set(field, above) && !complains(cfg, path) {
			t.Errorf("%s: %v is above the maximum and accepted", path, above)
		}
		if l.max != noMax && dependsOnOthers[path] == "" && set(field, l.max) && complains(cfg, path) {
			t.Errorf("%s: the maximum %g is refused", path, l.max)
		}
		if !l.above && dependsOnOthers[path] == "" && set(field, l.min) && complains(cfg, path) {
			t.Errorf("%s: the minimum %g is refused", path, l.min)
		}
	}
}

// dependsOnOthers are keys whose range is narrower where others have their
// defaults.
var dependsOnOthers = map[string]string{
	"controller.gate.backoff_max_s":     "at least backoff_s",
	"loop.period_ms":                    "the rover's",
	"robot.rover.arena_m":               "radius_m",
	"robot.rover.period_ms":             "the loop's",
	"operator.web.good_value":           "above bad_value",
	"operator.web.bad_value":            "below good_value",
	"operator.scripted.reward_low":      "below reward_high",
	"operator.scripted.reward_high":     "above reward_low",
	"operator.scripted.absence.away_s":  "less than every_s",
	"operator.scripted.absence.every_s": "more than away_s",
	"controller.gate.labels_per_minute": "at most requests_per_minute",
	"operator.evdev.labels.good_value":  "above bad_value",
	"operator.evdev.labels.bad_value":   "below good_value",
	"operator.gpio.labels.good_value":   "above bad_value",
	"operator.gpio.labels.bad_value":    "below good_value",
	"operator.keyboard.good_value":      "above bad_value",
	"operator.keyboard.bad_value":       "below good_value",
}

// beyond is a little less, or more, than a bound.
func beyond(field reflect.Value, bound float64, sign float64) float64 {
	if field.Kind() == reflect.Float64 {
		return bound + sign*max(1e-6, 1e-6*math.Abs(bound))
	}
	return bound + sign
}

// set sets a number; false where the type cannot hold it, which is a limit too.
func set(field reflect.Value, v float64) bool {
	switch field.Kind() {
	case reflect.Float64:
		field.SetFloat(v)
	case reflect.Int, reflect.Int64:
		field.SetInt(int64(v))
	case reflect.Uint64:
		if v < 0 {
			return false
		}
		field.SetUint(uint64(v))
	}
	return true
}

// complains reports whether the value at path, or the section that it stands
// in, is refused.
func complains(cfg File, path string) bool {
	for _, p := range cfg.problems() {
		if p.path == path || strings.HasPrefix(path, p.path+".") {
			return true
		}
	}
	return false
}
