package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

func newTestLearner(t testing.TB, change func(*Config)) (*Learner, *naive) {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	return l, newNaive(cfg, rigLatent, len(l.history.moments))
}

func gaussian(random *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = random.NormFloat64()
	}
	return x
}

func TestLearner_MatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.Rho = rapid.SampledFrom([]float64{1, 0.99, 0.9}).Draw(t, "rho")
		cfg.Sigma = rapid.SampledFrom([]float64{1, 0.5, 3}).Draw(t, "sigma")
		cfg.Credit.DelayS = rapid.Float64Range(0, 0.3).Draw(t, "delay")
		cfg.Credit.WidthS = rapid.Float64Range(0, 0.3).Draw(t, "width")
		cfg.Credit.CompareS = testPeriod.Seconds() * float64(rapid.IntRange(1, 40).Draw(t, "compared"))
		cfg.Gate.TimeoutS = 0.1
		l, err := NewLearner(cfg, rigLatent, testPeriod)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := &session{l: l, n: newNaive(cfg, rigLatent, len(l.history.moments)), random: random}
		t.Repeat(map[string]func(*rapid.T){
			"tick":  s.tick,
			"value": s.value,
			"undo":  s.undo,
			"":      func(t *rapid.T) { mustAgree(t, s.l, s.n) },
		})
	})
}

// session applies the same events to a learner and to the reference.
type session struct {
	l      *Learner
	n      *naive
	random *rand.Rand
	now    uint64
	lastID uint64
}

func (s *session) tick(t *rapid.T) {
	skip := rapid.Uint64Range(0, 5).Draw(t, "skipped")
	s.now += 1 + skip
	if rapid.IntRange(0, 9).Draw(t, "armed") > 0 {
		s.l.Advance(1 + skip)
		s.n.advance(1 + skip)
	}
	if rapid.IntRange(0, 9).Draw(t, "good") == 0 {
		return
	}
	at := int64(s.now)*int64(testPeriod) + rapid.Int64Range(-5e6, 5e6).Draw(t, "jitter")
	phi := gaussian(s.random, rigLatent)
	s.l.Observe(s.now, at, phi, nil)
	s.n.observe(s.now, at, phi)
}

func (s *session) value(t *rapid.T) {
	l := rewardsrc.Label{
		ID: s.id(t), Tick: rewardsrc.NoTick,
		Kind: rapid.SampledFrom([]rewardsrc.Kind{
			rewardsrc.Value, rewardsrc.Value, rewardsrc.Comparison, rewardsrc.Goal,
		}).Draw(t, "kind"),
		Value:  rapid.Float64Range(-1, 1).Draw(t, "value"),
		Weight: rapid.SampledFrom([]float64{0, 1, 0.5, 0.01, -1, 2, nan}).Draw(t, "confidence"),
	}
	if rapid.IntRange(0, 19).Draw(t, "broken") == 0 {
		l.Value = rapid.SampledFrom([]float64{nan, inf, -inf, 1e300}).Draw(t, "broken value")
	}
	past := s.now - min(s.now, rapid.Uint64Range(0, 60).Draw(t, "periods ago"))
	asked := uint64(0)
	switch rapid.IntRange(0, 2).Draw(t, "about") {
	case 0:
		l.Request, asked = 1, past
	case 1:
		l.Tick = past
	case 2:
		l.At = int64(past)*int64(testPeriod) + rapid.Int64Range(0, int64(testPeriod)).Draw(t, "within")
	}
	s.same(t, l, asked)
}

func (s *session) undo(t *rapid.T) {
	l := rewardsrc.Label{ID: s.id(t), Kind: rewardsrc.Undo, Undoes: rapid.Uint64Range(0, s.lastID).Draw(t, "undoes")}
	s.same(t, l, 0)
}

func (s *session) id(t *rapid.T) uint64 {
	if s.lastID > 0 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
		return rapid.Uint64Range(1, s.lastID).Draw(t, "id")
	}
	s.lastID++
	return s.lastID
}

func (s *session) same(t *rapid.T, label rewardsrc.Label, asked uint64) {
	got, want := s.l.Apply(label, asked).Outcome, s.n.apply(label, asked)
	if got != want {
		t.Fatalf("label %+v: %v, want %v", label, got, want)
	}
}

func TestLearner_UndoRemovesLabel(t *testing.T) {
	forgets := func(c *Config) { c.Rho = 0.995; c.Sigma = 0.5 }
	with, _ := newTestLearner(t, forgets)
	without, _ := newTestLearner(t, forgets)
	random := rand.New(rand.NewPCG(3, 4))
	for tick := range uint64(2000) {
		phi := gaussian(random, rigLatent)
		for _, l := range []*Learner{with, without} {
			l.Advance(1)
			l.Observe(tick, int64(tick)*int64(testPeriod), phi, nil)
			l.Apply(value(0, tick, float64(tick%7)), 0)
		}
		if tick%10 == 5 {
			with.Apply(value(tick+1, tick-3, 1), 0)
		}
		if tick%10 == 9 {
			a := with.Apply(rewardsrc.Label{ID: 1e6 + tick, Kind: rewardsrc.Undo, Undoes: tick - 4 + 1}, 0)
			if a.Outcome != Applied || a.Undoes != tick-3 {
				t.Fatalf("tick %d: %+v", tick, a)
			}
			beliefsAgree(t, state(with), state(without))
		}
	}
}

func TestLearner_CountsLabelsInTheBelief(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	want := func(labels uint64) {
		t.Helper()
		if got := l.Noise().Labels; got != labels {
			t.Errorf("%d labels, want %d", got, labels)
		}
	}
	fatal.If(t, l.WarmStart(make([]float64, 3*rigLatent), make([]float64, 3)))
	want(3)
	l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
	l.Apply(value(1, 1, 1), 0)
	l.Apply(value(1, 1, 1), 0)  // repeated
	l.Apply(value(2, 99, 1), 0) // about no known tick
	want(4)
	l.Apply(rewardsrc.Label{ID: 3, Kind: rewardsrc.Undo}, 0)
	l.Apply(rewardsrc.Label{ID: 4, Kind: rewardsrc.Undo}, 0) // nothing to undo
	want(3)
	saved := state(l)
	fatal.If(t, l.SwitchTask(saved, NoiseState{Labels: 12}))
	l.Observe(2, 0, []float64{1, 2, 3, 4}, nil)
	l.Apply(value(5, 2, 1), 0)
	want(13)
	fatal.If(t, l.Restore(saved, NoiseState{}))
	want(0)
	if l.Restore(saved, NoiseState{Labels: maxLabels + 1}) == nil {
		t.Error("an impossible number of labels is accepted")
	}
}

func TestLearner_UndoCannotBeUndone(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
	before := state(l)
	l.Apply(value(1, 1, 1), 0)
	undo := func(id, undoes uint64) Outcome {
		return l.Apply(rewardsrc.Label{ID: id, Kind: rewardsrc.Undo, Undoes: undoes}, 0).Outcome
	}
	if got := undo(2, 1); got != Applied {
		t.Fatalf("undo: %v", got)
	}
	for _, undoes := range []uint64{0, 1, 2, 99} {
		if got := undo(10+undoes, undoes); got != NothingToUndo {
			t.Errorf("undo of %d: %v", undoes, got)
		}
	}
	beliefsAgree(t, state(l), before)
}

func TestLearner_AppliesRepeatedLabelOnce(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
	l.Apply(value(7, 1, 1), 0)
	l.Apply(value(8, 1, 0.5), 0)
	hash := l.belief.Hash()
	if got := l.Apply(value(7, 1, 1), 0).Outcome; got != Duplicate || l.belief.Hash() != hash {
		t.Errorf("the second time: %v", got)
	}
	undo := rewardsrc.Label{ID: 9, Kind: rewardsrc.Undo}
	l.Apply(undo, 0)
	hash = l.belief.Hash()
	if got := l.Apply(undo, 0).Outcome; got != Duplicate || l.belief.Hash() != hash {
		t.Errorf("a repeated undo: %v", got)
	}
	if got := l.Apply(value(8, 1, 0.5), 0).Outcome; got != Duplicate || l.belief.Hash() != hash {
		t.Errorf("an undone label, repeated: %v", got)
	}
}

func TestLearner_CreditsLabelToItsWindow(t *testing.T) {
	l, _ := newTestLearner(t, func(c *Config) {
		c.Credit = CreditConfig{DelayS: 0.2, WidthS: 0.4, Held: HeldConfig{DelayS: 0.1, WidthS: 0}}
	})
	for tick := range uint64(100) {
		l.Observe(tick, int64(tick)*int64(testPeriod), []float64{float64(tick), 1, 0, 0}, nil)
	}
	for name, c := range map[string]struct {
		label           rewardsrc.Label
		from, to, about uint64
	}{
		"press":       {press(1, 1.6e9, 1), 50, 70, 60}, // 1.0 to 1.4 s
		"held button": {held(press(2, 1.6e9, 1)), 75, 75, 75},
	} {
		a := l.Apply(c.label, 0)
		if a.Outcome != Applied || a.From != c.from || a.To != c.to || a.About != c.about {
			t.Errorf("%s: %+v, want ticks %d to %d", name, a, c.from, c.to)
		}
		if math.Abs(l.phi[0]-float64(c.about)) > 1e-12 {
			t.Errorf("%s: mean feature %v, want that of tick %d", name, l.phi[0], c.about)
		}
	}
}

func TestLearner_CreditsAnswersUntilThePress(t *testing.T) {
	const asked = 20
	pressed := func(at int64) rewardsrc.Label {
		l := answer(0, 1, 0.5)
		l.At = at
		return l
	}
	for answers, cases := range map[string]map[int64][2]uint64{
		AtRequest: {1e9: {asked, asked}},
		AtClip:    {1e9: {0, asked + 25}}, // half a second, as far as there are states
		UntilPress: { // a tick takes 20 ms, and the delay of a press 0.2 s
			1e9:             {asked, 40},
			1.8e9:           {30, 80}, // at most a second
			0.5e9:           {asked, asked},
			0:               {asked, asked},
			-1:              {asked, asked},
			math.MinInt64:   {asked, asked},
			math.MaxInt64:   {asked, asked},
			1e9 + 1_000_001: {asked, 40},
		},
	} {
		l, _ := newTestLearner(t, func(c *Config) { c.Credit.Answers = answers })
		for tick := range uint64(100) {
			l.Observe(tick, int64(tick)*int64(testPeriod), []float64{float64(tick), 1, 0, 0}, nil)
		}
		for at, want := range cases {
			if a := l.Apply(pressed(at), asked); a.Outcome != Applied || a.From != want[0] || a.To != want[1] {
				t.Errorf("%s, pressed at %d: %+v, want ticks %d to %d", answers, at, a, want[0], want[1])
			}
		}
	}
}

func TestLearner_RefusesPressOutsideHistory(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	for tick := range uint64(1000) {
		l.Observe(tick, 1e12+int64(tick)*int64(testPeriod), []float64{1, 2, 3, 4}, nil)
	}
	hash := l.belief.Hash()
	newest := int64(1e12 + 999*int64(testPeriod))
	for _, at := range []int64{
		math.MinInt64, math.MinInt64 + 1, -1, 0, 1e9, 1e12, newest + 3e9, newest + 1e15, math.MaxInt64,
	} {
		if got := l.Apply(press(0, at, 1), 0).Outcome; got != TooOld {
			t.Errorf("pressed at %d: %v", at, got)
		}
	}
	for _, tick := range []uint64{0, 1000, 1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1} {
		if got := l.Apply(value(0, tick, 1), 0).Outcome; got != TooOld {
			t.Errorf("about tick %d: %v", tick, got)
		}
	}
	if l.belief.Hash() != hash {
		t.Error("a refused label changed the belief")
	}
	if got := l.Apply(press(0, newest, 1), 0).Outcome; got != Applied {
		t.Errorf("pressed just now: %v", got)
	}
}

func TestLearner_EmptyWindowUsesNearState(t *testing.T) {
	l, _ := newTestLearner(t, func(c *Config) { c.Credit = CreditConfig{} })
	l.Observe(5, 100e6, []float64{1, 0, 0, 0}, nil)
	l.Observe(6, 120e6, []float64{2, 0, 0, 0}, nil)
	if a := l.Apply(press(0, 119e6, 1), 0); a.From != 5 || a.To != 5 {
		t.Errorf("between two ticks: %+v", a)
	}
	if a := l.Apply(press(0, 1e9, 1), 0); a.From != 6 || a.Outcome != Applied {
		t.Errorf("after sensing failed for a while: %+v", a)
	}
	if a := l.Apply(press(0, 2e9, 1), 0); a.Outcome != TooOld {
		t.Errorf("after sensing failed for long: %+v", a)
	}
	if a := l.Apply(press(0, 99e6, 1), 0); a.Outcome != TooOld {
		t.Errorf("before the first tick: %+v", a)
	}
}

func TestLearner_BoundsWindowOfStuckClock(t *testing.T) {
	l, err := NewLearner(DefaultConfig(), 2, 200*time.Microsecond)
	fatal.If(t, err)
	for tick := range uint64(len(l.history.moments)) {
		l.Observe(tick, 42, []float64{1, 2}, nil)
	}
	if a := l.Apply(press(0, 42+3e8, 1), 0); a.Outcome != Applied || a.To-a.From+1 != maxWindow {
		t.Errorf("%+v", a)
	}
}

func TestLearner_RefusesInvalidLabels(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
	hash := l.belief.Hash()
	bad := func(change func(*rewardsrc.Label)) {
		t.Helper()
		label := value(0, 1, 1)
		change(&label)
		if got := l.Apply(label, 0).Outcome; got != BadLabel || l.belief.Hash() != hash {
			t.Errorf("%+v: %v", label, got)
		}
	}
	for _, v := range []float64{nan, inf, -inf, 1.1e9, -math.MaxFloat64} {
		bad(func(l *rewardsrc.Label) { l.Value = v })
	}
	for _, w := range []float64{nan, inf, -1, 1.0000001, -0.5} {
		bad(func(l *rewardsrc.Label) { l.Weight = w })
	}
	for _, k := range []rewardsrc.Kind{0, rewardsrc.Keep + 1, 255} {
		bad(func(l *rewardsrc.Label) { l.Kind = k })
	}
	if got := l.Apply(rewardsrc.Label{Kind: rewardsrc.CantTell}, 0).Outcome; got != UnknownRequest {
		t.Errorf("can't tell, asked nothing: %v", got)
	}
}

func TestLearner_UndoReachesNewestLabelsOnly(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
	for id := uint64(1); id <= undoable+1; id++ {
		l.Apply(value(id, 1, 1), 0)
	}
	for id, want := range map[uint64]Outcome{1: NothingToUndo, 2: Applied, undoable + 1: Applied} {
		if got := l.Apply(rewardsrc.Label{Kind: rewardsrc.Undo, Undoes: id}, 0).Outcome; got != want {
			t.Errorf("undo of %d: %v, want %v", id, got, want)
		}
	}
}

func TestLearner_ReapplyRepeatsLogAndRefusesDamage(t *testing.T) {
	forgets := func(c *Config) { c.Rho = 0.99 }
	l, _ := newTestLearner(t, forgets)
	again, _ := newTestLearner(t, forgets)
	for tick := range uint64(50) {
		for _, l := range []*Learner{l, again} {
			l.Advance(1)
			l.Observe(tick, int64(tick)*int64(testPeriod), []float64{1, float64(tick), 3, 4}, nil)
		}
	}
	labels := []rewardsrc.Label{
		value(1, 40, 1), press(2, 900e6, 0.5), {ID: 3, Kind: rewardsrc.Undo}, {ID: 4, Kind: rewardsrc.CantTell},
	}
	for _, label := range labels {
		logged := l.Apply(label, 0)
		own, err := again.Reapply(logged)
		if err != nil || own != logged || again.belief.Hash() != l.belief.Hash() {
			t.Fatalf("%+v, %v, want %+v", own, err, logged)
		}
	}
	hash := again.belief.Hash()
	damaged := []AppliedLabel{
		{Outcome: Applied, Kind: rewardsrc.Value, From: 1000, To: math.MaxUint64, Value: 1, Weight: 1, Confidence: 1},
		{Outcome: Applied, Kind: rewardsrc.Value, From: 30, To: 20, Value: 1, Weight: 1, Confidence: 1},
		{Outcome: Applied, Kind: rewardsrc.Undo, Undoes: 77},
	}
	for _, d := range damaged {
		if _, err := again.Reapply(d); !errors.Is(err, ErrUnknownFeatures) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, d := range []AppliedLabel{
		{Outcome: Applied, Kind: rewardsrc.Value, From: 0, To: math.MaxUint64, Value: nan, Weight: 1, Confidence: 1},
		{Outcome: Applied, Kind: rewardsrc.Value, From: 1, To: 1, Value: 1, Weight: -1, Confidence: 1},
		{Outcome: Applied, Kind: rewardsrc.CantTell, From: 1, To: 1, Value: 1, Weight: 1, Confidence: 1},
	} {
		if own, err := again.Reapply(d); err != nil || own.Outcome == Applied {
			t.Errorf("%+v: %+v, %v", d, own, err)
		}
	}
	if again.belief.Hash() != hash {
		t.Error("a damaged log changed the belief")
	}
}

func TestLearner_WarmStartEqualsLabels(t *testing.T) {
	cfg := func(c *Config) { c.Sigma = 0.5 }
	warm, _ := newTestLearner(t, cfg)
	_, n := newTestLearner(t, cfg)
	random := rand.New(rand.NewPCG(5, 6))
	phi, reward := gaussian(random, 9*rigLatent), gaussian(random, 9)
	fatal.If(t, warm.WarmStart(phi, reward))
	for i, r := range reward {
		n.observe(uint64(i), 0, phi[i*rigLatent:(i+1)*rigLatent])
		n.apply(value(0, uint64(i), r), 0)
	}
	mustAgree(t, warm, n)
	hash := warm.belief.Hash()
	phi[3] = nan
	if err := warm.WarmStart(phi, reward); err == nil || warm.belief.Hash() != hash {
		t.Errorf("a NaN: %v", err)
	}
	if err := warm.WarmStart(phi[1:], reward); err == nil {
		t.Error("accepted a missing feature")
	}
}

func TestLearner_AdvanceIsBounded(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	l.Advance(math.MaxUint64)
	l.Advance(math.MaxUint64)
	if l.clock != 2*maxAdvance {
		t.Errorf("the clock is at %d", l.clock)
	}
}

func TestLearner_DecreasingTickClearsHistory(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	for _, tick := range []uint64{10, 11, 3} {
		l.Observe(tick, int64(tick), []float64{1, 2, 3, 4}, nil)
	}
	for tick, want := range map[uint64]Outcome{10: TooOld, 11: TooOld, 3: Applied} {
		if got := l.Apply(value(0, tick, 1), 0).Outcome; got != want {
			t.Errorf("about tick %d: %v, want %v", tick, got, want)
		}
	}
}

// withOffset is a configuration with an offset and without a task prior.
func withOffset(c *Config) { c.Offset, c.Credit.CompareS = 0.7, 5*testPeriod.Seconds() }

func TestLearner_ComparisonsAndGoalsDoNotMoveTheZero(t *testing.T) {
	for _, kind := range []rewardsrc.Kind{rewardsrc.Comparison, rewardsrc.Goal} {
		l, _ := newTestLearner(t, withOffset)
		for tick := range uint64(20) {
			l.Observe(tick, int64(tick)*int64(testPeriod), []float64{0, float64(tick), 1, 0}, nil)
		}
		before := state(l)
		if a := l.Apply(rewardsrc.Label{ID: 1, Kind: kind, Tick: 10, Value: 1}, 0); a.Outcome != Applied {
			t.Fatalf("%v: %+v", kind, a)
		}
		z := make([]float64, rigLatent)
		l.Belief().Mean(z)
		if zero := l.Zero(); zero != 0 || !(z[1] > 0) {
			t.Errorf("%v: zero %g and z %v; want 0 and a positive second entry", kind, zero, z)
		}
		if kind == rewardsrc.Comparison && z[2] != 0 {
			t.Errorf("a comparison moved z along a constant feature: %v", z)
		}
		l.Apply(rewardsrc.Label{ID: 2, Kind: rewardsrc.Undo, Undoes: 1}, 0)
		beliefsAgree(t, state(l), before)
	}
}

func TestLearner_RefusesComparisonsWithoutAnEarlierMoment(t *testing.T) {
	better := rewardsrc.Label{Kind: rewardsrc.Comparison, Tick: 10, Value: 1}
	for name, change := range map[string]func(*Config){
		"an earlier moment before the history": func(c *Config) { c.Credit.CompareS = 11 * testPeriod.Seconds() },
		"no compare_s":                         func(c *Config) { c.Credit.CompareS = 0 },
	} {
		l, _ := newTestLearner(t, change)
		for tick := range uint64(20) {
			l.Observe(tick, int64(tick)*int64(testPeriod), []float64{0, float64(tick), 1, 0}, nil)
		}
		hash := l.belief.Hash()
		if a := l.Apply(better, 0); a.Outcome != TooOld || l.belief.Hash() != hash {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
