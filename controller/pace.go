package controller

import (
	"math"
	"time"
)

// Pace chooses κ so that the operator is asked about as often as they can
// answer. It is an integral controller in the logarithm of κ: each request
// raises κ by the factor e^½, and between requests κ falls steadily, by the
// same factor in the time that one request may take (60 s / labels_per_minute).
// Over any time T
//
//	requests = labels_per_minute · T + 2 ln(κ at its end / κ at its start)
//
// so the rate meets the budget however the D-gaps are distributed, but for a
// remainder that does not grow; except that κ never falls below gate.kappa.
// There, fewer are asked, because a label would teach too little. Time counts
// while the robot is armed and its operator can be reached.
//
// Its state is a whole number, so that replay computes it again exactly from
// the flags of the logged ticks; κ is one exponential of it.
type Pace struct {
	on        bool
	least     float64 // κ at level 0
	level     int64   // requests beyond the budget, in units of 1/perAsk
	perAsk    int64
	perPeriod int64
}

const (
	// paceStep is the change of ln κ for one request.
	paceStep = 0.5
	// paceUnit makes the budget of a period a whole number: a thousandth of
	// a label a minute.
	paceUnit = 1000
	// leastPaced is where κ begins where gate.kappa is less: a multiple of 0
	// would stay 0.
	leastPaced = 1e-3
	// mostLevel is 40 requests: κ is then e²⁰ times the least.
	mostLevel = 40
)

// NewPace makes the pace of a gate. Without labels_per_minute κ stays what the
// configuration says.
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

// Kappa is the present κ, nats.
func (p *Pace) Kappa() float64 {
	if p.level == 0 {
		return p.least
	}
	return p.least * math.Exp(paceStep*float64(p.level)/float64(p.perAsk))
}

// Pass lets periods go by in which a label could be asked for.
func (p *Pace) Pass(periods uint64) {
	p.level = max(0, p.level-int64(min(periods, maxAdvance))*p.perPeriod)
}

// Asked notes a request.
func (p *Pace) Asked() {
	if p.on {
		p.level = min(p.level+p.perAsk, mostLevel*p.perAsk)
	}
}

// Resume goes on from a κ that a tick holds, as after a gap in a log.
func (p *Pace) Resume(kappa float64) {
	if !p.on {
		return
	}
	level := math.Round(math.Log(kappa/p.least) / paceStep * float64(p.perAsk))
	if level >= 0 && level <= float64(mostLevel*p.perAsk) { // NaN is not
		p.level = int64(level)
	}
}
