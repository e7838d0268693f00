package controller

import (
	"time"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// maxAnswerable is the number of newest requests that can still be answered.
const maxAnswerable = 16

// Gate opens requests for labels: if the D-gap is at least κ, one request at a
// time, within the limit per minute, and with growing pauses while requests
// expire. κ is fixed or follows the operator's budget ([Pace]). Requests before
// the operator's first label change neither the pauses nor κ: the operator may
// still be reading. Time is the tick index, so that replay reproduces all
// decisions.
type Gate struct {
	pace      *Pace
	weight    float64 // 1/σ²
	threshold float64 // on ‖φ‖²_{V⁻¹}: expm1(κ)·σ²
	off       bool
	timeout   uint64 // ticks
	minute    uint64 // ticks in 60 s
	pauseMin  uint64 // ticks after the first expired request
	pauseMax  uint64

	opened    []uint64 // ring of the ticks of the newest requests; one minute's limit long
	openedN   uint64
	pause     uint64 // after the next expired request; doubles with each
	notBefore uint64
	heard     bool // a label has counted

	open   rewardsrc.Request // State is 0 if none is open
	known  [maxAnswerable]knownRequest
	lastID uint64
}

type knownRequest struct {
	id, tick uint64
	closed   bool // answered
}

// NewGate makes the gate for labels of weight labelWeight = 1/σ². The
// configuration must have passed Config.Validate and the period be positive.
func NewGate(cfg GateConfig, labelWeight float64, period time.Duration) *Gate {
	pause := ticks(cfg.BackoffS, period, 0)
	pace := NewPace(cfg, period)
	return &Gate{
		pace:      pace,
		weight:    labelWeight,
		threshold: posterior.DGapThreshold(pace.Kappa(), labelWeight),
		off:       cfg.Off,
		timeout:   ticks(cfg.TimeoutS, period, 1),
		minute:    ticks(60, period, 1),
		pauseMin:  pause,
		pause:     pause,
		pauseMax:  ticks(cfg.BackoffMaxS, period, 0),
		opened:    make([]uint64, cfg.RequestsPerMinute),
	}
}

// Passes reports whether the D-gap of a state with this ‖φ‖²_{V⁻¹} is at least κ.
func (g *Gate) Passes(normSq float64) bool { return !g.off && normSq >= g.threshold }

// Advance counts periods in which requests were possible and adapts κ to the
// budget.
func (g *Gate) Advance(periods uint64) {
	if !g.pace.on {
		return
	}
	g.pace.Advance(periods)
	g.threshold = posterior.DGapThreshold(g.pace.Kappa(), g.weight)
}

// Kappa returns the present κ, nats.
func (g *Gate) Kappa() float64 { return g.pace.Kappa() }

// Resume ends the pauses, after the operator returned.
func (g *Gate) Resume() { g.pause, g.notBefore = g.pauseMin, 0 }

// Hear notes that a label counted. The first one ends the pause.
func (g *Gate) Hear() {
	if !g.heard {
		g.heard = true
		g.Resume()
	}
}

// Heard reports whether a label has counted. Until then requests do not count against the budget.
func (g *Gate) Heard() bool { return g.heard }

// Ask opens a request about the state of a tick if the limits allow it. The
// caller checks Passes first.
func (g *Gate) Ask(tick uint64, at int64, dgap float64) (rewardsrc.Request, bool) {
	if g.open.State == rewardsrc.Open || tick < g.notBefore || !g.withinLimit(tick) {
		return rewardsrc.Request{}, false
	}
	g.lastID++
	g.open = rewardsrc.Request{
		ID: g.lastID, Tick: tick, At: at, Until: tick + g.timeout, DGap: dgap, State: rewardsrc.Open,
	}
	g.known[g.lastID%maxAnswerable] = knownRequest{id: g.lastID, tick: tick}
	if g.heard {
		g.pace.Asked()
	}
	if n := uint64(len(g.opened)); n > 0 {
		g.opened[g.openedN%n] = tick
		g.openedN++
	}
	return g.open, true
}

// withinLimit reports whether fewer requests than the limit were opened in the
// last minute: the oldest of the last n is at least a minute old.
func (g *Gate) withinLimit(tick uint64) bool {
	n := uint64(len(g.opened))
	return n == 0 || g.openedN < n || tick-g.opened[g.openedN%n] >= g.minute
}

// Expire closes the open request at its timeout.
func (g *Gate) Expire(tick uint64) (rewardsrc.Request, bool) {
	if g.open.State != rewardsrc.Open || tick < g.open.Until {
		return rewardsrc.Request{}, false
	}
	g.notBefore = tick + g.pause
	if g.heard {
		g.pause = min(2*g.pause, g.pauseMax)
	}
	return g.close(rewardsrc.Expired), true
}

// Find returns the tick of an unanswered request, open or expired.
func (g *Gate) Find(id uint64) (tick uint64, outcome Outcome) {
	k := &g.known[id%maxAnswerable]
	switch {
	case id == 0 || k.id != id:
		return 0, UnknownRequest
	case k.closed:
		return 0, Duplicate
	}
	return k.tick, Applied
}

// Answer marks a request as answered and ends the pauses. If the request was
// open, Answer closes and returns it.
func (g *Gate) Answer(id uint64) (rewardsrc.Request, bool) {
	k := &g.known[id%maxAnswerable]
	if k.id != id {
		return rewardsrc.Request{}, false
	}
	k.closed = true
	g.heard = true
	g.Resume()
	if g.open.State != rewardsrc.Open || g.open.ID != id {
		return rewardsrc.Request{}, false
	}
	return g.close(rewardsrc.Answered), true
}

// Forget closes the open request as expired, without a pause. Earlier requests can no longer be
// answered.
func (g *Gate) Forget() (rewardsrc.Request, bool) {
	clear(g.known[:])
	if g.open.State != rewardsrc.Open {
		return rewardsrc.Request{}, false
	}
	return g.close(rewardsrc.Expired), true
}

func (g *Gate) close(state rewardsrc.RequestState) rewardsrc.Request {
	closed := g.open
	closed.State = state
	g.open = rewardsrc.Request{}
	return closed
}

// OpenRequest returns the ID of the open request, or 0.
func (g *Gate) OpenRequest() uint64 { return g.open.ID }
