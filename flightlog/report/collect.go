package report

import (
	"errors"
	"math"
	"slices"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// maxEvents is how many events the page lists.
const maxEvents = 2000

// collected is everything that the page needs of a log's records, but for the
// belief. A tick is known by its position among those that the log holds.
type collected struct {
	meta    flightlog.Metadata
	cut     *flightlog.Cut
	size    int64
	answers *flightlog.Answers
	damage  []error

	summary flightlog.Summary
	columns columns

	labels   []label
	requests map[uint64]*request // by ID
	opened   []uint64            // their IDs, in order
	events   []flightlog.Event
	unlisted int // events that are not in events
	faults   []faultSpan
	episodes []uint32  // positions at which one starts
	plans    []float64 // how long planning took, ms

	first *flightlog.Snapshot // the earliest
	lastZ []float64
}

// columns have one entry a tick.
type columns struct {
	index   []uint64
	clock   []uint64 // periods that counted for forgetting, this tick's included
	request []uint64 // ID of the one that is open after the tick
	flags   []controller.Flags
	time    []float64 // s since the first tick
	sense   []int64
	dgap    []float64 // nats
	reward  []float64 // the simulator's, NaN where there is none
	age     []float64 // of z, ticks
	turn    []float64 // angle between z and the z before it, degrees
	late    []float64 // ms
	busy    []float64 // ms
	skipped []float64 // periods before this tick
}

// label is something that a tick did with a label.
type label struct {
	controller.AppliedLabel
	pos int // of the tick
}

// request is an episode of asking.
type request struct {
	tick  uint64
	state rewardsrc.RequestState // how it ended; Open where the log does not say
	dgap  float64
}

// faultSpan is a run of ticks with the same fault.
type faultSpan struct {
	from, to int // positions, inclusive
	fault    controller.Fault
}

// collect reads all records.
func collect(r *flightlog.Reader) (*collected, error) {
	answers, err := flightlog.CollectAnswers(r)
	if err != nil {
		return nil, err
	}
	summary, damage, err := flightlog.Summarise(r)
	if err != nil {
		return nil, err
	}
	c := &collected{
		meta: r.Metadata(), cut: r.Cut(), size: r.Size(), answers: answers, damage: damage, summary: summary,
		requests: make(map[uint64]*request), lastZ: make([]float64, r.Metadata().Shape.Latent),
	}
	for record, err := range r.Records() {
		if errors.Is(err, flightlog.ErrDamaged) {
			continue // Summarise has it
		}
		if err != nil {
			return nil, err
		}
		c.add(record)
	}
	return c, nil
}

func (c *collected) add(r *flightlog.Record) {
	switch {
	case r.Tick != nil:
		c.addTick(r.Tick)
	case r.Request != nil:
		c.addRequest(r.Request)
	case r.Plan != nil:
		c.plans = append(c.plans, float64(r.Plan.Took)/1e6)
	case r.Event != nil:
		c.addEvent(r.Event)
	case r.Snapshot != nil:
		if c.first == nil || r.Snapshot.Next < c.first.Next {
			c.first = r.Snapshot
		}
	}
}

// ticks is how many the log holds.
func (c *collected) ticks() int { return len(c.columns.index) }

func (c *collected) addTick(t *controller.Tick) {
	pos := c.ticks()
	v := &c.columns
	clock := uint64(0)
	if pos > 0 {
		clock = v.clock[pos-1]
	}
	if t.Flags.Has(controller.FlagArmed) {
		clock += t.Elapsed
	}
	reward := math.NaN()
	if t.Flags.Has(controller.FlagReward) {
		reward = t.Reward
	}
	v.index = append(v.index, t.Index)
	v.clock = append(v.clock, clock)
	v.request = append(v.request, t.Request)
	v.flags = append(v.flags, t.Flags)
	v.sense = append(v.sense, t.SenseAt)
	v.time = append(v.time, float64(t.SenseAt-v.sense[0])/1e9)
	v.dgap = append(v.dgap, t.DGap)
	v.reward = append(v.reward, reward)
	v.age = append(v.age, float64(t.Index-min(t.Index, t.PlanConfirmed)))
	v.turn = append(v.turn, c.turned(t.Z))
	v.late = append(v.late, float64(t.Wake-t.Deadline)/1e6)
	v.busy = append(v.busy, float64(t.Done-t.Wake)/1e6)
	v.skipped = append(v.skipped, float64(max(t.Elapsed, 1)-1))
	for _, a := range t.Labels[:t.NumLabels] {
		c.labels = append(c.labels, label{a, pos})
	}
	if t.Flags.Has(controller.FlagEpisodeStart) {
		c.episodes = append(c.episodes, uint32(pos))
	}
	if t.Fault != controller.FaultNone {
		c.addFault(pos, t.Fault)
	}
}

// turned returns the angle between z and the z of the tick before, in degrees.
func (c *collected) turned(z []float64) float64 {
	if slices.Equal(z, c.lastZ) {
		return 0
	}
	cosine := dot(z, c.lastZ) / math.Sqrt(dot(z, z)*dot(c.lastZ, c.lastZ))
	copy(c.lastZ, z)
	if math.IsNaN(cosine) { // the first, or one of zeros
		return 0
	}
	return math.Acos(max(-1, min(1, cosine))) * 180 / math.Pi
}

func (c *collected) addFault(pos int, fault controller.Fault) {
	if n := len(c.faults); n > 0 && c.faults[n-1].to == pos-1 && c.faults[n-1].fault == fault {
		c.faults[n-1].to = pos
		return
	}
	c.faults = append(c.faults, faultSpan{pos, pos, fault})
}

func (c *collected) addRequest(r *rewardsrc.Request) {
	known := c.requests[r.ID]
	if known == nil {
		known = &request{tick: r.Tick, dgap: r.DGap}
		c.requests[r.ID] = known
		c.opened = append(c.opened, r.ID)
	}
	known.state = max(known.state, r.State)
}

func (c *collected) addEvent(e *flightlog.Event) {
	if len(c.events) == maxEvents {
		c.unlisted++
		return
	}
	c.events = append(c.events, *e)
}

// position returns where the tick of an index is, or the next one held.
func (c *collected) position(index uint64) (pos int, found bool) {
	return slices.BinarySearch(c.columns.index, index)
}

// closed returns the position of the tick in which a request that was opened
// at pos ended: from there on it is not the open one.
func (c *collected) closed(pos int, id uint64) int {
	for pos < c.ticks()-1 && c.columns.request[pos] == id {
		pos++
	}
	return pos
}

// at returns the position of the tick that was sensed at a time, or next after
// it.
func (c *collected) at(ns int64) int {
	pos, _ := slices.BinarySearch(c.columns.sense, ns)
	return min(pos, max(c.ticks()-1, 0))
}

// isPrior reports whether the log starts with the belief of its configuration,
// without any label in it.
func (c *collected) isPrior() bool {
	if c.first == nil {
		return false
	}
	prior, err := newBelief(c.meta)
	return err == nil && prior.Hash() == c.first.Hash
}

func newBelief(m flightlog.Metadata) (*posterior.Belief, error) {
	learner, err := controller.NewLearner(m.Control, m.Shape.Latent, m.Robot.Period)
	if err != nil {
		return nil, err
	}
	return learner.Belief(), nil
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
