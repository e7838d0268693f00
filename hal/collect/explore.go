package collect

import (
	"math"
	"math/rand/v2"

	"optibfm/hal"
)

// manner is how an episode explores.
type manner int

const (
	fresh  manner = iota // another uniform action every tick
	held                 // an action for a while, then another
	wander               // a random walk that drifts back to the middle
	manners
)

const (
	maxHold     = 25  // ticks for which an action is held at most
	extremePart = 0.5 // part of the held actions that are a limit of their channel
	// togetherPart is the part of the episodes in which the channels move
	// together more or less: two wheels that are drawn independently seldom
	// drive straight and fast.
	togetherPart = 0.5
	minMemory    = 3.0 // ticks in which a wandering action forgets, drawn between these
	maxMemory    = 40.0
)

// explorer draws exploring actions within the limits of their channels.
type explorer struct {
	channels []hal.Channel
	rng      *rand.Rand
	manner   manner
	action   []float32 // in the channels' units
	unit     []float64 // the same, in [-1, 1]
	hold     int       // ticks until the next held action
	memory   float64   // ticks
	together float64   // how far all channels follow the first, in [0, 1]
}

func newExplorer(channels []hal.Channel, rng *rand.Rand) *explorer {
	return &explorer{
		channels: channels,
		rng:      rng,
		action:   make([]float32, len(channels)),
		unit:     make([]float64, len(channels)),
	}
}

// begin chooses a manner for another episode.
func (e *explorer) begin() {
	e.manner = manner(e.rng.IntN(int(manners)))
	e.hold = 0
	e.memory = minMemory + (maxMemory-minMemory)*e.rng.Float64()
	e.together = 0
	if e.rng.Float64() < togetherPart {
		e.together = e.rng.Float64()
	}
	e.uniform()
}

// next is the next action. The slice is valid until the following call.
func (e *explorer) next() []float32 {
	switch e.manner {
	case fresh:
		e.uniform()
	case held:
		e.holdOrChange()
	case wander:
		e.drift()
	}
	for i, c := range e.channels {
		u := e.together*e.unit[0] + (1-e.together)*e.unit[i]
		e.action[i] = float32(c.Min + (c.Max-c.Min)*(u+1)/2)
	}
	return e.action
}

func (e *explorer) uniform() {
	for i := range e.unit {
		e.unit[i] = 2*e.rng.Float64() - 1
	}
}

func (e *explorer) holdOrChange() {
	if e.hold--; e.hold > 0 {
		return
	}
	e.hold = 1 + e.rng.IntN(maxHold)
	e.uniform()
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
