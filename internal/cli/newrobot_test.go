package cli

import (
	"encoding/json"
	"os/exec"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestNewRobot_LearnsUnchanged(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	fatal.If(t, errtest.Of(execute("new-robot", "crawler")))
	_, err := execute("new-robot", "swimmer", "--gymnasium", "")
	errtest.Contains(t, err, "without an environment", "an empty id")
	out, err := execute("run", "--config", "crawler/robot.yaml", "--fast", "--json", "--episodes", "4",
		"--set", "robot.bridge.mode=lockstep", "--set", "run.episode_s=10", "--set", "run.duration_s=0")
	fatal.If(t, err)
	var summary struct {
		Robot   string
		Returns []float64
	}
	fatal.If(t, json.Unmarshal([]byte(out), &summary))
	// 200 steps with a reward of 0 to 1: random tasks return 95 on average.
	if len(summary.Returns) != 4 || summary.Robot != "crawler" || summary.Returns[2]+summary.Returns[3] < 280 {
		t.Errorf("%+v in\n%s", summary, out)
	}
}
