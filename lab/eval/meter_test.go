package eval

import (
	"slices"
	"testing"

	"optibfm/hal/haltest"
)

// TestMeter_LacksNothingOfASimulator: what it does not pass on has no use in an experiment in
// simulated time.
func TestMeter_LacksNothingOfASimulator(t *testing.T) {
	without := []string{
		"ArmInput", "Backstop", "Bounder", "DeadmanTimer", "Disarmer", "FailsafeHolder", "FaultCounter", "LabelInput",
		"Limper", "Meter", "Relaxer", "SlowResetter", "StopInput", "Viewer", "Warner",
	}
	if missing := haltest.Missing(&meter{}); !slices.Equal(missing, without) {
		t.Errorf("lacks %v, want %v", missing, without)
	}
}
