package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/beliefstore"
	"optibfm/posterior"
	"optibfm/rtloop"
)

// teach gives the learner what is known before the first tick: the belief of
// earlier runs, or else the labels of model.warm_start, which that one has had.
func teach(l *controller.Learner, s *session) (recalled string, err error) {
	if recalled, err = recall(l, s); err != nil || l.Belief().Weight() > 0 {
		return recalled, err
	}
	return recalled, warmStart(l, s.file.Model)
}

// recall gives the learner what earlier runs have learnt (run.state_dir), or
// sets that aside where fresh. What it did it says in words, "" where there was
// nothing to do. The control process calls it before the first tick.
func recall(l *controller.Learner, s *session) (said string, err error) {
	dir := s.file.Run.StateDir
	if dir == "" {
		return "", nil
	}
	if s.fresh {
		old, err := beliefstore.SetAside(dir)
		if err != nil {
			return "", fmt.Errorf("run.state_dir: --fresh: %w", err)
		}
		if old != "" {
			said = "what earlier runs have learnt is set aside in " + old
		}
		return said, nil
	}
	record, err := beliefstore.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = suits(record, s)
	}
	if err == nil {
		state := make([]float64, posterior.StateLen(record.Belief.Dim()))
		record.Belief.State(state)
		err = l.Belief().Restore(state)
	}
	if err != nil {
		return "", fmt.Errorf("run.state_dir: %w: or start from nothing, once, with --fresh, or by renaming %s", err, beliefstore.Path(dir))
	}
	return fmt.Sprintf("the run goes on from what was learnt until %s: its labels weigh %.4g",
		record.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), record.Belief.Weight()), nil
}

// suits refuses a belief whose numbers would mean something else here.
func suits(r beliefstore.Record, s *session) error {
	k, b := s.file.Controller, r.Belief
	where := beliefstore.Path(s.file.Run.StateDir)
	if is := s.model.hash(); r.ModelHash != is {
		return fmt.Errorf("%s was learnt with another model (%s, not %s): use that model", where, shortHash(r.ModelHash), shortHash(is))
	}
	if d := s.model.Dims().Latent; b.Dim() != d {
		return fmt.Errorf("%s has another dimension (%d, not %d): use the model that it was learnt with", where, b.Dim(), d)
	}
	for _, key := range []struct {
		name    string
		was, is float64
	}{{"lambda", b.Lambda(), k.Lambda}, {"rho", b.Rho(), k.Rho}, {"sigma", r.Sigma, k.Sigma}} {
		if key.was != key.is {
			return fmt.Errorf("%s was learnt with another controller.%s (%g, not %g): give it that value", where, key.name, key.was, key.is)
		}
	}
	if b.ExactRestore() != k.ExactRestore {
		return fmt.Errorf("%s was learnt with controller.exact_restore %t: give it that value", where, b.ExactRestore())
	}
	return nil
}

// keeper writes the belief down in a goroutine of its own, so that no disk
// delays a plan or the record. Of beliefs that come faster than the disk takes
// them it keeps the newest.
type keeper struct {
	store  *beliefstore.Store
	record beliefstore.Record
	steps  *hostSteps
	newest chan []float64 // room for one
	wanted atomic.Uint64  // the next belief from this tick on is to be kept; 0: none
	failed bool           // the last time
	events chan flightlog.Event
}

// openKeeper returns nil where the configuration keeps no belief.
func openKeeper(f configs.File, modelHash string, spec hal.Spec, d int, steps *hostSteps, events chan flightlog.Event) (*keeper, error) {
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
	return &keeper{
		store:  store,
		record: beliefstore.Record{ModelHash: modelHash, Sigma: f.Controller.Sigma, Program: version(), Robot: spec.Name, Belief: belief},
		steps:  steps,
		newest: make(chan []float64, 1),
		events: events,
	}, nil
}

// taught notes that a tick's labels entered the belief.
func (k *keeper) taught(t *controller.Tick) {
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

// look keeps a state's belief where it has a label that is not kept yet, or
// where one is due.
func (k *keeper) look(s *controller.State, due bool) {
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
func (k *keeper) run() {
	for state := range k.newest {
		err := k.save(state)
		if err != nil && !k.failed {
			offer(k.events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
		k.failed = err != nil
	}
}

func (k *keeper) save(state []float64) error {
	k.steps.note(beliefSave, true)
	defer k.steps.note(beliefSave, false)
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
func (k *keeper) finish(last *controller.State) error {
	if k == nil {
		return nil
	}
	var err error
	if last != nil {
		err = k.save(last.Belief)
	}
	return errors.Join(err, k.store.Close())
}
