package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"gonum.org/v1/gonum/mat"

	"optibfm/controller"
	"optibfm/episodes/oracle"
	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// taughtBelief returns a belief after 3d labels.
func taughtBelief(t *testing.T, d int) *posterior.Belief {
	t.Helper()
	b, err := posterior.New(d, 1, 1)
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	phi := make([]float64, d)
	for range 3 * d {
		for i := range phi {
			phi[i] = random.NormFloat64() * float64(i+1)
		}
		fatal.If(t, b.Update(phi, random.Float64(), 1))
	}
	return b
}

// TestTransposed_DrawsTheWrongCovariance compares the samples' covariance
// with (R Rᵀ)⁻¹, which gonum computes.
func TestTransposed_DrawsTheWrongCovariance(t *testing.T) {
	const d, n = 3, 200_000
	b := taughtBelief(t, d)
	s, err := newTransposed(d)
	fatal.If(t, err)
	inverse := make([]float64, d*d)
	b.InvR(inverse)
	invR := mat.NewDense(d, d, inverse)
	var wrong, right mat.Dense
	wrong.Mul(invR.T(), invR) // R⁻ᵀ R⁻¹
	right.Mul(invR, invR.T()) // R⁻¹ R⁻ᵀ = V⁻¹
	mean, sum := make([]float64, d), mat.NewDense(d, d, nil)
	b.Mean(mean)
	random, z := rand.New(rand.NewPCG(3, 4)), make([]float64, d)
	for range n {
		s.Gaussian(z, b, 1, random)
		for i := range z {
			z[i] -= mean[i]
		}
		v := mat.NewVecDense(d, z)
		sum.RankOne(sum, 1.0/n, v, v)
	}
	scale := mat.Norm(&wrong, 2)
	var off mat.Dense
	off.Sub(sum, &wrong)
	if e := mat.Norm(&off, 2) / scale; e > 0.02 {
		t.Errorf("off by %g of (R Rᵀ)⁻¹", e)
	}
	off.Sub(sum, &right)
	if e := mat.Norm(&off, 2) / scale; e < 0.05 {
		t.Errorf("the covariance is V⁻¹ to %g: the mistake is not made", e)
	}
}

func TestDelayed_ReturnsPlansOfTheirAge(t *testing.T) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}
	model, err := tflitetest.Bundle(dims, 1).NewNetwork()
	fatal.If(t, err)
	cfg := controller.DefaultConfig()
	cfg.Strategy = controller.Random
	planner, err := controller.NewPlanner(cfg, model)
	fatal.If(t, err)
	belief, err := cfg.NewBelief(dims.Latent)
	fatal.If(t, err)
	plans := newDelayed(controller.NewLockstep(planner), controller.Shape{Obs: 3, Action: 2, Latent: 4}, 3)
	for tick := range uint64(10) {
		s := plans.State()
		s.Next, s.Valid = tick+1, 1
		belief.State(s.Belief)
		s.Hash, s.Scale = belief.Hash(), 1
		fatal.If(t, plans.Offer())
		p := plans.Latest()
		if tick < 3 && p != nil {
			t.Fatalf("tick %d: found a plan of tick %d", tick, p.Tick)
		}
		if tick >= 3 && (p == nil || p.Tick != tick-3) {
			t.Fatalf("tick %d: the plan is %+v", tick, p)
		}
	}
}

func TestInaccurate_EqualsTheNetworkWithoutError(t *testing.T) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 2}
	bundle := tflitetest.Bundle(dims, 1)
	network, err := bundle.NewNetwork()
	fatal.If(t, err)
	b := taughtBelief(t, dims.Latent)
	mean, invR := make([]float64, 5), make([]float64, 25)
	b.Mean(mean)
	b.InvR(invR)
	belief := tflite.Belief{Beta: 0.5, Mean: narrowed(mean), InvR: narrowed(invR)}
	random := rand.New(rand.NewPCG(5, 6))
	for _, kind := range []string{errorReLU, errorTanh} {
		exact, wrong := newInaccurate(network, 0, kind, random), newInaccurate(network, 1000, kind, random)
		checkInaccurate(t, network, exact, wrong, belief, random)
	}
}

func TestSampled_ActionsHaveThePolicysMeanAndStayWithinTheLimits(t *testing.T) {
	network, err := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 2}, 1).NewNetwork()
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(5, 6))
	obs, z := narrowed(gaussian(3, 0.1, random)), gaussian(5, 1, random)
	mean, action := make([]float32, 2), make([]float32, 2)
	fatal.If(t, network.Act(mean, obs, z))
	for _, std := range []float64{0.02, 2} {
		const n = 10_000
		model := sampled{network, std, random}
		var largest, sum, squares float64
		for range n {
			fatal.If(t, model.Act(action, obs, z))
			largest = max(largest, math.Abs(float64(action[0])))
			sum += float64(action[0])
			squares += math.Pow(float64(action[0]-mean[0]), 2)
		}
		if largest > 1 {
			t.Errorf("std %g: an action of %g", std, largest)
		}
		if std < 0.1 && (math.Abs(sum/n-float64(mean[0])) > 5*std/100 || math.Abs(math.Sqrt(squares/n)/std-1) > 0.05) {
			t.Errorf("std %g: mean %g, std %g, the policy's mean %g", std, sum/n, math.Sqrt(squares/n), mean[0])
		}
	}
}

func TestInaccurate_PapersErrorHasTheNormOne(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	network, err := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 2}, 1).NewNetwork()
	fatal.If(t, err)
	n := newInaccurate(network, 1, errorReLU, random)
	var before []float64
	for range 5 {
		copy(n.z, gaussian(5, 3, random))
		n.computeError()
		if size := floats.Norm(n.wrong, 2); math.Abs(size-1) > 1e-12 || slices.Equal(n.wrong, before) {
			t.Errorf("the error is %v, of norm %g", n.wrong, size)
		}
		before = slices.Clone(n.wrong)
	}
}

func checkInaccurate(
	t *testing.T, network *tflite.Network, exact, wrong *inaccurate, belief tflite.Belief, random *rand.Rand,
) {
	t.Helper()
	differ := 0
	for range 20 {
		obs, candidates := narrowed(gaussian(3, 1, random)), narrowed(gaussian(5*30, 1, random))
		best, score, err := network.Search(obs, candidates, belief)
		fatal.If(t, err)
		again, same, err := exact.Search(obs, candidates, belief)
		if err != nil || again != best || math.Abs(float64(same-score)) > 1e-4*math.Abs(float64(score)) {
			t.Errorf("without an error: %d of score %g, the network: %d of %g: %v", again, same, best, score, err)
		}
		other, _, err := wrong.Search(obs, candidates, belief)
		fatal.If(t, err)
		if other != best {
			differ++
		}
	}
	if differ < 10 {
		t.Errorf("an error of 1000 changes %d of 20 choices", differ)
	}
}

// TestLoLA_FindsTheRewardedDirection rewards each step by the first element of
// the z in force.
func TestLoLA_FindsTheRewardedDirection(t *testing.T) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}
	network, err := tflitetest.Bundle(dims, 1).NewNetwork()
	fatal.If(t, err)
	trial := Trial{Seed: 1, settings: Settings{Horizon: []int{5}, Replay: []int{100}}.over(defaultSettings())}
	l := newLoLA(network, 0.98, trial, &meter{obs: make([]float32, 3)})
	begin := l.theta[0]
	for tick := range uint64(20_000) {
		s := l.State()
		s.Next, s.Episode = tick+1, uint32(tick/1000)
		l.Watch(tick, 0, 100*l.z[0], true)
		fatal.If(t, l.Offer())
	}
	if l.theta[0] < 0.9 || begin > 0.9 {
		t.Errorf("θ was %.2f and is %.2f of the direction", begin, l.theta[0])
	}
	norm := 0.0
	for _, x := range l.plan.Z {
		norm += x * x
	}
	if math.Abs(norm-4) > 1e-9 {
		t.Errorf("‖z‖² is %g", norm)
	}
}

func TestNewOperator_AppliesSettings(t *testing.T) {
	settings := Settings{Bias: []float64{0.25}, Delay: []float64{0.1}}
	source, err := newOperator(Trial{Env: Rover, settings: settings.over(defaultSettings())})
	fatal.If(t, err)
	watcher := source.(rewardsrc.Watcher)
	var got []rewardsrc.Label
	labels := make([]rewardsrc.Label, 8)
	for tick := range uint64(4) {
		watcher.Watch(tick, int64(tick)*50e6, 0.1, true)
		got = append(got, labels[:source.Poll(labels)]...)
	}
	if len(got) != 2 || got[0].Tick != 0 || got[0].Value != 0.1+0.25*2 {
		t.Errorf("the labels are %+v", got)
	}
	if s := (Settings{Kappa: []float64{0}}).over(defaultSettings()); !s.asks() {
		t.Error("with a κ nothing is asked")
	}
	if s := defaultSettings(); s.asks() {
		t.Error("without a κ something is asked")
	}
}

// operatorOf returns the operator of a method of the rover.
func operatorOf(t *testing.T, method string) (Trial, scripted.Config) {
	t.Helper()
	trial := parsed(t, `
version: 1
experiment: a
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods: [`+method+`]`).Trials()[0]
	return trial, operatorConfig(trial)
}

func TestOperatorConfig_ComparesLikeTheRobot(t *testing.T) {
	trial, cfg := operatorOf(t, "{name: thompson, operator: [comparing], mistakes: [0.1], max_labels: [50]}")
	want := scripted.Config{
		CompareS: controller.DefaultConfig().Credit.CompareS, MaxLabels: 50, MistakeProbability: 0.1,
		RewardLow: -1, RewardHigh: 1, Seed: trial.Seed, Mode: scripted.EveryTick,
	}
	if cfg != want {
		t.Errorf("the operator is\n%+v, want\n%+v", cfg, want)
	}
}

func TestOperatorConfig_PersonHasItsDefaults(t *testing.T) {
	trial, cfg := operatorOf(t, "{name: thompson, operator: [person], labels_per_minute: [30]}")
	want := scripted.Config{
		Mode: scripted.WhenAsked, ReactionMinS: 0.3, ReactionMaxS: 1.5, MemoryS: 0.25,
		Drift: scripted.Drift{Start: 0.4, MinuteStd: 0.1, Bound: 0.4}, MistakeProbability: 0.1, Levels: 5,
		RewardLow: -1, RewardHigh: 1, Absence: scripted.Absence{AwayS: 15, EveryS: 60},
		Fatigue: scripted.Fatigue{HalfLife: 100, RecoveryS: 300}, Seed: trial.Seed,
	}
	if cfg != want {
		t.Errorf("a person is\n%+v, want\n%+v", cfg, want)
	}
	if trial.Params != "labels_per_minute=30;operator=person" {
		t.Errorf("params: %s", trial.Params)
	}
	if trial.settings.longestDelay() != 1.5 {
		t.Errorf("answers take up to %g s", trial.settings.longestDelay())
	}
}

func TestOperatorConfig_SettingsChangeAPerson(t *testing.T) {
	const exact = "mistakes: [0], silence: [0], bias: [0], levels: [0]"
	_, cfg := operatorOf(t, "{name: thompson, operator: [person], "+exact+"}")
	if cfg.MistakeProbability != 0 || cfg.Absence.AwayS != 0 || cfg.Drift.Start != 0 || cfg.Levels != 0 {
		t.Errorf("the person kept a flaw: %+v", cfg)
	}
	if cfg.Mode != scripted.EveryTick || cfg.MemoryS == 0 {
		t.Errorf("not a person who labels every step: %+v", cfg)
	}
}

func TestOperatorConfig_SimpleOperatorHasOnlyItsSettings(t *testing.T) {
	trial, cfg := operatorOf(t, "{name: thompson, mistakes: [0.1], bias: [0.2], levels: [5], delay_s: [1]}")
	want := scripted.Config{
		Mode: scripted.EveryTick, DelayS: 1, MistakeProbability: 0.1, Levels: 5, Bias: 0.4,
		RewardLow: -1, RewardHigh: 1, Seed: trial.Seed,
	}
	if cfg != want {
		t.Errorf("a simple operator is\n%+v, want\n%+v", cfg, want)
	}
}

func TestRunner_LearnsFromAPerson(t *testing.T) {
	returns := lastReturns(t, parsed(t, `
version: 1
experiment: a
run: {trials: 10, episodes: 4, episode_steps: 300}
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods:
  - {name: thompson, preset: [person], operator: [person], labels_per_minute: [30]}
  - {name: random}`))
	person, random := returns["thompson labels_per_minute=30;operator=person;preset=person"], returns["random "]
	if !(person > random+30) {
		t.Errorf("the last episode returns %v, at random %v", person, random)
	}
}

func TestScores_WritesRowsOfBudgetsEpisodesAndPeriods(t *testing.T) {
	s := &scores{run: Run{Episodes: 2, EpisodeSteps: 3, RewardEvery: 2, LabelBudgets: []int{2, 5}}}
	tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	index := 0
	for episode := range uint32(2) {
		for step := range uint32(4) {
			*tick.Header = controller.Header{Episode: episode, Step: step, Reward: float64(index), NumLabels: 1}
			tick.Labels[0] = controller.AppliedLabel{Outcome: controller.Applied, Kind: rewardsrc.Value}
			if step == 3 {
				tick.Flags |= controller.FlagEpisodeEnd
			}
			index++
			if !s.exhausted() {
				s.addTick(tick)
			}
		}
	}
	s.finish(5, 0.5)
	type short struct {
		measure  string
		x, value float64
	}
	var got []short
	for _, r := range s.rows {
		if r.Measure != MeasureAsked {
			got = append(got, short{r.Measure, r.X, r.Value})
		}
	}
	// Ticks have the rewards 0 to 4, steps 1, 2, 3. The first tick of the second episode has the
	// fifth label.
	want := []short{
		{MeasureReward, 1, 1}, {MeasureLabels, 1, 2},
		{MeasureReward, 2, 2}, {MeasureLabels, 2, 3},
		{MeasureReturn, 0, 6},
		{MeasureReward, 3, 3}, {MeasureLabels, 3, 5},
		{MeasureHz, 5, 10},
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v\nwant  %v", got, want)
	}
}

func TestRunner_NonlinearityOneIsTheTasksReward(t *testing.T) {
	for alpha, same := range map[string]bool{"1": true, "0": false} {
		plain := parsed(t, `
version: 1
experiment: a
run: {trials: 1, episodes: 1, episode_steps: 30}
environments: [{name: rover, tasks: [still], models: [{bundle: "embedded:rover"}]}]
methods: [{name: random}]`)
		modified := plain
		modified.Conditions.Nonlinearity = []float64{map[string]float64{"1": 1, "0": 0}[alpha]}
		a, b := lastReturns(t, plain)["random "], lastReturns(t, modified)["random nonlinearity="+alpha]
		if (math.Abs(a-b) < 1e-9) != same {
			t.Errorf("α = %s: the return is %v, the task's own %v", alpha, b, a)
		}
	}
}

func TestTrial_DirectionIsRandomForZeroZ(t *testing.T) {
	z := []float64{0, -2}
	if got := (Trial{Seed: 1}).direction(z); !slices.Equal(got, z) {
		t.Errorf("z became %v", got)
	}
	zero := make([]float64, 2)
	a, again, b := Trial{Seed: 1}.direction(zero), Trial{Seed: 1}.direction(zero), Trial{Seed: 2}.direction(zero)
	if a[0] == 0 || !slices.Equal(a, again) || slices.Equal(a, b) {
		t.Errorf("directions of trials are %v, the same %v, another %v", a, again, b)
	}
}

func TestDrawStates_DrawsIndependentStatesWithoutReplacement(t *testing.T) {
	all := &oracle.States{Obs: []float32{0, 0, 1, 1, 2, 2, 3, 3}, Reward: []float64{0, 1, 2, 3}, Episodes: []int{4}}
	seen := map[float64]bool{}
	for seed := range uint64(20) {
		drawn, err := drawStates(all, 3, drawIndependent, rand.New(rand.NewPCG(seed, 1)))
		fatal.If(t, err)
		for i, r := range drawn.Reward {
			if float64(drawn.Obs[2*i]) != r || slices.Index(drawn.Reward, r) != i {
				t.Errorf("drawn: %+v", drawn)
			}
		}
		fewer, err := drawStates(all, 1, drawIndependent, rand.New(rand.NewPCG(seed, 1)))
		if err != nil || fewer.Reward[0] != drawn.Reward[0] {
			t.Errorf("a draw of one is %+v, of three %+v: %v", fewer, drawn, err)
		}
		seen[drawn.Reward[0]] = true
	}
	if len(seen) < 4 {
		t.Errorf("only %v came first", seen)
	}
	if _, err := drawStates(all, 5, drawIndependent, nil); err == nil {
		t.Error("5 of 4 were drawn")
	}
}
