package tasks

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/lockstep"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/internal/terminal"
	"optibfm/posterior"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// bench is a rover with an untrained model, a folder of tasks and one for the belief.
type bench struct {
	Options
	store taskstore.Store
	state string
	cov   []float64 // Cov B of the model, [d, d]
	d     int
}

func newBench(t *testing.T) bench {
	t.Helper()
	var a tflite.Architecture
	bundle := rigtest.RoverBundle(t, func(m *tflite.Manifest) { a = m.Architecture })
	dir := t.TempDir()
	b := bench{
		store: taskstore.Store{Dir: filepath.Join(dir, "tasks")}, state: filepath.Join(dir, "belief"),
		cov: tflitetest.Tensors(a, 1)["cov_b"].F64, d: a.Latent,
	}
	b.Options = Options{Config: "rover", Set: []string{
		"model.bundle=" + bundle, "run.task_dir=" + b.store.Dir, "log.dir=" + filepath.Join(dir, "logs"),
		"controller.preset=paper",
	}}
	return b
}

// saveBelief saves a belief as a run does. Its labels are n times the reward 1 at the feature e_0.
func (b bench) saveBelief(t *testing.T, hash string, n int) {
	t.Helper()
	belief, err := posterior.New(b.d, 1, 1)
	fatal.If(t, err)
	phi := make([]float64, b.d)
	phi[0] = 1
	for range n {
		fatal.If(t, belief.Update(phi, 1, 4))
	}
	rigtest.SaveLast(t, b.state, taskstore.Task{
		ModelHash: hash, Origin: taskstore.Origin{Program: "test", Robot: "rover\x1b[2J"}, Belief: &taskstore.SavedBelief{
			Belief: belief, Sigma: 0.5, Noise: controller.NoiseState{Labels: uint64(n)}, SavedAt: time.Unix(1e9, 0),
		},
	})
}

func (b bench) modelHash(t *testing.T) string {
	t.Helper()
	w, err := b.open()
	fatal.If(t, err)
	m, err := setup.OpenModel(w.file.Model.Bundle)
	fatal.If(t, err)
	return m.Fingerprint()
}

func TestSave_KeepsTheNewestBeliefOfTheRun(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	b.saveBelief(t, b.modelHash(t), 3)
	fatal.If(t, Save(&out, b.Options, New{Name: "turn", Note: "slow"}, b.state))
	rigtest.Contains(t, out.String(), "3 labels", "2001-09-09 01:46:40 UTC", "run --start turn --config rover --set")
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	want := make([]float64, b.d)
	want[0] = 12.0 / 13 // V = 1 + 3·4, b = 3·4
	for i, v := range task.Z {
		if math.Abs(v-want[i]) > 1e-12 {
			t.Fatalf("z is %v, want %v", task.Z, want)
		}
	}
	if task.Note != "slow" || task.Origin.StateDir != b.state || task.ModelHash != b.modelHash(t) {
		t.Errorf("%+v", task)
	}

	b.saveBelief(t, b.modelHash(t), 5)
	again := func(replace bool) error {
		return Save(&out, b.Options, New{Name: "turn", Replace: replace}, b.state)
	}
	errtest.Contains(t, again(false), "--replace")
	fatal.If(t, again(true))
	if task, err := b.store.Load("turn"); err != nil || task.Belief.Labels() != 5 {
		t.Errorf("after --replace: %+v, %v", task, err)
	}
}

func TestSave_RefusesWhatNoRunCanStartFrom(t *testing.T) {
	b := newBench(t)
	save := func(name, from string) error { return Save(&bytes.Buffer{}, b.Options, New{Name: name}, from) }
	errtest.Contains(t, save("turn", ""), "run.state_dir is empty")
	errtest.Contains(t, save("turn", b.state), "has no belief; teach the robot")
	b.saveBelief(t, b.modelHash(t), 0)
	errtest.Contains(t, save("turn", b.state), "no label")
	b.saveBelief(t, "0123456789abcdef", 2)
	errtest.Contains(t, save("turn", b.state), "another model")
	b.saveBelief(t, b.modelHash(t), 2)
	errtest.Contains(t, save("a/b", b.state), "not a name")
	fatal.If(t, os.Truncate(taskstore.Store{State: b.state}.Path(taskstore.Last), 100))
	errtest.Contains(t, save("turn", b.state), "damaged")
	errtest.Contains(t, save("turn", rewrite(t, b.record(t), func(tick *controller.Tick) { tick.Hash++ })), "replay")
	if names := Names(b.Options, false); len(names) != 0 {
		t.Errorf("tasks %q", names)
	}
}

func TestSave_TakesTheBeliefAtTheEndOfALog(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	fatal.If(t, Save(&bytes.Buffer{}, b.Options, New{Name: "turn"}, log))
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	all := ticks(t, log)
	if got, want := task.Belief.Belief.Hash(), all[len(all)-1].Hash; got != want {
		t.Errorf("a belief with the hash %#x, the last tick has %#x", got, want)
	}
	if task.Origin.Log != log || task.Origin.StateDir != "" || task.Belief.Labels() == 0 {
		t.Errorf("%+v, %d labels", task.Origin, task.Belief.Labels())
	}
}

func TestList_ShowsAllTasksThatCanBeRead(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	fatal.If(t, List(&out, b.Options))
	rigtest.Contains(t, out.String(), "no task")
	b.saveBelief(t, b.modelHash(t), 3)
	fatal.If(t, Save(&out, b.Options, New{Name: "turn", Note: "a\x1b[31mb"}, b.state))
	foreign := taskstore.Task{
		Name: "foreign", ModelHash: "0123456789abcdef", Z: []float64{1}, Origin: taskstore.Origin{Robot: "walker"},
	}
	fatal.If(t, b.store.Save(foreign, false))
	fatal.If(t, os.WriteFile(b.store.Path("cut"), []byte("cut"), 0o600))
	out.Reset()
	errtest.Contains(t, List(&out, b.Options), "cut.task: damaged file")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "turn     3") || strings.Contains(lines[1], "another") ||
		!strings.HasPrefix(lines[2], "foreign  -") || !strings.Contains(lines[2], "walker     0123456789abcdef (another)") ||
		strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", lines)
	}
	fatal.If(t, Delete(&out, b.Options, "cut"))
	b.Set = append(b.Set, "model.bundle="+t.TempDir())
	out.Reset()
	errtest.Contains(t, List(&out, b.Options), "model.bundle")
	rigtest.Contains(t, out.String(), "turn     3")
}

func TestShow_HasNoEmptyFields(t *testing.T) {
	b := newBench(t)
	b.saveBelief(t, b.modelHash(t), 3)
	fatal.If(t, Save(io.Discard, b.Options, New{Name: "turn"}, b.state))
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	task.Origin = taskstore.Origin{At: task.Origin.At} // as of a console of a run without run.state_dir
	fatal.If(t, b.store.Save(task, true))
	var out bytes.Buffer
	fatal.If(t, Show(&out, b.Options, "turn", false))
	if text := out.String(); strings.Contains(text, " in\n") || !strings.Contains(text, "unknown\n") {
		t.Errorf("%q", text)
	}
}

func TestShow_PrintsTextAndJSON(t *testing.T) {
	b := newBench(t)
	b.saveBelief(t, b.modelHash(t), 3)
	fatal.If(t, Save(&bytes.Buffer{}, b.Options, New{Name: "turn", Note: "slow"}, b.state))
	var out bytes.Buffer
	fatal.If(t, Show(&out, b.Options, "turn", false))
	rigtest.Contains(t, out.String(), "note      slow", "3 labels", "sigma 0.5", "robot rover?[2J", b.modelHash(t))
	out.Reset()
	fatal.If(t, Show(&out, b.Options, "turn", true))
	var got struct {
		Name   string    `json:"name"`
		Note   string    `json:"note"`
		Z      []float64 `json:"z"`
		Belief struct {
			Labels float64 `json:"labels"`
			Sigma  float64 `json:"sigma"`
		} `json:"belief"`
	}
	fatal.If(t, json.Unmarshal(out.Bytes(), &got))
	if got.Name != "turn" || got.Note != "slow" || len(got.Z) != b.d ||
		got.Belief.Labels != 3 || got.Belief.Sigma != 0.5 {
		t.Errorf("%+v", got)
	}
	errtest.Contains(t, Show(&out, b.Options, "none", false), "optibfm task list")
}

// record runs 5 s of the rover in lockstep and returns its log.
func (b bench) record(t *testing.T, set ...string) string {
	t.Helper()
	file, err := configs.Load(b.Config, slices.Concat(b.Set, set,
		[]string{"run.lockstep=true", "run.duration_s=5", "run.episode_s=0", "controller.seed=3"})...)
	fatal.If(t, err)
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	outcome, err := lockstep.Run(t.Context(), s, terminal.QuietDisplay{})
	fatal.If(t, err)
	return outcome.LogPath
}

// meanFeature returns the mean φ of the ticks of a log from one index to another, and their number.
func (b bench) meanFeature(t *testing.T, path string, from, to uint64) (mean []float64, n int) {
	t.Helper()
	mean = make([]float64, b.d)
	for _, tick := range ticks(t, path) {
		if tick.Index < from || tick.Index > to {
			continue
		}
		n++
		for i, v := range tick.Phi {
			mean[i] += v
		}
	}
	for i := range mean {
		mean[i] /= float64(n)
	}
	return mean, n
}

// ticks returns the ticks of a log.
func ticks(t *testing.T, path string) (all []*controller.Tick) {
	t.Helper()
	r, err := flightlog.Open(path)
	fatal.If(t, err)
	defer r.Close()
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			tick := controller.NewTick(r.Metadata().Shape)
			tick.CopyFrom(record.Tick)
			all = append(all, tick)
		}
	}
	return all
}

func TestFromLog_IsTheCovarianceTimesTheMeanFeature(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	var out bytes.Buffer
	fatal.If(t, FromLog(&out, b.Options, New{Name: "there"}, log, Span{1, 2.5}))
	task, err := b.store.Load("there")
	fatal.If(t, err)
	phi, n := b.meanFeature(t, log, 20, 50) // at 50 ms
	if task.Origin.States != n || n != 31 || task.Belief != nil {
		t.Errorf("%d states, want %d; %s", task.Origin.States, n, out.String())
	}
	for i := range b.d {
		want := 0.0
		for j, v := range phi {
			want += b.cov[i*b.d+j] * v
		}
		if math.Abs(task.Z[i]-want) > 1e-4*(1+math.Abs(want)) { // B is in float32
			t.Errorf("element %d of z: %g, want %g", i, task.Z[i], want)
		}
	}
	for _, tick := range ticks(t, b.record(t, "run.start_task=there", "controller.strategy=fixed")) {
		if !slices.Equal(tick.Z, task.Z) {
			t.Fatalf("tick %d followed %v, want %v", tick.Index, tick.Z, task.Z)
		}
	}
}

func TestFromLog_MakesAVettedTaskThatARunStaysNear(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	fatal.If(t, FromLog(&bytes.Buffer{}, b.Options, New{Name: "there"}, log, Span{1, 2.5}))
	task, err := b.store.Load("there")
	fatal.If(t, err)
	path := b.record(t, "controller.strategy=random", "controller.explore.tasks=[there]",
		"controller.explore.until_label=true", "controller.explore.within_deg=20",
		"controller.explore.turn_deg_per_s=40")
	before, turned, last := 0, 0, task.Z
	for _, tick := range ticks(t, path) {
		turn := controller.AngleDeg(last, tick.Z)
		if off := controller.AngleDeg(task.Z, tick.Z); off > 20+1e-6 || turn > 2+1e-6 { // at 50 ms
			t.Fatalf("tick %d: %g° off the task, turned by %g°", tick.Index, off, turn)
		}
		switch {
		case turn > 1:
			turned++
		case turned == 0 && tick.Flags.Has(controller.FlagExplore) && slices.Equal(tick.Z, task.Z):
			before++
		}
		last = tick.Z
	}
	r, err := flightlog.Open(path)
	fatal.If(t, err)
	defer r.Close()
	if result, err := flightlog.Verify(r); err != nil || !result.OK() || before == 0 || turned < 20 {
		t.Errorf("%v, %v; %d ticks before the first label, %d turns", err, result.First, before, turned)
	}
}

func TestFromLog_RefusesPartsWithoutAGoal(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	make := func(o Options, path string, s Span) error {
		return FromLog(&bytes.Buffer{}, o, New{Name: "there"}, path, s)
	}
	nan := math.NaN()
	for _, s := range []Span{{-1, 2}, {3, 2}, {nan, 2}, {1, nan}, {1, math.Inf(1)}} {
		errtest.Contains(t, make(b.Options, log, s), "no span")
	}
	errtest.Contains(t, make(b.Options, log, Span{1, 8}), "--to 8 is beyond the end of the log; give at most 4.95")
	const outside = "no valid state from 5.2 to 5.4 s; the log has 0 to 4.95 s"
	errtest.Contains(t, make(b.Options, log, Span{5.2, 5.4}), outside)
	errtest.Contains(t, make(Options{"rover", b.Set[1:]}, log, Span{1, 2}), "another model")
	errtest.Contains(t, FromLog(&bytes.Buffer{}, b.Options, New{Name: "../there"}, log, Span{1, 2}), "not a name")
	errtest.Contains(t, make(b.Options, filepath.Join(t.TempDir(), "none.mcap"), Span{1, 2}), "no such file")

	errtest.Is(t, make(b.Options, damage(t, log), Span{1, 2}), flightlog.ErrDamaged, "a damaged log")
	if names := Names(b.Options, false); len(names) != 0 {
		t.Errorf("tasks %q", names)
	}
}

// rewrite copies the snapshots and the ticks of a log to a new one, the ticks changed.
func rewrite(t *testing.T, path string, change func(*controller.Tick)) string {
	t.Helper()
	r, err := flightlog.Open(path)
	fatal.If(t, err)
	defer r.Close()
	copied := filepath.Join(t.TempDir(), "copy.mcap")
	w, err := flightlog.Create(copied, r.Metadata(), flightlog.Options{NoSync: true})
	fatal.If(t, err)
	for record, err := range r.Records() {
		fatal.If(t, err)
		if s := record.Snapshot; s != nil {
			fatal.If(t, w.WriteSnapshot(*s))
		}
		if record.Tick != nil {
			change(record.Tick)
			fatal.If(t, w.WriteTick(record.Tick))
		}
	}
	fatal.If(t, w.Close())
	return copied
}

func TestFromLog_SkipsOnlyStatesThatTheGuardRefused(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	nan := float32(math.NaN())
	refused := rewrite(t, log, func(tick *controller.Tick) {
		if tick.Index%2 == 0 {
			tick.Obs[0], tick.Flags = nan, tick.Flags|controller.FlagBadObs
		}
	})
	fatal.If(t, FromLog(&bytes.Buffer{}, b.Options, New{Name: "odd"}, refused, Span{1, 2}))
	if task, err := b.store.Load("odd"); err != nil || task.Origin.States != 10 {
		t.Errorf("%+v, %v", task.Origin, err)
	}
	err := FromLog(&bytes.Buffer{}, b.Options, New{Name: "none"}, refused, Span{1, 1.01})
	errtest.Contains(t, err, "no valid state")
	accepted := rewrite(t, log, func(tick *controller.Tick) {
		if tick.Index == 25 {
			tick.Obs[0] = nan
		}
	})
	errtest.Contains(t, FromLog(&bytes.Buffer{}, b.Options, New{Name: "nan"}, accepted, Span{1, 2}), "tick 25")
}
