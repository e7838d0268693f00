package host

import (
	"os"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

const saverDim = 3

// newSaver returns a saver, its folder and a belief for it.
func newSaver(t *testing.T) (*beliefSaver, taskstore.Store, *posterior.Belief) {
	t.Helper()
	file := configs.Default()
	file.Controller = controller.DefaultConfig()
	store := taskstore.Store{State: t.TempDir()}
	segment, err := ipc.New(controller.Shape{Obs: 1, Action: 1, Latent: saverDim}, 1)
	fatal.If(t, err)
	words, err := ipc.OpenWords(segment)
	fatal.If(t, err)
	belief, err := file.Controller.NewBelief(saverDim)
	fatal.If(t, err)
	keeper, err := store.Lock()
	fatal.If(t, err)
	return &beliefSaver{
		keeper: keeper, template: taskTemplate{file: file, model: "model", robot: "robot"},
		belief: belief.Clone(), steps: &words.Steps,
		newest: make(chan savedState, 1), ended: make(chan struct{}), retry: 10, events: make(chan flightlog.Event, 4),
	}, store, belief
}

func TestBeliefSaver_SetsTheBeliefBeforeASwitchAside(t *testing.T) {
	saver, store, belief := newSaver(t)
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: saverDim})
	offer := func(label float64, switches uint64) uint64 {
		fatal.If(t, belief.Update([]float64{1, 2, 3}, label, 1))
		belief.State(state.Belief)
		state.Switches = switches
		saver.Offer(state, true)
		return belief.Hash()
	}
	offer(1, 0)
	first := offer(2, 0)
	fatal.If(t, saver.save(<-saver.newest))
	offer(3, 1) // the saver is too slow for this one
	offer(4, 1)
	previous := store.Path(taskstore.Previous)
	fatal.If(t, os.MkdirAll(previous+"/obstacle", 0o700))
	if err := saver.save(<-saver.newest); err == nil {
		t.Fatal("the belief before the switch is lost")
	}
	fatal.If(t, os.RemoveAll(previous))
	last := offer(5, 1)
	fatal.If(t, saver.save(<-saver.newest))
	fatal.If(t, saver.finish(nil))
	for name, want := range map[string]uint64{taskstore.Last: last, taskstore.Previous: first} {
		got, err := store.Load(name)
		fatal.If(t, err)
		if got.Belief.Belief.Hash() != want {
			t.Errorf("%s is another belief", name)
		}
	}
}

func TestBeliefSaver_RetriesAFailedSave(t *testing.T) {
	saver, store, belief := newSaver(t)
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: saverDim})
	belief.State(state.Belief)
	offer := func(next uint64) int {
		state.Next = next
		saver.Offer(state, false)
		return len(saver.newest)
	}
	last := store.Path(taskstore.Last)
	fatal.If(t, os.MkdirAll(last+"/obstacle", 0o700))
	saver.Learnt(4)
	for _, next := range []uint64{5, 15} { // the label, and the first retry
		if offer(next) != 1 {
			t.Fatalf("no save at tick %d", next)
		}
		saver.saveOrRetry(<-saver.newest)
		if offer(next+saver.retry-1) != 0 {
			t.Fatalf("a save before tick %d", next+saver.retry)
		}
	}
	if n := len(saver.events); n != 1 {
		t.Errorf("%d events of two failures in a row", n)
	}
	fatal.If(t, os.RemoveAll(last))
	offer(25)
	saver.saveOrRetry(<-saver.newest)
	if _, err := store.Load(taskstore.Last); err != nil || offer(1000) != 0 {
		t.Errorf("not saved, or saved again without a label: %v", err)
	}
	close(saver.ended)
	saver.run() // ends
	saver.Learnt(2000)
	offer(2001) // a planner that was late: neither panics nor waits
	offer(2002)
	fatal.If(t, saver.finish(nil))
}

func TestBeliefSaver_FreshRunSavesItsFirstBelief(t *testing.T) {
	session := rigtest.NewSession(t, func(f *configs.File) { f.Run.StateDir = t.TempDir() })
	former := rigtest.NewTask(t, session, taskstore.Last)
	rigtest.SaveLast(t, session.File.Run.StateDir, former)
	segment, err := ipc.New(session.Shape(), 1)
	fatal.If(t, err)
	words, err := ipc.OpenWords(segment)
	fatal.If(t, err)
	h := &Process{
		Config: ipc.HostConfig{Fresh: true}, Session: session, Link: &ipc.HostLink{Words: words}, Planner: &Planner{},
	}
	saver, err := h.openBeliefSaver()
	fatal.If(t, err)
	state := controller.NewState(session.Shape())
	learner, err := controller.NewLearner(session.File.Controller, session.Shape().Latent, 20e6)
	fatal.If(t, err)
	learner.WriteBelief(state)
	state.Next = 1
	saver.Offer(state, false)
	if len(saver.newest) != 1 {
		t.Fatal("the first belief waits for log.snapshot_s")
	}
	fatal.If(t, saver.save(<-saver.newest))
	fatal.If(t, saver.finish(nil))
	store := taskstore.Store{State: session.File.Run.StateDir}
	for name, want := range map[string]uint64{
		taskstore.Last: learner.Belief().Hash(), taskstore.Previous: former.Belief.Belief.Hash(),
	} {
		if got, err := store.Load(name); err != nil || got.Belief.Belief.Hash() != want {
			t.Errorf("%s is another belief: %v", name, err)
		}
	}
}
