package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/tflite"
)

func TestCheckChannels_ShowsBothListsSideBySide(t *testing.T) {
	robot := hal.Spec{
		Name:   "rover",
		Obs:    []hal.Channel{{Name: "x", Unit: "m"}, {Name: "heading_cos"}, {Name: "speed", Unit: "m/s"}},
		Action: []hal.Channel{{Name: "left_wheel"}, {Name: "right_wheel"}},
	}
	action := []tflite.Channel{{Name: "left_wheel"}, {Name: "right_wheel"}}
	observation := []tflite.Channel{
		{Name: "x", Unit: "m"}, {Name: "heading_\x1bsin"}, {Name: "speed"}, {Name: "yaw_rate"},
	}
	err := CheckChannels(robot, observation, action)
	want := `controller: robot "rover": observation: robot and model do not match: 3 of 4 channels differ; ` +
		`use a model of this robot, or give the robot's channels the model's names, units and order:
          robot        model
       0  x [m]        x [m]
  *    1  heading_cos  heading_\x1bsin
  *    2  speed [m/s]  speed
  *    3  -            yaw_rate`
	if !errors.Is(err, ErrMismatch) || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestCheckChannels_ComparesOrderAndUnit(t *testing.T) {
	robot := hal.Spec{
		Obs:    []hal.Channel{{Name: "a", Unit: "rad"}, {Name: "b"}},
		Action: []hal.Channel{{Name: "left"}, {Name: "right"}},
	}
	a, b := tflite.Channel{Name: "a", Unit: "rad"}, tflite.Channel{Name: "b"}
	left, right := tflite.Channel{Name: "left"}, tflite.Channel{Name: "right"}
	for name, c := range map[string]struct {
		observation, action []tflite.Channel
		match               bool
	}{
		"equal":                {[]tflite.Channel{a, b}, []tflite.Channel{left, right}, true},
		"reversed observation": {[]tflite.Channel{b, a}, []tflite.Channel{left, right}, false},
		"reversed action":      {[]tflite.Channel{a, b}, []tflite.Channel{right, left}, false},
		"another unit":         {[]tflite.Channel{{Name: "a", Unit: "deg"}, b}, []tflite.Channel{left, right}, false},
		"one channel fewer":    {[]tflite.Channel{a}, []tflite.Channel{left, right}, false},
		"no names":             {nil, nil, true},
		"empty names":          {[]tflite.Channel{{}, {}}, []tflite.Channel{left, right}, true},
		"no observation names": {nil, []tflite.Channel{right, left}, false},
	} {
		err := CheckChannels(robot, c.observation, c.action)
		if (err == nil) != c.match || err != nil && !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: match %t, got %v", name, c.match, err)
		}
	}
}

func TestCheckChannels_ShowsOnlyDifferencesOfLongLists(t *testing.T) {
	robot := hal.Spec{Action: []hal.Channel{{Name: "left"}}}
	var observation []tflite.Channel
	for i := range 300 {
		name := fmt.Sprintf("channel_%d", i)
		robot.Obs = append(robot.Obs, hal.Channel{Name: name})
		if i%100 == 50 {
			name += "!"
		}
		observation = append(observation, tflite.Channel{Name: name})
	}
	err := CheckChannels(robot, observation, []tflite.Channel{{Name: "left"}})
	if err == nil || strings.Count(err.Error(), "\n") != 4 || !strings.Contains(err.Error(), "3 of 300 channels") {
		t.Error(err)
	}
}
