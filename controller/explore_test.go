package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// between returns the angle between x and y in degrees, from all minors (Lagrange's identity).
func between(x, y []float64) float64 {
	dot, minors, scale := 0.0, 0.0, 1/norm(x)/norm(y)
	for i := range x {
		dot += x[i] * scale * y[i]
		for j := range i {
			m := x[i]*scale*y[j] - x[j]*scale*y[i]
			minors += m * m
		}
	}
	return math.Atan2(math.Sqrt(minors), dot) * 180 / math.Pi
}

// nearestOf returns the vetted task at the smallest angle from z, and that angle.
func nearestOf(vetted [][]float64, z []float64) (task []float64, degrees float64) {
	degrees = inf
	for _, v := range vetted {
		if a := between(v, z); a < degrees {
			task, degrees = v, a
		}
	}
	return task, degrees
}

const roundingDeg = 1e-6

// drawZ draws a z that is unlike the last one, equal, opposite or very near to it.
func drawZ(t *rapid.T, random *rand.Rand, last []float64, d int) []float64 {
	z := gaussian(random, d)
	scale := math.Pow(10, rapid.Float64Range(-6, 6).Draw(t, "scale"))
	kind := rapid.SampledFrom([]string{"any", "axis", "same", "opposite", "near"}).Draw(t, "z")
	for i := range z {
		switch {
		case kind == "axis":
			z[i] = 0
		case kind == "any" || last == nil:
		case kind == "same":
			z[i] = last[i]
		case kind == "opposite":
			z[i] = -last[i]
		case kind == "near":
			z[i] = last[i] + 1e-7*z[i]*norm(last)
		}
	}
	if kind == "axis" {
		z[random.IntN(d)] = 1
	}
	for i := range z {
		z[i] *= scale
	}
	return z
}

func TestExplorer_KeepsAnyZWithinBothLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 7).Draw(t, "d")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		cfg := ExploreConfig{
			WithinDeg:   rapid.SampledFrom([]float64{0, 0.01, 3, 30, 79, 80}).Draw(t, "within"),
			TurnDegPerS: rapid.SampledFrom([]float64{0, 0.1, 20, 2000, 6000, 9000, 36_000}).Draw(t, "turn"),
		}
		for range rapid.IntRange(1, 4).Draw(t, "tasks") {
			cfg.Vetted = append(cfg.Vetted, gaussian(random, d))
			cfg.Tasks = append(cfg.Tasks, "task")
		}
		e, err := newExplorer(cfg, d, testPeriod)
		if err != nil {
			t.Fatal(err)
		}
		step := min(90, cfg.TurnDegPerS*testPeriod.Seconds())
		tick := NewTick(Shape{1, 1, d, 0})
		var last []float64
		for range 40 {
			z := drawZ(t, random, last, d)
			tick.Flags = 0
			copy(tick.Z, z)
			e.limit(tick)
			mustKeepLimits(t, cfg, step, last, z, tick)
			last = slices.Clone(tick.Z)
		}
	})
}

// mustKeepLimits compares a limited z with angles, given the z planned and the last one.
func mustKeepLimits(t *rapid.T, cfg ExploreConfig, step float64, last, planned []float64, tick *Tick) {
	z := tick.Z
	if math.Abs(norm(z)-norm(planned)) > 1e-9*norm(planned) {
		t.Fatalf("the norm %g became %g", norm(planned), norm(z))
	}
	if !slices.Equal(z, planned) && !tick.Flags.Has(FlagExplore) {
		t.Fatal("a changed z has no flag")
	}
	task, off := nearestOf(cfg.Vetted, planned)
	outside := cfg.WithinDeg > 0 && off > cfg.WithinDeg+roundingDeg
	if _, after := nearestOf(cfg.Vetted, z); cfg.WithinDeg > 0 && after > cfg.WithinDeg+roundingDeg {
		t.Fatalf("%g° off the nearest vetted task, the limit is %g°", after, cfg.WithinDeg)
	}
	turned := 0.0
	if last != nil {
		turned = between(last, z)
	}
	if cfg.TurnDegPerS > 0 && turned > step+roundingDeg {
		t.Fatalf("turned by %g°, the limit is %g°", turned, step)
	}
	free := cfg.TurnDegPerS == 0 || last == nil
	switch {
	case free && outside && off < 179.999: // it is where the great circle to the task meets the cone
		if a := between(task, z); math.Abs(a-cfg.WithinDeg) > roundingDeg {
			t.Fatalf("%g° from the vetted task, want %g°", a, cfg.WithinDeg)
		}
		if a := between(z, planned); math.Abs(a-(off-cfg.WithinDeg)) > roundingDeg {
			t.Fatalf("%g° from the plan, want %g°", a, off-cfg.WithinDeg)
		}
	case !free && cfg.WithinDeg == 0 && len(z) > 1: // it is on the great circle to the plan
		way := between(last, planned)
		if math.Abs(turned-min(step, way)) > roundingDeg || math.Abs(turned+between(z, planned)-way) > roundingDeg {
			t.Fatalf("turned by %g° of %g°, %g° are left", turned, way, between(z, planned))
		}
	}
	within := cfg.WithinDeg == 0 || off < cfg.WithinDeg-roundingDeg
	if within && (free || between(last, planned) < step-roundingDeg) && !slices.Equal(z, planned) {
		t.Fatal("a z within the limits changed")
	}
}

// exploring makes a rig of a robot that cannot be reset, with a stub planner, and records each z
// of the policy.
func exploring(t *testing.T, cfg ExploreConfig) (r *rig, plans *stubPlans, followed *[][]float64) {
	t.Helper()
	r = newRig(t, func(c *Config) { c.Explore, c.MaxPlanAge = cfg, 1<<40 })
	plans = newStubPlans(Shape{rigObs, rigAction, rigLatent, 0})
	plans.confirm()
	r.plans = plans
	r.build(bareRobot{r.robot})
	r.arm()
	followed = new([][]float64)
	r.model.act = func(dst, _ []float32, z []float64) error {
		*followed = append(*followed, slices.Clone(z))
		clear(dst)
		return nil
	}
	return r, plans, followed
}

var axes = [][]float64{{2, 0, 0, 0}, {0, 0.5, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}

func TestAgent_HostCannotTurnZFaster(t *testing.T) {
	const step = 1.8 // 90°/s at 20 ms
	r, plans, followed := exploring(t, ExploreConfig{TurnDegPerS: 90})
	plan := plans.plan
	confirm := plans.onOffer
	plans.plan, plans.onOffer = nil, nil
	r.steps(1) // the fallback direction
	plans.plan = plan
	random := rand.New(rand.NewPCG(4, 2))
	attacks := []func(){
		func() { copy(plan.Z, gaussian(random, rigLatent)) },
		func() { copy(plan.Z, (*followed)[len(*followed)-1]); negate(plan.Z) },
		func() { clear(plan.Z); plan.Z[random.IntN(4)] = 1e150 },
		func() { clear(plan.Z); plan.Z[random.IntN(4)] = -1e-8 },
		func() { clear(plan.Z) }, // the fallback direction
		func() { plan.Tick, plan.Confirmed = 0, 0 },
	}
	for i := range 600 {
		plans.onOffer = func(s *State) { confirm(s); attacks[random.IntN(len(attacks))]() }
		flags := Flags(0)
		if i%50 == 0 {
			flags = FlagEpisodeStart
		}
		fatal.If(t, r.step(uint64(i%9), flags))
		if !slices.Equal(r.tick.Z, (*followed)[len(*followed)-1]) {
			t.Fatal("the tick does not record the followed z")
		}
	}
	if len(*followed) != 601 {
		t.Fatalf("%d z followed", len(*followed))
	}
	for i, z := range (*followed)[1:] {
		if a := between((*followed)[i], z); a > step+roundingDeg {
			t.Fatalf("z %d turned by %g°, the limit is %g°", i+1, a, step)
		}
	}
}

func negate(x []float64) {
	for i := range x {
		x[i] = -x[i]
	}
}

func TestAgent_ContinuesItsTurnAfterARefusedPlan(t *testing.T) {
	r, plans, followed := exploring(t, ExploreConfig{TurnDegPerS: 90})
	r.steps(3)
	confirm := plans.onOffer
	plans.onOffer = func(s *State) { confirm(s); plans.plan.Z[2] = nan }
	r.fails(FaultHost)
	if len(*followed) != 3 || norm(r.tick.Z) != 0 {
		t.Fatalf("%d z followed; the tick records %v", len(*followed), r.tick.Z)
	}
	plans.onOffer = func(s *State) { confirm(s); copy(plans.plan.Z, axes[3]) }
	r.steps(1)
	fatal.If(t, r.agent.Reset(), r.agent.Arm(0))
	r.steps(1)
	if a := between((*followed)[2], r.tick.Z); math.Abs(a-2*1.8) > roundingDeg {
		t.Errorf("%g° after two ticks, want 3.6°", a)
	}
}

func TestAgent_RestartsItsTurnOnlyAfterAResetOfASimulator(t *testing.T) {
	for _, simulator := range []bool{true, false} {
		r, plans, _ := exploring(t, ExploreConfig{TurnDegPerS: 90})
		if simulator {
			r.build(r.robot)
			r.arm()
		}
		r.steps(1)
		before := slices.Clone(r.tick.Z)
		confirm := plans.onOffer
		plans.onOffer = func(s *State) { confirm(s); copy(plans.plan.Z, before); negate(plans.plan.Z) }
		fatal.If(t, r.step(0, FlagEpisodeStart))
		want := 1.8
		if simulator {
			want = 180
		}
		if a := between(before, r.tick.Z); math.Abs(a-want) > roundingDeg {
			t.Errorf("simulator %t: turned by %g°, want %g°", simulator, a, want)
		}
	}
}

func TestAgent_FollowsItsVettedTaskUntilALabelCounts(t *testing.T) {
	cfg := ExploreConfig{Tasks: []string{"a", "b"}, Vetted: axes[:2], UntilLabel: true}
	r, plans, followed := exploring(t, cfg)
	plan, confirm := plans.plan, plans.onOffer
	plans.plan, plans.onOffer = nil, nil
	r.steps(1) // no plan, so not the fallback direction either
	plans.plan, plans.onOffer = plan, confirm
	mustFollow := func(what string, want []float64, flag bool) {
		t.Helper()
		r.steps(1)
		if z := (*followed)[len(*followed)-1]; !slices.Equal(z, want) || r.tick.Flags.Has(FlagExplore) != flag {
			t.Fatalf("%s: follows %v, want %v; flags %b", what, z, want, r.tick.Flags)
		}
	}
	if !slices.Equal(r.tick.Z, axes[0]) {
		t.Fatalf("without a plan: follows %v", r.tick.Z)
	}
	mustFollow("no label", axes[0], true)
	for name, label := range map[string]rewardsrc.Label{
		"an undo":           {ID: 1, Kind: rewardsrc.Undo},
		"can't tell":        {ID: 2, Kind: rewardsrc.CantTell, Request: r.tick.Request},
		"a value of no use": {ID: 3, Kind: rewardsrc.Value, Tick: 0, Value: nan},
		"a future value":    value(4, 1<<40, 1),
		"an unknown kind":   {ID: 5, Kind: 77},
	} {
		r.source.give(label)
		mustFollow(name, axes[0], true)
	}
	r.source.give(value(6, r.next-1, 1))
	mustFollow("a label", plan.Z, false)
	r.source.give(rewardsrc.Label{ID: 7, Kind: rewardsrc.Undo, Undoes: 6})
	mustFollow("its undo", plan.Z, false)
}

func TestAgent_RandomPlansStayNearVettedTasks(t *testing.T) {
	cfg := ExploreConfig{Tasks: []string{"a", "b", "c"}, Vetted: axes[:3], WithinDeg: 25}
	r := newRig(t, func(c *Config) { c.Strategy, c.Explore = Random, cfg })
	visited := map[int]bool{}
	for range 300 {
		r.steps(1)
		_, off := nearestOf(axes[:3], r.tick.Z)
		if off > 25+roundingDeg {
			t.Fatalf("%g° off the nearest vetted task", off)
		}
		for i, v := range axes[:3] {
			visited[i] = visited[i] || between(v, r.tick.Z) <= 25+roundingDeg
		}
	}
	if !visited[0] || !visited[1] || !visited[2] {
		t.Errorf("visited %v", visited)
	}
}

func TestExplorer_LeavesAConeForOneThatMeetsIt(t *testing.T) {
	cfg := ExploreConfig{Tasks: []string{"a", "b"}, Vetted: axes[:2], WithinDeg: 46, TurnDegPerS: 90}
	e, err := newExplorer(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	tick := NewTick(Shape{1, 1, rigLatent, 0})
	copy(tick.Z, axes[0])
	e.limit(tick)
	for range 50 { // 90° at 1.8° a tick
		copy(tick.Z, axes[1])
		e.limit(tick)
	}
	if a := between(tick.Z, axes[1]); a > roundingDeg {
		t.Errorf("%g° are left", a)
	}
}

func TestNewAgent_RefusesVettedTasksWithoutZ(t *testing.T) {
	r := newRig(t, nil)
	r.cfg.Explore = ExploreConfig{Tasks: []string{"a"}, WithinDeg: 10}
	_, err := NewAgent(r.cfg, Parts{Robot: r.robot, Source: r.source, Model: r.model, Plans: r.plans})
	if !errors.Is(err, ErrConfig) {
		t.Errorf("error %v", err)
	}
}

func TestExploreConfig_ValidateNamesKeyOfMistake(t *testing.T) {
	mustRefuse(t, map[string][]func(*Config){
		"explore.within_deg": append(numbers(func(c *Config, x float64) {
			c.Explore.WithinDeg, c.Explore.Tasks = x, []string{"a"}
		}, -1, nan, inf, 80.1),
			func(c *Config) { explore(c, 20, 90, basisVector(0), basisVector(0), basisVector(1)) }),
		"explore.turn_deg_per_s": numbers(func(c *Config, x float64) {
			c.Explore.TurnDegPerS = x
		}, -1, nan, inf, 36_001),
		"explore.tasks": {
			func(c *Config) { c.Explore.WithinDeg = 10 },
			func(c *Config) { c.Explore.UntilLabel = true },
			func(c *Config) { c.Explore.Tasks = []string{"unused"} },
			func(c *Config) { explore(c, 20, 0, make([]float64, 50)) },
			func(c *Config) { explore(c, 20, 0, slices.Repeat([]float64{nan}, 50)) },
			func(c *Config) { explore(c, 20, 0, []float64{1}) },
			func(c *Config) { explore(c, 20, 0, basisVector(0)); c.Explore.Tasks = []string{"a", "b"} },
			func(c *Config) { explore(c, 20, 0, slices.Repeat([][]float64{basisVector(1)}, 17)...) },
		},
	})
}

func TestExploreConfig_AcceptsConesThatMeet(t *testing.T) {
	cfg := DefaultConfig()
	explore(&cfg, 46, 90, basisVector(0), basisVector(1), basisVector(2))
	errtest.Nil(t, cfg.Validate(50))
}

func explore(c *Config, within, turn float64, vetted ...[]float64) {
	c.Explore = ExploreConfig{
		Tasks: make([]string, len(vetted)), Vetted: vetted, WithinDeg: within, TurnDegPerS: turn,
	}
}

func basisVector(i int) []float64 {
	z := make([]float64, 50)
	z[i] = 1
	return z
}
