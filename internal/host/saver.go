package host

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/beliefstore"
	"optibfm/internal/link"
	"optibfm/internal/record"
	"optibfm/rtloop"
)

// beliefSaver saves beliefs in run.state_dir. It has its own goroutine: no disk delays a plan or the log. If
// beliefs come faster than the disk takes them, it saves the newest. A nil *beliefSaver saves nothing.
type beliefSaver struct {
	store   *beliefstore.Store
	record  beliefstore.Record
	steps   *link.HostSteps
	newest  chan savedState // capacity 1
	offered uint64          // State.Switches of the newest state
	wanted  atomic.Uint64   // save the next belief from this tick on; 0: none
	failed  bool            // the last save
	aside   bool            // the record is of the task before a switch: set it aside
	events  chan flightlog.Event
}

// savedState is what a save needs of a controller.State.
type savedState struct {
	belief   []float64
	noise    controller.NoiseState
	switched bool // the run switched to another task
}

// openBeliefSaver returns nil if the configuration saves no belief.
func openBeliefSaver(
	f configs.File, modelHash string, spec hal.Spec, d int, steps *link.HostSteps, events chan flightlog.Event,
) (*beliefSaver, error) {
	if f.Run.StateDir == "" {
		return nil, nil
	}
	belief, err := f.Controller.NewBelief(d)
	if err != nil {
		return nil, err
	}
	store, err := beliefstore.Open(f.Run.StateDir)
	if err != nil {
		return nil, fmt.Errorf("run.state_dir: %w; set a folder that this user can write to, or clear the key", err)
	}
	record := newRecord(f, modelHash, spec)
	record.Belief = belief
	return &beliefSaver{
		store: store, record: record, steps: steps, newest: make(chan savedState, 1), events: events,
	}, nil
}

// Learnt requests a save of the belief after a tick. The recorder calls it.
func (k *beliefSaver) Learnt(tick uint64) {
	if k != nil {
		k.wanted.Store(tick + 1)
	}
}

// Offer saves a state's belief if it is due, or if it has a label without a save. The planner calls it.
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
	switched := s.Switches != k.offered
	k.offered = s.Switches
	select { // only this goroutine sends, so there is room then
	case replaced := <-k.newest:
		switched = switched || replaced.switched
	default:
	}
	k.newest <- savedState{slices.Clone(s.Belief), s.Noise, switched}
}

// run saves until newest is closed.
func (k *beliefSaver) run() {
	for state := range k.newest {
		err := k.save(state)
		if err != nil && !k.failed {
			record.Offer(k.events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
		k.failed = err != nil
	}
}

func (k *beliefSaver) save(s savedState) error {
	k.steps.Note(link.BeliefSave, true)
	defer k.steps.Note(link.BeliefSave, false)
	k.record.Noise = s.noise
	k.aside = k.aside || s.switched
	err := k.record.Belief.Restore(s.belief)
	if err == nil && k.aside {
		err = k.store.SetAside()
		k.aside = err != nil
	}
	if err == nil {
		k.record.SavedAt = time.Now()
		err = k.store.Save(k.record)
	}
	if err != nil {
		return fmt.Errorf("run.state_dir: the belief is not saved: %w; free space on the disk, or check it", err)
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
		err = k.save(savedState{last.Belief, last.Noise, last.Switches != k.offered})
	}
	return errors.Join(err, k.store.Close())
}
