package controller

import (
	"math"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// moments is the number of moments that a press may be about.
const moments = 6

// The first two: the state of the request, and the window until the press. Others are shorter
// windows.
const (
	atRequest = iota
	untilPress
	shorter
)

// pressDelays are the times from the ends of the shorter windows to their press, ns.
var pressDelays = [moments - shorter]int64{0, 400e6, 800e6, 1200e6}

// firstReaction is the state before the first label: without pictures, a person judges what it saw
// just before it presses.
var firstReaction = ReactionState{0.2, 0.25, 0.35, 0.1, 0.05, 0.05}

const (
	// earlyAnswer is the factor of the probability of a window that ends before the request: an
	// answer is not about it.
	earlyAnswer = 0.1
	// changeRate is the probability that an operator changes from one label to the next.
	changeRate = 0.01
	// momentKeep is the factor of a label's weight in the belief of a moment after each later
	// label. Otherwise the labels of a former operator, credited to the wrong moment, would decide
	// which moment predicts those of the current one.
	momentKeep = 0.97
)

// ReactionState is the probability of each moment that the operator's presses may be about: the
// state of the request that they answer, the window of [UntilPress] or, for an unasked press, of
// CreditConfig, and the windows of WidthS that end 0, 0.4, 0.8 and 1.2 s before the press. It is
// zero unless CreditConfig.Answers is Estimated.
type ReactionState [moments]float64

// possible reports whether a learner can have this state.
func (s *ReactionState) possible() bool {
	sum := 0.0
	for _, p := range s {
		if !(p >= 0) {
			return false
		}
		sum += p
	}
	return math.Abs(sum-1) < 1e-9
}

// likeliest returns the most probable moment of a press that answers a request, or of an unasked
// one.
func (s *ReactionState) likeliest(answer bool) int {
	best := untilPress
	for i, p := range s {
		if p > s[best] && (answer || i != atRequest) {
			best = i
		}
	}
	return best
}

// reaction estimates which moments the operator's presses are about. It has one belief for each
// moment, from labels about that moment, and compares how well these beliefs predict each label:
// Bayes' rule makes the moments that predict labels well more probable. An operator may change: a
// part of the probability returns to that before the first label.
type reaction struct {
	state   ReactionState
	next    ReactionState // scratch
	width   int64         // of a window before a press, ns
	beliefs [moments]*posterior.Belief
	phi     []float64 // scratch
}

func newReaction(cfg Config, d int) (*reaction, error) {
	if cfg.Credit.Answers != Estimated {
		return nil, nil
	}
	cfg.Rho, cfg.ExactRestore = 1, false // forgetting would cost O(d²) for each moment in each tick
	r := &reaction{state: firstReaction, width: newWindow(0, cfg.Credit.WidthS).width}
	for i := range r.beliefs {
		belief, err := cfg.NewBelief(d)
		if err != nil {
			return nil, err
		}
		r.beliefs[i], r.phi = belief, make([]float64, belief.Dim())
	}
	return r, nil
}

// restart continues from another belief. What the labels showed about the operator remains.
func (r *reaction) restart(belief *posterior.Belief) {
	if r == nil {
		return
	}
	for _, b := range r.beliefs {
		b.CopyFrom(belief)
		b.StopForgetting() // as in newReaction
	}
}

// estimates reports whether the moment of a label is to be estimated.
func (r *reaction) estimates(label rewardsrc.Label) bool {
	return r != nil && label.Mode == rewardsrc.Press && label.At > 0 &&
		(label.Request != 0 || label.Tick == rewardsrc.NoTick)
}

// Reaction returns the probability of each moment of a press.
func (l *Learner) Reaction() ReactionState {
	if l.reaction == nil {
		return ReactionState{}
	}
	return l.reaction.state
}

// ResumeReaction continues from a logged state, after a gap in a log. It ignores an impossible one.
func (l *Learner) ResumeReaction(s ReactionState) {
	if l.reaction != nil && s.possible() {
		l.reaction.state = s
	}
}

// likelyTicks returns the ticks that a press is most probably about.
func (l *Learner) likelyTicks(a *AppliedLabel) (from, to uint64, ok bool) {
	return l.momentTicks(l.reaction.state.likeliest(a.Asked != rewardsrc.NoTick), a)
}

// momentTicks returns the ticks of a moment of a press. An answer is about no state before its
// request.
func (l *Learner) momentTicks(moment int, a *AppliedLabel) (from, to uint64, ok bool) {
	unasked := a.Asked == rewardsrc.NoTick
	label := rewardsrc.Label{At: a.At}
	switch {
	case moment == atRequest:
		return a.Asked, a.Asked, !unasked
	case moment == untilPress && unasked:
		since, until := l.windows.interval(label)
		return l.history.window(since, until, l.maxGap, maxWindow)
	case moment == untilPress:
		from, to = l.seenUntil(label, a.Asked)
		return from, to, true
	}
	until := a.At - pressDelays[moment-shorter]
	from, to, ok = l.history.window(until-l.reaction.width, until, l.maxGap, maxWindow)
	switch {
	case unasked:
		return from, to, ok
	case !ok || to <= a.Asked:
		return a.Asked, a.Asked, true
	}
	return max(from, a.Asked), to, true
}

// considerMoments learns from a value that entered the belief. O(d²) for each moment.
func (l *Learner) considerMoments(a *AppliedLabel) {
	r := l.reaction
	if r == nil || a.At == 0 || a.Kind != rewardsrc.Value {
		return
	}
	unasked := a.Asked == rewardsrc.NoTick
	var from, to [moments]uint64
	for i := range moments {
		moment := i
		if i == atRequest && unasked {
			moment = r.state.likeliest(false)
		}
		var ok bool
		if from[i], to[i], ok = l.momentTicks(moment, a); !ok || !l.history.has(from[i], to[i]) {
			return // all beliefs have the same labels, or they could not be compared
		}
	}
	total := 0.0
	for i, belief := range r.beliefs {
		l.history.mean(r.phi, from[i], to[i])
		r.next[i] = float64(r.state[i] * l.learnMoment(belief, r.phi, a))
		if i >= shorter && !unasked && to[i] == a.Asked {
			r.next[i] *= earlyAnswer
		}
		total += r.next[i]
	}
	if !(total > 0 && total < maxReward) {
		return
	}
	for i, p := range r.next {
		r.state[i] = float64((1-changeRate)*(p/total)) + float64(changeRate*firstReaction[i])
	}
}

// learnMoment updates the belief of a moment and returns the density of the label under it before
// that, up to a factor. The density is that of Student's t with three degrees of freedom: it needs
// no function but the square root, and has the same bits on every CPU.
func (l *Learner) learnMoment(belief *posterior.Belief, phi []float64, a *AppliedLabel) float64 {
	sigma := l.noise.sigma()
	spread := math.Sqrt(1 + float64(a.Weight*belief.NormSq(phi)))
	surprise := belief.Surprise(phi, a.Value, a.Weight)
	belief.Discount(momentKeep)
	belief.TrackPrior()
	share := l.noise.share(float64(surprise * surprise))
	if belief.Update(phi, a.Value, float64(a.Weight*share)) != nil {
		return 0
	}
	deviations := surprise / sigma
	tail := 1 + float64(deviations*deviations)/3
	return 1 / float64(spread*float64(tail*tail))
}
