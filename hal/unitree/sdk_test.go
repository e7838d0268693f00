package unitree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/hal/unitree"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// sdkCounts counts the messages that Unitree's SDK sent and read.
type sdkCounts struct{ Commands, Sound, Damping, States int }

// TestRobot_AgreesWithUnitreesSDK drives a robot that Unitree's SDK for Python is:
// OPTIBFM_TEST_UNITREE_SDK names the interpreter that has it. The SDK computes its checksums in
// Python, which takes longer than a period.
func TestRobot_AgreesWithUnitreesSDK(t *testing.T) {
	python := os.Getenv("OPTIBFM_TEST_UNITREE_SDK")
	if python == "" {
		t.Skip("OPTIBFM_TEST_UNITREE_SDK is empty: see hal/unitree/TESTING.md")
	}
	library(t)
	for _, model := range []string{unitree.Go2, unitree.G1} {
		t.Run(model, func(t *testing.T) {
			c := newConfig(model)
			newest, end := startSDK(t, python, c)
			r := open(t, c)
			action := arm(t, r)
			for range patience {
				fatal.If(t, r.Act(action))
				if n := newest(); n.Commands-n.Damping >= 300 {
					break
				}
				time.Sleep(period)
			}
			errtest.Nil(t, r.Halt())
			for range patience {
				if newest().Damping >= 100 {
					break
				}
				time.Sleep(period)
			}
			n := end()
			report := r.Report()
			t.Logf("the SDK sent %d states: the driver accepted %d and dropped %d",
				n.States, report.Received, report.BadCRC)
			t.Logf("the SDK read %d commands: %d have its checksum, %d damp", n.Commands, n.Sound, n.Damping)
			if n.Sound != n.Commands || n.Commands < 400 || n.Damping < 100 || report.Received < 100 || report.BadCRC > 0 {
				t.Error("they disagree")
			}
		})
	}
}

// patience is the number of periods for which the test waits for the SDK on a busy computer.
const patience = 3000

// startSDK starts the robot. newest returns its counts so far, end those after its end.
func startSDK(t *testing.T, python string, c unitree.Config) (newest, end func() sdkCounts) {
	t.Helper()
	sdk := exec.CommandContext(t.Context(), python,
		"../../scripts/unitree_sdk.py", c.Model, "--domain", fmt.Sprint(c.Domain))
	sdk.Stderr = os.Stderr
	out, err1 := sdk.StdoutPipe()
	in, err2 := sdk.StdinPipe()
	fatal.If(t, errors.Join(err1, err2, sdk.Start()))
	var counts atomic.Pointer[sdkCounts]
	counts.Store(new(sdkCounts))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for lines := json.NewDecoder(out); ; {
			n := new(sdkCounts)
			if lines.Decode(n) != nil {
				return
			}
			counts.Store(n)
		}
	}()
	newest = func() sdkCounts { return *counts.Load() }
	return newest, func() sdkCounts {
		err := in.Close()
		<-over
		errtest.Nil(t, errors.Join(err, sdk.Wait()))
		return newest()
	}
}
