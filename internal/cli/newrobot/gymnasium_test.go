package newrobot_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/cli/newrobot"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// pythonWithGymnasium skips a test without it.
func pythonWithGymnasium(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import gymnasium, numpy, PIL").CombinedOutput(); err != nil {
		t.Skipf("python3 has no gymnasium: %v %s", err, out)
	}
}

func TestWriteGymnasium_WritesThePeriodOfTheEnvironment(t *testing.T) {
	pythonWithGymnasium(t)
	repository := must(filepath.Abs("../../.."))
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	fatal.If(t, newrobot.WriteGymnasium(t.Context(), &out, "car", "MountainCarContinuous-v0", repository))
	file, err := configs.Load("car/robot.yaml")
	fatal.If(t, err)
	if period := file.Loop.PeriodMS; period < 33.333 || period > 33.334 { // its render_fps is 30
		t.Errorf("period %g ms", period)
	}
	for _, name := range []string{"README.md", "record.sh", "robot.yaml", "train.sh"} {
		text := string(must(os.ReadFile(filepath.Join("car", name))))
		if strings.Contains(text, "Pendulum-v1 ") || strings.Contains(text, "examples/gymnasium") {
			t.Errorf("%s names the template", name)
		}
	}
	if record := string(must(os.ReadFile("car/record.sh"))); !strings.Contains(record, "--states car/states.npz") {
		t.Errorf("record.sh records no rewards:\n%s", record)
	}
	rigtest.Contains(t, out.String(), "--config car/robot.yaml")
}

func TestWriteGymnasium_RefusesWithoutChanges(t *testing.T) {
	pythonWithGymnasium(t)
	repository := must(filepath.Abs("../../.."))
	t.Chdir(t.TempDir())
	for id, want := range map[string]string{
		"CartPole-v1": "only a bounded Box", "Nope-v7": "Nope", "--help": "doesn't exist",
	} {
		err := newrobot.WriteGymnasium(t.Context(), io.Discard, "robot", id, repository)
		errtest.Contains(t, err, want, id)
	}
	if entries := must(os.ReadDir(".")); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}
