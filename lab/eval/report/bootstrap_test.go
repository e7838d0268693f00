package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// An independent reference: the normal approximation of a mean of means, as wide as
// Student's t with Satterthwaite's degrees of freedom.
func TestAnIntervalIsThatOfStudentsDistributionWithTheUnbiasedVariance(t *testing.T) {
	s := drawSample(rand.New(rand.NewPCG(3, 4)), 3, 4, 8, 2)
	variance, fourth := 0.0, 0.0
	for i := range s {
		v := stat.Variance(s[i].values.values, nil) / 8
		variance += v
		fourth += v * v / 7
	}
	u := (bootstrap{seed: 1, resamples: 20_000}).uncertainty("", []sample{s}, s.statistic)
	near(t, "the degrees of freedom", u.freedom, variance*variance/fourth, 1e-6)
	half := u.student().Quantile(0.975) * math.Sqrt(variance) / float64(len(s))
	e := bootstrap{seed: 1, resamples: 20_000}.estimate("", s)
	near(t, "the lower end", e.Confidence.Low, e.Mean-half, 0.06*half)
	near(t, "the upper end", e.Confidence.High, e.Mean+half, 0.06*half)
}

func TestAnIntervalOfARatioIsThatOfTheDeltaMethod(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var values, oracle []float64
	for range 40 {
		values = append(values, 80+4*rng.NormFloat64())
		oracle = append(oracle, 100+6*rng.NormFloat64())
	}
	s := sample{{task: "a", values: numbered(values...), oracle: reseeded(numbered(oracle...))}}
	a, b := stat.Mean(values, nil), stat.Mean(oracle, nil)
	relative := stat.Variance(values, nil)/40/(a*a) + stat.Variance(oracle, nil)/40/(b*b)
	u := bootstrap{seed: 1, resamples: 20_000}.uncertainty("", []sample{s}, s.statistic)
	half := u.student().Quantile(0.975) * a / b * math.Sqrt(relative)
	near(t, "the mean", u.value, a/b, 1e-12)
	near(t, "the width", (u.interval().High-u.interval().Low)/2, half, 0.06*half)
}

// duel draws two methods on tasks. Initial states are worth something to both of
// them, so that trials of the same seed are alike; the oracle's, too.
type duel struct {
	tasks, trials int
	models        int     // 0: one
	alike         float64 // part of the variance that is the initial state's, to both methods the same
	across        float64 // the same of what is its worth to one method, with every model
	relative      bool    // to an oracle of the same seeds
	ratio         bool
	skewed        bool
	difference    float64 // of the means, in standard deviations of a trial
}

const duelMean, duelSpread = 20, 3

// draw makes the samples of both, paired.
func (d duel) draw(rng *rand.Rand) (of, against sample) {
	noise := func() float64 {
		if d.skewed {
			return rng.ExpFloat64() - 1
		}
		return rng.NormFloat64()
	}
	own := math.Sqrt(1 - d.alike - d.across)
	for task := range d.tasks {
		met := make([][3]float64, d.trials) // what the initial states are worth to the two and the oracle
		for i := range met {
			shared := math.Sqrt(d.alike) * noise()
			for who := range met[i] {
				met[i][who] = shared + math.Sqrt(d.across)*noise()
			}
		}
		for model := range max(1, d.models) {
			var x, y, o []float64
			for _, worth := range met {
				x = append(x, duelMean+duelSpread*(d.difference+worth[0]+own*noise()))
				y = append(y, duelMean+duelSpread*(worth[1]+own*noise()))
				o = append(o, 2*duelMean+duelSpread*(worth[2]+own*noise()))
			}
			place := stratum{bfm: bfm{seed: model}, task: string(rune('a' + task))}
			if d.relative {
				place.oracle = numbered(o...)
			}
			first, second := place, place
			first.values, second.values = numbered(x...), numbered(y...)
			of, against = append(of, first), append(against, second)
		}
	}
	of.sort()
	against.sort()
	return of, against
}

// truth is what the comparison shall find.
func (d duel) truth() float64 {
	x, y := duelMean+duelSpread*d.difference, float64(duelMean)
	switch {
	case d.ratio:
		return x / y
	case d.relative:
		return (x - y) / (2 * duelMean)
	}
	return x - y
}

func unpaired(s sample) sample {
	apart := make(sample, len(s))
	for i, each := range s {
		each.values = reseeded(each.values)
		apart[i] = each
	}
	return apart
}

// fought is how often intervals cover the truth, how often they lie above 0, and
// their mean width.
func (d duel) fought(n int, pair bool) (covered, decided, width float64) {
	rng := rand.New(rand.NewPCG(7, 8))
	k := check{ratio: d.ratio}
	for i := range n {
		of, against := d.draw(rng)
		if !pair {
			against = unpaired(against)
		}
		statistic := func(c centre) float64 { return k.combine(of.statistic(c), against.statistic(c)) }
		interval := bootstrap{seed: uint64(i), resamples: 300}.uncertainty("", []sample{of, against}, statistic).interval()
		if interval.Low <= d.truth() && d.truth() <= interval.High {
			covered++
		}
		if interval.Low > 0 {
			decided++
		}
		width += interval.High - interval.Low
	}
	return covered / float64(n), decided / float64(n), width / float64(n)
}

func TestIntervalsCoverTheTruthAsOftenAsTheySay(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 300
	}
	// Three standard errors of the simulation, and what few trials are granted.
	tolerance := 3*math.Sqrt(0.05*0.95/float64(n)) + 0.01
	for _, c := range []struct {
		what string
		duel duel
		pair bool
	}{
		{"paired, 3 trials of 2 tasks", duel{tasks: 2, trials: 3, alike: 0.8}, true},
		{"paired, 5 trials of 2 tasks", duel{tasks: 2, trials: 5, alike: 0.8}, true},
		{"paired, 10 trials of 4 tasks", duel{tasks: 4, trials: 10, alike: 0.8}, true},
		{"paired, 10 trials of 1 task", duel{tasks: 1, trials: 10, alike: 0.8}, true},
		{"paired, nothing alike", duel{tasks: 2, trials: 5}, true},
		{"unpaired, 5 trials of 2 tasks", duel{tasks: 2, trials: 5}, false},
		{"unpaired, 10 trials of 4 tasks", duel{tasks: 4, trials: 10}, false},
		{"paired, relative to the oracle", duel{tasks: 2, trials: 5, alike: 0.5, relative: true, difference: 1}, true},
		{"unpaired, relative to the oracle", duel{tasks: 4, trials: 5, relative: true}, false},
		{"paired ratio", duel{tasks: 2, trials: 5, alike: 0.5, ratio: true, difference: 1}, true},
		{"paired ratio of shares of the oracle's", duel{tasks: 4, trials: 10, alike: 0.5, ratio: true, relative: true}, true},
		{"unpaired ratio", duel{tasks: 2, trials: 5, ratio: true}, false},
		{"paired, 10 trials of 2 tasks with 3 models", duel{models: 3, tasks: 2, trials: 10, across: 0.8}, true},
		{"unpaired, relative to the oracle, with 3 models", duel{models: 3, tasks: 2, trials: 10, across: 0.8, relative: true}, false},
		{"paired, skewed", duel{tasks: 2, trials: 5, alike: 0.5, skewed: true}, true},
	} {
		covered, _, _ := c.duel.fought(n, c.pair)
		t.Logf("%s: %.1f %%", c.what, 100*covered)
		if math.Abs(covered-0.95) > tolerance {
			t.Errorf("95 %% intervals cover the truth in %.1f %% of %d cases (%s), want 95 ± %.1f", 100*covered, n, c.what, 100*tolerance)
		}
	}
}

func TestPairingTellsMethodsApartThatMeetTheSameInitialStates(t *testing.T) {
	d := duel{tasks: 2, trials: 5, alike: 0.8, difference: 0.6}
	_, paired, narrow := d.fought(300, true)
	_, apart, wide := d.fought(300, false)
	t.Logf("decided: %.0f %% paired, %.0f %% unpaired; width %.2f, %.2f", 100*paired, 100*apart, narrow, wide)
	if paired < 2*apart || narrow > 0.6*wide {
		t.Errorf("told apart: %.0f %% paired, %.0f %% unpaired; width %.2f, %.2f", 100*paired, 100*apart, narrow, wide)
	}
}

func TestTrialsOfOneSeedAreDrawnTogether(t *testing.T) {
	of, against := duel{tasks: 2, trials: 6}.draw(rand.New(rand.NewPCG(1, 1)))
	for i := range of { // the same but for a constant
		for k := range of[i].values.values {
			against[i].values.values[k] = of[i].values.values[k] - 1
		}
	}
	statistic := func(c centre) float64 { return of.statistic(c) - against.statistic(c) }
	u := bootstrap{resamples: 200}.uncertainty("", []sample{of, against}, statistic)
	near(t, "the value", u.value, 1, 1e-12)
	near(t, "the standard error", u.below+u.above, 0, 1e-12)
	if d := u.doubt(0.5); d > 1e-9 {
		t.Errorf("there is doubt of %v where no trial differs", d)
	}
}

func TestAnIntervalAndItsDoubtDecideTheSame(t *testing.T) {
	for _, u := range []uncertainty{{1, 0.2, 0.4, 4}, {1, 0.4, 0.2, 40}, {1, 0, 0, 3}} {
		i := u.interval()
		const little = 1e-6
		for _, c := range []struct {
			bound float64
			sure  bool
		}{{i.Low - little, true}, {i.Low + little, u.below == 0 && i.Low+little <= u.value}, {i.High + little, false}} {
			if got := u.doubt(c.bound) <= doubtful; got != c.sure {
				t.Errorf("%+v: above %v: %v, want %v", u, c.bound, got, c.sure)
			}
		}
	}
	for _, u := range []uncertainty{{1, 0.2, 0.4, 4}, {1, 0, 0, 3}, {1, 0, 0.4, 3}, {1, 0.2, 0, 3}} {
		for _, bound := range []float64{-5, 0.9, 1, 1.1, 7} {
			for _, atMost := range []bool{false, true} {
				k := check{bound: bound, atMost: atMost}
				decided, _ := k.decide(u.interval())
				if doubted := k.doubts(u).verdict(); doubted != decided {
					t.Errorf("%+v, %s: %s by the doubts, %s by the interval", u, k.wanted(), doubted, decided)
				}
			}
		}
	}
	if d := (uncertainty{1, math.NaN(), math.NaN(), 3}).doubt(0); d != 1 {
		t.Errorf("nothing is known, but the doubt is %v", d)
	}
}

func TestAnIntervalDependsOnItsNameAndTheSeedAlone(t *testing.T) {
	s := drawSample(rand.New(rand.NewPCG(9, 10)), 2, 2, 5, 1)
	of := func(seed uint64, name string) Interval {
		return bootstrap{seed: seed, resamples: 200}.uncertainty(name, []sample{s}, s.statistic).interval()
	}
	if of(1, "a") != of(1, "a") {
		t.Error("an interval is not the same again")
	}
	if of(1, "a") == of(1, "b") {
		t.Error("two names have the same random numbers")
	}
	if of(1, "a") == of(2, "a") {
		t.Error("two seeds have the same random numbers")
	}
}
