package cli

import (
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
	"optibfm/internal/beliefstore"
	"optibfm/internal/rigtest"
)

// taughtRun returns the settings of a run of the rover that labels every tick and saves its belief.
func taughtRun(dir, bundle string) []string {
	return []string{
		"model.bundle=" + bundle, "run.state_dir=" + dir, "run.episode_s=0",
		"operator.scripted.mode=every_tick", "controller.rho=1",
	}
}

// loadWhen waits for a record that satisfies a condition.
func loadWhen(t *testing.T, dir string, good func(beliefstore.Record) bool) beliefstore.Record {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		r, err := beliefstore.Load(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the record: %v", err)
		}
		if err == nil && good(r) {
			return r
		}
	}
	t.Fatal("the belief was not saved")
	return beliefstore.Record{}
}

func TestRun_ContinuesFromTheBeliefOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir, bundle := filepath.Join(t.TempDir(), "belief"), randomBundle(t)
	weight := 0.0
	for range 3 {
		cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0")...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		rigtest.Must(t, cmd.Start())
		loadWhen(t, dir, func(r beliefstore.Record) bool { return r.Belief.Weight() >= weight+3 })
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // both processes
		_ = cmd.Wait()
		r, err := beliefstore.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		weight = r.Belief.Weight()
	}
	cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=2")...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "starts from the belief of") {
		t.Fatalf("the last run: %v\n%s", err, out)
	}
	r, err := beliefstore.Load(dir)
	if err != nil || r.Belief.Weight() <= weight {
		t.Fatalf("weight %g after %g: %v", r.Belief.Weight(), weight, err)
	}
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
	if out, err := program(t, append(taughtRun(dir, bundle), "run.duration_s=0.3")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, err := os.ReadFile(beliefstore.Path(dir))
	rigtest.Must(t, err)
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
	if after, err := os.ReadFile(beliefstore.Path(dir)); err != nil || string(after) != string(before) {
		t.Errorf("a refused run changed the record: %v", err)
	}
	cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0.3", "controller.sigma=0.5")...)
	cmd.Args = append(cmd.Args, "--fresh")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "set aside in") {
		t.Errorf("--fresh: %v\n%s", err, out)
	}
	if r, err := beliefstore.Load(dir); err != nil || r.Sigma != 0.5 {
		t.Errorf("after --fresh: %+v, %v", r, err)
	}
	if aside, err := os.ReadFile(beliefstore.Path(dir) + ".old"); err != nil || string(aside) != string(before) {
		t.Errorf("the old record was not moved aside: %v", err)
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
