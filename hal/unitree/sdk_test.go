package unitree_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"optibfm/hal/unitree"
)

// TestRobot_AgreesWithUnitreesSDK drives a robot that Unitree's SDK for Python is: OPTIBFM_TEST_UNITREE_SDK names the
// interpreter that has it.
func TestRobot_AgreesWithUnitreesSDK(t *testing.T) {
	python := os.Getenv("OPTIBFM_TEST_UNITREE_SDK")
	if python == "" {
		t.Skip("OPTIBFM_TEST_UNITREE_SDK is empty: see hal/unitree/TESTING.md")
	}
	library(t)
	for _, model := range []string{unitree.Go2, unitree.G1} {
		t.Run(model, func(t *testing.T) {
			c := newConfig(model)
			sdk := exec.Command(python, "../../scripts/unitree_sdk.py", model,
				"--domain", fmt.Sprint(c.Domain), "--seconds", "8")
			sdk.Stderr = os.Stderr
			out, err := sdk.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := sdk.Start(); err != nil {
				t.Fatal(err)
			}
			r := open(t, c)
			action := arm(t, r)
			for range 50 {
				if err := r.Act(action); err != nil {
					t.Fatal(err)
				}
				time.Sleep(period)
			}
			if err := r.Halt(); err != nil {
				t.Error(err)
			}
			var n struct{ Commands, Sound, Damping, States int }
			if err := json.NewDecoder(out).Decode(&n); err != nil {
				t.Fatal(err)
			}
			if err := sdk.Wait(); err != nil {
				t.Error(err)
			}
			report := r.Report()
			t.Logf("the SDK sent %d states: the driver accepted %d and dropped %d",
				n.States, report.Received, report.BadCRC)
			t.Logf("the SDK read %d commands: %d have its checksum, %d damp", n.Commands, n.Sound, n.Damping)
			if n.Sound != n.Commands || n.Commands < 100 || n.Damping < 20 || report.Received < 100 || report.BadCRC > 0 {
				t.Error("they disagree")
			}
		})
	}
}
