package report

import (
	"errors"
	"math"
	"slices"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// maxEvents is the largest number of events in the page.
const maxEvents = 2000

// collected is the content of a log's records that the page needs, without the
// belief. The position of a tick counts the ticks of the log from 0.
type collected struct {
	meta   flightlog.Metadata
	cut    *flightlog.Cut
	size   int64
	damage []error

	summary flightlog.Summary
	columns columns

	channels channelRows
	pictures pictures

	labels   []label
	requests map[uint64]*request // by ID
	opened   []uint64            // their IDs, in order
	events   []flightlog.Event
	unlisted int // further events
	faults   []faultSpan
	episodes []uint32  // positions at which an episode starts
	plans    []float64 // planning times, ms

	lastZ []float64
}

// columns have one entry a tick.
type columns struct {
	index   []uint64
	request []uint64 // ID of the request that is open after the tick
	flags   []controller.Flags
	time    []float64 // s since the first tick
	sense   []int64
	dgap    []float64 // nats
	reward  []float64 // the simulator's, NaN without one
	age     []float64 // of z, ticks
	turn    []float64 // angle between z and the z of the tick before, degrees
	late    []float64 // ms
	busy    []float64 // ms
	skipped []float64 // periods before this tick
	state   []uint32  // flightlog.StateSum
}

// label is a label with what a tick did with it.
type label struct {
	controller.AppliedLabel
	pos int // of the tick
}

// request is a request for a label.
type request struct {
	tick  uint64
	state rewardsrc.RequestState // how it ended; Open if the log has no end
	dgap  float64
}

// faultSpan is a run of ticks with the same fault.
type faultSpan struct {
	from, to int // positions, inclusive
	fault    controller.Fault
}

// collect reads all records.
func collect(r *flightlog.Reader) (*collected, error) {
	summary, damage, err := flightlog.Summarise(r)
	if err != nil {
		return nil, err
	}
	c := &collected{
		meta: r.Metadata(), cut: r.Cut(), size: r.Size(), damage: damage, summary: summary,
		requests: make(map[uint64]*request), lastZ: make([]float64, r.Metadata().Shape.Latent),
	}
	shape := c.meta.Shape
	c.channels, c.pictures = newChannelRows(summary.Ticks, shape.Obs+shape.Action), readPictures(r, maxPictureBytes)
	for record, err := range r.Records() {
		if errors.Is(err, flightlog.ErrDamaged) {
			continue // Summarise returns it
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
	}
}

// ticks returns the number of ticks in the log.
func (c *collected) ticks() int { return len(c.columns.index) }

func (c *collected) addTick(t *controller.Tick) {
	pos := c.ticks()
	v := &c.columns
	reward := math.NaN()
	if t.Flags.Has(controller.FlagReward) {
		reward = t.Reward
	}
	v.index = append(v.index, t.Index)
	v.request = append(v.request, t.Request)
	v.flags = append(v.flags, t.Flags)
	at := flightlog.SampleTime(t)
	v.sense = append(v.sense, at)
	v.time = append(v.time, float64(at-v.sense[0])/1e9)
	v.dgap = append(v.dgap, t.DGap)
	v.reward = append(v.reward, reward)
	v.age = append(v.age, float64(t.Index-min(t.Index, t.PlanConfirmed)))
	v.turn = append(v.turn, c.turned(t.Z))
	v.late = append(v.late, float64(t.Wake-t.Deadline)/1e6)
	v.busy = append(v.busy, float64(t.Done-t.Wake)/1e6)
	v.skipped = append(v.skipped, float64(max(t.Elapsed, 1)-1))
	v.state = append(v.state, flightlog.StateSum(t.Phi))
	c.channels.add(pos, t.Obs, t.Action)
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
	if math.IsNaN(cosine) { // the first z, or zeros
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

// position returns the position of the tick with an index, or of the next tick.
func (c *collected) position(index uint64) (pos int, found bool) {
	return slices.BinarySearch(c.columns.index, index)
}

// closed returns the position of the tick in which a request that opened at pos ended.
func (c *collected) closed(pos int, id uint64) int {
	for pos < c.ticks()-1 && c.columns.request[pos] == id {
		pos++
	}
	return pos
}

// at returns the position of the first tick that was sensed at a time or later.
func (c *collected) at(ns int64) int {
	pos, _ := slices.BinarySearch(c.columns.sense, ns)
	return min(pos, max(c.ticks()-1, 0))
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
