package collect

import (
	"math"
	"math/rand/v2"

	"optibfm/hal"
)

// strategy is the kind of exploration of an episode.
type strategy int

const (
	uniform    strategy         = iota // a new uniform action in every tick
	held                               // an action for some ticks, then another
	ornstein                           // an Ornstein-Uhlenbeck process
	strategies                         // number of those that Begin draws
	smooth     = strategies            // held actions through a low-pass filter
	rhythm     = strategies + 1        // every channel swings with the same period
)

const (
	maxHold     = 25  // longest hold, in ticks
	extremePart = 0.5 // part of the held actions at a limit of their channel
	// correlatedPart is the part of the episodes with correlated channels: two
	// independent wheels seldom drive straight and fast.
	correlatedPart = 0.5
	minMemory      = 3.0 // time constant of the process in ticks, drawn between these
	maxMemory      = 40.0
	// Period of a rhythm in ticks, drawn between these, and how far its middle is from that of the
	// limits, at most.
	minPeriod, maxPeriod = 5.0, 50.0
	maxOffset            = 0.3
)

// Explorer draws exploring actions.
type Explorer struct {
	rng         *rand.Rand
	strategy    strategy
	drawn       []float64 // in [-1, 1]
	mixed       []float64 // the same, correlated
	low         []float64 // the same, filtered
	hold        int       // ticks until the next held action
	memory      float64   // ticks
	correlation float64   // of all channels with the first, in [0, 1]
	swings      []swing   // of a rhythm
	turn        float64   // of a rhythm in a tick, rad
}

// swing is that of a channel in a rhythm: offset + amplitude·sin(phase).
type swing struct{ offset, amplitude, phase float64 }

// NewExplorer returns an explorer that needs Begin, BeginSmooth or BeginRhythm.
func NewExplorer(channels []hal.Channel, rng *rand.Rand) *Explorer {
	n := len(channels)
	e := &Explorer{
		rng: rng, drawn: make([]float64, n), mixed: make([]float64, n), low: make([]float64, n), swings: make([]swing, n),
	}
	for i, c := range channels {
		e.low[i] = Failsafe(c)
	}
	return e
}

// Failsafe returns the failsafe output of an action channel in [-1, 1], the range of its limits.
func Failsafe(c hal.Channel) float64 { return 2*(c.Failsafe-c.Min)/(c.Max-c.Min) - 1 }

// Begin draws the kind of exploration of a simulator's new episode.
func (e *Explorer) Begin() { e.begin(strategy(e.rng.IntN(int(strategies)))) }

// BeginSmooth changes the speed of an exploration without jumps, for a robot with mass. It starts
// from the failsafe output.
func (e *Explorer) BeginSmooth() { e.begin(smooth) }

// BeginRhythm makes every channel swing with the same period, as the joints of legs do that walk.
// The period, and the amplitude and phase of each channel, are random.
func (e *Explorer) BeginRhythm() {
	e.strategy, e.correlation = rhythm, 0
	e.turn = 2 * math.Pi / (minPeriod * math.Pow(maxPeriod/minPeriod, e.rng.Float64()))
	for i := range e.swings {
		e.swings[i] = swing{
			offset: maxOffset * (2*e.rng.Float64() - 1), amplitude: e.rng.Float64(), phase: 2 * math.Pi * e.rng.Float64(),
		}
	}
}

func (e *Explorer) begin(s strategy) {
	e.strategy = s
	e.hold = 0
	e.memory = minMemory + (maxMemory-minMemory)*e.rng.Float64()
	e.correlation = 0
	if e.rng.Float64() < correlatedPart {
		e.correlation = e.rng.Float64()
	}
	e.draw()
}

// Next returns the next action. Each element is in [-1, 1], the range of its channel's limits. The
// slice is valid until the following call.
func (e *Explorer) Next() []float64 {
	switch e.strategy {
	case uniform:
		e.draw()
	case held, smooth:
		e.holdOrChange()
	case ornstein:
		e.drift()
	case rhythm:
		e.swing()
	}
	for i := range e.mixed {
		e.mixed[i] = e.correlation*e.drawn[0] + (1-e.correlation)*e.drawn[i]
	}
	if e.strategy != smooth {
		return e.mixed
	}
	for i, u := range e.mixed {
		e.low[i] += (u - e.low[i]) / e.memory
	}
	return e.low
}

func (e *Explorer) draw() {
	for i := range e.drawn {
		e.drawn[i] = 2*e.rng.Float64() - 1
	}
}

func (e *Explorer) holdOrChange() {
	if e.hold--; e.hold > 0 {
		return
	}
	e.hold = 1 + e.rng.IntN(maxHold)
	e.draw()
	for i, u := range e.drawn {
		if e.rng.Float64() < extremePart {
			e.drawn[i] = math.Copysign(1, u)
		}
	}
}

// drift is one step of an Ornstein-Uhlenbeck process with a standard deviation
// of 0.8, clipped to the limits, so that they are often reached.
func (e *Explorer) drift() {
	keep := math.Exp(-1 / e.memory)
	kick := 0.8 * math.Sqrt(1-keep*keep)
	for i, u := range e.drawn {
		e.drawn[i] = min(max(keep*u+kick*e.rng.NormFloat64(), -1), 1)
	}
}

func (e *Explorer) swing() {
	for i := range e.swings {
		s := &e.swings[i]
		e.drawn[i] = min(max(s.offset+s.amplitude*math.Sin(s.phase), -1), 1)
		s.phase += e.turn
	}
}
