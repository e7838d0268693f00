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
	"optibfm/internal/version"
	"optibfm/rtloop"
)

// BeliefSaver writes the belief down in a goroutine of its own, so that no disk
// delays a plan or the record. Of beliefs that come faster than the disk takes
// them it keeps the newest.
type BeliefSaver struct {
	store  *beliefstore.Store
	record beliefstore.Record
	steps  *link.HostSteps
	newest chan []float64 // room for one
	wanted atomic.Uint64  // the next belief from this tick on is to be kept; 0: none
	failed bool           // the last time
	events chan flightlog.Event
}

// OpenBeliefSaver returns nil where the configuration keeps no belief.
func OpenBeliefSaver(f configs.File, modelHash string, spec hal.Spec, d int, steps *link.HostSteps, events chan flightlog.Event) (*BeliefSaver, error) {
	if f.Run.StateDir == "" {
		return nil, nil
	}
	belief, err := f.Controller.NewBelief(d)
	if err != nil {
		return nil, err
	}
	store, err := beliefstore.Open(f.Run.StateDir)
	if err != nil {
		return nil, fmt.Errorf("run.state_dir: %w: give a folder that can be written to, or leave the key empty", err)
	}
	return &BeliefSaver{
		store:  store,
		record: beliefstore.Record{ModelHash: modelHash, Sigma: f.Controller.Sigma, Program: version.String(), Robot: spec.Name, Belief: belief},
		steps:  steps,
		newest: make(chan []float64, 1),
		events: events,
	}, nil
}

// taught notes that a tick's labels entered the belief.
func (k *BeliefSaver) taught(t *controller.Tick) {
	if k == nil {
		return
	}
	for i := range t.NumLabels {
		if t.Labels[i].Outcome == controller.Applied {
			k.wanted.Store(t.Index + 1)
			return
		}
	}
}

// Look keeps a state's belief where it has a label that is not kept yet, or
// where one is due.
func (k *BeliefSaver) Look(s *controller.State, due bool) {
	if k == nil {
		return
	}
	wanted := k.wanted.Load()
	taught := wanted != 0 && s.Next >= wanted
	if !due && !taught {
		return
	}
	if taught {
		k.wanted.CompareAndSwap(wanted, 0)
	}
	select { // only this goroutine sends: there is room then
	case <-k.newest:
	default:
	}
	k.newest <- slices.Clone(s.Belief)
}

// run writes until no more can come.
func (k *BeliefSaver) run() {
	for state := range k.newest {
		err := k.save(state)
		if err != nil && !k.failed {
			record.Offer(k.events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
		k.failed = err != nil
	}
}

func (k *BeliefSaver) save(state []float64) error {
	k.steps.Note(link.BeliefSave, true)
	defer k.steps.Note(link.BeliefSave, false)
	err := k.record.Belief.Restore(state)
	if err == nil {
		k.record.SavedAt = time.Now()
		err = k.store.Save(k.record)
	}
	if err != nil {
		return fmt.Errorf("run.state_dir: the belief is not written down: %w: free space on the disk, or check it", err)
	}
	return nil
}

// finish writes the last belief. Nothing else may use the keeper any more.
func (k *BeliefSaver) finish(last *controller.State) error {
	if k == nil {
		return nil
	}
	var err error
	if last != nil {
		err = k.save(last.Belief)
	}
	return errors.Join(err, k.store.Close())
}
