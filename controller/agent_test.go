package controller

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// bareRobot hides the optional interfaces of a robot.
type bareRobot struct{ hal.Robot }

func TestAgent_RepeatsLastGoodActionThenHaltsOnBadTicks(t *testing.T) {
	breaks := []struct {
		name  string
		want  Fault
		flag  Flags
		apply func(r *rig)
	}{
		{"sensing fails", FaultSense, FlagBadObs, func(r *rig) { r.robot.SenseErr = errOut }},
		{"a NaN is sensed", FaultObs, FlagBadObs, func(r *rig) { r.observes(float32(nan)) }},
		{"an infinity is sensed", FaultObs, FlagBadObs, func(r *rig) { r.observes(float32(-inf)) }},
		{"the features fail", FaultModel, FlagBadObs, func(r *rig) {
			r.model.phi = func([]float64, []float32) error { return errOut }
		}},
		{"a feature is NaN", FaultModel, FlagBadObs, func(r *rig) { r.features(nan) }},
		{"a feature is infinite", FaultModel, FlagBadObs, func(r *rig) { r.features(inf) }},
		{"a feature is far too large", FaultModel, FlagBadObs, func(r *rig) { r.features(1e200) }},
		{"the policy fails after a part of the action", FaultModel, FlagBadAction, func(r *rig) {
			r.model.act = func(dst, _ []float32, _ []float64) error { dst[0] = 7; return errOut }
		}},
		{"an action is NaN", FaultModel, FlagBadAction, func(r *rig) { r.acts(float32(nan)) }},
		{"an action is infinite", FaultModel, FlagBadAction, func(r *rig) { r.acts(float32(inf)) }},
	}
	for _, b := range breaks {
		t.Run(b.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Guard.MaxBadTicks = 3 })
			r.steps(5)
			last := slices.Clone(r.robot.Output)
			hash := r.tick.Hash
			b.apply(r)
			for range 3 {
				r.steps(1)
				repeated := slices.Equal(r.robot.Output, last) && slices.Equal(r.tick.Action, last)
				if !r.tick.Flags.Has(b.flag) || !repeated {
					t.Fatalf("flags %b, action %v, want %v", r.tick.Flags, r.robot.Output, last)
				}
			}
			if r.robot.Acts != 8 {
				t.Errorf("%d actions after 8 ticks", r.robot.Acts)
			}
			fault := r.fails(b.want)
			if strings.TrimSpace(fault.Error()) == "" || fault.Err == nil {
				t.Errorf("no cause: %v", fault)
			}
			if r.robot.Refused != 0 || r.robot.Acts != 8 || r.tick.Hash != hash {
				t.Errorf("refused %d, acts %d, hash %x", r.robot.Refused, r.robot.Acts, r.tick.Hash)
			}
			if b.flag == FlagBadObs && slices.ContainsFunc(r.tick.Phi, func(x float64) bool { return x != 0 }) {
				t.Errorf("φ of a bad observation: %v", r.tick.Phi)
			}
		})
	}
}

func (r *rig) observes(x float32) {
	r.robot.Observe = func(_ int, obs []float32) error { obs[1] = x; return nil }
}

func (r *rig) features(x float64) {
	r.model.phi = func(dst []float64, _ []float32) error { dst[len(dst)-1] = x; return nil }
}

func (r *rig) acts(x float32) {
	r.model.act = func(dst, _ []float32, _ []float64) error { dst[1] = x; return nil }
}

func TestAgent_GoodTickResetsBadTickCount(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Guard.MaxBadTicks = 1 })
	for range 10 {
		r.steps(1)
		r.robot.SenseErr = errOut
		r.steps(1)
		r.robot.SenseErr = nil
	}
	r.robot.SenseErr = errOut
	if fault := r.fails(FaultSense); !errors.Is(fault, errOut) {
		t.Errorf("the cause is missing: %v", fault)
	}
}

func TestAgent_HaltsWhenActFails(t *testing.T) {
	r := newRig(t, nil)
	r.steps(3)
	r.robot.ActErr = errOut
	r.robot.HaltErr = errors.New("halting failed too")
	fault := r.fails(FaultAct)
	if !errors.Is(fault, errOut) || !errors.Is(fault, r.robot.HaltErr) {
		t.Errorf("a cause is missing: %v", fault)
	}
	if r.robot.Halts != 1 || !slices.Equal(r.tick.Action, []float32{0, 0}) {
		t.Errorf("halted %d times, recorded action %v", r.robot.Halts, r.tick.Action)
	}
}

func TestAgent_HaltsOnInvalidPlan(t *testing.T) {
	for name, corrupt := range map[string]func(*Plan){
		"z is NaN":                     func(p *Plan) { p.Z[3] = nan },
		"z is infinite":                func(p *Plan) { p.Z[0] = -inf },
		"z is far too large":           func(p *Plan) { p.Z[0] = 1e200 },
		"the score is NaN":             func(p *Plan) { p.Score = nan },
		"the score is infinite":        func(p *Plan) { p.Score = inf },
		"what it knows is NaN":         func(p *Plan) { p.Known.High = nan },
		"it knows more than all":       func(p *Plan) { p.Known.High = 1.01 },
		"it knows less than nothing":   func(p *Plan) { p.Known.Low = -0.01 },
		"it was confirmed next tick":   func(p *Plan) { p.Confirmed++ },
		"it was confirmed far ahead":   func(p *Plan) { p.Confirmed = math.MaxUint64 },
		"it was planned in the future": func(p *Plan) { p.Tick, p.Confirmed = p.Tick+5, p.Confirmed+5 },
		"planned after its last use":   func(p *Plan) { p.Tick++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			plans := r.stubPlanner()
			r.steps(3)
			acts := r.robot.Acts
			content := plans.onOffer
			plans.onOffer = func(s *State) { content(s); corrupt(plans.plan) }
			r.fails(FaultHost)
			if r.robot.Acts != acts || r.robot.Refused != 0 {
				t.Error("the robot acted on an invalid plan")
			}
		})
	}
}

func TestAgent_HaltsWhenPlanIsTooOld(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPlanAge = 4 })
	plans := r.stubPlanner()
	r.steps(3)
	plans.onOffer = nil // the planner is silent
	r.steps(4)
	r.fails(FaultStalePlan)

	r = newRig(t, func(c *Config) { c.MaxPlanAge = 4 })
	plans = r.stubPlanner()
	r.steps(3)
	plans.onOffer = nil
	errtest.Nil(t, r.step(3, 0))
	r.fails(FaultStalePlan) // skipped ticks count
}

func TestAgent_RefusesToArmWithOldPlan(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPlanAge = 4 })
	plans := r.stubPlanner()
	r.steps(3)
	fatal.If(t, r.agent.Halt(FaultNone))
	plans.onOffer = nil
	acts := r.robot.Acts
	r.steps(20)
	if err := r.agent.Arm(0); !errors.Is(err, ErrPresent) || r.agent.Present() != FaultStalePlan {
		t.Errorf("armed with an old plan: %v", err)
	}
	r.steps(2)
	plans.confirm()
	r.steps(1)
	r.arm()
	r.steps(1)
	if r.robot.Acts != acts+1 {
		t.Errorf("%d actions, want 1", r.robot.Acts-acts)
	}
}

func TestAgent_AcceptsOldPlanThatIsConfirmed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPlanAge, c.Replan = 2, 0 })
	r.steps(50)
	if r.tick.PlanTick != 0 || r.tick.PlanConfirmed != 49 {
		t.Errorf("planned at %d, confirmed at %d", r.tick.PlanTick, r.tick.PlanConfirmed)
	}
}

func TestAgent_UsesFallbackZUntilPlanAgeLimit(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPlanAge = 3 })
	plans := r.stubPlanner()
	plans.plan, plans.onOffer = nil, nil
	var first []float64
	for i := range 4 {
		r.steps(1)
		if !r.tick.Flags.Has(FlagFallbackZ) || math.Abs(norm(r.tick.Z)-2) > 1e-12 { // √4
			t.Fatalf("z is %v", r.tick.Z)
		}
		if i == 0 {
			first = slices.Clone(r.tick.Z)
		}
		if !slices.Equal(first, r.tick.Z) {
			t.Fatal("the direction changes")
		}
	}
	r.fails(FaultStalePlan)
}

func TestAgent_ReplacesTinyZBySeededDirection(t *testing.T) {
	directions := map[uint64][]float64{}
	for _, seed := range []uint64{1, 1, 2} {
		r := newRig(t, func(c *Config) { c.Seed = seed })
		plans := r.stubPlanner()
		content := plans.onOffer
		plans.onOffer = func(s *State) {
			content(s)
			for i := range plans.plan.Z {
				plans.plan.Z[i] = 0.4e-9 // ‖z‖ = 0.8e-9
			}
		}
		r.steps(1)
		if !r.tick.Flags.Has(FlagFallbackZ) {
			t.Fatalf("the agent used z = %v", r.tick.Z)
		}
		if seen, ok := directions[seed]; ok && !slices.Equal(seen, r.tick.Z) {
			t.Error("equal seeds gave different directions")
		}
		directions[seed] = slices.Clone(r.tick.Z)
		plans.onOffer = func(s *State) { content(s); plans.plan.Z[0] = 1.1e-9 }
		r.steps(1)
		if r.tick.Flags.Has(FlagFallbackZ) {
			t.Error("the agent did not use a short z")
		}
	}
	if slices.Equal(directions[1], directions[2]) {
		t.Error("different seeds gave equal directions")
	}
}

func TestAgent_DisarmedNeitherActsNorAsks(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPlanAge = 2; c.Rho = 0.9 })
	plans := r.stubPlanner()
	plans.plan, plans.onOffer = nil, nil
	fatal.If(t, r.agent.Halt(FaultNone))
	r.source.give(value(1, 0, 1))
	r.steps(20)
	if r.robot.Acts+r.robot.Refused != 0 || len(r.source.asked) != 0 || r.tick.Flags.Has(FlagArmed) {
		t.Errorf("acted %d times, asked %d times", r.robot.Acts, len(r.source.asked))
	}
	if !r.tick.Flags.Has(FlagGateOpen) {
		t.Error("FlagGateOpen is not set")
	}
	if w := r.agent.Learner().Belief().Weight(); w != 1 {
		t.Errorf("the label weighs %v: disarmed time counted", w)
	}
	r.arm() // the age of a missing plan counts from here
	r.steps(3)
	if r.robot.Acts != 3 || len(r.source.asked) == 0 {
		t.Errorf("armed: acted %d times, asked %d times", r.robot.Acts, len(r.source.asked))
	}
	if w := r.agent.Learner().Belief().Weight(); math.Abs(w-0.729) > 1e-12 {
		t.Errorf("after three armed periods the label weighs %v", w)
	}
}

func TestAgent_FirstFaultLatchesAndBlocksArming(t *testing.T) {
	r := newRig(t, nil)
	r.steps(1)
	r.robot.ActErr = errOut
	r.fails(FaultAct)
	fatal.If(t, r.agent.Halt(FaultOverrun))
	if err := r.agent.Arm(0); !errors.Is(err, ErrFaulted) || !strings.Contains(err.Error(), FaultAct.String()) {
		t.Errorf("arm: %v", err)
	}
	r.robot.ActErr = nil
	acts := r.robot.Acts
	r.steps(5)
	if r.robot.Acts != acts || !r.robot.Halted || r.tick.Fault != FaultAct {
		t.Errorf("acts %d, halted %v, fault %v", r.robot.Acts, r.robot.Halted, r.tick.Fault)
	}
}

func TestAgent_StaysDisarmedWhenRobotRefusesToArm(t *testing.T) {
	r := newRig(t, nil)
	fatal.If(t, r.agent.Halt(FaultNone))
	r.robot.ArmErr = errOut
	if err := r.agent.Arm(0); !errors.Is(err, errOut) || r.agent.Armed() {
		t.Errorf("arm: %v", err)
	}
	r.steps(3)
	if r.robot.Acts+r.robot.Refused != 0 {
		t.Error("the robot acted")
	}
}

// rateLimited is a rig with a policy of constant 1 and a rate limit of 0.02 per
// period.
func rateLimited(t *testing.T, asRobot func(*haltest.Simulator) hal.Robot) *rig {
	r := newRig(t, nil)
	spec := haltest.Spec(rigObs, rigAction)
	spec.Action[0].MaxRate = 1
	observe := r.robot.Observe
	r.robot = haltest.NewSimulator(spec)
	r.robot.Observe = observe
	r.model.act = func(dst, _ []float32, _ []float64) error { dst[0] = 1; return nil }
	r.build(asRobot(r.robot))
	r.arm()
	return r
}

func near(x float32, want float64) bool { return math.Abs(float64(x)-want) < 1e-6 }

func TestAgent_RateLimitHoldsOverSkippedAndBadTicks(t *testing.T) {
	r := rateLimited(t, func(s *haltest.Simulator) hal.Robot { return s })
	for i, skip := range []uint64{0, 0, 5, 1, 3} {
		fatal.If(t, r.step(skip, 0))
		if !near(r.robot.Output[0], 0.02*float64(i+1)) || !r.tick.Flags.Has(FlagLimited) {
			t.Fatalf("tick %d: %v", i, r.robot.Output)
		}
	}
	r.robot.SenseErr = errOut
	r.steps(2)
	r.robot.SenseErr = nil
	r.arm() // no effect: it is armed
	r.steps(1)
	if !near(r.robot.Output[0], 0.12) {
		t.Errorf("after bad ticks: %v", r.robot.Output)
	}
	fatal.If(t, r.agent.Halt(FaultNone))
	r.arm() // from the failsafe output
	r.steps(1)
	if !near(r.robot.Output[0], 0.02) {
		t.Errorf("after a halt: %v", r.robot.Output)
	}
}

func TestAgent_RestartsRateLimitOnlyForResettableRobot(t *testing.T) {
	for _, c := range []struct {
		name string
		as   func(*haltest.Simulator) hal.Robot
		want float64
	}{
		{"simulator", func(s *haltest.Simulator) hal.Robot { return s }, 0.02},
		{"robot", func(s *haltest.Simulator) hal.Robot { return bareRobot{s.Robot} }, 0.22},
	} {
		r := rateLimited(t, c.as)
		r.steps(10)
		fatal.If(t, r.step(0, FlagEpisodeStart))
		if !near(r.robot.Output[0], c.want) {
			t.Errorf("%s: the first action of an episode is %v, want %v", c.name, r.robot.Output[0], c.want)
		}
	}
}

func TestAgent_LabelsButDoesNotActOnLastStateOfEpisode(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Gate.BackoffS = 0 })
	r.source.onAsk = func(q rewardsrc.Request) {
		if q.State == rewardsrc.Open {
			r.source.give(answer(100+q.ID, q.ID, 1))
		}
	}
	r.steps(3)
	acts, offered := r.robot.Acts, r.tick.PlanTick
	fatal.If(t, r.step(0, FlagEpisodeEnd))
	if !r.tick.Flags.Has(FlagEpisodeEnd | FlagReward | FlagAsked | FlagRequestClosed | FlagArmed) {
		t.Errorf("flags %b", r.tick.Flags)
	}
	if r.tick.Reward != float64(r.tick.Obs[0]) {
		t.Errorf("reward %v, want %v", r.tick.Reward, r.tick.Obs[0])
	}
	if a := r.applied(); a.Outcome != Applied || a.From != 3 || a.To != 3 {
		t.Errorf("%+v", a)
	}
	if r.robot.Acts != acts || r.tick.PlanTick != offered {
		t.Error("an action or a plan for the last state")
	}
	if err := r.step(0, FlagEpisodeStart); err != nil || r.robot.Acts != acts+1 || r.tick.PlanTick != 4 {
		t.Errorf("the next episode: %v, %d actions", err, r.robot.Acts)
	}
}

func TestAgent_SilenceIsNoLabel(t *testing.T) {
	r := newRig(t, nil)
	r.steps(1)
	hash := r.tick.Hash
	for range 300 { // requests open and expire without an answer
		r.steps(1)
		if r.tick.NumLabels != 0 || r.tick.Hash != hash {
			t.Fatalf("tick %d: %d labels, hash %x", r.tick.Index, r.tick.NumLabels, r.tick.Hash)
		}
	}
	if len(r.source.asked) < 2 {
		t.Errorf("asked %d times", len(r.source.asked))
	}
}

func TestAgent_CreditsAnswerToStateOfRequest(t *testing.T) {
	for name, delay := range map[string]func(r *rig){
		"at once":                       func(r *rig) {},
		"ten ticks later":               func(r *rig) { r.steps(10) },
		"after skipped ticks":           func(r *rig) { _ = r.step(20, 0); r.steps(3) },
		"after the request expired":     func(r *rig) { _ = r.step(250, 0); r.steps(60) },
		"after a while without a sense": func(r *rig) { r.robot.SenseErr = errOut; r.steps(2); r.robot.SenseErr = nil },
	} {
		t.Run(name, func(t *testing.T) {
			const rho, sigma = 0.99, 0.5
			r := newRig(t, func(c *Config) { c.Rho, c.Sigma, c.Gate.BackoffS = rho, sigma, 60 })
			r.steps(1)
			request := r.source.asked[0]
			phi := slices.Clone(r.tick.Phi)
			delay(r)
			before := r.agent.Learner().Belief().Clone()
			r.source.give(answer(1, request.ID, 0.5))
			r.steps(1)
			age := float64(r.tick.Index - request.Tick)
			a := r.applied()
			want := AppliedLabel{ID: 1, Request: request.ID, From: request.Tick, To: request.Tick, About: request.Tick,
				Value: 0.5, Confidence: 1, Weight: math.Pow(rho, age) / (sigma * sigma),
				Kind: rewardsrc.Value, Outcome: Applied}
			if math.Abs(a.Weight-want.Weight) > 1e-12 {
				t.Errorf("weight %v, want %v", a.Weight, want.Weight)
			}
			want.Weight = a.Weight
			if a != want {
				t.Errorf("%+v, want %+v", a, want)
			}
			before.Forget()
			if err := before.Update(phi, 0.5, a.Weight); err != nil || before.Hash() != r.tick.Hash {
				t.Errorf("the belief does not hold a label at the φ of the request (%v)", err)
			}
			r.source.give(answer(2, request.ID, 0.5))
			r.steps(1)
			if got := r.applied().Outcome; got != Duplicate {
				t.Errorf("a second answer: %v", got)
			}
		})
	}
}

func TestAgent_RefusesAnswerWithoutFeatures(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Gate.TimeoutS = 0.1; c.Credit = CreditConfig{} })
	r.steps(1)
	for range len(r.agent.learner.history.moments) {
		r.steps(1)
	}
	r.source.give(answer(1, 1, 1), answer(2, 999, 1))
	hash := r.tick.Hash
	r.steps(1)
	late, unknown := r.tick.Labels[0].Outcome, r.tick.Labels[1].Outcome
	if late != TooOld && late != UnknownRequest || unknown != UnknownRequest || r.tick.Hash != hash {
		t.Errorf("outcomes %v, %v", late, unknown)
	}
}

func TestAgent_CantTellClosesRequestWithoutUpdate(t *testing.T) {
	r := newRig(t, nil)
	r.steps(1)
	hash := r.tick.Hash
	r.source.give(rewardsrc.Label{ID: 1, Kind: rewardsrc.CantTell, Request: 1})
	r.steps(1)
	if a := r.applied(); a.Outcome != ClosedRequest || r.tick.Hash != hash {
		t.Errorf("%+v", a)
	}
	if !r.tick.Flags.Has(FlagRequestClosed) || r.tick.Request != 0 {
		t.Errorf("flags %b, open request %d", r.tick.Flags, r.tick.Request)
	}
	last := r.source.asked[len(r.source.asked)-1]
	if last.ID != 1 || last.State != rewardsrc.Answered {
		t.Errorf("the source received %+v", last)
	}
}

func TestAgent_RequestExpiresDuringSenseFailures(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Gate.TimeoutS = 0.1; c.Guard.MaxBadTicks = 50; c.MaxPlanAge = 100 })
	r.steps(1)
	r.robot.SenseErr = errOut
	r.steps(5)
	if !r.tick.Flags.Has(FlagRequestClosed) || r.tick.Request != 0 {
		t.Errorf("flags %b, open request %d", r.tick.Flags, r.tick.Request)
	}
}

func TestAgent_AppliesAtMostMaxLabelsPerTick(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Gate.Off = true })
	r.steps(1)
	n := newNaive(r.cfg, rigLatent, 1000)
	n.observe(0, r.tick.SenseAt, r.tick.Phi)
	const flood = 2*MaxLabels + 3
	for id := uint64(1); id <= flood; id++ {
		r.source.give(value(id, 0, float64(id)/flood))
		n.apply(value(id, 0, float64(id)/flood), 0)
	}
	for _, want := range []uint64{MaxLabels, MaxLabels, 3, 0} {
		r.steps(1)
		if r.tick.NumLabels != want {
			t.Fatalf("%d labels in a tick, want %d", r.tick.NumLabels, want)
		}
	}
	mustAgree(t, r.agent.Learner(), n)
}

func TestAgent_IgnoresWritesToSharedTick(t *testing.T) {
	r := newRig(t, nil)
	plans := r.stubPlanner()
	content := plans.onOffer
	corrupt := func() {
		for i := range r.tick.Action {
			r.tick.Action[i] = float32(nan)
		}
		for i := range r.tick.Z {
			r.tick.Z[i] = nan
		}
		r.tick.Flags = ^Flags(0)
		r.tick.NumLabels = math.MaxUint64
		r.tick.Index = 0
	}
	plans.onOffer = func(s *State) { content(s); corrupt() }
	r.model.act = func(dst, obs []float32, z []float64) error {
		corrupt()
		if !slices.Equal(z, []float64{1, 1, 1, 1}) {
			t.Errorf("the policy got z = %v", z)
		}
		dst[0], dst[1] = 0.25, -0.25
		return nil
	}
	for range 5 {
		r.steps(1)
		recorded := slices.Equal(r.tick.Action, r.robot.Output) && r.tick.NumLabels <= MaxLabels
		if !slices.Equal(r.robot.Output, []float32{0.25, -0.25}) || !recorded {
			t.Fatalf("output %v, record %v", r.robot.Output, r.tick.Action)
		}
	}
}

func TestAgent_SourceWatchesEveryTickBeforeAsk(t *testing.T) {
	r := newRig(t, nil)
	r.source.onAsk = func(q rewardsrc.Request) {
		if w := r.source.watched[len(r.source.watched)-1]; q.State == rewardsrc.Open && w.tick != q.Tick {
			t.Errorf("asked about tick %d having seen %d", q.Tick, w.tick)
		}
	}
	for i := range 20 {
		r.robot.SenseErr = nil
		if i%5 == 3 {
			r.robot.SenseErr = errOut
		}
		r.steps(1)
	}
	for i, w := range r.source.watched {
		if w.tick != uint64(i) || w.ok != (i%5 != 3) || (i > 0 && w.at < r.source.watched[i-1].at) {
			t.Errorf("tick %d: %+v", i, w)
		}
	}
}

func TestAgent_HaltsOnPlannerErrorInLockstep(t *testing.T) {
	r := newRig(t, nil)
	r.steps(2)
	r.model.search = func([]float32, []float32, tflite.Belief) (int, float32, error) { return 0, 0, errOut }
	if fault := r.fails(FaultHost); !errors.Is(fault, errOut) {
		t.Errorf("the cause is missing: %v", fault)
	}
}

func TestAgent_IgnoresNonFiniteReward(t *testing.T) {
	r := newRig(t, nil)
	for _, x := range []float64{nan, inf, -inf} {
		r.robot.RewardOf = func([]float32) float64 { return x }
		r.steps(1)
		if r.tick.Flags.Has(FlagReward) || r.tick.Reward != 0 {
			t.Errorf("reward %v", r.tick.Reward)
		}
	}
}

func TestNewAgent_RefusesRobotThatDoesNotFitModel(t *testing.T) {
	parts := func(spec hal.Spec) Parts {
		model := newStub(rigObs, rigAction, rigLatent)
		return Parts{Robot: describedRobot{spec: spec}, Source: &stubSource{}, Model: model}
	}
	for name, spec := range map[string]hal.Spec{
		"observations": haltest.Spec(rigObs+1, rigAction),
		"actions":      haltest.Spec(rigObs, rigAction-1),
		"period":       func() hal.Spec { s := haltest.Spec(rigObs, rigAction); s.Period = 0; return s }(),
	} {
		_, err := NewAgent(DefaultConfig(), parts(spec))
		if err == nil || !strings.HasPrefix(err.Error(), "controller: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := NewAgent(Config{}, parts(haltest.Spec(rigObs, rigAction)))
	if !errors.Is(err, ErrConfig) {
		t.Errorf("no configuration: %v", err)
	}
}

// describedRobot implements Spec only.
type describedRobot struct {
	hal.Robot
	spec hal.Spec
}

func (d describedRobot) Spec() hal.Spec { return d.spec }
