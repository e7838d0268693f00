package eval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestWorlds_ScriptOfEachEnvironment(t *testing.T) {
	for env, want := range map[string]string{Cheetah: "scripts/dmc_bridge.py", AntMaze: "scripts/maze_bridge.py"} {
		if got := (Worlds{}).script(env); got != want {
			t.Errorf("%s is served by %s, want %s", env, got, want)
		}
		if got := (Worlds{Bridge: "other.py"}).script(env); got != "other.py" {
			t.Errorf("%s is served by %s, where other.py was named", env, got)
		}
	}
}

func TestWorlds_CheckReportsTheFix(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "bridge.sh")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for name, c := range map[string]struct {
		worlds Worlds
		want   string
	}{
		"no interpreter": {Worlds{Python: "no-such-python"}, "--python"},
		"no module": {
			Worlds{Python: "sh", Bridge: script("echo \"No module named 'dm_control'; pip install\" >&2; exit 1")},
			"'dm_control'; pip install",
		},
		"no script": {Worlds{Python: "sh", Bridge: "nowhere.py"}, "--bridge"},
	} {
		err := c.worlds.Check(context.Background(), Cheetah)
		if !errors.Is(err, ErrPython) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want something of %q", name, err, c.want)
		}
		if err := c.worlds.Check(context.Background(), Rover); err != nil {
			t.Errorf("%s: the rover needs it: %v", name, err)
		}
	}
	errtest.Nil(t, (Worlds{Python: "sh", Bridge: script("exit 0")}).Check(context.Background(), Cheetah))
}
