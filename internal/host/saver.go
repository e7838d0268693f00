package host

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
	"optibfm/rtloop"
)

// beliefSaver saves beliefs as the task last in run.state_dir. It has its own goroutine: no disk
// delays a plan or the log. If beliefs come faster than the disk takes them, it saves the newest. A
// nil *beliefSaver saves nothing.
type beliefSaver struct {
	keeper   *taskstore.Keeper
	template taskTemplate
	belief   *posterior.Belief // scratch
	steps    *ipc.HostSteps
	newest   chan savedState // capacity 1
	ended    chan struct{}   // closed at the end of the run
	wanted   atomic.Uint64   // save the next belief from this tick on; 0: none
	retry    uint64          // ticks from a failed save to the next
	switches uint64          // State.Switches of the state that was saved last
	failed   bool            // the last save
	events   chan flightlog.Event
}

// retrySaveS is the time from a failed save to the next, s.
const retrySaveS = 1

// savedState is the part of a controller.State that a save needs.
type savedState struct {
	next     uint64 // the first tick that it does not include
	belief   []float64
	noise    controller.NoiseState
	switches uint64
}

func newSavedState(s *controller.State) savedState {
	return savedState{s.Next, slices.Clone(s.Belief), s.Noise, s.Switches}
}

// openBeliefSaver returns nil if the configuration saves no belief.
func (h *Process) openBeliefSaver() (*beliefSaver, error) {
	if h.Session.File.Run.StateDir == "" {
		return nil, nil
	}
	belief, err := h.Session.File.Controller.NewBelief(h.Session.Shape().Latent)
	if err != nil {
		return nil, err
	}
	store, err := setup.TaskStore(h.Session.File.Run)
	if err != nil {
		return nil, err
	}
	keeper, err := store.Lock()
	if err != nil {
		return nil, fmt.Errorf("run.state_dir: %w", err)
	}
	k := &beliefSaver{
		keeper: keeper, template: h.taskTemplate(), belief: belief, steps: &h.Link.Steps,
		newest: make(chan savedState, 1), ended: make(chan struct{}), events: h.Planner.Events,
		retry: setup.Periods(retrySaveS, h.Config.Spec.Period),
	}
	if h.Config.Fresh {
		keeper.Switch()
		k.Learnt(0) // save at once
	}
	return k, nil
}

// Learnt requests a save of the belief after a tick. The recorder calls it.
func (k *beliefSaver) Learnt(tick uint64) {
	if k != nil {
		k.wanted.Store(tick + 1)
	}
}

// Offer saves a state's belief if it is due, or if it has a label without a save. The planner calls
// it.
func (k *beliefSaver) Offer(s *controller.State, due bool) {
	if k == nil {
		return
	}
	wanted := k.wanted.Load()
	learnt := wanted != 0 && s.Next >= wanted
	if !due && !learnt {
		return
	}
	if learnt {
		k.wanted.CompareAndSwap(wanted, 0)
	}
	select { // only this goroutine sends, so there is room then
	case <-k.newest:
	default:
	}
	k.newest <- newSavedState(s)
}

// run saves until ended is closed. The planner may then still offer a state: newest stays open.
func (k *beliefSaver) run() {
	for {
		select {
		case state := <-k.newest:
			k.saveOrRetry(state)
		case <-k.ended:
			return
		}
	}
}

// saveOrRetry saves a state or requests a later save. It reports the first of several failures.
func (k *beliefSaver) saveOrRetry(s savedState) {
	err := k.save(s)
	if err != nil {
		k.wanted.CompareAndSwap(0, s.next+k.retry)
	}
	if err != nil && !k.failed {
		recorder.Offer(k.events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
	}
	k.failed = err != nil
}

func (k *beliefSaver) save(s savedState) error {
	k.steps.Note(ipc.BeliefSave, true)
	defer k.steps.Note(ipc.BeliefSave, false)
	if s.switches != k.switches {
		k.keeper.Switch()
		k.switches = s.switches
	}
	err := k.belief.Restore(s.belief)
	if err == nil {
		err = k.keeper.Save(k.template.task(taskstore.Last, k.belief, s.noise, s.next))
	}
	if err != nil {
		return fmt.Errorf("run.state_dir: the belief is not saved: %w; "+
			"check the space on the disk, and the folder's owner and permissions", err)
	}
	return nil
}

// finish saves the last belief and closes the folder. It is the last call.
func (k *beliefSaver) finish(last *controller.State) error {
	if k == nil {
		return nil
	}
	var err error
	if last != nil {
		err = k.save(newSavedState(last))
	}
	return errors.Join(err, k.keeper.Close())
}
