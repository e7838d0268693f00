package controller

import (
	"math"
	"time"
)

// Pace adapts κ so that the rate of requests meets the operator's budget,
// labels_per_minute. It is an integral controller of ln κ: each request
// multiplies κ by e^½, and between requests κ decays, by the same factor in
// 60 s / labels_per_minute. Over any time T
//
//	requests = labels_per_minute · T + 2 ln(κ at the end / κ at the start)
//
// so the rate meets the budget for any distribution of D-gaps, up to a bounded
// remainder. κ never falls below gate.kappa; at this bound the rate is below the
// budget, because labels would gain too little. Time counts while the robot is
// armed and the operator can be reached.
//
// The state is an integer, so that replay reproduces it exactly from the flags
// of the logged ticks.
type Pace struct {
	on        bool
	least     float64 // κ at level 0
	level     int64   // requests in excess of the budget, in units of 1/perAsk
	perAsk    int64
	perPeriod int64
}

const (
	// paceStep is the change of ln κ for one request.
	paceStep = 0.5
	// paceUnit makes the budget of a period an integer: the resolution is a
	// thousandth of a label per minute.
	paceUnit = 1000
	// leastPaced is the lower bound of κ if gate.kappa is less: a multiple of 0
	// would remain 0.
	leastPaced = 1e-3
	// mostLevel is 40 requests: κ is then e²⁰ times its lower bound.
	mostLevel = 40
)

// NewPace returns the pace of a gate. Without labels_per_minute κ is constant.
func NewPace(cfg GateConfig, period time.Duration) *Pace {
	p := &Pace{
		on:        cfg.LabelsPerMinute > 0,
		least:     cfg.Kappa,
		perAsk:    paceUnit * int64(ticks(60, period, 1)),
		perPeriod: int64(math.Round(paceUnit * cfg.LabelsPerMinute)),
	}
	if p.on {
		p.least = max(p.least, leastPaced)
	}
	return p
}

// Kappa returns the present κ, nats.
func (p *Pace) Kappa() float64 {
	if p.level == 0 {
		return p.least
	}
	return p.least * math.Exp(paceStep*float64(p.level)/float64(p.perAsk))
}

// Advance counts periods in which requests were possible.
func (p *Pace) Advance(periods uint64) {
	p.level = max(0, p.level-int64(min(periods, maxAdvance))*p.perPeriod)
}

// Asked counts a request.
func (p *Pace) Asked() {
	if p.on {
		p.level = min(p.level+p.perAsk, mostLevel*p.perAsk)
	}
}

// Resume continues from the κ of a tick, after a gap in a log.
func (p *Pace) Resume(kappa float64) {
	if !p.on {
		return
	}
	level := math.Round(math.Log(kappa/p.least) / paceStep * float64(p.perAsk))
	if level >= 0 && level <= float64(mostLevel*p.perAsk) { // false for NaN
		p.level = int64(level)
	}
}
