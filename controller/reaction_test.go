package controller

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// operated is a learner with a robot that moves smoothly and an operator who labels it.
type operated struct {
	*Learner
	random *rand.Rand
	phi    []float64
	truth  []float64
	tick   uint64
	labels uint64
	log    []AppliedLabel
	moved  [][]float64 // φ of each tick
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	l, _ := newTestLearner(t, func(c *Config) {
		c.Credit.Answers, c.Sigma = Estimated, 0.15
		c.Noise = NoiseConfig{Estimate: true, Floor: 0.1, Freedom: 1.5}
	})
	random := rand.New(rand.NewPCG(4, 2))
	return &operated{Learner: l, random: random, phi: gaussian(random, rigLatent), truth: gaussian(random, rigLatent)}
}

// move observes the states of n ticks. They change within about half a second.
func (o *operated) move(n uint64) {
	for range n {
		for i, x := range gaussian(o.random, rigLatent) {
			o.phi[i] = 0.96*o.phi[i] + 0.28*x
		}
		o.tick++
		o.moved = append(o.moved, append([]float64(nil), o.phi...))
		o.Observe(o.tick, int64(o.tick)*int64(testPeriod), o.phi, nil)
	}
}

// press applies a label about the mean of the ticks [from, to]. asked is NoTick for an unasked
// press.
func (o *operated) press(asked, from, to uint64) AppliedLabel {
	phi := make([]float64, rigLatent)
	o.history.mean(phi, from, to)
	o.labels++
	label := rewardsrc.Label{
		ID: o.labels, Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, At: int64(o.tick) * int64(testPeriod),
		Value: floats.Dot(phi, o.truth) + 0.1*o.random.NormFloat64(),
	}
	if asked != rewardsrc.NoTick {
		label.Request, label.Tick = o.labels, asked
	}
	a := o.Apply(label, asked)
	o.log = append(o.log, a)
	return a
}

// operators press about the request, about what they see, or about what they saw. A tick takes 20
// ms.
var operators = map[string]struct {
	moment int
	label  func(o *operated) (a AppliedLabel, from, to uint64)
}{
	"answers about the request": {0, func(o *operated) (AppliedLabel, uint64, uint64) {
		o.move(100)
		asked := o.tick
		o.move(30 + o.random.Uint64N(40))
		return o.press(asked, asked, asked), asked, asked
	}},
	"answers about what it sees": {2, func(o *operated) (AppliedLabel, uint64, uint64) {
		o.move(100)
		asked := o.tick
		o.move(30 + o.random.Uint64N(40))
		return o.press(asked, o.tick-20, o.tick), o.tick - 20, o.tick
	}},
	"presses about 0.8 s before": {4, func(o *operated) (AppliedLabel, uint64, uint64) {
		o.move(100)
		return o.press(rewardsrc.NoTick, o.tick-60, o.tick-40), o.tick - 60, o.tick - 40
	}},
}

func TestReaction_FindsTheMomentOfAPress(t *testing.T) {
	for name, operator := range operators {
		o := newOperated(t)
		for range 60 {
			operator.label(o)
		}
		probability := o.Reaction()
		if operator.moment != atRequest {
			probability[0] = 0 // an unasked press does not show what answers are about
		}
		if slices.Max(probability[:]) != probability[operator.moment] {
			t.Errorf("%s: the probabilities are %.2f, and moment %d is the right one", name, o.Reaction(), operator.moment)
		}
		if a, from, to := operator.label(o); a.From != from || a.To != to || a.Outcome != Applied {
			t.Errorf("%s: the next label is about %d to %d (%v), want %d to %d", name, a.From, a.To, a.Outcome, from, to)
		}
	}
}

func TestReaction_FollowsAnotherOperator(t *testing.T) {
	o := newOperated(t)
	for range 60 {
		operators["answers about what it sees"].label(o)
	}
	for range 60 {
		operators["answers about the request"].label(o)
	}
	if p := o.Reaction(); p[atRequest] < 0.5 {
		t.Errorf("the probabilities are %.2f", p)
	}
}

func TestReaction_UndoAndUnestimatedLabelsDoNotChangeIt(t *testing.T) {
	o := newOperated(t)
	for range 10 {
		operators["answers about what it sees"].label(o)
	}
	before := o.Reaction()
	o.move(100)
	for _, label := range []rewardsrc.Label{
		{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: 1},
		{Kind: rewardsrc.CantTell, Tick: rewardsrc.NoTick, At: 1},
		{Kind: rewardsrc.Value, Tick: o.tick, Value: 1},
		{Kind: rewardsrc.Value, Mode: rewardsrc.Held, Tick: rewardsrc.NoTick, At: int64(o.tick) * int64(testPeriod)},
		{Kind: rewardsrc.Comparison, Tick: rewardsrc.NoTick, At: int64(o.tick) * int64(testPeriod), Value: 0.5},
		{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, At: math.MaxInt64},
		{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, At: -1},
	} {
		o.labels++
		label.ID = o.labels
		if a := o.Apply(label, 0); o.Reaction() != before {
			t.Errorf("%v (%+v): the probabilities change from %v to %v", label.Kind, a, before, o.Reaction())
		}
	}
}

func TestReaction_IsReplayedAndResumed(t *testing.T) {
	for name, operator := range operators {
		live, replayed := newOperated(t), newOperated(t)
		for range 30 {
			operator.label(live)
		}
		applied := live.log
		for tick, phi := range live.moved {
			at := int64(tick+1) * int64(testPeriod)
			replayed.Observe(uint64(tick+1), at, phi, nil)
			for ; len(applied) > 0 && applied[0].At <= at; applied = applied[1:] {
				own, err := replayed.Reapply(applied[0])
				fatal.If(t, err)
				if own != applied[0] {
					t.Fatalf("%s: replayed %+v, applied %+v", name, own, applied[0])
				}
			}
		}
		if replayed.Belief().Hash() != live.Belief().Hash() || replayed.Reaction() != live.Reaction() {
			t.Errorf("%s: the replay has %v, the run %v", name, replayed.Reaction(), live.Reaction())
		}
		replayed.ResumeReaction(ReactionState{nan, 1})
		replayed.ResumeReaction(ReactionState{})
		if replayed.Reaction() != live.Reaction() {
			t.Errorf("%s: an impossible state is accepted: %v", name, replayed.Reaction())
		}
	}
}

func TestReaction_StaysWithAnotherTask(t *testing.T) {
	o := newOperated(t)
	for range 60 {
		operators["answers about what it sees"].label(o)
	}
	before := o.Reaction()
	fresh, _ := newTestLearner(t, nil)
	fatal.If(t, o.SwitchTask(beliefState(fresh), NoiseState{}))
	if o.Reaction() != before {
		t.Errorf("the probabilities change from %v to %v", before, o.Reaction())
	}
	for i, x := range o.truth { // another task
		o.truth[i] = -x
	}
	for range 20 {
		operators["answers about what it sees"].label(o)
	}
	if p := o.Reaction(); p[shorter] < 0.5 {
		t.Errorf("the probabilities are %.2f", p)
	}
}

func TestReaction_LabelAllocatesNothing(t *testing.T) {
	o := newOperated(t)
	o.move(200)
	label := rewardsrc.Label{Kind: rewardsrc.Value, Request: 1, Tick: 100, At: int64(o.tick) * int64(testPeriod), Value: 1}
	if n := testing.AllocsPerRun(20, func() { o.Apply(label, 100) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	if o.Reaction() == firstReaction {
		t.Error("the label changes nothing")
	}
}

// Soon after the start of a robot a long delay points before its first state: then no moment learns
// the press.
func TestLearner_MomentsAreComparedOverTheSamePresses(t *testing.T) {
	o := newOperated(t)
	for _, ticks := range []uint64{20, 10, 60, 30} {
		o.move(ticks)
		if a := o.press(rewardsrc.NoTick, o.tick-5, o.tick); a.Outcome != Applied {
			t.Fatal(a.Outcome)
		}
		some, all := 0, 0
		for _, b := range o.reaction.beliefs {
			if b.Weight() > 0 {
				some++
			}
			all++
		}
		if some != 0 && some != all {
			t.Fatalf("%d of %d beliefs have labels after a press %d ticks after the start", some, all, o.tick)
		}
	}
	if o.reaction.beliefs[0].Weight() == 0 {
		t.Error("no press was compared")
	}
}
