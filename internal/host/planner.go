package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/internal/recorder"
	"optibfm/rtloop"
)

// idleRound is the longest wait of planner and recorder. A wake ends a wait earlier; presses and
// the end of a run have none.
const idleRound = 20 * time.Millisecond

// Planner plans for the newest state and publishes the plan. It has its own goroutine: neither a
// disk nor a screen delays a plan. It offers plans, snapshots and events to the recorder and drops
// them if a channel is full.
type Planner struct {
	Link      *ipc.HostLink
	Planner   *controller.Planner
	Plan      *controller.Plan
	Strategy  string
	failed    bool         // no plan for the last state
	watch     *beliefWatch // of the live view; may be nil
	saver     *beliefSaver // may be nil
	Every     uint64       // ticks between snapshots
	due       uint64       // the tick of the next snapshot
	Plans     chan flightlog.Plan
	Snapshots chan flightlog.Snapshot
	Events    chan flightlog.Event
}

// ErrSearchLeft reports a search that did not end soon after the run.
var ErrSearchLeft = fmt.Errorf("host: a search of the planner did not end within %v after the run; "+
	"if /plan in the log shows shorter searches, check the GPU, or with model.backend: native the load of the computer",
	lastSearch)

// lastSearch is the longest wait for a search at the end of a run. It is short, because a search on
// a GPU that hangs never ends.
const lastSearch = 2 * time.Second

// run plans until stop is closed. If a plan fails, the old plan ages, and its age stops the robot.
func (p *Planner) run(stop <-chan struct{}) error {
	for {
		p.Link.StateWake.Wait(idleRound)
		select {
		case <-stop:
			return nil
		default:
		}
		p.Link.Steps.Note(ipc.PlannerRound, true)
		err := p.round()
		p.Link.Steps.Note(ipc.PlannerRound, false)
		if err != nil {
			return err
		}
	}
}

// round plans for the newest state if there is a new one.
func (p *Planner) round() error {
	state, fresh, err := p.Link.NewestState()
	if err != nil || !fresh {
		return err
	}
	return p.Answer(state)
}

// Answer plans for a state.
func (p *Planner) Answer(state *controller.State) error {
	due := state.Next >= p.due
	if due {
		p.snapshot(state)
	}
	p.saver.Offer(state, due)
	if p.watch != nil {
		p.watch.take(state)
	}
	if state.Valid == 0 {
		return nil
	}
	started := time.Now()
	p.Link.Steps.Note(ipc.PlannerSearch, true)
	fresh, err := p.Planner.Plan(state, p.Plan)
	p.Link.Steps.Note(ipc.PlannerSearch, false)
	if err != nil {
		if !p.failed {
			recorder.Offer(p.Events, flightlog.Event{At: rtloop.Now(), Level: flightlog.Error, Text: err.Error()})
		}
		p.failed = true
		return nil
	}
	p.failed = false
	if fresh {
		p.Plan.ElapsedNS = int64(time.Since(started))
		recorder.Offer(p.Plans, recorder.PlanEntry(p.Plan, rtloop.Now(), p.Strategy))
	}
	return p.Link.Publish(p.Plan)
}

// snapshot offers the belief to the recorder.
func (p *Planner) snapshot(s *controller.State) {
	p.due = s.Next + p.Every
	recorder.Offer(p.Snapshots, flightlog.Snapshot{
		Next: s.Next, Hash: s.Hash, State: slices.Clone(s.Belief), Noise: s.Noise,
	})
}

// First returns the belief before the first tick. The control process offers it before it starts
// the host.
func (p *Planner) First() (flightlog.Snapshot, error) {
	state, _, err := p.Link.NewestState()
	if err != nil {
		return flightlog.Snapshot{}, err
	}
	if state == nil || state.Next != 0 {
		return flightlog.Snapshot{}, errors.New(
			"host: no belief before the first tick in the segment: two versions of this program; install one")
	}
	p.due = p.Every
	return flightlog.Snapshot{Hash: state.Hash, State: slices.Clone(state.Belief), Noise: state.Noise}, nil
}
