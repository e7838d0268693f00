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

const (
	// maxReward bounds |Label.Value|: rewards are about 1, and a source that
	// is not trusted must not drive ẑ out of the planner's float32.
	maxReward = 1e9
	// maxWindow is the number of ticks that one label may be credited to: it
	// bounds what a label costs the control thread.
	maxWindow = 4096
	// maxHistory is how many bytes the features of the last ticks may take.
	maxHistory = 256 << 20
	// maxAdvance is the number of periods that one Advance lets pass: far
	// more than a control loop misses before it stops the robot.
	maxAdvance = 1 << 24
)

// ErrUnknownFeatures is returned by Reapply where the features that a label
// was credited to are not known.
var ErrUnknownFeatures = errors.New("controller: the features that the label is about are not known")

// Learner is the half of the agent that learns: the belief, the features of
// the last ticks, and the labels that were applied. It is what replay runs
// again, so it is a function of its inputs alone. Nothing in it allocates
// after NewLearner, except WarmStart.
type Learner struct {
	belief  *posterior.Belief
	past    *history
	clock   uint64  // periods that counted for forgetting
	perUnit float64 // 1/σ², the weight of a sure label
	rho     float64
	robust  float64   // surprise from which on labels are doubted; 0: never
	windows windows   // credited to labels that name no tick
	reach   int64     // how far before an empty window a state may stand in for it, ns
	phi     []float64 // scratch: φ̄ of the label at hand
	ledger  *ledger
}

// window is the part of the past that a label is about, ns before it.
type window struct{ delay, width int64 }

func newWindow(delayS, widthS float64) window {
	return window{int64(delayS * float64(time.Second)), int64(widthS * float64(time.Second))}
}

// windows are what labels that name no tick are about.
type windows struct {
	press window // of a press
	held  window // of a label of a stream
}

func newWindows(c CreditConfig) windows {
	return windows{press: newWindow(c.DelayS, c.WidthS), held: newWindow(c.Held.DelayS, c.Held.WidthS)}
}

// of returns the time that a label is about, inclusive.
func (w windows) of(l rewardsrc.Label) (since, until int64) {
	about := w.press
	if l.Mode == rewardsrc.Held {
		about = w.held
	}
	until = l.At - about.delay
	return until - about.width, until
}

// NewLearner makes a learner for features of dimension d at the given period.
func NewLearner(cfg Config, d int, period time.Duration) (*Learner, error) {
	if err := cfg.Validate(d); err != nil {
		return nil, err
	}
	if period <= 0 {
		return nil, fmt.Errorf("%w: period: found %v: use a duration above 0", ErrConfig, period)
	}
	belief, err := cfg.NewBelief(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	held, err := historyLen(cfg, d, period)
	if err != nil {
		return nil, err
	}
	return &Learner{
		belief:  belief,
		past:    newHistory(held, d),
		perUnit: 1 / float64(cfg.Sigma*cfg.Sigma),
		rho:     cfg.Rho,
		robust:  cfg.Robust,
		windows: newWindows(cfg.Credit),
		reach:   max(int64(time.Second), 2*int64(period)),
		phi:     make([]float64, d),
		ledger:  newLedger(undoable, d),
	}, nil
}

// historyLen is the number of ticks whose features are kept: a request's must
// outlive the request, and a press at its last moment the way to the control
// thread.
func historyLen(cfg Config, d int, period time.Duration) (int, error) {
	const slackS = 2
	credit := cfg.Credit
	for _, w := range []struct {
		key   string
		width float64
	}{{"credit.width_s", credit.WidthS}, {"credit.held.width_s", credit.Held.WidthS}} {
		if n := ticks(w.width, period, 0); n > maxWindow {
			return 0, fmt.Errorf("%w: %w", ErrConfig, &FieldError{
				Key: w.key, Found: fmt.Sprintf("%g (%d periods of %v)", w.width, n, period),
				Mend: fmt.Sprintf("keep it within %d periods", maxWindow),
			})
		}
	}
	longest := max(cfg.Gate.TimeoutS, credit.DelayS+credit.WidthS, credit.Held.DelayS+credit.Held.WidthS) + slackS
	n := ticks(longest, period, 64)
	if n > maxHistory/uint64(8*d) {
		return 0, fmt.Errorf("%w: %w", ErrConfig, &FieldError{
			Key: "gate.timeout_s", Found: fmt.Sprintf("%g s of features to keep (%d periods of %v)", longest, n, period),
			Mend: fmt.Sprintf("shorten timeout_s, or credit.delay_s and credit.width_s, to keep %d periods at most", maxHistory/(8*d)),
		})
	}
	return int(n), nil
}

// Belief is the learner's posterior. Callers may read it; replay restores it
// from snapshots.
func (l *Learner) Belief() *posterior.Belief { return l.belief }

// LabelWeight is 1/σ², the weight of a sure label about the present.
func (l *Learner) LabelWeight() float64 { return l.perUnit }

// Advance lets periods pass: every label loses weight, the prior stays. The
// agent calls it in every tick of an armed robot with the tick's Elapsed. More
// than 2²⁴ periods at once count as that many.
func (l *Learner) Advance(periods uint64) {
	periods = min(periods, maxAdvance)
	l.clock += periods
	if l.rho == 1 {
		return
	}
	for range periods {
		l.belief.Forget()
	}
}

// Observe remembers the features of a tick, sensed at the given time. Ticks
// count up; one that does not makes the learner forget the features before it.
func (l *Learner) Observe(tick uint64, at int64, phi []float64) {
	l.past.add(tick, at, l.clock, phi)
}

// Apply credits a label to the moment that it is about and updates the belief.
// asked is the tick of the request that it answers; it is looked at only where
// label.Request is not 0. The result says what happened; a refused label
// leaves the belief as it was. A label whose ID came before is refused,
// whatever became of it then.
func (l *Learner) Apply(label rewardsrc.Label, asked uint64) AppliedLabel {
	a := describe(label)
	if l.ledger.repeated(label.ID) {
		a.Outcome = Duplicate
		return a
	}
	switch label.Kind {
	case rewardsrc.Value:
		l.applyValue(&a, label, asked)
	case rewardsrc.Undo:
		l.undo(&a)
	case rewardsrc.CantTell:
		a.Outcome = ClosedRequest
		if label.Request == 0 {
			a.Outcome = UnknownRequest
		}
	default:
		a.Outcome = BadLabel
	}
	return a
}

// describe is what is known of a label before anything came of it.
func describe(label rewardsrc.Label) AppliedLabel {
	return AppliedLabel{ID: label.ID, Request: label.Request, Undoes: label.Undoes, Value: label.Value, Kind: label.Kind}
}

func (l *Learner) applyValue(a *AppliedLabel, label rewardsrc.Label, asked uint64) {
	confidence := label.Weight
	if confidence == 0 {
		confidence = 1
	}
	if !(math.Abs(label.Value) <= maxReward) || !(confidence > 0 && confidence <= 1) {
		a.Outcome = BadLabel
		return
	}
	from, to, ok := l.credit(label, asked)
	if !ok || l.past.mean(l.phi, from, to) == 0 {
		a.Outcome = TooOld
		return
	}
	a.From, a.To, a.Confidence = from, to, confidence
	l.weigh(a)
	if a.Outcome = l.enter(a); a.Outcome != Applied {
		a.Share = 0
	}
}

// weigh sets About, Share and Weight of a label about ticks that are held, with φ̄ in
// l.phi.
func (l *Learner) weigh(a *AppliedLabel) {
	m, _ := l.past.about(a.From, a.To)
	a.About = m.tick
	a.Share = l.share(a.Value)
	a.Weight = float64(l.weight(a.Confidence, l.clock-m.clock) * a.Share)
}

// share is the part of its weight that a reward at l.phi deserves. It follows
// from the belief alone, so that a replay finds it again from any snapshot on.
// Confidence and age are left out: they say how much a label counts, not how far
// off it may be.
func (l *Learner) share(reward float64) float64 {
	if l.robust == 0 {
		return 1
	}
	return posterior.Trust(l.belief.Surprise(l.phi, reward, l.perUnit), l.robust)
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
	if label.At < 0 { // no clock says so; below, nothing can overflow
		return 0, 0, false
	}
	since, until := l.windows.of(label)
	return l.past.window(since, until, l.reach, maxWindow)
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

// weight is what a label of this confidence and age enters the belief with, if it is
// not doubted.
func (l *Learner) weight(confidence float64, age uint64) float64 {
	return float64(float64(confidence*l.perUnit) * l.decay(age))
}

func (l *Learner) decay(age uint64) float64 { return decay(l.rho, age) }

// decay returns ρ^age by repeated squaring: the same bits everywhere.
func decay(rho float64, age uint64) float64 {
	result, base := 1.0, rho
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
	own.Share = 0
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
	if logged.Kind != rewardsrc.Value {
		own.Outcome = BadLabel
		return own, nil
	}
	if l.past.mean(l.phi, logged.From, logged.To) == 0 {
		return own, fmt.Errorf("%w: label %d about ticks %d to %d", ErrUnknownFeatures, logged.ID, logged.From, logged.To)
	}
	l.weigh(&own)
	if own.Outcome = l.enter(&logged); own.Outcome != Applied {
		own.Share = 0
	}
	return own, nil
}

// WarmStart updates the belief with n labelled features, phi [n, d] and
// reward [n], each as a sure label about the present. Call it before the
// first tick. An error changes nothing.
func (l *Learner) WarmStart(phi, reward []float64) error {
	weight := make([]float64, len(reward))
	for i := range weight {
		weight[i] = l.perUnit
	}
	if err := l.belief.UpdateBatch(phi, reward, weight); err != nil {
		return fmt.Errorf("controller: warm start: %w", err)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
