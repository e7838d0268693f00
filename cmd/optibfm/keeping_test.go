package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/beliefstore"
)

// taughtRun is a run of the rover that labels every tick and keeps its belief.
func taughtRun(dir, bundle string) []string {
	return []string{"model.bundle=" + bundle, "run.state_dir=" + dir, "run.episode_s=0", "operator.scripted.mode=every_tick", "controller.rho=1"}
}

// loadWhen waits for a record that is good.
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
	t.Fatal("the belief was not written down")
	return beliefstore.Record{}
}

func TestWhatWasLearntOutlivesAKilledRunAndTheNextGoesOnFromIt(t *testing.T) {
	t.Parallel()
	dir, bundle := filepath.Join(t.TempDir(), "belief"), randomBundle(t)
	weight := 0.0
	for range 3 {
		cmd := program(t, append(taughtRun(dir, bundle), "run.duration_s=0")...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
	result, err := flightlog.Verify(onlyLog(t, cmd))
	if err != nil || !result.OK() {
		t.Fatalf("the log of a run that went on does not replay: %+v, %v", result.First, err)
	}
	checkLast(t, r, result)
}

// checkLast compares what was kept at the end of a run with its log.
func checkLast(t *testing.T, r beliefstore.Record, result flightlog.Result) {
	t.Helper()
	z := make([]float64, r.Belief.Dim())
	r.Belief.Mean(z)
	for i := range z {
		if z[i] != result.Z[i] {
			t.Fatalf("z[%d] is kept as %g, the log ends with %g", i, z[i], result.Z[i])
		}
	}
}

func TestABeliefThatWouldMeanSomethingElseIsRefusedAndFreshSetsItAside(t *testing.T) {
	t.Parallel()
	dir, bundle := t.TempDir(), randomBundle(t)
	if out, err := program(t, append(taughtRun(dir, bundle), "run.duration_s=0.3")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, err := os.ReadFile(beliefstore.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("what was set aside is not what was there: %v", err)
	}
}

func TestADamagedBeliefIsRefusedBeforeAnythingMoves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(beliefstore.Path(dir), []byte("{}\nnot a belief at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := program(t, append(taughtRun(dir, randomBundle(t)), "run.duration_s=0.3")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "damaged belief record") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAShadowNeverReachesTheRobotAndSaysSo(t *testing.T) {
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
		t.Error("the log does not say that this was a shadow")
	}
	s, _, err := flightlog.Summarise(r)
	if err != nil || s.Ticks < 20 || s.Armed == 0 {
		t.Errorf("the controller did not decide: %d ticks, %d armed, %v", s.Ticks, s.Armed, err)
	}
}
