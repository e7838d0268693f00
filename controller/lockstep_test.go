package controller

import (
	"errors"
	"slices"
	"testing"

	"optibfm/tflite"
)

func TestLockstep_PlansForItsOwnTick(t *testing.T) {
	r := newRig(t, nil)
	lockstep := r.plans.(*Lockstep)
	for i := range uint64(10) {
		r.steps(1)
		if r.tick.PlanTick != i || r.tick.PlanConfirmed != i || !r.tick.Flags.Has(FlagReplanned) || !lockstep.Fresh() {
			t.Fatalf("tick %d: planned at %d", i, r.tick.PlanTick)
		}
		if !slices.Equal(lockstep.Latest().Z, r.tick.Z) {
			t.Fatal("the tick does not hold the plan")
		}
	}
}

func TestLockstep_PlanIsFreshOnce(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Replan = 4 })
	lockstep := r.plans.(*Lockstep)
	for i := range uint64(13) {
		r.steps(1)
		want := i%4 == 0
		if lockstep.Fresh() != want || r.tick.Flags.Has(FlagReplanned) != want || r.tick.PlanTick != i-i%4 {
			t.Fatalf("tick %d: fresh %v, planned at %d", i, lockstep.Fresh(), r.tick.PlanTick)
		}
	}
}

func TestLockstep_BadObservationKeepsPlan(t *testing.T) {
	r := newRig(t, nil)
	r.steps(3)
	r.robot.SenseErr = errOut
	r.steps(2)
	if r.tick.PlanTick != 2 || r.tick.PlanConfirmed != 2 || r.plans.(*Lockstep).Fresh() {
		t.Errorf("planned at %d, confirmed at %d", r.tick.PlanTick, r.tick.PlanConfirmed)
	}
	r.robot.SenseErr = nil
	r.steps(1)
	if r.tick.PlanTick != 5 {
		t.Errorf("planned at %d", r.tick.PlanTick)
	}
}

func TestLockstep_OfferReturnsPlannerError(t *testing.T) {
	m := newStub(rigObs, rigAction, rigLatent)
	l := NewLockstep(newTestPlanner(t, configured(UCB), m))
	if l.Latest() != nil || l.Fresh() {
		t.Error("there is a plan before the first offer")
	}
	m.search = func([]float32, []float32, tflite.Belief) (int, float32, error) { return 0, 0, errOut }
	s := learnt(t, configured(UCB), 3)
	*l.State().StateHeader = *s.StateHeader
	copy(l.State().Belief, s.Belief)
	if err := l.Offer(); !errors.Is(err, errOut) || l.Latest() != nil || l.Fresh() {
		t.Errorf("offer: %v, plan %v", err, l.Latest())
	}
	m.search = nil
	if err := l.Offer(); err != nil || l.Latest() == nil || l.Latest().Tick != 3 {
		t.Errorf("offer: %v", err)
	}
}

func TestAgent_LockstepRunIsDeterministic(t *testing.T) {
	run := func() (hashes []uint64, z []float64) {
		r := newRig(t, func(c *Config) { c.Strategy = Thompson; c.Rho = 0.99 })
		r.source.onAsk = obliging(r)
		for range 200 {
			r.steps(1)
			hashes = append(hashes, r.tick.Hash)
			z = append(z, r.tick.Z...)
		}
		return hashes, z
	}
	h1, z1 := run()
	h2, z2 := run()
	if !slices.Equal(h1, h2) || !slices.Equal(z1, z2) {
		t.Error("two runs differ")
	}
	if h1[0] == h1[199] {
		t.Error("the belief did not change")
	}
}
