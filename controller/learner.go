package controller

import (
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// undoable is the number of labels that can be taken back.
const undoable = 256

// ErrUnknownFeatures is returned by Reapply where the features that a label
// was credited to are not known.
var ErrUnknownFeatures = errors.New("controller: the features that the label is about are not known")

// Learner is the half of the agent that learns: the belief, the features of
// the last ticks, and the labels that were applied. It is what replay runs
// again, so it is a function of its inputs alone. Nothing in it allocates
// after NewLearner, except Reset and WarmStart.
type Learner struct {
	belief  *posterior.Belief
	past    *history
	clock   uint64  // periods that counted for forgetting
	newest  uint64  // the last tick observed
	perUnit float64 // 1/σ², the weight of a sure label
	rho     float64
	delay   int64 // credit window, ns
	width   int64
	phi     []float64 // scratch: φ̄ of the label at hand
	ledger  ledger
}

// NewLearner makes a learner for features of dimension d at the given period.
func NewLearner(cfg Config, d int, period time.Duration) (*Learner, error) {
	if err := cfg.Validate(d); err != nil {
		return nil, err
	}
	if period <= 0 {
		return nil, fmt.Errorf("%w: period: found %v: use a duration above 0", ErrConfig, period)
	}
	belief, err := cfg.newBelief(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	// A request's features must outlive the request, and a press that came
	// at its last moment the way to the control thread.
	const slackS = 2
	longest := max(cfg.Gate.TimeoutS, cfg.Credit.DelayS+cfg.Credit.WidthS) + slackS
	return &Learner{
		belief:  belief,
		past:    newHistory(int(ticks(longest, period, 64)), d),
		perUnit: 1 / float64(cfg.Sigma*cfg.Sigma),
		rho:     cfg.Rho,
		delay:   int64(cfg.Credit.DelayS * float64(time.Second)),
		width:   int64(cfg.Credit.WidthS * float64(time.Second)),
		phi:     make([]float64, d),
		ledger:  newLedger(undoable, d),
	}, nil
}

// Belief is the learner's posterior. Callers may read it.
func (l *Learner) Belief() *posterior.Belief { return l.belief }

// LabelWeight is 1/σ², the weight of a sure label about the present.
func (l *Learner) LabelWeight() float64 { return l.perUnit }

// Advance lets periods pass: every label loses weight, the prior stays.
func (l *Learner) Advance(periods uint64) {
	l.clock += periods
	if l.rho == 1 {
		return
	}
	for range periods {
		l.belief.Forget()
	}
}

// Observe remembers the features of a tick, sensed at the given time.
func (l *Learner) Observe(tick uint64, at int64, phi []float64) {
	l.newest = tick
	l.past.add(tick, at, l.clock, phi)
}

// Apply credits a label to the moment that it is about and updates the belief.
// asked is the tick of the request that it answers; it is looked at only where
// label.Request is not 0. The result says what happened; a refused label
// leaves the belief as it was.
func (l *Learner) Apply(label rewardsrc.Label, asked uint64) AppliedLabel {
	a := AppliedLabel{ID: label.ID, Request: label.Request, Undoes: label.Undoes, Value: label.Value, Kind: label.Kind}
	switch label.Kind {
	case rewardsrc.Value:
		l.applyValue(&a, label, asked)
	case rewardsrc.Undo:
		l.undo(&a)
	case rewardsrc.CantTell:
		a.Outcome = ClosedRequest
	default:
		a.Outcome = BadLabel
	}
	return a
}

func (l *Learner) applyValue(a *AppliedLabel, label rewardsrc.Label, asked uint64) {
	confidence := label.Weight
	if confidence == 0 {
		confidence = 1
	}
	if !finite(label.Value) || !(confidence > 0 && confidence <= 1) {
		a.Outcome = BadLabel
		return
	}
	var ok bool
	a.From, a.To, ok = l.credit(label, asked)
	if !ok || l.past.mean(l.phi, a.From, a.To) == 0 {
		a.Outcome = TooOld
		return
	}
	about, age := l.about(a.From, a.To)
	a.About = about
	a.Confidence = confidence
	a.Weight = l.weight(confidence, age)
	a.Outcome = l.enter(a)
}

// enter updates the belief with φ̄ in l.phi and writes the label down.
func (l *Learner) enter(a *AppliedLabel) Outcome {
	if !(a.Weight > 0) { // so old that its weight is 0: nothing to learn from it
		return TooOld
	}
	if err := l.belief.Update(l.phi, a.Value, a.Weight); err != nil {
		return BadLabel
	}
	l.ledger.add(a.ID, l.clock, a.Value, a.Weight, l.phi)
	return Applied
}

// credit says which ticks a label is about.
func (l *Learner) credit(label rewardsrc.Label, asked uint64) (from, to uint64, ok bool) {
	switch {
	case label.Request != 0:
		return asked, asked, true
	case label.Tick != rewardsrc.NoTick:
		return label.Tick, label.Tick, true
	}
	until := label.At - l.delay
	return l.past.window(l.newest, until-l.width, until)
}

// about returns the tick that sets the age of a label about from..to, the one
// in the middle or the next before it that is held, and its age in periods.
func (l *Learner) about(from, to uint64) (tick, age uint64) {
	middle := from + (to-from)/2
	for t := middle; ; t-- {
		if m, _, ok := l.past.find(t); ok {
			return t, l.clock - m.clock
		}
		if t == from {
			break
		}
	}
	for t := middle + 1; t <= to; t++ { // only the later half is held
		if m, _, ok := l.past.find(t); ok {
			return t, l.clock - m.clock
		}
	}
	return to, 0
}

// undo takes a label back with the weight that it has by now.
func (l *Learner) undo(a *AppliedLabel) {
	e := l.ledger.find(a.Undoes)
	if e == nil {
		a.Outcome = NothingToUndo
		return
	}
	a.Undoes, a.Value = e.id, e.reward
	a.Weight = float64(e.weight * l.decay(l.clock-e.clock))
	a.Outcome = l.leave(a, e)
}

func (l *Learner) leave(a *AppliedLabel, e *entry) Outcome {
	if !(a.Weight > 0) { // wholly forgotten: it no longer counts
		return NothingToUndo
	}
	if err := l.belief.Downdate(e.phi, e.reward, a.Weight); err != nil {
		return NothingToUndo
	}
	e.counts = false
	return Applied
}

// weight is what a label of this confidence and age enters the belief with.
func (l *Learner) weight(confidence float64, age uint64) float64 {
	return float64(float64(confidence*l.perUnit) * l.decay(age))
}

// decay returns ρ^age by repeated squaring: the same bits everywhere.
func (l *Learner) decay(age uint64) float64 {
	result, base := 1.0, l.rho
	for ; age > 0; age >>= 1 {
		if age&1 == 1 {
			result = float64(result * base)
		}
		base = float64(base * base)
	}
	return result
}

// Reapply repeats what a log says was applied: the credited ticks, the value
// and the weight are taken from logged. It returns what this learner would
// have made of it, for comparison. ErrUnknownFeatures: the features of those
// ticks were never observed here, and the belief is unchanged.
func (l *Learner) Reapply(logged AppliedLabel) (AppliedLabel, error) {
	own := logged
	if logged.Outcome != Applied {
		return own, nil
	}
	if logged.Kind == rewardsrc.Undo {
		e := l.ledger.find(logged.Undoes)
		if e == nil {
			return own, fmt.Errorf("%w: label %d, which label %d takes back", ErrUnknownFeatures, logged.Undoes, logged.ID)
		}
		own.Weight = float64(e.weight * l.decay(l.clock-e.clock))
		own.Outcome = l.leave(&logged, e)
		return own, nil
	}
	if l.past.mean(l.phi, logged.From, logged.To) == 0 {
		return own, fmt.Errorf("%w: label %d about ticks %d to %d", ErrUnknownFeatures, logged.ID, logged.From, logged.To)
	}
	about, age := l.about(logged.From, logged.To)
	own.About = about
	own.Weight = l.weight(logged.Confidence, age)
	own.Outcome = l.enter(&logged)
	return own, nil
}

// WarmStart updates the belief with n labelled features, phi [n, d] and
// reward [n], each as a sure label about the present. Call it before the
// first tick.
func (l *Learner) WarmStart(phi, reward []float64) error {
	weight := make([]float64, len(reward))
	for i := range weight {
		weight[i] = l.perUnit
	}
	return l.belief.UpdateBatch(phi, reward, weight)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
