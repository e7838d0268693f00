package collect

import (
	"math"
	"math/rand/v2"

	"optibfm/hal"
)

// strategy is the kind of exploration of an episode.
type strategy int

const (
	uniform  strategy = iota // a new uniform action in every tick
	held                     // an action for some ticks, then another
	ornstein                 // an Ornstein-Uhlenbeck process
	strategies
)

const (
	maxHold     = 25  // longest hold, in ticks
	extremePart = 0.5 // part of the held actions at a limit of their channel
	// correlatedPart is the part of the episodes with correlated channels: two
	// independent wheels seldom drive straight and fast.
	correlatedPart = 0.5
	minMemory      = 3.0 // time constant of the process in ticks, drawn between these
	maxMemory      = 40.0
)

// explorer draws exploring actions within the limits of their channels.
type explorer struct {
	channels    []hal.Channel
	rng         *rand.Rand
	strategy    strategy
	action      []float32 // in the channels' units
	unit        []float64 // the same, in [-1, 1]
	hold        int       // ticks until the next held action
	memory      float64   // ticks
	correlation float64   // of all channels with the first, in [0, 1]
}

func newExplorer(channels []hal.Channel, rng *rand.Rand) *explorer {
	return &explorer{
		channels: channels,
		rng:      rng,
		action:   make([]float32, len(channels)),
		unit:     make([]float64, len(channels)),
	}
}

// begin draws the kind of exploration of a new episode.
func (e *explorer) begin() {
	e.strategy = strategy(e.rng.IntN(int(strategies)))
	e.hold = 0
	e.memory = minMemory + (maxMemory-minMemory)*e.rng.Float64()
	e.correlation = 0
	if e.rng.Float64() < correlatedPart {
		e.correlation = e.rng.Float64()
	}
	e.draw()
}

// next returns the next action. The slice is valid until the following call.
func (e *explorer) next() []float32 {
	switch e.strategy {
	case uniform:
		e.draw()
	case held:
		e.holdOrChange()
	case ornstein:
		e.drift()
	}
	for i, c := range e.channels {
		u := e.correlation*e.unit[0] + (1-e.correlation)*e.unit[i]
		e.action[i] = float32(c.Min + (c.Max-c.Min)*(u+1)/2)
	}
	return e.action
}

func (e *explorer) draw() {
	for i := range e.unit {
		e.unit[i] = 2*e.rng.Float64() - 1
	}
}

func (e *explorer) holdOrChange() {
	if e.hold--; e.hold > 0 {
		return
	}
	e.hold = 1 + e.rng.IntN(maxHold)
	e.draw()
	for i, u := range e.unit {
		if e.rng.Float64() < extremePart {
			e.unit[i] = math.Copysign(1, u)
		}
	}
}

// drift is one step of an Ornstein-Uhlenbeck process with a standard deviation
// of 0.8, clipped to the limits, so that they are often reached.
func (e *explorer) drift() {
	keep := math.Exp(-1 / e.memory)
	kick := 0.8 * math.Sqrt(1-keep*keep)
	for i, u := range e.unit {
		e.unit[i] = min(max(keep*u+kick*e.rng.NormFloat64(), -1), 1)
	}
}
