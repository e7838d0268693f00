package controller

import (
	"fmt"
	"math"
	"time"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

const (
	// changedAt is the log Bayes factor, nats, at which a task counts as changed while at most
	// changedIn labels were scored. After the operator refused a change it is twice as large.
	changedAt, changedIn = 8, 100
	// suspected is the largest number of labels for which a change can be suspected.
	suspected = 60
	// discounted is the factor of the former belief's weight when it is to follow new labels
	// quickly. keptLabels is the largest number of labels whose weight remains.
	discounted, keptLabels = 0.2, 12
	// repeated is the number of labels of one state after which the next one counts half.
	repeated = 4
	// mistaken and oftenMistaken are shares of labels that are mistakes.
	mistaken, oftenMistaken = 0.05, 0.3
	// remembered is the number of labels over which the best constant is estimated, hitKeep the
	// weight of a label's hit after the next label of its kind.
	remembered = 100
	hitKeep    = 0.985
	// surpriseKeep is the weight of a surprise after the next one, fewSurprises the number of
	// uncorrelated surprises with which the estimate of their correlation begins, mostAlike its
	// largest value.
	surpriseKeep, fewSurprises, mostAlike = 0.99, 10, 0.9
	// firstJudged is the number of labels before which no change is suspected. Each kind, above and
	// below the best constant, has at least kindJudged. betterThanGuessing is the smallest skill.
	firstJudged        = 15
	kindJudged         = 4
	betterThanGuessing = 0.1
)

// Evidence measures how well the belief predicts labels before it learns them, and whether another
// belief would predict the newest ones better.
type Evidence struct {
	// Change is the log Bayes factor of a changed task, nats: the newest labels under a belief that
	// has only these, against the best of the current belief, of the current belief if three labels
	// of ten were mistakes, and of the current belief with a fifth of its weight, at most that of
	// twelve labels. 0: no change is suspected.
	Change float64
	// Labels is the number of these labels. Those of successive ticks count once in half a second.
	Labels uint64
	// Skill is the share of labels above the best constant that the belief predicted to be above
	// it, plus the share of those below, minus 1: 0 for each constant, 1 for a belief that is never
	// wrong. SkillError is its standard error.
	Skill, SkillError float64
	// Shortfall is how far the labels that the belief expects for the states of the moving robot are
	// below the label good, averaged with a time constant of 30 s: from 0 (good) to 1 (bad). It is 0
	// without Config.LabelRange.
	Shortfall float64
}

const (
	// well is the skill of a belief that predicts an operator well: right in seven of ten labels of
	// each kind.
	well = 0.4
	// unknown is the standard error from which on the skill has no meaning. While all labels are of
	// one kind, the error is at least √⅛, which is larger.
	unknown = 0.35
	// A task can become learnt up to the shortfall learntShortfall. A learnt task ends above
	// lostShortfall.
	learntShortfall, lostShortfall = 0.5, 0.75
	shortfallS                     = 30 // of averaging, s
)

// least is Skill less its standard error.
func (e Evidence) least() float64 { return e.Skill - e.SkillError }

// Measured reports whether enough labels were predicted for the skill to have a meaning: a few of
// both kinds.
func (e Evidence) Measured() bool { return e.SkillError > 0 && e.SkillError < unknown }

// BeatsGuessing reports whether the belief predicts labels better than a constant does. Without
// that, an appraisal by the same belief means nothing.
func (e Evidence) BeatsGuessing() bool { return e.SkillError < unknown && e.least() > 0 }

// Words compares the predictions of labels with a value with those of a constant.
func (e Evidence) Words() string {
	switch {
	case !e.Measured():
		return "too early to tell"
	case !e.BeatsGuessing():
		return "no better than guessing"
	case e.least() < well:
		return "better than guessing"
	}
	return "predicts you well"
}

// Poor reports whether the expected labels are too low for a task to remain learnt.
func (e Evidence) Poor() bool { return !(e.Shortfall <= lostShortfall) }

// Judgement is Words with the bounds of the share of the attainable value, where they are known and
// mean something. It warns while the expected labels are too low for a task to become learnt.
func (e Evidence) Judgement(known Interval) string {
	if !known.Known() || !e.BeatsGuessing() {
		return e.Words()
	}
	words := fmt.Sprintf("%s, reaches %.0f–%.0f %%", e.Words(), 100*known.Low, 100*known.High)
	if e.Shortfall > learntShortfall {
		words += ", expects mostly bad labels"
	}
	return words
}

// evidence computes Evidence. It is a cumulative sum test (Page, "Continuous Inspection Schemes",
// 1954): when the log Bayes factor falls to 0, the test suspects a change from the next label on.
// It suspects none until the belief predicts labels of both kinds better than a constant does.
//
// A belief with labels of a few kinds of states alone fits them better than one with labels of all
// states, because no reward is exactly linear in the features. Therefore the new belief must also
// surpass the former one with less weight, which fits as closely and begins from the former task. A
// state of a new kind has a wide prediction under all of them and is not evidence. After a real
// change, an empty belief predicts better than one that begins from the former task. A robot that
// stays where the belief is wrong, with a label at every step, repeats one surprise. Therefore a label
// counts less, the more labels of its state the new belief has, and the more alike successive
// surprises were before the suspicion.
type evidence struct {
	fresh, kept *posterior.Belief // of the suspected change; nil: Config.Gate has no Relearn
	former      FormerRules
	labelRange  LabelRange // as the belief learns labels; zero: unknown
	window      float64    // periods of shortfallS
	evidenceState
}

// evidenceState is what restart resets.
type evidenceState struct {
	open  bool   // a change is suspected
	first uint64 // order of the first of these labels
	scale float64
	each  float64    // evidence of each label, see independent
	noise NoiseState // before it
	logs  [4]float64 // log densities: fresh, present, often mistaken, kept
	limit float64
	out   Evidence

	averaged                   float64 // periods that Shortfall is about, at most window
	constant, variance, labels float64 // of the newest labels with a value
	kinds                      [2]hits // below and above the constant
	surprises                  correlation
	count, seen                uint64 // labels that were scored, all labels
}

// FormerRules are rules of the evidence of former programs, by which their logs replay.
type FormerRules struct {
	EqualWeights      bool // labels of a state count as much, however many it has
	ConstantLimit     bool // the limit does not grow with the number of labels
	IgnoreCorrelation bool // labels count as much, however alike successive surprises are
}

// hits counts predictions of a kind of labels, older ones with less weight.
type hits struct{ right, all float64 }

func (h *hits) add(right bool) {
	h.right, h.all = h.right*hitKeep, h.all*hitKeep+1
	if right {
		h.right++
	}
}

// rate returns the share of right predictions, with one right and one wrong prediction in advance,
// and its variance.
func (h *hits) rate() (rate, variance float64) {
	rate = (h.right + 1) / (h.all + 2)
	return rate, rate * (1 - rate) / (h.all + 2)
}

// correlation measures how alike successive surprises are, older ones with less weight.
type correlation struct{ last, products, squares float64 }

// add counts the difference of a label from its prediction.
func (c *correlation) add(surprise float64) {
	c.products = float64(c.products*surpriseKeep) + float64(c.last*surprise)
	c.squares = float64(c.squares*surpriseKeep) + float64(surprise*surprise)
	c.last = surprise
}

// independent returns how many independent surprises each of a long series is worth: (1-r)/(1+r) for
// a correlation r of successive ones. The estimate of r begins with fewSurprises uncorrelated
// surprises of the variance of the labels.
func (c *correlation) independent(variance float64) float64 {
	r := c.products / (c.squares + float64(fewSurprises*max(variance, 0.01)))
	r = max(0, min(r, mostAlike))
	return (1 - r) / (1 + r)
}

// newEvidence returns nil for a configuration that does not need it.
func newEvidence(cfg Config, d int, period time.Duration) (*evidence, error) {
	if !cfg.Gate.Predicts() {
		return nil, nil
	}
	e := &evidence{
		labelRange: cfg.LabelRange.learnt(cfg.labelScale()), window: float64(ticks(shortfallS, period, 1)),
	}
	e.restart(changedAt)
	if !cfg.Gate.Relearn {
		return e, nil
	}
	var err error
	if e.kept, err = cfg.NewBelief(d); err != nil {
		return nil, err
	}
	e.fresh, err = posterior.New(e.kept.Dim(), cfg.Lambda, 1)
	return e, err
}

// restart forgets all labels.
func (e *evidence) restart(limit float64) {
	e.evidenceState = evidenceState{limit: limit, variance: 0.25}
}

// averageExpected adds the label that a belief expects at features, which the robot had for a number
// of periods, to Shortfall.
func (e *evidence) averageExpected(b *posterior.Belief, phi []float64, periods uint64) {
	if e == nil || periods == 0 || e.labelRange == (LabelRange{}) {
		return
	}
	below := (e.labelRange.Good - b.Predict(phi)) / (e.labelRange.Good - e.labelRange.Bad)
	if !finite(below) {
		return
	}
	e.averaged = min(e.averaged+float64(periods), e.window)
	e.out.Shortfall += float64((max(0, min(below, 1)) - e.out.Shortfall) * min(1, float64(periods)/e.averaged))
}

// changed reports whether the task has changed. If the belief is right, a suspicion that begins at
// one label ever reaches a limit with probability exp(-limit) at most. Therefore the limit grows with
// twice the logarithm of the number n of labels: the sum of these probabilities stays below
// 2 changedIn exp(-changedAt) = 7 % for any n. It would be 100 % at n = 3,000 with the same limit for
// all.
func (e *evidence) changed() bool {
	if e == nil || !e.open {
		return false
	}
	limit := e.limit
	if !e.former.ConstantLimit {
		limit += 2 * math.Log(max(1, float64(e.count)/changedIn))
	}
	return e.out.Change >= limit
}

// drop ends the suspicion of a change.
func (e *evidence) drop() {
	if e != nil {
		e.open, e.out.Change, e.out.Labels = false, 0, 0
	}
}

// add weighs a label that l is about to learn, with its features in l.phi. counts is false for a
// label so close to the one before that it is the same evidence.
func (e *evidence) add(l *Learner, a *AppliedLabel, counts bool) {
	if e == nil || a.Kind == rewardsrc.Goal {
		return
	}
	if e.fresh != nil && (e.open || counts && e.predicts()) {
		e.weigh(l, a, counts)
	}
	e.seen++
	if counts && a.Kind == rewardsrc.Value {
		e.score(l.belief.Predict(l.phi), a.Value)
	}
}

// weigh adds a label to the evidence and to both beliefs of a suspected change.
func (e *evidence) weigh(l *Learner, a *AppliedLabel, counts bool) {
	if !e.open {
		e.suspect(l)
	}
	if counts {
		e.compare(l, a)
	}
	err := e.fresh.Update(l.phi, a.Value, a.Weight/e.scale)
	if err == nil {
		err = e.kept.Update(l.phi, a.Value, a.Weight)
	}
	if err != nil || !(e.out.Change > 0) || e.out.Labels > suspected {
		e.drop()
	}
}

// suspect begins at the next label.
func (e *evidence) suspect(l *Learner) {
	e.fresh.Reset()
	e.kept.CopyFrom(l.belief)
	e.kept.Discount(e.share(l))
	scale := l.Scale()
	e.open, e.first, e.scale, e.noise, e.logs = true, l.ledger.added, scale*scale, l.noise.state, [4]float64{}
	e.each = 1
	if !e.former.IgnoreCorrelation {
		e.each = e.surprises.independent(e.variance)
	}
}

// share is the factor of the former belief's weight.
func (e *evidence) share(l *Learner) float64 {
	if e.former.EqualWeights {
		return discounted
	}
	each := float64(e.seen) / float64(e.count) // labels of half a second
	return min(discounted, keptLabels*each*l.labelWeight/e.kept.Weight())
}

// predicts reports whether the belief predicts labels of both kinds better than a constant would.
func (e *evidence) predicts() bool {
	return e.count >= firstJudged && e.kinds[0].all >= kindJudged && e.kinds[1].all >= kindJudged &&
		e.out.Skill > betterThanGuessing
}

// compare adds the log densities of a label.
func (e *evidence) compare(l *Learner, a *AppliedLabel) {
	constant := e.constant
	if a.Kind == rewardsrc.Comparison {
		constant = 0
	}
	mistake := gaussianDensity(a.Value-constant, 4*max(e.variance, 0.01))
	now := l.Scale()
	density := func(b *posterior.Belief, scale float64) float64 {
		return studentDensity(a.Value-b.Predict(l.phi), scale*(1/a.Weight+b.NormSq(l.phi)))
	}
	present := density(l.belief, now*now)
	noise, doubt := e.scale/a.Weight, e.fresh.NormSq(l.phi) // variances of the label and of the prediction
	fresh := studentDensity(a.Value-e.fresh.Predict(l.phi), noise+doubt)
	news := e.each
	if !e.former.EqualWeights {
		news *= doubt / (doubt + noise/repeated)
	}
	e.logs[0] += float64(news * logMixture(fresh, mistake, mistaken))
	e.logs[1] += float64(news * logMixture(present, mistake, mistaken))
	e.logs[2] += float64(news * logMixture(present, mistake, oftenMistaken))
	e.logs[3] += float64(news * logMixture(density(e.kept, e.scale), mistake, mistaken))
	e.out.Change = e.logs[0] - max(e.logs[1], e.logs[2], e.logs[3])
	e.out.Labels++
}

// score notes whether the belief predicted on which side of the best constant a label is, and
// updates the constant.
func (e *evidence) score(predicted, value float64) {
	e.surprises.add(value - predicted)
	kind := 0
	if value > e.constant {
		kind = 1
	}
	e.kinds[kind].add((predicted > e.constant) == (kind == 1))
	low, lowVariance := e.kinds[0].rate()
	high, highVariance := e.kinds[1].rate()
	e.out.Skill, e.out.SkillError = low+high-1, math.Sqrt(lowVariance+highVariance)
	e.count++
	e.labels = min(e.labels+1, remembered)
	before := value - e.constant
	e.constant += before / (e.labels + 1)
	e.variance += ((value-e.constant)*before - e.variance) / (e.labels + 2)
}

// logMixture returns the log density of a label that is a mistake with a probability.
func logMixture(density, mistake, probability float64) float64 {
	return math.Log(max((1-probability)*density+probability*mistake, math.SmallestNonzeroFloat64))
}

// studentDensity is the density of Student's t with three degrees of freedom.
func studentDensity(x, variance float64) float64 {
	t := 1 + x*x/(3*variance)
	return 2 / (math.Sqrt(3*variance) * math.Pi * t * t)
}

func gaussianDensity(x, variance float64) float64 {
	return math.Exp(-x*x/(2*variance)) / math.Sqrt(2*math.Pi*variance)
}
