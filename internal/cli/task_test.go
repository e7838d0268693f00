package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/errtest"

	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/summary"
	"optibfm/internal/taskstore"
)

// fastRover runs the rover in lockstep and returns its summary. It skips the test with -short, as
// with the race detector: a lockstep run has one goroutine.
func fastRover(t *testing.T, args ...string) (s summary.Summary) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in lockstep")
	}
	run := []string{"run", "--fast", "--json", "--task", "corner", "--episodes", "3", "--seed", "5"}
	out, err := execute(append(run, args...)...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	fatal.If(t, json.Unmarshal([]byte(out), &s))
	return s
}

// openLog opens the log of a run.
func openLog(t *testing.T, s summary.Summary) *flightlog.Reader {
	t.Helper()
	r, err := flightlog.Open(s.Log)
	fatal.If(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// firstBelief returns the hash of the belief before the first tick of a log.
func firstBelief(t *testing.T, r *flightlog.Reader) uint64 {
	t.Helper()
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Snapshot != nil && record.Snapshot.Next == 0 {
			return record.Snapshot.Hash
		}
	}
	t.Fatal("no snapshot before the first tick")
	return 0
}

func total(returns []float64) (sum float64) {
	for _, r := range returns {
		sum += r
	}
	return sum
}

func TestTask_IsLearntSavedAndFollowed(t *testing.T) {
	dir := t.TempDir()
	store := taskstore.Store{Dir: filepath.Join(dir, "tasks")}
	set := []string{"--set", "run.task_dir=" + store.Dir, "--set", "log.dir=" + filepath.Join(dir, "logs")}
	do := func(args ...string) string {
		t.Helper()
		out, err := execute(append(args, set...)...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out
	}
	taught := fastRover(t, set...)
	do("task", "save", "corner", "--from", taught.Log, "--note", "the corner")
	task, err := store.Load("corner")
	fatal.If(t, err)

	if z := checkVerified(t, openLog(t, taught)).Z; !slices.Equal(z, task.Z) {
		t.Errorf("z is %v, the log ends with %v", task.Z, z)
	}
	do("task", "merge", "corner", "corner", "--save", "same") // corner is also a former task of the model
	same, err := store.Load("same")
	fatal.If(t, err)
	for i, z := range task.Z {
		if math.Abs(same.Z[i]-z) > 1e-6 {
			t.Fatalf("z is %v, and %v after the task was merged with itself", task.Z, same.Z)
		}
	}
	do("task", "delete", "same")
	started := openLog(t, fastRover(t, append(set, "--start", "corner")...))
	if got, want := firstBelief(t, started), task.Belief.Belief.Hash(); got != want {
		t.Errorf("the run starts from the belief %#x, the task has %#x", got, want)
	}
	checkVerified(t, started)

	followed := fastRover(t, append(set, "--start", "corner", "--strategy", "fixed", "--operator", "none")...)
	for record, err := range openLog(t, followed).Records() {
		fatal.If(t, err)
		if record.Tick != nil && !slices.Equal(record.Tick.Z, task.Z) {
			t.Fatalf("tick %d followed another z than the task's", record.Tick.Index)
		}
	}
	random := fastRover(t, append(set, "--strategy", "random", "--operator", "none")...)
	if total(followed.Returns) < total(random.Returns)+100 { // of at most about 350
		t.Errorf("returns %v with the task's z, %v with random ones", followed.Returns, random.Returns)
	}

	do("task", "from-log", followed.Log, "there", "--from", "6", "--to", "9")
	out, err := execute(slices.Concat([]string{"__complete", "run"}, set, []string{"--start", ""})...)
	if err != nil || !strings.HasPrefix(out, "corner\nthere\n") {
		t.Errorf("--start completes %q, %v", out, err)
	}
	other := "model.bundle=" + rigtest.RoverBundle(t, rigtest.RemoveChannelNames)
	out, err = execute(slices.Concat([]string{"__complete", "run"}, set, []string{"--set", other, "--start", ""})...)
	if err != nil || strings.Contains(out, "corner") {
		t.Errorf("--start of another model completes %q, %v", out, err)
	}
	fastRover(t, append(set, "--start", "there", "--strategy", "fixed")...)
	do("task", "list")
	do("task", "show", "there", "--json")
	do("task", "delete", "there")
	_, err = execute(append([]string{"run", "--fast", "--start", "there"}, set...)...)
	errtest.Contains(t, err, "no task there")
	_, err = execute(append([]string{"run", "--fast", "--start", "corner", "--set", other}, set...)...)
	errtest.Contains(t, err, "another model")
}

// With a task among the saved ones, a robot follows it sooner than one that knows only the task
// prior.
func TestTask_IsRelearntFasterAsAFormerTask(t *testing.T) {
	dir := t.TempDir()
	set := []string{
		"--set", "run.task_dir=" + filepath.Join(dir, "tasks"), "--set", "log.dir=" + filepath.Join(dir, "logs"),
	}
	saved := []string{"corner", "spin", "fast"}
	for _, task := range saved {
		taught := fastRover(t, append(set, "--task", task, "--episodes", "6")...)
		_, err := execute(append([]string{"task", "save", task, "--from", taught.Log}, set...)...)
		fatal.If(t, err)
	}
	first := func(former bool) (sum float64) {
		for _, task := range saved[1:] {
			for seed := range 6 {
				sum += total(fastRover(t, append(set, "--task", task, "--episodes", "1", "--seed", fmt.Sprint(seed),
					"--set", fmt.Sprintf("run.former_tasks=%t", former))...).Returns)
			}
		}
		return sum
	}
	if with, without := first(true), first(false); with < 1.15*without {
		t.Errorf("the first returns sum to %.0f with former tasks and to %.0f without", with, without)
	}
}
