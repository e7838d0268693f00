package controller

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite/tflitetest"
)

// savedTask returns the belief of a learner with a few labels.
func savedTask(t *testing.T, cfg Config) (*Learner, []float64) {
	t.Helper()
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(8, 9))
	for i := range uint64(7) {
		l.Observe(i, 0, gaussian(random, rigLatent), nil)
		l.Apply(value(0, i, random.NormFloat64()), 0)
	}
	return l, state(l)
}

func TestAgent_SwitchesToTheBeliefOfASavedTask(t *testing.T) {
	for _, armed := range []bool{true, false} {
		r := newRig(t, func(c *Config) {
			c.Gate.Kappa, c.Gate.RequestsPerMinute, c.Gate.StopWhenLearnt = 0, 0, true
			c.Noise.Estimate, c.LabelRange = true, LabelRange{-1, 1}
		})
		plans := r.stubPlanner()
		r.steps(5)
		r.agent.learner.evidence.out.Shortfall = 0.25
		r.source.give(value(1, 2, 1), value(2, 3, -1))
		r.steps(1)
		request := r.tick.Request
		if request == 0 || r.tick.NumLabels != 2 {
			t.Fatalf("request %d, %d labels", request, r.tick.NumLabels)
		}
		if !armed {
			fatal.If(t, r.agent.Disarm())
		}
		r.agent.proficiency.Resume(true)
		task, want := savedTask(t, r.cfg)
		fatal.If(t, r.agent.SwitchTask(want, task.Noise()))
		if r.agent.proficiency.Learnt() || r.agent.learner.Evidence().Shortfall != 0 {
			t.Error("still learnt, or the shortfall is of the former task")
		}
		var offered []float64
		confirm := plans.onOffer
		plans.onOffer = func(s *State) { confirm(s); offered = slices.Clone(s.Belief) }
		r.source.give(
			rewardsrc.Label{ID: 3, Kind: rewardsrc.Undo}, value(4, r.tick.Index, 1), answer(5, request, 1), value(1, 2, 1))
		r.steps(1)
		closed := slices.ContainsFunc(r.source.asked, func(q rewardsrc.Request) bool {
			return q.ID == request && q.State == rewardsrc.Expired
		})
		if !closed || !r.tick.Flags.Has(FlagSwitched|FlagRequestClosed) || r.tick.Flags.Has(FlagLearnt) {
			t.Errorf("closed %v, flags %b", closed, r.tick.Flags)
		}
		for i, outcome := range []Outcome{NothingToUndo, TooOld, UnknownRequest, Duplicate} {
			if got := r.tick.Labels[i].Outcome; got != outcome {
				t.Errorf("label %d: %v, want %v", i, got, outcome)
			}
		}
		if plans.state.Switches != 1 || r.tick.Predicted != (Predicted{}) {
			t.Errorf("%d switches, predicted %+v", plans.state.Switches, r.tick.Predicted)
		}
		if armed { // the agent has advanced the belief and settled it, as the learner of the task would
			task.Advance(1)
		}
		task.Settle(r.tick.Index)
		if !slices.Equal(offered, state(task)) || r.tick.Hash != task.Belief().Hash() {
			t.Error("the planner is offered another belief than the task's")
		}
		if r.tick.Counted != 7 {
			t.Errorf("%d labels, want those of the task", r.tick.Counted)
		}
		r.source.give(value(6, r.tick.Index, 1))
		if r.steps(1); r.applied().Outcome != Applied || r.tick.Flags.Has(FlagSwitched) {
			t.Errorf("after the switch: %v, flags %b", r.applied().Outcome, r.tick.Flags)
		}
	}
}

func TestAgent_RefusesASwitchWhileStopped(t *testing.T) {
	r := newRig(t, nil)
	r.steps(3)
	task, belief := savedTask(t, r.cfg)
	before := r.agent.Learner().Belief().Hash()
	if err := r.agent.SwitchTask(belief[1:], task.Noise()); err == nil {
		t.Error("a belief of another dimension is accepted")
	}
	if err := r.agent.SwitchTask(belief, NoiseState{Count: -1}); err == nil {
		t.Error("impossible noise is accepted")
	}
	fatal.If(t, r.agent.Halt(FaultOperator))
	if err := r.agent.SwitchTask(belief, task.Noise()); !errors.Is(err, ErrFaulted) {
		t.Errorf("stopped: %v", err)
	}
	r.steps(1)
	if r.agent.Learner().Belief().Hash() != before || r.tick.Flags.Has(FlagSwitched) {
		t.Error("a refused switch changed the belief")
	}
	fatal.If(t, r.agent.Reset())
	fatal.If(t, r.agent.SwitchTask(belief, task.Noise()))
}

func TestAgent_SwitchDoesNotTurnZFaster(t *testing.T) {
	r, plans, followed := exploring(t, ExploreConfig{TurnDegPerS: 90})
	r.steps(2)
	task, belief := savedTask(t, r.cfg)
	fatal.If(t, r.agent.SwitchTask(belief, task.Noise()))
	negate(plans.plan.Z)
	r.steps(1)
	z := *followed
	if a := between(z[len(z)-2], z[len(z)-1]); a > 1.8+roundingDeg || !r.tick.Flags.Has(FlagSwitched|FlagExplore) {
		t.Errorf("z turned by %g°, flags %b", a, r.tick.Flags)
	}
}

func TestAgent_FollowsTheVettedTaskAgainInATaskWithoutLabels(t *testing.T) {
	cfg := ExploreConfig{Tasks: []string{"a", "b"}, Vetted: axes[:2], UntilLabel: true}
	r, plans, followed := exploring(t, cfg)
	copy(plans.plan.Z, axes[1])
	r.steps(1)
	learnt, belief := savedTask(t, r.cfg)
	none, err := NewLearner(r.cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	for i, c := range []struct {
		change func()
		want   []float64
	}{
		{func() { r.source.give(value(1, r.tick.Index, 1)) }, axes[1]},
		{func() { fatal.If(t, r.agent.SwitchTask(belief, learnt.Noise())) }, axes[1]},
		{func() { fatal.If(t, r.agent.SwitchTask(state(none), none.Noise())) }, axes[0]},
		{func() { r.source.give(value(2, r.tick.Index, 1)) }, axes[1]},
	} {
		c.change()
		r.steps(1)
		if z := (*followed)[len(*followed)-1]; !slices.Equal(z, c.want) {
			t.Errorf("step %d: z %v, want %v", i, z, c.want)
		}
	}
}

func TestLearner_SwitchTaskAllocatesNothing(t *testing.T) {
	l, belief := savedTask(t, DefaultConfig())
	if n := testing.AllocsPerRun(10, func() { fatal.If(t, l.SwitchTask(belief, NoiseState{})) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPlanner_PlansAgainAfterASwitch(t *testing.T) {
	cfg := configured(Thompson)
	cfg.Replan, cfg.Gate.StopWhenLearnt = 1000, true
	p := newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1))
	dst := plan(t, p, learnt(t, cfg, 5))
	p.appraisal.draws[3].states = 9
	s := learnt(t, cfg, 6)
	if fresh, err := p.Plan(s, dst); fresh || err != nil {
		t.Fatalf("fresh %v, %v", fresh, err)
	}
	s.Next, s.Switches = s.Next+1, 1
	if fresh, err := p.Plan(s, dst); !fresh || err != nil || p.appraisal.draws[3].states != 0 {
		t.Errorf("after a switch: fresh %v, %v, draw %+v", fresh, err, p.appraisal.draws[3])
	}
	s.Next++
	if fresh, err := p.Plan(s, dst); fresh || err != nil {
		t.Errorf("fresh %v, %v", fresh, err)
	}
}
