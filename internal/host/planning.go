package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/link"
	"optibfm/internal/record"
	"optibfm/rtloop"
)

// pollEvery is how often the host looks for something new: the delay that it
// adds to a plan, against the processor time that looking costs.
const pollEvery = 500 * time.Microsecond

// Planner is the host's planner at work: it looks for a new state, plans for
// it, and publishes the answer. It runs in a goroutine of its own, so that no
// disk and no screen delays a plan. What is to be recorded it offers through
// channels, and drops where they are full.
type Planner struct {
	Link      *link.HostLink
	Planner   *controller.Planner
	Plan      *controller.Plan
	Strategy  string
	failed    bool         // the last state could not be planned for
	watch     *beliefWatch // of the live view; may be nil
	Keep      *BeliefSaver // may be nil
	Every     uint64       // ticks between snapshots
	due       uint64       // the tick of the next one
	Plans     chan flightlog.Plan
	Snapshots chan flightlog.Snapshot
	Events    chan flightlog.Event
}

// ErrSearchLeft is a search that was not over soon after the run was.
var ErrSearchLeft = fmt.Errorf("host: a search of the planner was not over %v after the run was, and was left behind: "+
	"where plans take so long (/plan in the log), that is all; else find what holds the GPU up, or with model.backend: native the computer", lastSearch)

// lastSearch is how long the end of a run waits for a search: for one that hangs
// with its GPU too, so no longer. A slow one looks the same.
const lastSearch = 2 * time.Second

// run plans until stop is closed. A state that cannot be planned for leaves
// the old plan to age, which halts the robot if it goes on.
func (p *Planner) run(stop <-chan struct{}) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ticker.C:
		}
		select { // a tick may have won: once stop is closed, the states are another's
		case <-stop:
			return nil
		default:
		}
		state, fresh, err := p.Link.NewestState()
		if err != nil {
			return err
		}
		if !fresh {
			continue
		}
		if err := p.Answer(state); err != nil {
			return err
		}
	}
}

func (p *Planner) Answer(state *controller.State) error {
	due := state.Next >= p.due
	if due {
		p.snapshot(state)
	}
	p.Keep.Look(state, due)
	if p.watch != nil {
		p.watch.take(state)
	}
	if state.Valid == 0 {
		return nil
	}
	started := time.Now()
	p.Link.Steps.Note(link.PlannerSearch, true)
	fresh, err := p.Planner.Plan(state, p.Plan)
	p.Link.Steps.Note(link.PlannerSearch, false)
	if err != nil {
		if !p.failed {
			record.Offer(p.Events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
		p.failed = true
		return nil
	}
	p.failed = false
	if fresh {
		p.Plan.ElapsedNS = int64(time.Since(started))
		entry := record.Logged(p.Plan, rtloop.Now(), p.Strategy)
		entry.Z = slices.Clone(entry.Z)
		record.Offer(p.Plans, entry)
	}
	return p.Link.Publish(p.Plan)
}

// snapshot offers the belief to the record.
func (p *Planner) snapshot(s *controller.State) {
	p.due = s.Next + p.Every
	record.Offer(p.Snapshots, flightlog.Snapshot{Next: s.Next, Hash: s.Hash, State: slices.Clone(s.Belief)})
}

// First takes the belief before the first tick, which the control process
// offers before it starts the host.
func (p *Planner) First() (flightlog.Snapshot, error) {
	state, _, err := p.Link.NewestState()
	if err != nil {
		return flightlog.Snapshot{}, err
	}
	if state == nil || state.Next != 0 {
		return flightlog.Snapshot{}, errors.New("host: the belief before the first tick is not in the segment: this program and the one that started it differ: install one version")
	}
	p.due = p.Every
	return flightlog.Snapshot{Hash: state.Hash, State: slices.Clone(state.Belief)}, nil
}
