package configs

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/hal/assembly"
	"optibfm/hal/bno055"
	"optibfm/hal/bridge"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/pca9685"
	"optibfm/hal/serial"
	"optibfm/hal/unitree"
	"optibfm/internal/fatal"
	"optibfm/internal/keys"
	"optibfm/internal/sections"
)

// rules returns the rule of each key of a configuration; [] stands for each element of a list, *
// for each name of a table.
func rules() map[string]keys.Rule {
	all := map[string]keys.Rule{}
	walk(reflect.ValueOf(Default()), "", keys.Field{}, func(path string, f keys.Field, _ reflect.Value) {
		if f.HasRule {
			all[path] = f.Rule
		}
	})
	return all
}

// walk visits every text, number and boolean of a configuration.
func walk(v reflect.Value, path string, f keys.Field, visit func(string, keys.Field, reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range keys.Fields(v) {
			walk(f.Value, keys.Join(path, f.Key), f, visit)
		}
	case reflect.Slice:
		walk(reflect.New(v.Type().Elem()).Elem(), path+"[]", f, visit)
	case reflect.Map:
		walk(reflect.New(v.Type().Elem()).Elem(), path+anyName, f, visit)
	default:
		visit(path, f, v)
	}
}

// anyName stands for the names of a table.
const anyName = ".*"

func TestRules_CoverEveryNumber(t *testing.T) {
	walk(reflect.ValueOf(Default()), "", keys.Field{}, func(path string, f keys.Field, v reflect.Value) {
		switch v.Kind() {
		case reflect.Bool, reflect.String:
			if f.HasRule && (v.Kind() == reflect.Bool || f.Rule.Ranged) {
				t.Errorf("%s: a %s with %v", path, v.Type(), f.Rule)
			}
		default:
			if !f.HasRule {
				t.Errorf("%s has no rule: add the tag rule to its field", path)
			}
		}
	})
}

// narrowed are keys with a narrower range, depending on other keys or on a
// list of values that their package has.
var narrowed = map[string]string{
	"robot.composite.action[].halt":                  "of the driver",
	"controller.gate.backoff_max_s":                  "at least backoff_s",
	"controller.gate.labels_per_minute":              "at most requests_per_minute",
	"controller.gate.pause":                          "with robot.hold",
	"controller.credit.delay_s":                      "with width_s at most 600",
	"controller.credit.width_s":                      "with delay_s at most 600",
	"controller.credit.held.delay_s":                 "with width_s at most 600",
	"controller.credit.held.width_s":                 "with delay_s at most 600",
	"controller.beta.schedule":                       "with its other keys",
	"robot.composite.devices[].pca9685.frequency_hz": "of the oscillator",
	"operator.scripted.reward_high":                  "above reward_low",
	"robot.unitree.standby_late_ms":                  "at least standby_ms",
	"operator.label_mode":                            "of the source",
	"operator.source":                                "with robot.driver",
	"operator.web.tls":                               "with cert_file and key_file",
	"operator.keyboard.good_value":                   "above bad_value",
	"operator.evdev.labels.good_value":               "above bad_value",
	"operator.gpio.labels.good_value":                "above bad_value",
	"operator.web.good_value":                        "above bad_value",
	"operator.keyboard.neutral_value":                "between bad_value and good_value",
	"operator.remote.labels.good_value":              "above bad_value",
	"robot.unitree.model":                            "with a driver that needs it",
}

func TestRules_ValidateAndSchemaAgree(t *testing.T) {
	var root map[string]any
	fatal.If(t, json.Unmarshal(Schema(), &root))
	for _, pattern := range slices.Sorted(maps.Keys(rules())) {
		if strings.HasSuffix(pattern, anyName) { // any finite number, like the loader
			continue
		}
		cfg, path := exampleOf(t, pattern)
		before := cfg.problems()
		field, _, ok := lookup(reflect.ValueOf(&cfg).Elem(), path)
		if !ok {
			t.Fatalf("%s: the example has no such key", path)
		}
		inside, outside := samples(field, rules()[pattern])
		for _, value := range outside {
			if !setValue(field, value) {
				continue // the type of the field has the limit
			}
			if !newProblem(cfg, path, before) {
				t.Errorf("%s: Validate accepts %v", path, value)
			}
			if !schemaRefuses(schemaAt(root, pattern), value) {
				t.Errorf("%s: the schema accepts %v", path, value)
			}
		}
		refused := false
		for _, value := range inside {
			if !setValue(field, value) {
				t.Fatalf("%s cannot hold %v", path, value)
			}
			if newProblem(cfg, path, before) {
				refused = true
				if narrowed[pattern] == "" {
					t.Errorf("%s: Validate refuses %v", path, value)
				}
			}
			if schemaRefuses(schemaAt(root, pattern), value) {
				t.Errorf("%s: the schema refuses %v", path, value)
			}
		}
		if narrowed[pattern] != "" && !refused {
			t.Errorf("%s is not narrowed; remove it from the list", path)
		}
	}
}

// samples returns the values at a limit and those just outside.
func samples(field reflect.Value, l keys.Rule) (inside, outside []any) {
	if field.Kind() == reflect.String {
		for _, choice := range l.Choices {
			inside = append(inside, choice)
		}
		return inside, []any{"no such choice"}
	}
	for _, number := range l.Numbers() {
		inside = append(inside, number)
	}
	if !l.Ranged {
		return inside, []any{slices.Max(l.Numbers()) + 1, -1.0}
	}
	step := func(bound float64) float64 {
		if field.Kind() == reflect.Float64 {
			return max(1e-9, 1e-6*math.Abs(bound))
		}
		return 1
	}
	if l.Above {
		outside = append(outside, l.Min)
		inside = append(inside, l.Min+step(l.Min))
	} else if l.HasMin() {
		outside = append(outside, l.Min-step(l.Min))
		inside = append(inside, l.Min)
	}
	if l.HasMax() {
		outside = append(outside, l.Max+step(l.Max))
		inside = append(inside, l.Max)
	}
	return inside, outside
}

// setValue sets a field; false if its type cannot hold the value.
func setValue(field reflect.Value, value any) bool {
	if s, ok := value.(string); ok {
		field.SetString(s)
		return true
	}
	x := value.(float64)
	switch field.Kind() {
	case reflect.Float64:
		field.SetFloat(x)
	case reflect.Int, reflect.Int64:
		field.SetInt(int64(x))
	case reflect.Uint64:
		if x < 0 {
			return false
		}
		field.SetUint(uint64(x))
	}
	return true
}

// newProblem reports whether the value at a path, or a section around it, is
// refused for a reason that is not among those before.
func newProblem(cfg File, path string, before []problem) bool {
	return slices.ContainsFunc(cfg.problems(), func(p problem) bool {
		return strings.HasPrefix(path, p.path) && overlap(p.path, path) && !slices.Contains(before, p)
	})
}

// schemaAt returns the schema of a key.
func schemaAt(root map[string]any, pattern string) map[string]any {
	for step := range strings.SplitSeq(pattern, ".") {
		key, isList := strings.CutSuffix(step, "[]")
		root = root["properties"].(map[string]any)[key].(map[string]any)
		if isList {
			root = root["items"].(map[string]any)
		}
	}
	return root
}

// schemaRefuses evaluates the keywords of a scalar.
func schemaRefuses(s map[string]any, value any) bool {
	if alternatives, ok := s["anyOf"].([]any); ok {
		return !slices.ContainsFunc(alternatives, func(a any) bool {
			one := maps.Clone(a.(map[string]any))
			one["type"] = s["type"]
			return !schemaRefuses(one, value)
		})
	}
	if choices, ok := s["enum"].([]any); ok {
		return !slices.Contains(choices, value)
	}
	x, ok := value.(float64)
	if wantNumber := s["type"] == "number" || s["type"] == "integer"; ok != wantNumber {
		return true
	}
	low, hasLow := s["minimum"].(float64)
	open, hasOpen := s["exclusiveMinimum"].(float64)
	high, hasHigh := s["maximum"].(float64)
	outside := hasLow && x < low || hasOpen && x <= open || hasHigh && x > high
	return outside || s["type"] == "integer" && x != math.Trunc(x)
}

// exampleOf returns a configuration that has a value for the key, and its path.
func exampleOf(t *testing.T, pattern string) (cfg File, path string) {
	t.Helper()
	cfg, err := Load("composite")
	fatal.If(t, err)
	switch {
	case strings.HasPrefix(pattern, "robot.rover"):
		cfg.Robot.Driver = "rover"
	case strings.HasPrefix(pattern, "robot.bridge"):
		cfg.Robot.Driver = "bridge"
		sections.Edit(&cfg.Robot.Sections, func(c *bridge.Config) { c.Address = "unix:/r" })
	case strings.HasPrefix(pattern, "robot.unitree"):
		cfg.Robot.Driver = "unitree"
		sections.Edit(&cfg.Robot.Sections, func(u *unitree.Config) {
			u.Model, u.Interface = unitree.G1, unitree.Loopback
			one := []float64{1}
			u.Kp, u.Kd, u.DampingKd, u.Pose, u.ActionScale, u.MaxRate, u.MaxTorque = one, one, one, one, one, one, one
			u.Battery, u.Temperature = unitree.Battery{}, unitree.Temperature{}
		})
	}
	cfg.Controller.FixedZ, cfg.Loop.CPUs = []float64{1}, []int{0}
	cfg.Model.Groups = []controller.Group{{Name: "state", Terms: []controller.Term{{LastAction: true}}}}
	cfg.Safety.Limits = []controller.StopLimit{{Channel: "pitch", Min: -1, Max: 1}}
	port := serial.Config{Path: "/dev/ttyACM0"}
	devices := []assembly.Device{
		device("", "bno055", bno055.Config{Bus: "/dev/i2c-3", Read: []string{"gyro"}}),
		device("", "mpu6050", mpu6050.Config{Bus: "/dev/i2c-4"}),
		device("", "pca9685", pca9685.Config{Bus: "/dev/i2c-5", Channels: []pca9685.Channel{{Name: "left"}}}),
		device("", "mcu", mcu.Config{Port: port}),
		device("", "dynamixel", dynamixel.Config{Port: port, Servos: []dynamixel.Servo{{Name: "pan", ID: 1}}}),
		device("", "feetech", feetech.Config{Port: port, Servos: []feetech.Servo{{Name: "pan", ID: 1}}}),
		device("", "mit", mit.Config{Interface: "can0", Dialect: mit.Damiao, Motors: []mit.Motor{{
			Name: "hip", ID: 1, ReplyID: 2, Mode: mit.Torque, Kp: 1, Kd: 1, PMax: 12, VMax: 30, TMax: 10,
		}}}),
	}
	const inDevice = "robot.composite.devices[]."
	if key, ok := strings.CutPrefix(pattern, inDevice); ok {
		driver, _, _ := strings.Cut(key, ".")
		devices = slices.DeleteFunc(devices, func(d assembly.Device) bool {
			return d.Driver != driver && strings.Contains(key, ".")
		})
		sections.Edit(&cfg.Robot.Sections, func(c *assembly.Config) { c.Devices = devices })
	}
	return cfg, strings.ReplaceAll(pattern, "[]", "[0]")
}

func TestChoose_NamesTheFixOfAProgramWithoutDrivers(t *testing.T) {
	if got := choose("composite", nil); !strings.Contains(got, `import _ "optibfm/standard"`) {
		t.Error(got)
	}
}
