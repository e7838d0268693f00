package bridge

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestSocketFolder_FitsIntoAnAddress(t *testing.T) {
	for _, long := range []bool{false, true} {
		in := t.TempDir()
		if long {
			in = filepath.Join(in, strings.Repeat("x", 100))
			fatal.If(t, os.Mkdir(in, 0o700))
		}
		folder, err := socketFolder(in)
		fatal.If(t, err)
		defer os.RemoveAll(folder)
		address := filepath.Join(folder, socketName)
		if _, _, err := splitAddress("unix:" + address); err != nil || !long && !strings.HasPrefix(folder, in) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	if _, _, err := splitAddress("unix:/" + strings.Repeat("x", 107)); err == nil {
		t.Error("too long a path")
	}
}

func TestScriptTasks_AreThoseOfTheScripts(t *testing.T) {
	for _, c := range []struct{ script, argument, section string }{
		{"dmc_bridge.py", "cheetah", `(?m)^    "cheetah": .*\{\n((?:        .*\n)*)`},
		{"dmc_bridge.py", "walker", `(?m)^    "walker": .*\{\n((?:        .*\n)*)`},
		{"dmc_bridge.py", "quadruped", `(?m)^    "quadruped": .*\{\n((?:        .*\n)*)`},
		{"g1_bridge.py", "", `(?m)^TASKS = \{\n((?:    .*\n)*)`},
	} {
		source, err := os.ReadFile("../../scripts/" + c.script)
		fatal.If(t, err)
		var want []string
		for _, section := range regexp.MustCompile(c.section).FindAllSubmatch(source, -1) {
			for _, name := range regexp.MustCompile(`(?m)^ +"(\w+)": `).FindAllSubmatch(section[1], -1) {
				want = append(want, string(name[1]))
			}
		}
		if got := ScriptTasks(c.script, []string{c.argument}); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s %s: %q, the script has %q", c.script, c.argument, got, want)
		}
	}
	if got := ScriptTasks("dmc_bridge.py", nil); got != nil {
		t.Errorf("without a domain: %q", got)
	}
}

func TestCheckScript_NamesMissingProgram(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	// Modules that hide those of the interpreter, whichever it has.
	hidden := t.TempDir()
	for _, module := range []string{"humenv", "mujoco", "ogbench", "rclpy"} {
		text := "raise ModuleNotFoundError(\"No module named '" + module + "'\", name='" + module + "')\n"
		fatal.If(t, os.WriteFile(filepath.Join(hidden, module+".py"), []byte(text), 0o600))
	}
	t.Setenv("PYTHONPATH", hidden)
	const pip = " -m pip install -r ../../scripts/requirements-"
	for script, c := range map[string]struct{ argument, module, fix string }{
		"dmc_bridge.py":    {"walker", "mujoco", pip + "simulators.txt"},
		"g1_bridge.py":     {"stand", "mujoco", pip + "simulators.txt"},
		"humenv_bridge.py": {"headstand", "humenv", pip + "humenv.txt"},
		"maze_bridge.py":   {"antmaze", "mujoco", pip + "simulators.txt"},
		"ros2_bridge.py":   {"robot.json", "rclpy", "source /opt/ros/"},
	} {
		command := []string{"python3", filepath.Join("../../scripts", script), c.argument}
		err := CheckScript(t.Context(), command)
		missing := "No module named '" + c.module + "'; "
		if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: %v", script, err)
		}
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || strings.Contains(string(out), "Traceback") {
			t.Errorf("%s: started, it printed:\n%s", script, out)
		}
	}
}

func TestCheckScript_JudgesByTheExitStatus(t *testing.T) {
	script := func(text string) []string {
		path := filepath.Join(t.TempDir(), "dmc_bridge.py")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return []string{"sh", path, "walker"}
	}
	errtest.Nil(t, CheckScript(t.Context(), script("[ \"$*\" = 'walker --help' ]")))
	err := CheckScript(t.Context(), script("echo first; echo it lacks something >&2; exit 3"))
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: it lacks something") {
		t.Error(err)
	}
	errtest.Is(t, CheckScript(t.Context(), []string{"no-such-python", "dmc_bridge.py"}), exec.ErrNotFound)
}

func TestCheckScript_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	path := filepath.Join(t.TempDir(), "dmc_bridge.py")
	fatal.If(t, os.WriteFile(path, []byte("exec sleep 600"), 0o600))
	errtest.Is(t, CheckScript(ctx, []string{"sh", path}), context.DeadlineExceeded)
}
