package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/taskstore"
)

// taughtRun returns the settings of a run of the rover that labels every tick and saves its belief.
func taughtRun(dir, bundle string) []string {
	return []string{
		"model.bundle=" + bundle, "run.state_dir=" + dir, "run.episode_s=0",
		"operator.scripted.mode=every_tick", "controller.rho=1",
	}
}

// loadLast returns the last belief in a folder.
func loadLast(t *testing.T, dir string) *taskstore.SavedBelief {
	t.Helper()
	task, err := taskstore.Store{State: dir}.Load(taskstore.Last)
	fatal.If(t, err)
	return task.Belief
}

// awaitLast waits until the last belief in a folder has a weight.
func awaitLast(t *testing.T, dir string, weight float64) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		task, err := taskstore.Store{State: dir}.Load(taskstore.Last)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the last belief: %v", err)
		}
		if err == nil && task.Belief.Belief.Weight() >= weight {
			return
		}
	}
	t.Fatal("the belief was not saved")
}

func TestRun_ContinuesFromTheBeliefOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir, bundle := filepath.Join(t.TempDir(), "belief"), randomBundle(t)
	weight := 0.0
	for range 3 {
		cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0")...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		fatal.If(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		awaitLast(t, dir, weight+3)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // both processes
		_ = cmd.Wait()
		weight = loadLast(t, dir).Belief.Weight()
	}
	cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	awaitLast(t, dir, weight+1)
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "starts from the belief of") {
		t.Fatalf("the last run: %v\n%s", err, out.String())
	}
	r := loadLast(t, dir)
	result := checkVerified(t, onlyLog(t, cmd))
	z := make([]float64, r.Belief.TaskDim())
	r.Belief.Mean(z) // the random bundle has no task prior
	if !slices.Equal(z, result.Z) {
		t.Fatalf("z is saved as %v, the log ends with %v", z, result.Z)
	}
}

func TestRun_RefusesABeliefOfAnotherSettingUnlessFresh(t *testing.T) {
	t.Parallel()
	dir, bundle := t.TempDir(), randomBundle(t)
	taught := program(t, append(taughtRun(dir, bundle), "run.duration_s=0")...)
	fatal.If(t, taught.Start())
	t.Cleanup(func() { _ = taught.Process.Kill() })
	awaitLast(t, dir, 1) // a belief without labels is not set aside
	fatal.If(t, taught.Process.Signal(os.Interrupt))
	_ = taught.Wait()
	store := taskstore.Store{State: dir}
	before, err := os.ReadFile(store.Path(taskstore.Last))
	fatal.If(t, err)
	for set, want := range map[string]string{
		"controller.sigma=0.5":        "another controller.sigma",
		"controller.lambda=3":         "another controller.lambda",
		"controller.rho=0.9999":       "another controller.rho",
		"model.bundle=embedded:rover": "another model",
	} {
		out, err := program(t, append(taughtRun(dir, bundle), "run.duration_s=0.3", set)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "--fresh") {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
	if after, err := os.ReadFile(store.Path(taskstore.Last)); err != nil || string(after) != string(before) {
		t.Errorf("a refused run changed the belief: %v", err)
	}
	cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0.3", "controller.sigma=0.5")...)
	cmd.Args = append(cmd.Args, "--fresh")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "set aside as the task previous") {
		t.Errorf("--fresh: %v\n%s", err, out)
	}
	if r := loadLast(t, dir); r.Sigma != 0.5 {
		t.Errorf("after --fresh: %+v", r)
	}
	if aside, err := os.ReadFile(store.Path(taskstore.Previous)); err != nil || string(aside) != string(before) {
		t.Errorf("the old belief was not moved aside: %v", err)
	}
}

func TestRun_ShadowNeverReachesTheRobot(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "run.shadow=true", "run.duration_s=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "shadow: the robot is neither armed nor moved") {
		t.Fatalf("%v\n%s", err, out)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acts.Load() != 0 || w.armed || len(w.halted) != 0 || w.Arms != 0 {
		t.Errorf("the robot was reached: %d acts, armed %t, %d arms", w.acts.Load(), w.armed, w.Arms)
	}
	r := onlyLog(t, cmd)
	if r.Metadata().Extra["shadow"] == "" {
		t.Error("the log has no mark of the shadow")
	}
	s, _, err := flightlog.Summarise(r)
	if err != nil || s.Ticks < 20 || s.Armed == 0 {
		t.Errorf("the controller did not decide: %d ticks, %d armed, %v", s.Ticks, s.Armed, err)
	}
}
