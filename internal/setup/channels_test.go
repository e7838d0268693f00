package setup_test

import (
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/hal/haltest"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

func TestCheckNamed_NamesTheListWithoutNames(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Model.Bundle = "models/mine" })
	spec := rigtest.WithRoverNames(t, haltest.Spec(6, 2))
	var action []tflite.Channel
	for _, c := range spec.Action {
		action = append(action, tflite.Channel{Name: c.Name})
	}
	s.Model.(setup.NativeModel).Action = action
	_, warning, err := setup.CheckChannels(s.File, s.Model)
	if err != nil || !strings.HasPrefix(warning, "model.bundle: models/mine: the observation channels have no names") {
		t.Errorf("%q, %v", warning, err)
	}
}
