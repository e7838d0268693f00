package controller

import (
	"time"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// remembered is the number of requests, the newest, that a late answer may
// still refer to.
const remembered = 16

// Gate decides when a label is asked for: where the D-gap is at least κ, one
// request at a time, within the limit per minute, and less often while nobody
// answers. Its κ is fixed, or follows the operator's budget ([Pace]). Its time is the tick index, so that replay decides the same.
type Gate struct {
	pace      *Pace
	weight    float64 // 1/σ²
	threshold float64 // on ‖φ‖²_{V⁻¹}: expm1(κ)·σ²
	off       bool
	timeout   uint64 // ticks
	minute    uint64 // ticks in 60 s
	pauseMin  uint64 // ticks after the first unanswered request
	pauseMax  uint64

	opened    []uint64 // ticks of the newest requests, a ring; as many as one minute may have
	openedN   uint64
	pause     uint64 // after the next unanswered request; doubles with each
	notBefore uint64

	open   rewardsrc.Request // State 0: none
	known  [remembered]known
	lastID uint64
}

type known struct {
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

// Passes reports whether a state with this ‖φ‖²_{V⁻¹} would teach enough: the
// D-gap is at least κ.
func (g *Gate) Passes(normSq float64) bool { return !g.off && normSq >= g.threshold }

// Pass lets periods go by in which a label could be asked for: κ follows the
// budget.
func (g *Gate) Pass(periods uint64) {
	if !g.pace.on {
		return
	}
	g.pace.Pass(periods)
	g.threshold = posterior.DGapThreshold(g.pace.Kappa(), g.weight)
}

// Kappa is the present κ, nats.
func (g *Gate) Kappa() float64 { return g.pace.Kappa() }

// Resume ends the pauses: whoever did not answer can be reached again.
func (g *Gate) Resume() { g.pause, g.notBefore = g.pauseMin, 0 }

// Ask opens a request about the state of a tick if the limits allow. The
// caller has checked Passes.
func (g *Gate) Ask(tick uint64, at int64, dgap float64) (rewardsrc.Request, bool) {
	if g.open.State == rewardsrc.Open || tick < g.notBefore || !g.withinLimit(tick) {
		return rewardsrc.Request{}, false
	}
	g.lastID++
	g.open = rewardsrc.Request{
		ID: g.lastID, Tick: tick, At: at, Until: tick + g.timeout, DGap: dgap, State: rewardsrc.Open,
	}
	g.known[g.lastID%remembered] = known{id: g.lastID, tick: tick}
	g.pace.Asked()
	if n := uint64(len(g.opened)); n > 0 {
		g.opened[g.openedN%n] = tick
		g.openedN++
	}
	return g.open, true
}

// withinLimit reports whether fewer than the limit were opened in the last
// minute: the oldest of the last n is at least a minute old.
func (g *Gate) withinLimit(tick uint64) bool {
	n := uint64(len(g.opened))
	return n == 0 || g.openedN < n || tick-g.opened[g.openedN%n] >= g.minute
}

// Expire closes the open request if its time is over.
func (g *Gate) Expire(tick uint64) (rewardsrc.Request, bool) {
	if g.open.State != rewardsrc.Open || tick < g.open.Until {
		return rewardsrc.Request{}, false
	}
	g.notBefore = tick + g.pause
	g.pause = min(2*g.pause, g.pauseMax)
	return g.close(rewardsrc.Expired), true
}

// Find returns the tick of a request that was not answered yet, also one that
// expired a while ago.
func (g *Gate) Find(id uint64) (tick uint64, outcome Outcome) {
	k := &g.known[id%remembered]
	switch {
	case id == 0 || k.id != id:
		return 0, UnknownRequest
	case k.closed:
		return 0, Duplicate
	}
	return k.tick, Applied
}

// Answer notes that a request was answered, which also ends the pauses. If it
// was the open one, the result is its closing notice.
func (g *Gate) Answer(id uint64) (rewardsrc.Request, bool) {
	k := &g.known[id%remembered]
	if k.id != id {
		return rewardsrc.Request{}, false
	}
	k.closed = true
	g.Resume()
	if g.open.State != rewardsrc.Open || g.open.ID != id {
		return rewardsrc.Request{}, false
	}
	return g.close(rewardsrc.Answered), true
}

func (g *Gate) close(state rewardsrc.RequestState) rewardsrc.Request {
	closed := g.open
	closed.State = state
	g.open = rewardsrc.Request{}
	return closed
}

// OpenRequest returns the ID of the open request, 0 for none.
func (g *Gate) OpenRequest() uint64 { return g.open.ID }
