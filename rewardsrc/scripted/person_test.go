package scripted

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// scene is the view of an operator in one tick.
type scene struct {
	at     int64
	reward float64
	ok     bool
	asked  bool
}

// randomScenes returns n ticks with rewards in [-1, 1], uneven in time, some without a reward, and
// a request each second about a tick that has one.
func randomScenes(n int) []scene {
	random := rand.New(rand.NewPCG(1, 2))
	list, at, next := make([]scene, n), int64(0), second
	for i := range list {
		at += period/2 + random.Int64N(period)
		s := scene{at: at, reward: 2*random.Float64() - 1, ok: random.Float64() < 0.8}
		if s.asked = s.ok && at >= next; s.asked {
			next += second
		}
		list[i] = s
	}
	return list
}

// show returns the labels that an operator gives for scenes. Request i+1 is about scene i.
func show(t *testing.T, cfg Config, scenes []scene) (labels []rewardsrc.Label) {
	t.Helper()
	o, err := New(cfg)
	fatal.If(t, err)
	buf := make([]rewardsrc.Label, 64)
	for i, s := range scenes {
		tick := uint64(i)
		o.Watch(tick, s.at, s.reward, s.ok)
		if s.asked {
			o.Ask(rewardsrc.Request{ID: tick + 1, Tick: tick, At: s.at, State: rewardsrc.Open})
		}
		labels = append(labels, buf[:o.Poll(buf)]...)
	}
	return labels
}

// meanBefore is the mean of the rewards up to a time, weighted by exp(-age/tau), by its definition.
func meanBefore(scenes []scene, at int64, tau float64) float64 {
	sum, weights := 0.0, 0.0
	for _, s := range scenes {
		if s.ok && s.at <= at {
			w := math.Exp(-float64(at-s.at) / 1e9 / tau)
			sum, weights = sum+w*s.reward, weights+w
		}
	}
	return sum / weights
}

// within5 reports an estimate that is more than five standard errors from what is expected.
func within5(t *testing.T, what string, got, want, standardError float64) {
	t.Helper()
	if math.Abs(got-want) > 5*standardError {
		t.Errorf("%s is %.4f, want %.4f ± %.4f", what, got, want, 5*standardError)
	}
}

func TestOperator_JudgesWhatItRemembersAtThePress(t *testing.T) {
	scenes := randomScenes(3000)
	for _, mode := range []Mode{EveryTick, WhenAsked} {
		cfg := Config{
			Mode: mode, Blind: true, IntervalS: 0.3, RewardLow: -1, RewardHigh: 1,
			ReactionMinS: 0.3, ReactionMaxS: 1.5, MemoryS: 0.25,
		}
		labels := show(t, cfg, scenes)
		if len(labels) < 40 {
			t.Fatalf("%s: only %d labels", mode, len(labels))
		}
		for _, l := range labels {
			if want := meanBefore(scenes, l.At, 0.25); l.Kind != rewardsrc.Value || math.Abs(l.Value-want) > 1e-12 {
				t.Fatalf("%s: label %+v, want the value %v", mode, l, want)
			}
			if mode == WhenAsked && (l.Request == 0 || l.Tick != l.Request-1) {
				t.Fatalf("label %+v does not answer its request", l)
			}
		}
	}
}

func TestOperator_ComparesWithRecentReward(t *testing.T) {
	scenes := randomScenes(3000)
	for i := range scenes { // between -1 and 3; the middle is 1
		scenes[i].reward = 1 + 2*scenes[i].reward
	}
	for _, relative := range []float64{0.5, 1} {
		cfg := Config{
			Mode: WhenAsked, DelayS: 0.7, RewardLow: -1, RewardHigh: 3, Relative: relative, RelativeS: 3,
		}
		clamped := 0
		for _, l := range show(t, cfg, scenes) {
			want := scenes[l.Tick].reward - relative*meanBefore(scenes, l.At, 3) + relative*1
			if want < -1 || want > 3 {
				clamped++
			}
			if want = min(max(want, -1), 3); math.Abs(l.Value-want) > 1e-12 {
				t.Fatalf("relative %g: label %+v, want the value %v", relative, l, want)
			}
		}
		if relative == 1 && clamped == 0 {
			t.Error("no label had to be clamped")
		}
	}
}

func TestOperator_ReactionTimesAreLogNormal(t *testing.T) {
	const shortest, longest = 0.3, 1.5
	var scenes []scene
	for i := range int64(30_000) {
		scenes = append(scenes, scene{at: i * second, ok: true, asked: i%3 == 0})
	}
	labels := show(t, Config{
		Mode: WhenAsked, RewardHigh: 1, DelayS: 0.1, ReactionMinS: shortest, ReactionMaxS: longest,
	}, scenes)
	if len(labels) != 10_000 {
		t.Fatalf("%d answers to 10000 requests", len(labels))
	}
	n, sum, square, fourth, inside := float64(len(labels)), 0.0, 0.0, 0.0, 0.0
	for _, l := range labels {
		s := float64(l.At-scenes[l.Tick].at)/1e9 - 0.1
		if s < shortest-1e-9 || s > longest+1e-9 {
			t.Fatalf("a reaction of %v s", s)
		}
		z := 4 * math.Log(s/math.Sqrt(shortest*longest)) / math.Log(longest/shortest)
		sum, square, fourth = sum+z, square+z*z, fourth+z*z*z*z
		if math.Abs(z) < 1 {
			inside++
		}
	}
	// A standard normal variable between -2 and 2.
	density, probability := math.Exp(-2)/math.Sqrt(2*math.Pi), math.Erf(math.Sqrt2)
	variance, share := 1-4*density/probability, math.Erf(math.Sqrt(0.5))/probability
	within5(t, "the mean of log t", sum/n, 0, math.Sqrt(variance/n))
	within5(t, "the variance of log t", square/n, variance, math.Sqrt((fourth/n-variance*variance)/n))
	within5(t, "the share within a standard deviation", inside/n, share, math.Sqrt(share*(1-share)/n))
}

func TestOperator_GivesLabelsInTheOrderOfPresses(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReactionMinS, cfg.ReactionMaxS = 0.1, 3
	labels, came := run(t, cfg, 1000, ramp, nil)
	if len(labels) < 850 {
		t.Errorf("%d labels of 1000 ticks", len(labels))
	}
	overtaken := 0
	for i, l := range labels {
		if at := int64(came[i]) * period; l.At > at || l.At <= at-period || l.Value != ramp(l.Tick) {
			t.Fatalf("label %+v came in tick %d", l, came[i])
		}
		if i > 0 && l.At < labels[i-1].At {
			t.Fatalf("label %+v comes after %+v", l, labels[i-1])
		}
		if i > 0 && l.Tick < labels[i-1].Tick {
			overtaken++
		}
	}
	if overtaken == 0 {
		t.Error("no reaction was shorter than an earlier one")
	}
}

func TestOperator_NoPressFallsIntoAnAbsence(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReactionMinS, cfg.ReactionMaxS, cfg.Absence = 0.3, 1.5, Absence{AwayS: 1, EveryS: 4}
	labels, _ := run(t, cfg, 3000, ramp, askOften)
	o, err := New(cfg)
	fatal.If(t, err)
	o.Watch(0, 0, 0, true) // the origin of absences
	for _, l := range labels {
		if o.isAway(int64(l.Tick)*period) || o.isAway(l.At) {
			t.Fatalf("label %+v was given during an absence", l)
		}
	}
	if n := len(labels); n < 1000 || n > 2000 {
		t.Errorf("%d labels of 3000 ticks", n)
	}
}

// TestOperator_TiresAndRecovers compares with a simulation that sums over all earlier answers.
func TestOperator_TiresAndRecovers(t *testing.T) {
	const halfLife, recovery, people = 10, 4, 400
	var scenes []scene
	for i := range int64(51) {
		at := i * period
		if i == 50 {
			at += 6 * second // a pause
		}
		scenes = append(scenes, scene{at: at, ok: true, asked: true})
	}
	count := func(answered []int64) (early, late float64) {
		if slices.Contains(answered, scenes[50].at) {
			late = 1
		}
		return float64(len(answered)) - late, late
	}
	reference := func(random *rand.Rand) (early, late float64) {
		var answered []int64
		for _, s := range scenes {
			recent := 0.0
			for _, at := range answered {
				recent += math.Exp(-float64(s.at-at) / 1e9 / recovery)
			}
			if random.Float64() < math.Pow(0.5, recent/halfLife) {
				answered = append(answered, s.at)
			}
		}
		return count(answered)
	}
	operator := func(seed uint64) (early, late float64) {
		var answered []int64
		cfg := Config{
			Mode: WhenAsked, RewardHigh: 1, Fatigue: Fatigue{HalfLife: halfLife, RecoveryS: recovery}, Seed: seed,
		}
		for _, l := range show(t, cfg, scenes) {
			answered = append(answered, l.At)
		}
		return count(answered)
	}
	random := rand.New(rand.NewPCG(5, 6))
	var early, late, wantEarly, wantLate, square float64
	for i := range people {
		e, l := operator(uint64(i))
		early, late = early+e/people, late+l/people
		e, l = reference(random)
		wantEarly, wantLate, square = wantEarly+e/people, wantLate+l/people, square+e*e/people
	}
	within5(t, "the number of answers", early, wantEarly, math.Sqrt(2*(square-wantEarly*wantEarly)/people))
	within5(t, "the share of answers after a pause", late, wantLate, math.Sqrt(2*wantLate*(1-wantLate)/people))
	if early > 30 || late < 0.5 {
		t.Errorf("%g answers of 50, then a share of %g: neither tired nor recovered", early, late)
	}
}

func TestOperator_ZeroWalksWithinItsBound(t *testing.T) {
	const people = 400
	var scenes []scene
	for i := range int64(601) { // two minutes, with a label at the end
		scenes = append(scenes, scene{at: i * second / 5, reward: 0.5, ok: true, asked: i == 600})
	}
	n := float64(people)
	for _, c := range []struct {
		std, bound       float64
		variance, fourth float64 // of the walk after two minutes
	}{
		{0.1, 10, 2 * 0.01, 3 * 4 * 0.0001}, // normal: no time to reach the bound
		{2, 0.1, 0.01 / 3, 0.0001 / 5},      // uniform: reflected often
	} {
		sum, square := 0.0, 0.0
		for seed := range uint64(people) {
			drift := Drift{Start: 0.2, MinuteStd: c.std, Bound: c.bound}
			labels := show(t, Config{Mode: WhenAsked, RewardHigh: 1, Drift: drift, Seed: seed}, scenes)
			x := labels[0].Value - 0.5 - 0.2
			if math.Abs(x) > c.bound+1e-12 {
				t.Fatalf("the zero walked %g beyond %g", x, c.bound)
			}
			sum, square = sum+x, square+x*x
		}
		within5(t, "the mean of the walk", sum/n, 0, math.Sqrt(c.variance/n))
		within5(t, "its variance", square/n, c.variance, math.Sqrt((c.fourth-c.variance*c.variance)/n))
	}
}

func TestReflect_FoldsLikeMirrors(t *testing.T) {
	for x, want := range map[float64]float64{
		0: 0, 0.9: 0.9, 1.1: 0.9, 2: 0, 3: -1, 3.5: -0.5, 4.25: 0.25, -1.5: -0.5, -3: 1, -4.25: -0.25, 401: 1,
	} {
		if got := reflect(x, 1); math.Abs(got-want) > 1e-12 {
			t.Errorf("%g is folded to %g, want %g", x, got, want)
		}
	}
}

func TestOperator_GenerosityStaysOnTheLevels(t *testing.T) {
	scenes := []scene{{at: second, reward: 0.8, ok: true}, {at: 2 * second, reward: 0.3, ok: true}}
	for name, c := range map[string]struct {
		change func(*Config)
		want   [2]float64
	}{
		"a generous person":       {func(c *Config) { c.Drift.Start = 0.4 }, [2]float64{1, 0.75}},
		"a device with an offset": {func(c *Config) { c.Bias = 0.4 }, [2]float64{0.75 + 0.4, 0.25 + 0.4}},
		"a mistaken person": {
			func(c *Config) { c.Drift.Start, c.MistakeProbability = 0.4, 1 }, [2]float64{0, 0.25},
		},
	} {
		cfg := Config{Mode: EveryTick, RewardHigh: 1, Levels: 5}
		c.change(&cfg)
		if l := show(t, cfg, scenes); len(l) != 2 || l[0].Value != c.want[0] || l[1].Value != c.want[1] {
			t.Errorf("%s gives %+v, want %v", name, l, c.want)
		}
	}
}

// TestOperator_WeaknessesHaveTheirOwnRandomNumbers adds one weakness after the other. With a reward
// of 0.9, a label below 0.5 is a mistake.
func TestOperator_WeaknessesHaveTheirOwnRandomNumbers(t *testing.T) {
	var scenes []scene
	for i := range int64(1500) {
		scenes = append(scenes, scene{at: i * second / 5, reward: 0.9, ok: true, asked: i%10 == 0})
	}
	mistakes := func(c *Config) { c.MistakeProbability = 0.3 }
	reactions := func(c *Config) { c.ReactionMinS, c.ReactionMaxS = 0.3, 1.5 }
	fatigue := func(c *Config) { c.Fatigue = Fatigue{HalfLife: 50, RecoveryS: 100} }
	others := map[string]func(*Config){
		"reaction": reactions, "fatigue": fatigue,
		"memory":   func(c *Config) { c.MemoryS = 0.5 },
		"relative": func(c *Config) { c.Relative, c.RelativeS = 0.1, 5 },
		"drift":    func(c *Config) { c.Drift = Drift{MinuteStd: 1, Bound: 0.1} },
		"noise":    func(c *Config) { c.NoiseStd = 0.01 },
		"levels":   func(c *Config) { c.Levels = 5 },
	}
	base := give(t, scenes, mistakes, reactions)
	for name, other := range others {
		labels, same := give(t, scenes, mistakes, reactions, other), 0
		for id, l := range labels {
			if b := base[id]; (l.Value < 0.5) != (b.Value < 0.5) || l.At != b.At {
				t.Fatalf("with %s the label %+v is %+v", name, b, l)
			}
			same++
		}
		if same < 20 {
			t.Errorf("with %s there are %d labels", name, same)
		}
	}
	tired := give(t, scenes, fatigue)
	for name, other := range map[string]func(*Config){"mistakes": mistakes, "drift": others["drift"]} {
		labels := give(t, scenes, fatigue, other)
		if len(labels) != len(tired) || len(tired) == len(base) {
			t.Errorf("with %s a tired operator gives %d labels, without %d", name, len(labels), len(tired))
		}
	}
}

// give returns the labels of an operator with weaknesses, by request.
func give(t *testing.T, scenes []scene, weaknesses ...func(*Config)) map[uint64]rewardsrc.Label {
	t.Helper()
	cfg := Config{Mode: WhenAsked, RewardHigh: 1, Seed: 4}
	for _, change := range weaknesses {
		change(&cfg)
	}
	labels := map[uint64]rewardsrc.Label{}
	for _, l := range show(t, cfg, scenes) {
		labels[l.Request] = l
	}
	return labels
}

// person has every weakness.
func person() Config {
	return Config{
		Mode: EveryTick, RewardHigh: 1, DelayS: 0.1, ReactionMinS: 0.3, ReactionMaxS: 1.5, MemoryS: 0.25,
		Relative: 0.5, RelativeS: 10, Drift: Drift{Start: 0.2, MinuteStd: 0.05, Bound: 0.2}, MistakeProbability: 0.1,
		NoiseStd: 0.1, Levels: 5, Bias: 0.1, Absence: Absence{AwayS: 1, EveryS: 4},
		Fatigue: Fatigue{HalfLife: 1000, RecoveryS: 300},
	}
}

func TestOperator_PersonAllocatesNothing(t *testing.T) {
	o, err := New(person())
	fatal.If(t, err)
	buf := make([]rewardsrc.Label, 8)
	tick, labels := uint64(0), 0
	if n := testing.AllocsPerRun(2000, func() {
		o.Watch(tick, int64(tick)*period, 0.5, true)
		if tick%10 == 0 {
			o.Ask(openRequest(tick+1, tick))
		}
		labels += o.Poll(buf)
		tick++
	}); n != 0 || labels == 0 {
		t.Errorf("%g allocations a tick for %d labels, want 0", n, labels)
	}
}

func TestOperator_StaysFiniteWithExtremeRewards(t *testing.T) {
	scenes := randomScenes(2000)
	for i := range scenes {
		scenes[i].reward = math.Copysign(math.MaxFloat64, scenes[i].reward)
		scenes[i].at *= int64(1 + i%2*1000) // and a clock that jumps
	}
	cfg := person()
	cfg.Absence = Absence{}
	labels := show(t, cfg, scenes)
	if len(labels) < 100 {
		t.Errorf("%d labels", len(labels))
	}
	for _, l := range labels {
		if l.Kind == rewardsrc.Value && !(math.Abs(l.Value) <= 1.1) {
			t.Fatalf("the label %+v is outside the levels", l)
		}
	}
}

func TestConfig_NamesBadWeakness(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"reaction_min_s":     func(c *Config) { c.ReactionMinS = 0 },
		"reaction_max_s":     func(c *Config) { c.ReactionMaxS = 0.2 },
		"memory_s":           func(c *Config) { c.MemoryS = -1 },
		"relative":           func(c *Config) { c.Relative = 1.1 },
		"relative_s":         func(c *Config) { c.RelativeS = 0 },
		"drift.start":        func(c *Config) { c.Drift.Start = math.NaN() },
		"drift.minute_std":   func(c *Config) { c.Drift.MinuteStd = -1 },
		"drift.bound":        func(c *Config) { c.Drift.Bound = 0 },
		"bias":               func(c *Config) { c.Bias = math.Inf(-1) },
		"fatigue.half_life":  func(c *Config) { c.Fatigue.HalfLife = math.NaN() },
		"fatigue.recovery_s": func(c *Config) { c.Fatigue.RecoveryS = 0 },
	} {
		cfg := person()
		fatal.If(t, cfg.Validate())
		change(&cfg)
		errtest.Contains(t, errtest.Of(New(cfg)), key+" is ", key)
	}
}
