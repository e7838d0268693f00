package tasks

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// labelled moments of a test: label i is the reward r_i of the features φ_i.
type teaching struct {
	bench
	hash string
}

func (b teaching) label(i int) (phi []float64, reward, weight float64) {
	phi = make([]float64, b.d)
	for k := range phi {
		phi[k] = math.Sin(float64(1 + i*b.d + k))
	}
	return phi, math.Cos(float64(3 * i)), 1 + float64(i%3)
}

// belief returns a belief that saw labels, in their order.
func (b teaching) belief(t *testing.T, labels ...int) *posterior.Belief {
	t.Helper()
	belief, err := posterior.New(b.d, 1, 1)
	fatal.If(t, err)
	for _, i := range labels {
		phi, reward, weight := b.label(i)
		fatal.If(t, belief.Update(phi, reward, weight))
	}
	return belief
}

// save saves a task with labels of sessions.
func (b teaching) save(t *testing.T, name string, sessions []taskstore.Session, labels ...int) taskstore.Task {
	t.Helper()
	saved := &taskstore.SavedBelief{
		Belief: b.belief(t, labels...), Sigma: 1, SavedAt: time.Unix(1e9, 0), Sessions: sessions,
		Noise: controller.NoiseState{Labels: uint64(len(labels))},
	}
	k := controller.DefaultConfig()
	task := taskstore.Task{Name: name, ModelHash: b.hash, Z: make([]float64, b.d), Belief: saved,
		Origin: taskstore.Origin{At: saved.SavedAt, Robot: name}}
	k.Estimate(task.Z, saved.Belief, 1)
	fatal.If(t, b.store.Save(task, true))
	return task
}

func newTeaching(t *testing.T) teaching {
	b := newBench(t)
	return teaching{b, b.modelHash(t)}
}

// wantLabels fails unless a saved task has just these labels, as a belief that saw all of them has.
func (b teaching) wantLabels(t *testing.T, name string, labels ...int) {
	t.Helper()
	task, err := b.store.Load(name)
	fatal.If(t, err)
	want := make([]float64, posterior.StateLen(b.d))
	got := slices.Clone(want)
	b.belief(t, labels...).State(want)
	task.Belief.Belief.State(got)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9*(1+math.Abs(want[i])) {
			t.Fatalf("%s: number %d of the belief is %g, want %g", name, i, got[i], want[i])
		}
	}
	if task.Belief.Labels() != uint64(len(labels)) {
		t.Errorf("%s: %d labels, want %d", name, task.Belief.Labels(), len(labels))
	}
}

func until(id string, tick uint64) taskstore.Session { return taskstore.Session{ID: id, Until: tick} }

func TestMerge_CountsEachLabelOnce(t *testing.T) {
	b := newTeaching(t)
	x, y, z := until("x-0", 90), until("y-0", 50), until("z-0", 70)
	type side struct {
		sessions []taskstore.Session
		labels   []int
	}
	for name, c := range map[string]struct {
		base       *side
		one, other side
		want       []int
	}{
		"none in common": {
			one: side{[]taskstore.Session{x}, []int{0, 1, 2}}, other: side{[]taskstore.Session{y}, []int{3, 4}},
			want: []int{0, 1, 2, 3, 4},
		},
		"the same task": {
			one: side{[]taskstore.Session{x}, []int{0, 1, 2}}, other: side{[]taskstore.Session{x}, []int{0, 1, 2}},
			want: []int{0, 1, 2},
		},
		"one continued the other": {
			one:   side{[]taskstore.Session{x}, []int{0, 1, 2}},
			other: side{[]taskstore.Session{x, y}, []int{0, 1, 2, 3, 4}},
			want:  []int{0, 1, 2, 3, 4},
		},
		"a later state, with an undone label": {
			one: side{[]taskstore.Session{x}, []int{0, 1, 2}}, other: side{[]taskstore.Session{until("x-0", 120)}, []int{0, 2}},
			want: []int{0, 2},
		},
		"both continued": {
			base:  &side{[]taskstore.Session{x}, []int{0, 1, 2}},
			one:   side{[]taskstore.Session{x, y}, []int{0, 1, 2, 3, 4}},
			other: side{[]taskstore.Session{x, z}, []int{0, 1, 2, 5, 6, 7}},
			want:  []int{0, 1, 2, 3, 4, 5, 6, 7},
		},
		"the first run continued and undid a label": {
			base:  &side{[]taskstore.Session{x}, []int{0, 1, 2}},
			one:   side{[]taskstore.Session{until("x-0", 200)}, []int{0, 2, 8, 9}},
			other: side{[]taskstore.Session{x, z}, []int{0, 1, 2, 5}},
			want:  []int{0, 2, 5, 8, 9},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.base != nil {
				b.save(t, "base", c.base.sessions, c.base.labels...)
			}
			b.save(t, "one", c.one.sessions, c.one.labels...)
			b.save(t, "other", c.other.sessions, c.other.labels...)
			for _, order := range [][2]string{{"one", "other"}, {"other", "one"}} {
				n := New{Name: "both", Replace: true}
				fatal.If(t, Merge(io.Discard, b.Options, n, order[0], order[1]))
				b.wantLabels(t, "both", c.want...)
				fatal.If(t, Merge(io.Discard, b.Options, New{Name: "again", Replace: true}, "both", order[0]))
				b.wantLabels(t, "again", c.want...)
			}
		})
	}
}

func TestMerge_RefusesWhatCouldCountTwice(t *testing.T) {
	b := newTeaching(t)
	x, y, z := until("x-0", 90), until("y-0", 50), until("z-0", 70)
	b.save(t, "one", []taskstore.Session{x, y}, 0, 1, 2)
	b.save(t, "other", []taskstore.Session{x, z}, 0, 1, 3)
	b.save(t, "old", nil, 0, 1)
	foreign := b.save(t, "foreign", []taskstore.Session{z}, 5)
	foreign.ModelHash = "0123456789abcdef"
	fatal.If(t, b.store.Save(foreign, true))
	goal := taskstore.Task{Name: "goal", ModelHash: b.hash, Z: make([]float64, b.d)}
	goal.Z[0] = 1
	fatal.If(t, b.store.Save(goal, false))
	merge := func(one, other string) error { return Merge(io.Discard, b.Options, New{Name: "both"}, one, other) }
	errtest.Contains(t, merge("one", "other"), "import the task from which both began")
	errtest.Contains(t, merge("one", "old"), "unknown which labels old has")
	errtest.Contains(t, merge("foreign", "one"), "another model")
	errtest.Contains(t, merge("one", "goal"), "no labels")
	errtest.Contains(t, merge("one", "none"), "optibfm task list")
	errtest.Contains(t, Merge(io.Discard, b.Options, New{Name: "../x"}, "one", "other"), "not a name")
	b.save(t, "base", []taskstore.Session{x}, 0, 1, 4) // not what both began with
	errtest.Contains(t, merge("one", "other"), "changed after the task from which both began")
	errtest.NotNil(t, errtest.Of(b.store.Load("both")), "a refused merge saved a task")
	b.Set = append(b.Set, "controller.lambda=3")
	errtest.Contains(t, merge("one", "other"), "controller.lambda")
}

func TestExport_TravelsWithLabelsAndChannels(t *testing.T) {
	b := newTeaching(t)
	sent := b.save(t, "turn", []taskstore.Session{until("x-0", 90)}, 0, 1, 2)
	path := filepath.Join(t.TempDir(), "for another robot.task")
	var out bytes.Buffer
	fatal.If(t, Export(&out, b.Options, "turn", path))
	rigtest.Contains(t, out.String(), "task import")
	errtest.Contains(t, Export(io.Discard, b.Options, "turn", path), "exists")

	there := b // a robot with the same model
	there.store.Dir = t.TempDir()
	there.Set = append(slices.Clone(b.Set), "run.task_dir="+there.store.Dir)
	fatal.If(t, Import(io.Discard, there.Options, New{}, path))
	got, err := there.store.Load("turn")
	fatal.If(t, err)
	if got.Belief.Belief.Hash() != sent.Belief.Belief.Hash() || !slices.Equal(got.Z, sent.Z) || got.Exported != nil ||
		!slices.Equal(got.Belief.Sessions, sent.Belief.Sessions) || got.Belief.Labels() != 3 || got.Origin.Robot != "turn" {
		t.Errorf("%+v %+v", got, got.Belief)
	}
	errtest.Contains(t, Import(io.Discard, there.Options, New{}, path), "--replace")
	fatal.If(t, Import(io.Discard, there.Options, New{Name: "theirs", Note: "of the other"}, path))
	if got, err := there.store.Load("theirs"); err != nil || got.Note != "of the other" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestImport_RefusesWhatDoesNotFit(t *testing.T) {
	b := newTeaching(t)
	b.save(t, "turn", []taskstore.Session{until("x-0", 90)}, 0, 1, 2)
	path := filepath.Join(t.TempDir(), "turn.task")
	fatal.If(t, Export(io.Discard, b.Options, "turn", path))
	load := func(path string, set ...string) error {
		o := Options{b.Config, append(slices.Clone(b.Set), set...)}
		return Import(io.Discard, o, New{Name: "in"}, path)
	}
	errtest.Contains(t, load(path, "model.bundle="+configs.Default().Model.Bundle), "use that model")
	errtest.Contains(t, load(path, "controller.noise.estimate=true"), "controller.noise.estimate")
	errtest.Contains(t, load(path, "controller.offset=0.7"), "controller.offset")
	errtest.Contains(t, load(path, "controller.rho=0.99", "controller.exact_restore=true"), "controller.rho")
	errtest.Contains(t, load(filepath.Join(t.TempDir(), "none.task")), "no such file")

	whole, err := taskstore.ReadExported(path)
	fatal.If(t, err)
	write := func(change func(e *taskstore.Exported, b *taskstore.SavedBelief)) string {
		task, e, belief := whole, *whole.Exported, *whole.Belief
		e.Observation = slices.Clone(e.Observation)
		task.Exported, task.Belief = &e, &belief
		change(&e, &belief)
		changed := filepath.Join(t.TempDir(), "changed.task")
		fatal.If(t, taskstore.Export(changed, task))
		return changed
	}
	errtest.Contains(t, load(write(func(e *taskstore.Exported, _ *taskstore.SavedBelief) {
		e.Observation[1].Unit = "furlong"
	})), `in "furlong"`)
	errtest.Contains(t, load(write(func(e *taskstore.Exported, _ *taskstore.SavedBelief) {
		e.Action = e.Action[:1]
	})), "action channels")
	errtest.Contains(t, load(write(func(_ *taskstore.Exported, b *taskstore.SavedBelief) {
		b.Basis = "0123456789abcdef"
	})), "set controller.prior: task")
	errtest.Contains(t, load(write(func(_ *taskstore.Exported, b *taskstore.SavedBelief) {
		b.Offset = 0.7
	}), "controller.offset=0.7"), "labels on another scale")
	file, err := os.ReadFile(path)
	fatal.If(t, err)
	for _, at := range []int{0, len(file) / 2, len(file) - 1} {
		bad := slices.Clone(file)
		bad[at] ^= 1
		damaged := filepath.Join(t.TempDir(), "damaged.task")
		fatal.If(t, os.WriteFile(damaged, bad, 0o600))
		errtest.Is(t, load(damaged), taskstore.ErrDamaged, "byte ", at)
	}
	errtest.NotNil(t, errtest.Of(b.store.Load("in")), "a refused import saved a task")
}

func TestSave_KnowsTheRunOfALog(t *testing.T) {
	b := newBench(t)
	first := b.record(t)
	fatal.If(t, Save(io.Discard, b.Options, New{Name: "one"}, first))
	second := b.record(t, "run.start_task=one", "controller.seed=4")
	fatal.If(t, Save(io.Discard, b.Options, New{Name: "two"}, second))
	third := b.record(t, "run.start_task=one", "controller.seed=5")
	fatal.If(t, Save(io.Discard, b.Options, New{Name: "three"}, third))
	fatal.If(t, Merge(io.Discard, b.Options, New{Name: "all"}, "two", "three"))
	load := func(name string) *taskstore.SavedBelief {
		t.Helper()
		task, err := b.store.Load(name)
		fatal.If(t, err)
		return task.Belief
	}
	one, two, three, all := load("one"), load("two"), load("three"), load("all")
	if n := len(one.Sessions); n != 1 || len(two.Sessions) != 2 || two.Sessions[0] != one.Sessions[0] ||
		one.Sessions[0].Until != 100 {
		t.Fatalf("%+v, %+v", one.Sessions, two.Sessions)
	}
	if want := two.Labels() + three.Labels() - one.Labels(); all.Labels() != want || len(all.Sessions) != 3 {
		t.Errorf("%d labels in %+v, want %d", all.Labels(), all.Sessions, want)
	}
	weight := two.Belief.Weight() + three.Belief.Weight() - one.Belief.Weight()
	if got := all.Belief.Weight(); math.Abs(got-weight) > 1e-9 {
		t.Errorf("the weight is %g, want %g", got, weight)
	}
}
