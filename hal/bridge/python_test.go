package bridge_test

import (
	"bytes"
	"context"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// dialPython starts testdata/counter.py, a robot without dependencies.
func dialPython(t *testing.T, config bridge.Config) (*bridge.Robot, *bytes.Buffer, error) {
	t.Helper()
	return dialScript(t, "counter.py", config)
}

// dialScript starts a robot of testdata.
func dialScript(t *testing.T, script string, config bridge.Config) (*bridge.Robot, *bytes.Buffer, error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: scripts/optibfm_bridge is not tested")
	}
	printed := new(bytes.Buffer)
	config.Command = []string{python, filepath.Join("testdata", script)}
	config.Output = printed
	robot, err := bridge.Dial(context.Background(), config)
	if err == nil {
		t.Cleanup(func() { _ = robot.Close() })
	}
	return robot, printed, err
}

func TestPythonServer_Lockstep(t *testing.T) {
	robot, _, err := dialPython(t, bridge.Config{Task: "down"})
	fatal.If(t, err)
	spec := robot.Spec()
	if spec.Name != "counter" || spec.Obs[1].Unit != "m" || spec.Action[0].Max != 2 || robot.EpisodeSteps() != 7 {
		t.Errorf("spec %+v", spec)
	}
	if task, tasks := robot.Task(); task != "down" || strings.Join(tasks, " ") != "up down" {
		t.Errorf("task %q of %q", task, tasks)
	}
	fatal.If(t, robot.Reset(5))
	fatal.If(t, robot.Arm())
	obs := make([]float32, 2)
	want := [][]float32{{5, 0}, {5, 1.5}, {5, 3}}
	for i := range want {
		at, err := robot.Sense(obs)
		fatal.If(t, err)
		reward, ok := robot.Reward()
		sensed := at == int64(i)*10_000_000 && obs[0] == want[i][0] && obs[1] == want[i][1]
		if !sensed || !ok || reward != -float64(want[i][1]) {
			t.Errorf("step %d: at %d, obs %v, reward %v (%v)", i, at, obs, reward, ok)
		}
		fatal.If(t, robot.Act([]float32{1.5}))
	}
}

func TestPythonServer_ReportsRobotErrors(t *testing.T) {
	robot, _, err := dialPython(t, bridge.Config{})
	fatal.If(t, err)
	fatal.If(t, robot.Arm())
	errtest.Contains(t, robot.Reset(13), "reset: server error: 13 is unlucky", "reset")
	errtest.Nil(t, robot.Act([]float32{1}), "the robot does not continue")
}

func TestPythonServer_HaltsWhenClientLeaves(t *testing.T) {
	robot, printed, err := dialPython(t, bridge.Config{})
	fatal.If(t, err)
	fatal.If(t, robot.Arm())
	fatal.If(t, robot.Close())
	if !strings.HasSuffix(printed.String(), "halted\n") {
		t.Errorf("the server printed %q", printed)
	}
}

func TestPythonServer_FreeMode(t *testing.T) {
	robot, _, err := dialPython(t, bridge.Config{Mode: bridge.Free, TimeoutMs: 10_000, StaleMs: 5000, DeadmanMs: 5000})
	fatal.If(t, err)
	fatal.If(t, robot.Arm())
	fatal.If(t, robot.Act([]float32{1}))
	obs := make([]float32, 2)
	for range 10_000 {
		fatal.If(t, errtest.Of(robot.Sense(obs)))
		if obs[1] >= 2 {
			return // its time passes without us
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("the robot's time stands still: %v", obs)
}

func TestPythonServer_NamesWhatMeasuresAPosition(t *testing.T) {
	robot, printed, err := dialScript(t, "joint.py", bridge.Config{
		Mode: bridge.Free, TimeoutMs: 10_000, StaleMs: 5000, DeadmanMs: 5000,
	})
	fatal.If(t, err)
	spec := robot.Spec()
	want := hal.Measured{Obs: "angle", Scale: math.Pi / 180, Offset: 0.25}
	if spec.Action[0].Measured != (hal.Measured{}) || spec.Action[1].Measured != want {
		t.Fatalf("actions %+v", spec.Action)
	}
	obs := make([]float32, 2)
	fatal.If(t, errtest.Of(robot.Sense(obs)))
	if at := want.Scale*float64(obs[1]) + want.Offset; math.Abs(at-2.25) > 1e-6 {
		t.Errorf("the joint is at %v rad", at)
	}
	if err := robot.Close(); err != nil || printed.Len() > 0 {
		t.Errorf("%v, the server printed %q", err, printed)
	}
}

func TestPythonServer_RefusesUnknownTask(t *testing.T) {
	_, _, err := dialPython(t, bridge.Config{Task: "sideways"})
	errtest.Contains(t, err, `no task 'sideways'`)
}

func TestDial_ReportsFailedCommand(t *testing.T) {
	for command, want := range map[string]string{
		"false":                 "ended before it listened (exit status 1)",
		"/nonexistent/program!": "check the program's name",
	} {
		_, err := bridge.Dial(context.Background(), bridge.Config{Command: []string{command}})
		errtest.Contains(t, err, want, command)
	}
}

func TestPythonServer_DeadmanStartsWithFirstRequest(t *testing.T) {
	robot, printed, err := dialScript(t, "joint.py", bridge.Config{Mode: bridge.Free, TimeoutMs: 10_000, DeadmanMs: 200})
	fatal.If(t, err)
	time.Sleep(400 * time.Millisecond) // the client loads its model
	fatal.If(t, robot.Arm())
	time.Sleep(600 * time.Millisecond) // the client hangs
	errtest.Is(t, robot.Arm(), bridge.ErrLost)
	if err := robot.Close(); err != nil {
		t.Log(err)
	}
	if !strings.Contains(printed.String(), "silent for too long") {
		t.Errorf("the server printed %q", printed)
	}
}

func TestPythonServer_SimulatorWaitsForItsClient(t *testing.T) {
	robot, printed, err := dialPython(t, bridge.Config{Mode: bridge.Free, TimeoutMs: 10_000, DeadmanMs: 200})
	fatal.If(t, err)
	for range 2 {
		errtest.Nil(t, robot.Arm(), "the server printed ", printed)
		time.Sleep(400 * time.Millisecond) // the client does not get the processor
	}
}
