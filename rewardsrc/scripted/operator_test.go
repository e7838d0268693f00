package scripted

import (
	"math"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

const (
	second = int64(1e9)
	period = second / 50
)

var (
	_ rewardsrc.Source  = (*Operator)(nil)
	_ rewardsrc.Watcher = (*Operator)(nil)
)

// run shows n ticks with reward(tick) and returns every label, with the tick
// in which it came.
func run(
	t *testing.T, cfg Config, n int, reward func(tick uint64) float64, ask func(tick uint64) []rewardsrc.Request,
) (labels []rewardsrc.Label, came []uint64) {
	t.Helper()
	o, err := New(cfg)
	fatal.If(t, err)
	buf := make([]rewardsrc.Label, 8)
	for tick := range uint64(n) {
		o.Watch(tick, int64(tick)*period, reward(tick), true)
		if ask != nil {
			for _, r := range ask(tick) {
				o.Ask(r)
			}
		}
		for _, l := range buf[:o.Poll(buf)] {
			labels, came = append(labels, l), append(came, tick)
		}
	}
	if o.Dropped() != 0 {
		t.Errorf("%d labels dropped", o.Dropped())
	}
	return labels, came
}

func ramp(tick uint64) float64 { return float64(tick%100) / 100 }

// askAt opens one request at a tick, about that tick.
func askAt(at uint64) func(uint64) []rewardsrc.Request {
	return func(tick uint64) []rewardsrc.Request {
		if tick != at {
			return nil
		}
		return []rewardsrc.Request{openRequest(1, at)}
	}
}

func openRequest(id, tick uint64) rewardsrc.Request {
	return rewardsrc.Request{ID: id, Tick: tick, At: int64(tick) * period, State: rewardsrc.Open}
}

func TestOperator_OracleLabelsEveryTick(t *testing.T) {
	labels, came := run(t, DefaultConfig(), 200, ramp, nil)
	if len(labels) != 200 {
		t.Fatalf("%d labels for 200 ticks", len(labels))
	}
	for i, l := range labels {
		want := rewardsrc.Label{Kind: rewardsrc.Value, Tick: uint64(i), At: int64(i) * period, Value: ramp(uint64(i))}
		if l != want || came[i] != uint64(i) {
			t.Fatalf("label %d = %+v in tick %d, want %+v", i, l, came[i], want)
		}
	}
}

func TestOperator_WhenAskedIsSilentUnasked(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = WhenAsked
	if labels, _ := run(t, cfg, 500, ramp, nil); len(labels) != 0 {
		t.Errorf("%d labels, want none", len(labels))
	}
}

func TestOperator_AnswersAfterDelay(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode, cfg.DelayS = WhenAsked, 0.5
	labels, came := run(t, cfg, 200, ramp, askAt(30))
	want := rewardsrc.Label{Kind: rewardsrc.Value, Request: 1, Tick: 30, At: 30*period + second/2, Value: 0.3}
	if len(labels) != 1 || labels[0] != want {
		t.Fatalf("labels %+v, want one, %+v", labels, want)
	}
	if came[0] != 55 {
		t.Errorf("came in tick %d, want 55", came[0])
	}
}

func TestOperator_AnswersForEarlierTick(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = WhenAsked
	labels, came := run(t, cfg, 100, ramp, func(tick uint64) []rewardsrc.Request {
		if tick != 40 {
			return nil
		}
		return []rewardsrc.Request{openRequest(1, 35)}
	})
	if len(labels) != 1 || labels[0].Value != 0.35 || labels[0].Tick != 35 || came[0] != 40 {
		t.Errorf("labels %+v in ticks %v, want the reward 0.35 of tick 35 in tick 40", labels, came)
	}
}

func TestOperator_WaitsForRequestedTick(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = WhenAsked
	labels, came := run(t, cfg, 100, ramp, func(tick uint64) []rewardsrc.Request {
		if tick != 40 {
			return nil
		}
		return []rewardsrc.Request{openRequest(1, 42)}
	})
	if len(labels) != 1 || labels[0].Value != 0.42 || came[0] != 42 {
		t.Errorf("labels %+v in ticks %v, want the reward of tick 42 in tick 42", labels, came)
	}
}

func TestOperator_DropsAnswerToExpiredRequest(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode, cfg.DelayS = WhenAsked, 0.5
	labels, _ := run(t, cfg, 200, ramp, func(tick uint64) []rewardsrc.Request {
		r := openRequest(1, 30)
		switch tick {
		case 30:
			return []rewardsrc.Request{r}
		case 40:
			r.State = rewardsrc.Expired
			return []rewardsrc.Request{r}
		}
		return nil
	})
	if len(labels) != 0 {
		t.Errorf("labels %+v, want none", labels)
	}
}

func TestOperator_CantTellWithoutReward(t *testing.T) {
	o, err := New(Config{Mode: WhenAsked, RewardHigh: 1})
	fatal.If(t, err)
	buf := make([]rewardsrc.Label, 2)
	for name, r := range map[string]struct {
		reward float64
		ok     bool
	}{"none": {1, false}, "NaN": {math.NaN(), true}, "infinite": {math.Inf(1), true}} {
		o.Watch(5, 5*period, r.reward, r.ok)
		o.Ask(openRequest(9, 5))
		if n := o.Poll(buf); n != 1 || buf[0].Kind != rewardsrc.CantTell || buf[0].Request != 9 {
			t.Errorf("%s: labels %+v, want one CantTell", name, buf[:n])
		}
	}
}

func TestOperator_CantTellForForgottenTick(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = WhenAsked
	labels, _ := run(t, cfg, 3*historyLen, ramp, func(tick uint64) []rewardsrc.Request {
		if tick != 2*historyLen {
			return nil
		}
		return []rewardsrc.Request{openRequest(1, 10)}
	})
	if len(labels) != 1 || labels[0].Kind != rewardsrc.CantTell {
		t.Errorf("labels %+v, want one CantTell", labels)
	}
}

func TestOperator_ComparesWithAnEarlierMoment(t *testing.T) {
	steps := func(tick uint64) float64 { // 0.5, from tick 20 on 0.9, from tick 40 on 0.1, from tick 60 on 0.14
		return [4]float64{0.5, 0.9, 0.1, 0.14}[min(tick/20, 3)]
	}
	better, cantTell := rewardsrc.Comparison, rewardsrc.CantTell
	for _, c := range []struct {
		tick     uint64
		mistakes float64
		kind     rewardsrc.Kind
		value    float64
	}{
		{5, 0, cantTell, 0},    // nothing before
		{15, 0, cantTell, 0},   // the same
		{25, 0, better, 0.25},  // the range is 1
		{25, 1, better, -0.25}, // a mistake
		{45, 0, better, -0.25},
		{65, 0, cantTell, 0}, // 4 % of the range
	} {
		cfg := DefaultConfig()
		cfg.Mode, cfg.CompareS, cfg.MistakeProbability = WhenAsked, 10.0/50, c.mistakes
		cfg.RewardLow, cfg.RewardHigh = 0, 1
		labels, _ := run(t, cfg, 80, steps, askAt(c.tick))
		if len(labels) != 1 || labels[0].Kind != c.kind || labels[0].Value != c.value || labels[0].Request != 1 {
			t.Errorf("tick %d: labels %+v, want %v %g", c.tick, labels, c.kind, c.value)
		}
		cfg.Mode = EveryTick
		labels, _ = run(t, cfg, 80, steps, nil)
		if len(labels) != 20 { // 10 after each of the first two steps
			t.Errorf("%d unasked labels, want 20", len(labels))
		}
		for _, l := range labels {
			if l.Kind != better || math.Abs(l.Value) != 0.25 {
				t.Fatalf("unasked label %+v", l)
			}
		}
	}
}

func TestOperator_IsSilentAfterMaxLabels(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxLabels = 7
	if labels, _ := run(t, cfg, 100, ramp, nil); len(labels) != 7 || labels[6].Tick != 6 {
		t.Errorf("%d labels, want the first 7: %+v", len(labels), labels)
	}
	cfg.Mode, cfg.MaxLabels, cfg.CompareS = WhenAsked, 1, 10.0/50
	cfg.RewardLow, cfg.RewardHigh = 0, 1
	labels, _ := run(t, cfg, 60, ramp, func(tick uint64) []rewardsrc.Request { return askAt(tick / 20 * 20)(tick) })
	if len(labels) != 2 || labels[0].Kind != rewardsrc.CantTell || labels[1].Kind != rewardsrc.Comparison {
		t.Errorf("labels %+v, want a can't tell and a comparison", labels)
	}
}

func TestOperator_EveryTickAnswersOnce(t *testing.T) {
	for _, delay := range []float64{0, 0.5} {
		cfg := DefaultConfig()
		cfg.DelayS = delay
		labels, _ := run(t, cfg, 100, ramp, askAt(30))
		count := 0
		for _, l := range labels {
			if l.Tick == 30 {
				count++
				if l.Request != 1 {
					t.Errorf("delay %g: the label of tick 30 does not answer the request: %+v", delay, l)
				}
			} else if l.Request != 0 {
				t.Errorf("delay %g: %+v answers a request about tick 30", delay, l)
			}
		}
		if count != 1 {
			t.Errorf("delay %g: %d labels of tick 30, want 1", delay, count)
		}
	}
}

func TestOperator_LabelOfClosedRequestIsUnasked(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DelayS = 0.5
	labels, _ := run(t, cfg, 100, ramp, func(tick uint64) []rewardsrc.Request {
		r := openRequest(1, 30)
		switch tick {
		case 30:
			return []rewardsrc.Request{r}
		case 35:
			r.State = rewardsrc.Expired
			return []rewardsrc.Request{r}
		}
		return nil
	})
	if len(labels) != 75 {
		t.Errorf("%d labels, want 75", len(labels))
	}
	for _, l := range labels {
		if l.Request != 0 {
			t.Errorf("%+v answers a closed request", l)
		}
	}
}

func TestOperator_BlindLabelsHaveNoTick(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DelayS, cfg.Blind = 0.4, true
	labels, _ := run(t, cfg, 100, ramp, nil)
	if len(labels) != 80 {
		t.Fatalf("%d labels, want 80", len(labels))
	}
	for i, l := range labels {
		if l.Tick != rewardsrc.NoTick || l.At != int64(i)*period+4*second/10 || l.Value != ramp(uint64(i)) {
			t.Fatalf("label %d = %+v", i, l)
		}
	}
}

func TestOperator_IntervalLimitsUnaskedLabels(t *testing.T) {
	cfg := DefaultConfig()
	cfg.IntervalS = 1
	if labels, _ := run(t, cfg, 500, ramp, nil); len(labels) != 10 {
		t.Errorf("%d labels in 10 s, want 10", len(labels))
	}
}

func TestOperator_MistakesMirrorReward(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MistakeProbability, cfg.RewardLow, cfg.RewardHigh = 0.1, -1, 3
	labels, _ := run(t, cfg, 20000, ramp, nil)
	mistakes := 0
	for _, l := range labels {
		r := ramp(l.Tick)
		switch l.Value {
		case r:
		case 2 - r:
			mistakes++
		default:
			t.Fatalf("%+v: neither the reward %g nor its mirror image", l, r)
		}
	}
	// Five standard deviations of a binomial are 212.
	if mistakes < 1788 || mistakes > 2212 {
		t.Errorf("%d mistakes of 20000, want about 2000", mistakes)
	}
}

func TestOperator_NoiseSpread(t *testing.T) {
	cfg := DefaultConfig()
	cfg.NoiseStd = 0.25
	labels, _ := run(t, cfg, 20000, ramp, nil)
	var sum, squares float64
	for _, l := range labels {
		e := l.Value - ramp(l.Tick)
		sum += e
		squares += e * e
	}
	n := float64(len(labels))
	mean, std := sum/n, math.Sqrt(squares/n)
	if math.Abs(mean) > 0.01 || math.Abs(std-0.25) > 0.01 {
		t.Errorf("noise has mean %g and spread %g, want 0 and 0.25", mean, std)
	}
}

func TestOperator_TwoLevels(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Levels, cfg.RewardLow, cfg.RewardHigh = 2, -1, 1
	labels, _ := run(t, cfg, 100, func(tick uint64) float64 { return ramp(tick)*6 - 3 }, nil)
	for _, l := range labels {
		want := -1.0
		if ramp(l.Tick)*6-3 >= 0 {
			want = 1
		}
		if l.Value != want {
			t.Errorf("tick %d: %g, want %g", l.Tick, l.Value, want)
		}
	}
}

func TestOperator_FiveLevels(t *testing.T) {
	for v, want := range map[float64]float64{-9: 0, 0.1: 0, 0.13: 0.25, 0.5: 0.5, 0.8: 0.75, 7: 1} {
		if got := nearestLevel(v, 0, 1, 5); got != want {
			t.Errorf("nearestLevel(%g) = %g, want %g", v, got, want)
		}
	}
}

func TestOperator_AbsenceShare(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Absence = Absence{AwayS: 3, EveryS: 10}
	labels, _ := run(t, cfg, 50*100, ramp, nil)
	if n := len(labels); n < 3495 || n > 3515 {
		t.Errorf("%d labels in 5000 ticks, want 70 %%", n)
	}
	begins := map[uint64]bool{}
	for i := 1; i < len(labels); i++ {
		if gap := labels[i].Tick - labels[i-1].Tick; gap > 1 {
			if gap < 150 {
				t.Errorf("an absence of %d ticks, want at least 150", gap)
			}
			begins[labels[i-1].Tick%500] = true
		}
	}
	if len(begins) < 5 {
		t.Errorf("absences begin at %v in their windows, want them at random", begins)
	}
}

func TestOperator_AbsentDoesNotAnswer(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = WhenAsked
	cfg.Absence = Absence{AwayS: 99, EveryS: 100}
	labels, _ := run(t, cfg, 50*60, ramp, askAt(50*30))
	if len(labels) != 0 {
		t.Errorf("labels %+v while away", labels)
	}
}

func TestOperator_SeedDeterminesLabels(t *testing.T) {
	cfg := Config{
		Mode: EveryTick, DelayS: 0.3, MistakeProbability: 0.2, NoiseStd: 0.1, RewardHigh: 1,
		Absence: Absence{AwayS: 1, EveryS: 4}, Seed: 7,
	}
	a, _ := run(t, cfg, 1000, ramp, askAt(33))
	b, _ := run(t, cfg, 1000, ramp, askAt(33))
	cfg.Seed = 8
	c, _ := run(t, cfg, 1000, ramp, askAt(33))
	if !equal(a, b) {
		t.Error("the same seed gave other labels")
	}
	if equal(a, c) {
		t.Error("another seed gave the same labels")
	}
}

func equal(a, b []rewardsrc.Label) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestOperator_PollKeepsRemainingLabels(t *testing.T) {
	o, err := New(DefaultConfig())
	fatal.If(t, err)
	for tick := range uint64(5) {
		o.Watch(tick, int64(tick)*period, 1, true)
	}
	buf := make([]rewardsrc.Label, 3)
	if n := o.Poll(buf); n != 3 || buf[2].Tick != 2 {
		t.Errorf("first poll: %d labels, the last %+v", n, buf[2])
	}
	if n := o.Poll(buf); n != 2 || buf[1].Tick != 4 {
		t.Errorf("second poll: %d labels, the last %+v", n, buf[1])
	}
	if n := o.Poll(nil); n != 0 {
		t.Errorf("a poll without room gave %d labels", n)
	}
}

func TestOperator_FullQueueDropsNewest(t *testing.T) {
	o, err := New(DefaultConfig())
	fatal.If(t, err)
	for tick := range uint64(queueLen + 10) {
		o.Watch(tick, int64(tick)*period, 1, true)
	}
	if o.Dropped() != 10 {
		t.Errorf("%d dropped, want 10", o.Dropped())
	}
}

func TestOperator_HaltDropsLabels(t *testing.T) {
	o, err := New(DefaultConfig())
	fatal.If(t, err)
	o.Watch(1, period, 1, true)
	fatal.If(t, o.Halt())
	if n := o.Poll(make([]rewardsrc.Label, 4)); n != 0 {
		t.Errorf("%d labels after Halt", n)
	}
}

func TestOperator_AllocatesNothing(t *testing.T) {
	cfg := Config{
		Mode: EveryTick, DelayS: 0.3, MistakeProbability: 0.2, NoiseStd: 0.1, RewardHigh: 1, Levels: 5,
		Absence: Absence{AwayS: 1, EveryS: 4},
	}
	o, err := New(cfg)
	fatal.If(t, err)
	buf := make([]rewardsrc.Label, 8)
	tick := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		o.Watch(tick, int64(tick)*period, 0.5, true)
		if tick%10 == 0 {
			o.Ask(openRequest(tick+1, tick))
		}
		o.Poll(buf)
		tick++
	}); n != 0 {
		t.Errorf("%g allocations a tick, want 0", n)
	}
}

func TestConfig_NamesBadKey(t *testing.T) {
	nan := math.NaN()
	for key, change := range map[string]func(*Config){
		"mode":                func(c *Config) { c.Mode = "sometimes" },
		"delay_s":             func(c *Config) { c.DelayS = -1 },
		"interval_s":          func(c *Config) { c.IntervalS = nan },
		"mistake_probability": func(c *Config) { c.MistakeProbability = 1.1 },
		"noise_std":           func(c *Config) { c.NoiseStd = math.Inf(1) },
		"levels":              func(c *Config) { c.Levels = 1 },
		"compare_s":           func(c *Config) { c.CompareS = nan },
		"max_labels":          func(c *Config) { c.MaxLabels = -1 },
		"reward_low":          func(c *Config) { c.RewardLow = nan },
		"reward_high":         func(c *Config) { c.RewardHigh = c.RewardLow },
		"absence.away_s":      func(c *Config) { c.Absence.AwayS = nan },
		"absence.every_s":     func(c *Config) { c.Absence = Absence{AwayS: 5, EveryS: 5} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg)
		errtest.Contains(t, err, key+" is ", key)
	}
}
