package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/safefile"
)

// programOutput runs a command of the program and returns its output. A command that hangs fails
// the test.
func programOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), actAsProgram+"=1")
	cmd.WaitDelay = time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	fatal.If(t, cmd.Start())
	hung := time.AfterFunc(rigtest.HangGuard, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !hung.Stop() {
		t.Errorf("optibfm %q hangs", args)
	}
	return out.String(), err
}

func TestCommands_RefuseFilesThatAreNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, model := filepath.Join(dir, "pipe"), randomBundle(t)
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	cases := [][]string{
		{"replay", pipe}, {"replay", "/dev/zero"}, {"replay", dir},
		{"log", "info", pipe}, {"log", "cat", pipe}, {"log", "release", pipe},
		{"log", "recover", pipe, "-o", filepath.Join(dir, "out")}, {"log", "label", pipe, "--propose", "1"},
		{"task", "from-log", pipe, "x", "--from", "0", "--to", "1"},
		{"config", "validate", pipe}, {"config", "show", pipe}, {"run", "--config", pipe}, {"halt", "--config", pipe},
		{"status", "--config", pipe}, {"doctor", "--config", pipe},
		{"infer", pipe}, {"model", "check", model, pipe}, {"model", "eval", model, "--obs", "@" + pipe, "--z", "[1]"},
		{"model", "prior", model, "--observations", pipe},
	}
	if testing.Short() {
		cases = cases[:3]
	}
	for _, args := range cases {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			out, err := programOutput(t, args...)
			if err == nil || !strings.Contains(out, safefile.ErrNotRegular.Error()) {
				t.Errorf("optibfm %s: %v: %s", strings.Join(args, " "), err, out)
			}
		})
	}
}

func TestCommands_PrintNoEscapeSequenceOfAFileName(t *testing.T) {
	const evil = "\x1b]0;x\x07\u009b31m\u202e.mcap"
	dir := t.TempDir()
	log := filepath.Join(dir, evil)
	_, err := execute("run", "--fast", "--plain", "--set", "log.dir="+dir, "--set", "run.duration_s=2",
		"--set", "model.bundle="+randomBundle(t))
	fatal.If(t, err)
	logs, err := filepath.Glob(filepath.Join(dir, "*.mcap"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(log, text, 0o600))
	damaged := filepath.Join(dir, "d"+evil)
	fatal.If(t, os.WriteFile(damaged, append(text[:len(text)/2:len(text)/2], make([]byte, 100)...), 0o600))
	cases := [][]string{
		{"replay", log}, {"replay", damaged}, {"log", "info", log}, {"log", "info", damaged}, {"log", "cat", log},
		{"log", "recover", damaged}, {"replay", log, "--html", log + ".html"},
		{"replay", log + "absent"}, {"config", "validate", log}, {"config", "init", "rover", "-o", log + ".yaml"},
		{"run", "--config", log}, {"infer", log}, {"model", "inspect", log}, {"task", "show", evil},
	}
	if testing.Short() {
		cases = cases[:4]
	}
	for _, args := range cases {
		out, _ := programOutput(t, args...)
		if out == "" || strings.ContainsAny(out, "\x1b\x07\u009b\u202e") {
			t.Errorf("optibfm %q: %q", args, out)
		}
	}
}

// What a run and the commands write about a person's work and pictures is for the owner and the
// group.
func TestCommands_WriteNothingThatOthersCanRead(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	dir := filepath.Join(t.TempDir(), "new")
	logs, tasks := filepath.Join(dir, "logs"), filepath.Join(dir, "tasks")
	set := []string{"--set", "log.dir=" + logs, "--set", "run.task_dir=" + tasks}
	fatal.If(t, os.Mkdir(dir, 0o755))
	log := fastRover(t, set...).Log
	for _, args := range [][]string{
		{"replay", log}, {"replay", log, "--html", filepath.Join(dir, "page.html")},
		{"log", "recover", log}, {"log", "label", log, "--propose", "3", "--out", filepath.Join(dir, "moments.csv")},
		append([]string{"task", "from-log", log, "x", "--from", "0", "--to", "1"}, set...),
	} {
		if out, err := execute(args...); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	found := 0
	fatal.If(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		info, e := os.Stat(path)
		if err != nil || e != nil {
			return errors.Join(err, e)
		}
		if found++; path != dir && info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	}))
	if found < 9 {
		t.Errorf("%d files", found)
	}
}
