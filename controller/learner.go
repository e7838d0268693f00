package controller

import (
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// undoable is the number of newest labels that can be undone.
const undoable = 256

const (
	// maxReward bounds |Label.Value|: rewards are about 1, and an untrusted
	// source must not drive ẑ out of the planner's float32 range.
	maxReward = 1e9
	// maxWindow is the number of ticks that one label may be credited to. It
	// bounds the time of a label on the control thread.
	maxWindow = 4096
	// maxHistory is the memory limit for the features of the last ticks, bytes.
	maxHistory = 256 << 20
	// maxAdvance is the largest number of periods of one Advance: far more than
	// a control loop misses before it stops the robot.
	maxAdvance = 1 << 24
)

// ErrUnknownFeatures is wrapped by the errors of Reapply and Resettle if the learner does not have
// the data of the logged label: features, an earlier label or a former task.
var ErrUnknownFeatures = errors.New("controller: the learner does not have the data of the logged label")

// Learner holds the belief, the features of the last ticks and the applied
// labels. Replay runs it again, so it is a function of its inputs alone. After
// NewLearner only WarmStart allocates.
type Learner struct {
	belief      *posterior.Belief
	basis       *Basis  // of the belief; nil: that of z
	offset      float64 // the constant feature of the offset; 0: none
	labels      labelScale
	lambda      float64
	noise       noiseModel
	predicts    bool // count predicted labels
	predictions predictions
	minSpacing  uint64    // least ticks between two labels that count in predictions
	counted     uint64    // tick of the newest counted label
	evidence    *evidence // nil: none
	former      formerTask
	unsettled   int // ticks until Settle has checked all labels
	history     *history
	clock       uint64  // armed periods: the time of forgetting
	moved       uint64  // of these, the periods of the present tick
	labelWeight float64 // 1/σ², the weight of a label of confidence 1
	rho         float64
	windows     windows   // for labels without a tick
	clip        uint64    // answers are about this number of ticks around the request; 0: see windows
	reaction    *reaction // nil: the moment of a press is not estimated
	compared    uint64    // ticks between the moments of a comparison; 0: no comparisons
	maxGap      int64     // largest gap between an empty window and the state used for it, ns
	phi         []float64 // scratch: features of a label
	x           []float64 // scratch of the basis, and of the earlier moment of a comparison
	ledger      *ledger
}

// window is the time that a label is about, in ns before the label.
type window struct{ delay, width int64 }

func newWindow(delayS, widthS float64) window {
	return window{int64(delayS * float64(time.Second)), int64(widthS * float64(time.Second))}
}

// windows are the credit windows of labels without a tick.
type windows struct {
	press      window
	held       window // for a label of a stream
	untilPress bool   // answers are about all states until the press
	compared   int64  // time between the moments of a comparison, ns
}

func newWindows(c CreditConfig) windows {
	return windows{
		press: newWindow(c.DelayS, c.WidthS), held: newWindow(c.Held.DelayS, c.Held.WidthS),
		untilPress: c.Answers == UntilPress, compared: newWindow(c.CompareS, 0).delay,
	}
}

// interval returns the time that a label is about, inclusive.
func (w windows) interval(l rewardsrc.Label) (since, until int64) {
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
		return nil, fmt.Errorf("%w: period: found %v; use a duration above 0", ErrConfig, period)
	}
	belief, err := cfg.NewBelief(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	pressMoments, err := newReaction(cfg, d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	historyTicks, err := historyLen(cfg, belief.Dim(), period)
	if err != nil {
		return nil, err
	}
	labelEvidence, err := newEvidence(cfg, d, period)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	former, err := newFormerTask(cfg, d, period)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	l := &Learner{
		belief:      belief,
		basis:       cfg.basis(),
		offset:      cfg.Offset,
		labels:      cfg.labelScale(),
		lambda:      cfg.Lambda,
		noise:       newNoiseModel(cfg),
		predicts:    cfg.Gate.Predicts(),
		minSpacing:  minSpacing(cfg.Gate, period),
		evidence:    labelEvidence,
		former:      former,
		unsettled:   SettlingTicks,
		history:     newHistory(historyTicks, belief.Dim()),
		labelWeight: cfg.labelWeight(),
		rho:         cfg.Rho,
		windows:     newWindows(cfg.Credit),
		reaction:    pressMoments,
		compared:    ticks(cfg.Credit.CompareS, period, 0),
		maxGap:      max(int64(time.Second), 2*int64(period)),
		phi:         make([]float64, belief.Dim()),
		x:           make([]float64, belief.Dim()),
		ledger:      newLedger(undoable, belief.Dim()),
	}
	if cfg.Credit.Answers == AtClip {
		l.clip = min(uint64(Clip/period), maxWindow/2)
	}
	return l, nil
}

// historyLen returns the number of ticks in the history: enough for an answer
// at the timeout of its request, and for the delay of a press.
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
				Fix: fmt.Sprintf("keep it within %d periods", maxWindow),
			})
		}
	}
	delayS := credit.DelayS
	if credit.Answers == Estimated {
		delayS = max(delayS, time.Duration(pressDelays[moments-shorter-1]).Seconds())
	}
	longest := slackS + max(cfg.Gate.TimeoutS, delayS+credit.WidthS+credit.CompareS,
		credit.Held.DelayS+credit.Held.WidthS)
	n := ticks(longest, period, 64)
	if n > maxHistory/uint64(8*d) {
		return 0, fmt.Errorf("%w: %w", ErrConfig, &FieldError{
			Key:   "gate.timeout_s",
			Found: fmt.Sprintf("a history of %g s (%d periods of %v)", longest, n, period),
			Fix: fmt.Sprintf("shorten gate.timeout_s, credit.delay_s, credit.width_s, credit.compare_s or the keys of "+
				"credit.held, to at most %d periods", maxHistory/(8*d)),
		})
	}
	return int(n), nil
}

// Belief returns the learner's posterior. Callers may read it; replay restores
// it from snapshots.
func (l *Learner) Belief() *posterior.Belief { return l.belief }

// LabelWeight returns 1/σ², the weight of a label of confidence 1 and age 0.
func (l *Learner) LabelWeight() float64 { return l.labelWeight }

// Advance forgets: each label loses weight, the prior remains. The agent calls
// it in every tick of an armed robot with the tick's Elapsed. More than 2²⁴
// periods count as 2²⁴.
func (l *Learner) Advance(periods uint64) {
	periods = min(periods, maxAdvance)
	l.clock += periods
	l.moved = periods
	if l.rho == 1 {
		return
	}
	for range periods {
		l.belief.Forget()
		if l.former.open {
			l.former.belief.Forget()
		}
	}
}

// Observe stores the features of a tick with φ [d] and the observation [O], sensed at the given
// time. A tick that is not newer than the newest clears the history first.
func (l *Learner) Observe(tick uint64, at int64, phi []float64, obs []float32) {
	l.features(l.phi, phi, obs)
	l.observe(tick, at)
}

// observe stores the features in l.phi, where Gain leaves them.
func (l *Learner) observe(tick uint64, at int64) {
	l.history.add(tick, at, l.clock, l.phi)
	l.evidence.averageExpected(l.belief, l.phi, l.moved)
	l.moved = 0
}

// Gain returns the information that a label at φ [d] and an observation [O] would give about the
// task: the D-gap is log(1 + LabelWeight·Gain). See posterior.Belief.Gain.
func (l *Learner) Gain(phi []float64, obs []float32) float64 {
	l.features(l.phi, phi, obs)
	return l.belief.Gain(l.phi, l.labelWeight)
}

// Noise returns the estimate of the noise and the number of labels. Restore sets it.
func (l *Learner) Noise() NoiseState { return l.noise.state }

// Restore sets the belief from a posterior.Belief.State of the same λ and ρ, and the estimate of
// the noise. After an error both are unchanged. O(d²).
func (l *Learner) Restore(state []float64, noise NoiseState) error {
	if !noise.possible() {
		return fmt.Errorf("controller: impossible noise (%+v)", noise)
	}
	if err := l.belief.Restore(state); err != nil {
		return err
	}
	l.noise.state = noise
	l.unsettled = SettlingTicks
	l.reaction.restart(l.belief)
	return nil
}

// SwitchTask is Restore for the belief of another task. Earlier labels can no longer be undone,
// and earlier ticks can no longer be labelled. O(d²).
func (l *Learner) SwitchTask(state []float64, noise NoiseState) error {
	if err := l.Restore(state, noise); err != nil {
		return err
	}
	l.ledger.forget()
	l.predictions = predictions{}
	l.former.open, l.former.fresh = false, false
	if l.evidence != nil {
		l.evidence.restart(changedAt)
	}
	l.history.n = 0
	return nil
}

// WriteBelief writes the belief to a state, with its hash, scale and noise.
func (l *Learner) WriteBelief(s *State) {
	l.belief.State(s.Belief)
	s.Hash, s.Scale, s.Noise = l.belief.Hash(), l.Scale(), l.Noise()
}

// Sigma returns the present σ of a label's noise, in the unit of labels.
func (l *Learner) Sigma() float64 { return float64(l.noise.sigma() * l.labels.unit) }

// Scale returns the standard deviation of z in units of R⁻¹: the σ of the belief's labels if it is
// estimated, else 1.
func (l *Learner) Scale() float64 { return l.noise.scale() }

// Zero returns the mean of the operator's zero: the label of a state with the mean features.
func (l *Learner) Zero() float64 { return l.labels.label(float64(l.offset * l.belief.FirstNuisance())) }

// Predicted returns the number of the newest labels that the belief predicted, if Config.Gate has
// StopWhenLearnt or Relearn. With Relearn, it counts labels half a second apart. An undo does not
// change it.
func (l *Learner) Predicted() Predicted { return l.predictions.summary() }

// features writes the belief's features of φ [d] and an observation [O] to dst [Belief.Dim].
// Without an observation the residuals are 0.
func (l *Learner) features(dst, phi []float64, obs []float32) {
	if l.offset > 0 {
		dst[0] = l.offset
		dst = dst[1:]
	}
	if l.basis == nil {
		copy(dst, phi)
		return
	}
	l.basis.features(dst, l.x[:len(dst)], phi, obs)
}

// Apply credits a label to its moment and updates the belief. asked is the tick
// of the request that the label answers; it is ignored if label.Request is 0. A
// refused label does not change the belief. Apply refuses a label with a known ID, whatever the
// outcome of the first one.
func (l *Learner) Apply(label rewardsrc.Label, asked uint64) AppliedLabel {
	a := newAppliedLabel(label)
	if l.ledger.repeated(label.ID) {
		a.Outcome = Duplicate
		return a
	}
	switch {
	case label.Kind.Teaches():
		l.applyValue(&a, label, asked)
	case label.Kind == rewardsrc.Undo:
		l.undo(&a)
	case label.Kind == rewardsrc.Keep:
		a.Outcome = l.keep()
	case label.Kind == rewardsrc.CantTell:
		a.Outcome = ClosedRequest
		if label.Request == 0 {
			a.Outcome = UnknownRequest
		}
	default:
		a.Outcome = BadLabel
	}
	return a
}

// newAppliedLabel copies the fields of a label that do not depend on its outcome.
func newAppliedLabel(label rewardsrc.Label) AppliedLabel {
	return AppliedLabel{
		ID: label.ID, Request: label.Request, Undoes: label.Undoes, Value: label.Value, Kind: label.Kind,
	}
}

// ApplyTo is Apply for a label with a value about the ticks [from, to].
func (l *Learner) ApplyTo(label rewardsrc.Label, from, to uint64) AppliedLabel {
	a := newAppliedLabel(label)
	if l.ledger.repeated(label.ID) {
		a.Outcome = Duplicate
		return a
	}
	l.applyValueTo(&a, label, from, to)
	return a
}

func (l *Learner) applyValue(a *AppliedLabel, label rewardsrc.Label, asked uint64) {
	from, to, ok := l.creditedTicks(label, asked)
	if l.reaction.estimates(label) {
		a.At, a.Asked = label.At, asked
		if label.Request == 0 {
			a.Asked = rewardsrc.NoTick
		}
		from, to, ok = l.likelyTicks(a)
	}
	if !ok {
		from, to = rewardsrc.NoTick, rewardsrc.NoTick // not in the history
	}
	l.applyValueTo(a, label, from, to)
}

func (l *Learner) applyValueTo(a *AppliedLabel, label rewardsrc.Label, from, to uint64) {
	confidence := label.Weight
	if confidence == 0 {
		confidence = 1
	}
	if !(math.Abs(l.labels.learnt(label.Kind, label.Value)) <= maxReward) || !(confidence > 0 && confidence <= 1) {
		a.Outcome = BadLabel
		return
	}
	if !l.credited(label.Kind, from, to) {
		a.Outcome = TooOld
		return
	}
	a.From, a.To, a.Confidence = from, to, confidence
	l.setWeight(a)
	a.Outcome = l.update(a)
}

// credited writes the features of a label about the ticks [from, to] to l.phi. It returns false if
// the history does not have them.
func (l *Learner) credited(kind rewardsrc.Kind, from, to uint64) bool {
	if l.history.mean(l.phi, from, to) == 0 {
		return false
	}
	switch kind {
	case rewardsrc.Comparison: // the offset cancels
		if l.compared == 0 || from < l.compared || l.history.mean(l.x, from-l.compared, to-l.compared) == 0 {
			return false
		}
		for i, x := range l.x {
			l.phi[i] -= x
		}
	case rewardsrc.Goal: // relative to the average state, which has the features 0
		if l.offset > 0 {
			l.phi[0] = 0
		}
	}
	return true
}

// FirstTick returns the first tick that an applied label is about.
func (l *Learner) FirstTick(a *AppliedLabel) uint64 {
	if a.Kind == rewardsrc.Comparison {
		return a.From - min(a.From, l.compared)
	}
	return a.From
}

// Weights relative to that of a value. A comparison has twice the variance of a value's noise, a
// goal a quarter.
const (
	comparisonWeight = 0.5
	goalWeight       = 4
)

func kindWeight(kind rewardsrc.Kind) float64 {
	switch kind {
	case rewardsrc.Comparison:
		return comparisonWeight
	case rewardsrc.Goal:
		return goalWeight
	}
	return 1
}

// setWeight sets About and Weight of a label. The history must hold ticks from a.From to a.To.
func (l *Learner) setWeight(a *AppliedLabel) {
	m, _ := l.history.middle(a.From, a.To)
	a.About = m.tick
	a.Weight = float64(l.weight(a.Confidence, l.clock-m.clock) * kindWeight(a.Kind))
}

// minSpacing returns the smallest number of ticks between two labels that Relearn counts.
// Predictions of labels in successive ticks are not independent.
func minSpacing(g GateConfig, period time.Duration) uint64 {
	if !g.Relearn {
		return 0
	}
	return ticks(0.5, period, 1)
}

// update updates the belief with φ̄ in l.phi and records the label in the ledger.
func (l *Learner) update(given *AppliedLabel) Outcome {
	a := *given
	if !(a.Weight > 0) { // so old that its weight is 0
		return TooOld
	}
	a.Value = l.labels.learnt(a.Kind, a.Value)
	surprise := 0.0
	if l.noise.Estimate || l.predicts {
		surprise = l.belief.Surprise(l.phi, a.Value, a.Weight)
	}
	counts := l.predicts && (l.predictions.count == 0 || a.About >= l.counted+l.minSpacing)
	l.evidence.add(l, &a, counts)
	if err := l.belief.Update(l.phi, a.Value, a.Weight); err != nil {
		l.evidence.drop()
		return BadLabel
	}
	l.considerMoments(&a)
	if counts {
		l.predictions.add(surprise / l.noise.sigma())
		l.counted = a.About
	}
	l.noise.add(surprise)
	l.noise.state.Labels++
	l.unsettled = SettlingTicks
	e := l.ledger.add(a.ID, l.clock, a.Value, a.Weight, l.learnFormer(a.Value, a.Weight), l.phi)
	e.given = given.Value
	return Applied
}

// creditedTicks returns the ticks that a label is about.
func (l *Learner) creditedTicks(label rewardsrc.Label, asked uint64) (from, to uint64, ok bool) {
	switch {
	case label.Request != 0:
		from, to = l.answeredTicks(label, asked)
		return from, to, true
	case label.Tick != rewardsrc.NoTick:
		return label.Tick, label.Tick, true
	}
	if label.At < 0 { // invalid; a negative time could overflow below
		return 0, 0, false
	}
	since, until := l.windows.interval(label)
	return l.history.window(since, until, l.maxGap, maxWindow)
}

// answerMemory is the longest time before a press that an answer is about, ns.
const answerMemory = int64(time.Second)

// answeredTicks returns the ticks that an answer is about.
func (l *Learner) answeredTicks(label rewardsrc.Label, asked uint64) (from, to uint64) {
	if l.clip > 0 {
		return l.shown(asked)
	}
	if !l.windows.untilPress || label.At < 0 {
		return asked, asked
	}
	return l.seenUntil(label, asked)
}

// Clip is the time before and after a request that the console repeats. A person judges a motion:
// one moment of a gait is not like the next.
const Clip = 500 * time.Millisecond

// shown returns the ticks of the clip around a request. The history has no ticks in which the robot
// was held or moved to a pose.
func (l *Learner) shown(asked uint64) (from, to uint64) {
	lo, hi := l.history.span(asked-min(asked, l.clip), asked+l.clip)
	if lo >= hi {
		return asked, asked
	}
	return l.history.moment(lo).tick, l.history.moment(hi - 1).tick
}

// seenUntil returns the ticks that the operator saw between the request and an answer, at most a
// second.
func (l *Learner) seenUntil(label rewardsrc.Label, asked uint64) (from, to uint64) {
	_, until := l.windows.interval(label)
	from, to, ok := l.history.window(until-answerMemory, until, l.maxGap, maxWindow)
	if !ok || to <= asked {
		return asked, asked
	}
	return max(from, asked), to
}

// undo removes a label with its current weight.
func (l *Learner) undo(a *AppliedLabel) {
	e := l.ledger.find(a.Undoes)
	if e == nil {
		a.Outcome = NothingToUndo
		return
	}
	a.Undoes, a.Value = e.id, e.given
	l.age(e)
	a.Weight = e.weight
	a.Outcome = l.downdate(a, e)
}

func (l *Learner) downdate(a *AppliedLabel, e *entry) Outcome {
	if !(a.Weight > 0) { // completely forgotten
		return NothingToUndo
	}
	if err := l.belief.Downdate(e.phi, e.reward, a.Weight); err != nil {
		return NothingToUndo
	}
	l.forgetFormer(e)
	l.evidence.drop()
	e.active = false
	l.noise.state.Labels -= min(l.noise.state.Labels, 1) // an earlier version saved no count
	l.unsettled = SettlingTicks
	return Applied
}

// weight returns the weight of a label with this confidence and age, without the factor of its
// kind.
func (l *Learner) weight(confidence float64, age uint64) float64 {
	return float64(float64(confidence*l.labelWeight) * l.decay(age))
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

// Reapply repeats a logged update with the logged ticks, value and weight. It returns the result of
// this learner for comparison. An error wraps ErrUnknownFeatures, and the belief is unchanged.
func (l *Learner) Reapply(logged AppliedLabel) (AppliedLabel, error) {
	own := logged
	if logged.Outcome != Applied {
		return own, nil
	}
	if logged.Kind == rewardsrc.Undo {
		e := l.ledger.find(logged.Undoes)
		if e == nil {
			return own, fmt.Errorf("%w: label %d, undone by label %d", ErrUnknownFeatures, logged.Undoes, logged.ID)
		}
		l.age(e)
		own.Weight = e.weight
		own.Outcome = l.downdate(&logged, e)
		return own, nil
	}
	if logged.Kind == rewardsrc.Keep {
		if own.Outcome = l.keep(); own.Outcome != Applied {
			return own, fmt.Errorf("%w: the former task that label %d keeps", ErrUnknownFeatures, logged.ID)
		}
		return own, nil
	}
	if !logged.Kind.Teaches() {
		own.Outcome = BadLabel
		return own, nil
	}
	if !l.credited(logged.Kind, logged.From, logged.To) {
		return own, fmt.Errorf("%w: label %d about ticks %d to %d",
			ErrUnknownFeatures, logged.ID, logged.From, logged.To)
	}
	l.setWeight(&own)
	if l.reaction != nil && logged.At != 0 {
		own.From, own.To, _ = l.likelyTicks(&logged)
	}
	own.Outcome = l.update(&logged)
	return own, nil
}

// WarmStart updates the belief with n labelled features, phi [n, d] and reward [n], each with
// confidence 1 and age 0, as rewards without residuals. Call it before the first tick. After an
// error the belief is unchanged.
func (l *Learner) WarmStart(phi, reward []float64) error {
	if len(reward) == 0 || len(phi)%len(reward) != 0 || len(phi)/len(reward) != l.belief.TaskDim() {
		return fmt.Errorf("controller: warm start: %d features for %d labels of a task of dimension %d; give [n, d]",
			len(phi), len(reward), l.belief.TaskDim())
	}
	d, dim := l.belief.TaskDim(), l.belief.Dim()
	features, weight := make([]float64, len(reward)*dim), make([]float64, len(reward))
	learnt := make([]float64, len(reward))
	for i := range weight {
		weight[i], learnt[i] = l.labelWeight, l.labels.learnt(rewardsrc.Value, reward[i])
		l.features(features[i*dim:(i+1)*dim], phi[i*d:(i+1)*d], nil)
	}
	if err := l.belief.UpdateBatch(features, learnt, weight); err != nil {
		return fmt.Errorf("controller: warm start: %w", err)
	}
	l.reaction.restart(l.belief)
	l.noise.state.Labels += uint64(len(reward))
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
