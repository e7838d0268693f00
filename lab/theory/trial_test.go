package theory

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/posterior"
)

// trialOf returns a trial of a method on a process, with a task of norm 1.
func trialOf(t testing.TB, m MDP, method method, seed uint64) Trial {
	t.Helper()
	return Trial{
		Solution: solved(t, m), Config: method.config, Exact: method.exact, Noise: noise,
		Task: Task{Z: direction(rand.New(rand.NewPCG(seed, taskStream)), m.Dim)}, Episodes: method.episodes,
		Seed: seed, Slip: slip, Sets: method.sets,
	}
}

func run(t testing.TB, trial Trial) Trace {
	t.Helper()
	trace, err := trial.Run()
	fatal.If(t, err)
	return trace
}

func TestTrial_IsAFunctionOfItsSeed(t *testing.T) {
	trial := trialOf(t, Random(1), ucb(0.1, 30), 1)
	first := run(t, trial)
	if again := run(t, trial); !reflect.DeepEqual(first, again) {
		t.Error("the same trial gave another trace")
	}
	trial.Seed++
	if other := run(t, trial); reflect.DeepEqual(first.Regret, other.Regret) {
		t.Error("another seed gave the same regret")
	}
}

func TestTrial_RegretIsNonNegativeAndZeroForTheOracle(t *testing.T) {
	for _, everyTick := range []bool{false, true} {
		method := ucb(0.1, 50)
		if everyTick {
			method = method.everyTick()
		}
		trial := trialOf(t, Random(2), method, 2)
		last := 0.0
		for i, regret := range run(t, trial).Regret {
			if regret < last-1e-12 {
				t.Fatalf("episode %d has the regret %g", i, regret-last)
			}
			last = regret
		}
		trial.Config.Strategy, trial.Config.FixedZ = controller.Fixed, trial.Task.Z
		if regret := run(t, trial).Regret[49]; math.Abs(regret) > 1e-9 {
			t.Errorf("with z* the regret is %g", regret)
		}
	}
}

// The regret in values at the start of an episode and the sum over its steps have the same
// expectation (performance difference lemma).
func TestTrial_BothMeasuresOfRegretAgree(t *testing.T) {
	const episodes = 5000
	method := ucb(0.1, episodes).strategy(controller.Fixed)
	method.config.FixedZ = []float64{1, -1, 0.5, 0.25}
	byValue, byStep := trialOf(t, Random(3), method, 3), trialOf(t, Random(3), method.everyTick(), 3)
	byValue.Task.Misfit = []float64{0.2, -0.2, 0.2, 0.2, -0.2, -0.2, 0.2, -0.2, -0.2, 0.2}
	byStep.Task.Misfit = byValue.Task.Misfit
	values, steps := run(t, byValue), run(t, byStep)
	each := make([]float64, episodes)
	for i := range each {
		each[i] = steps.Regret[i] - values.Regret[i]
		if i > 0 {
			each[i] -= steps.Regret[i-1] - values.Regret[i-1]
		}
	}
	mean, deviation := stat.MeanStdDev(each, nil)
	if values.Regret[episodes-1] < 0.1*episodes {
		t.Fatalf("a wrong z has a regret of only %g", values.Regret[episodes-1])
	}
	if math.Abs(mean) > 4*deviation/math.Sqrt(episodes) {
		t.Errorf("they differ by %g ± %g an episode", mean, deviation/math.Sqrt(episodes))
	}
}

func TestTrial_RegretIsThatOfTheTrueRewards(t *testing.T) {
	m := Fork(6) // an episode always begins in state 0
	method := ucb(0.1, 1).strategy(controller.Fixed).misfitted()
	method.config.FixedZ = []float64{1, -1, 0.5, 0.25}
	trial := trialOf(t, m, method, 6)
	trial.Task.Misfit = gaussian(rand.New(rand.NewPCG(6, 6)), m.States)
	policy := trial.Solution.Optimal(method.config.FixedZ, 0)
	best, followed := make([]float64, m.States), make([]float64, m.States)
	for range 200 { // value iteration, whose error falls by γ
		higher, lower := make([]float64, m.States), make([]float64, m.States)
		for state := range m.States {
			higher[state] = math.Inf(-1)
			for action := range m.Actions {
				q, own := 0.0, 0.0
				for to, p := range m.next(state, action) {
					q += p * (trial.Task.Reward(m, to) + m.Gamma*best[to])
					own += p * (trial.Task.Reward(m, to) + m.Gamma*followed[to])
				}
				higher[state] = max(higher[state], q)
				if action == trial.Solution.Action(policy, state) {
					lower[state] = own
				}
			}
		}
		best, followed = higher, lower
	}
	want := best[0] - followed[0]
	if got := run(t, trial).Regret[0]; math.Abs(got-want) > 1e-9 || want < 0.1 {
		t.Errorf("found %g, want %g", got, want)
	}
}

func TestMDP_WithFeatureGivesTheValueOfTheNonlinearPart(t *testing.T) {
	m := Random(5)
	misfit := gaussian(rand.New(rand.NewPCG(5, 5)), m.States)
	s := solved(t, m.withFeature(misfit))
	if other := solved(t, m); s.policies != other.policies || !slices.Equal(s.choices, other.choices) {
		t.Fatal("the policies have other numbers")
	}
	const policy = 77
	value := make([]float64, m.States)
	for range 200 { // iterates v = P (m + γ v), whose error falls by γ
		next := make([]float64, m.States)
		for state := range next {
			for to, p := range m.next(state, s.Action(policy, state)) {
				next[state] += p * (misfit[to] + m.Gamma*value[to])
			}
		}
		value = next
	}
	for state, want := range value {
		if got := s.Psi(policy, state)[m.Dim]; math.Abs(got-want) > 1e-9 {
			t.Errorf("state %d: found %g, want %g", state, got, want)
		}
	}
}

func TestRunner_DistanceIsMeasuredInV(t *testing.T) {
	m := Random(4)
	trial := trialOf(t, m, ucb(0.1, 1), 4)
	b := taught(t, m, trial.Task.Z, 25, 4)
	r := &runner{Trial: trial, flat: make([]float64, posterior.StateLen(m.Dim)), mean: make([]float64, m.Dim)}
	got := r.distance(b)
	diff := mat.NewVecDense(m.Dim, nil)
	diff.SubVec(mat.NewVecDense(m.Dim, trial.Task.Z), mat.NewVecDense(m.Dim, r.mean))
	if want := math.Sqrt(mat.Inner(diff, precision(t, b), diff)); math.Abs(got-want) > 1e-9*want {
		t.Errorf("found %g, want %g", got, want)
	}
}

func TestTrial_OptimismFindsTheBestRoom(t *testing.T) {
	const runs = 12
	stuck, lost := 0, 0
	for seed := range uint64(runs) {
		optimist := ucb(0.1, 400)
		for _, each := range []struct {
			method method
			count  *int
		}{{optimist, &lost}, {optimist.greedy(), &stuck}} {
			regret := run(t, trialOf(t, Fork(seed), each.method, seed)).Regret
			if regret[399]-regret[299] > 10 {
				*each.count++
			}
		}
	}
	if lost > 0 || stuck < 2 {
		t.Errorf("%d optimistic and %d greedy of %d runs lose more than 0.1 an episode after 300", lost, stuck, runs)
	}
}

func TestTrial_RegretStaysWithinItsBounds(t *testing.T) {
	for seed := range uint64(6) {
		for _, method := range []method{ucb(0.1, 200), ucb(0.1, 200).exactly()} {
			for _, m := range []MDP{Random(seed), Fork(seed)} {
				trace := run(t, trialOf(t, m, method, seed))
				for i, regret := range trace.Regret {
					if regret > trace.Realised[i] || trace.Realised[i] > trace.Closed[i] {
						t.Fatalf("seed %d, episode %d: regret %g, Σ 2β‖ψ‖ %g, closed bound %g, want a rising order",
							seed, i, regret, trace.Realised[i], trace.Closed[i])
					}
				}
			}
		}
	}
}

func TestBound_AddMatchesTheFormula(t *testing.T) {
	// d = 4, γ = 0.8, L = 1, λ = 1, S = 1, w = 1/0.09, two episodes of 3 and 5 steps.
	b := NewBound(Fork(1), ucb(0.1, 0).config, 0.05)
	b.Add(3)
	got := b.Add(5)
	const w = 1 / 0.09
	gain := 4 * math.Log(1+w*10/4)
	a := 3*3*w/math.Log(1+3*w) + 5*5*w/math.Log(1+5*w)
	beta := 1 + math.Sqrt(gain+2*math.Log(10))
	want := 2 * beta * (2*0.3*math.Sqrt(a*gain) + 2*9*math.Log(20))
	if math.Abs(got-want) > 1e-9*want {
		t.Errorf("found %g, want %g", got, want)
	}
}

func TestTrial_RefusesBadConfigurations(t *testing.T) {
	good := trialOf(t, Random(1), ucb(0.1, 5), 1)
	for name, spoil := range map[string]func(*Trial){
		"a short z":                    func(t *Trial) { t.Task.Z = t.Task.Z[1:] },
		"a misfit of other states":     func(t *Trial) { t.Task.Misfit = []float64{1} },
		"noise that is none":           func(t *Trial) { t.Noise = -1 },
		"an unknown strategy":          func(t *Trial) { t.Config.Strategy = "brave" },
		"exact thompson":               func(t *Trial) { t.Exact, t.Config.Strategy = true, controller.Thompson },
		"exact without a β of a set":   func(t *Trial) { t.Exact, t.Config.Beta.Schedule = true, controller.Constant },
		"a plan that is never renewed": func(t *Trial) { t.Config.MaxPlanAge = 0 },
	} {
		bad := good
		spoil(&bad)
		errtest.NotNil(t, errtest.Of(bad.Run()), name)
	}
}
