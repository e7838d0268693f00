package controller

import "optibfm/rewardsrc"

// Trusts tells from the ticks of a run what share of its weight each label was
// given: what Config.Robust left of it. The agent writes the whole weight down;
// what confidence, σ and age made of it is divided out here, away from the control
// thread. Make it with NewTrusts and Add every tick, in order.
type Trusts struct {
	off     bool // labels are not doubted
	perUnit float64
	rho     float64
	rests   []rest // in order
}

// rest is periods in which labels did not age: those after tick from, up to tick to.
type rest struct{ from, to uint64 }

// Doubted is the share of its weight below which a label is called doubted: from
// there on it is written as 1.00.
const Doubted = 0.995

// maxRests is how many are remembered: labels are seconds old at most.
const maxRests = 64

// NewTrusts returns one for the ticks of an agent of this configuration.
func NewTrusts(cfg Config) *Trusts {
	return &Trusts{off: cfg.Robust == 0, perUnit: 1 / float64(cfg.Sigma*cfg.Sigma), rho: cfg.Rho}
}

// Add notes how much older labels became by a tick. Ticks that are missing before it
// count as armed.
func (x *Trusts) Add(t *Tick) {
	if x.off || x.rho == 1 || t.Elapsed == 0 || t.Flags.Has(FlagArmed) {
		return
	}
	since := t.Index - min(t.Index, t.Elapsed)
	if n := len(x.rests); n > 0 && x.rests[n-1].to >= since {
		x.rests[n-1].to = max(x.rests[n-1].to, t.Index)
		return
	}
	if len(x.rests) == maxRests {
		x.rests = append(x.rests[:0], x.rests[1:]...)
	}
	x.rests = append(x.rests, rest{since, t.Index})
}

// Of returns the share, in (0, 1], of a label of the tick that was added last; 1 is
// all of its weight. ok is false where labels are not doubted, and for what is not a
// reward that entered the belief.
func (x *Trusts) Of(t *Tick, l *AppliedLabel) (share float64, ok bool) {
	if x.off || l.Outcome != Applied || l.Kind != rewardsrc.Value {
		return 0, false
	}
	full := float64(float64(l.Confidence*x.perUnit) * decay(x.rho, x.age(l.About, t.Index)))
	share = l.Weight / full
	if !(share > 0) { // no agent wrote this
		return 0, false
	}
	return min(share, 1), true
}

// age is the number of periods between two ticks that count for forgetting.
func (x *Trusts) age(from, to uint64) uint64 {
	age := to - min(from, to)
	for _, r := range x.rests {
		if begin, end := max(r.from, from), min(r.to, to); begin < end {
			age -= end - begin
		}
	}
	return age
}
