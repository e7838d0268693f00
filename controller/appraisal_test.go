package controller

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// evaluatorStub is a stubModel with successor features.
type evaluatorStub struct {
	*stubModel
	psi func(dst []float32, z []float64) error
}

func (m *evaluatorStub) Psi(dst, _, _ []float32, z []float64) error { return m.psi(dst, z) }

// fan draws z from a fan of unit vectors in the plane of the first two coordinates, at these angles
// to the first.
type fan struct {
	BeliefSampler
	angles []float64
	next   int
}

func (f *fan) Gaussian(dst []float64, _ *posterior.Belief, _ float64, _ *rand.Rand) {
	clear(dst)
	dst[0], dst[1] = math.Cos(f.angles[f.next%len(f.angles)]), math.Sin(f.angles[f.next%len(f.angles)])
	f.next++
}

// appraisedAt returns Known after n plans for a model whose successor features lie on a circle: the
// policy of a y in the plane of the fan has ψ = y/‖y‖, so that its value for a unit z is the cosine
// of their angle. All other policies have ψ = 0. A reward that all policies share comes on top. The
// belief's mean is the first axis.
func appraisedAt(t *testing.T, angles []float64, n int, spoil func(dst []float32) error) Interval {
	t.Helper()
	m := &evaluatorStub{stubModel: newStub(rigObs, rigAction, rigLatent)}
	m.psi = func(dst []float32, z []float64) error {
		for i := range dst {
			dst[i] = 3 // of the shared reward
		}
		if z[rigLatent-1] == 0 {
			for i, x := range z {
				dst[i] += float32(x / norm(z))
			}
		}
		if spoil != nil {
			return spoil(dst)
		}
		return nil
	}
	cfg := configured(UCB)
	cfg.Candidates, cfg.Gate.StopWhenLearnt = 2, true
	planner, err := NewPlannerWithSampler(cfg, m, &fan{angles: angles})
	fatal.If(t, err)
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	l.Observe(0, 0, []float64{1, 0, 0, 0}, nil)
	l.Apply(value(1, 0, 1), 0)
	shape := Shape{rigObs, rigAction, rigLatent, 0}
	s, dst := NewState(shape), NewPlan(shape)
	for i := range n {
		s.Next, s.Valid, s.Hash, s.Scale = uint64(i)+2, 1, l.belief.Hash(), 1
		l.belief.State(s.Belief)
		if _, err := planner.Plan(s, dst); err != nil {
			t.Fatal(err)
		}
	}
	return dst.Known
}

func TestAppraisal_IsTheCosineOfACircularModel(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		angles := make([]float64, appraised)
		for i := range angles {
			angles[i] = random.Float64() * math.Pi
		}
		sorted := slices.Sorted(slices.Values(angles))
		share := func(rank int) float64 { return max(0, math.Cos(sorted[appraised-1-rank])) }
		got := appraisedAt(t, angles, 200, nil)
		for _, x := range [][2]float64{{got.Low, share(1)}, {got.Middle, share(8)}, {got.High, share(14)}} {
			if math.Abs(x[0]-x[1]) > 1e-5 {
				t.Errorf("angles %.2f: known %+v: %g, want %g", sorted, got, x[0], x[1])
			}
		}
	}
}

func TestAppraisal_NeedsStatesAndValues(t *testing.T) {
	same := make([]float64, appraised)
	if got := appraisedAt(t, same, 200, nil); math.Abs(got.Low-1) > 1e-5 {
		t.Errorf("known %+v, want 1: all draws agree with the mean", got)
	}
	if got := appraisedAt(t, same, appraised*appraisalStates/2-1, nil); got.Known() {
		t.Errorf("known %+v after too few states, want none", got)
	}
	for name, spoil := range map[string]func([]float32) error{
		"ψ fails":       func([]float32) error { return errOut },
		"ψ is NaN":      func(dst []float32) error { dst[1] = float32(nan); return nil },
		"ψ is infinite": func(dst []float32) error { dst[0] = float32(inf); return nil },
		"ψ is constant": func(dst []float32) error { clear(dst); return nil },
	} {
		if got := appraisedAt(t, same, 200, spoil); got.Known() {
			t.Errorf("%s: known %+v, want none", name, got)
		}
	}
}

func TestAppraisal_NeedsTheKeyABeliefAndPsi(t *testing.T) {
	full := &evaluatorStub{stubModel: newStub(rigObs, rigAction, rigLatent)}
	cfg := PersonConfig()
	cfg.Gate.StopWhenLearnt = true
	if newAppraisal(cfg, full) == nil {
		t.Fatal("no appraisal")
	}
	if newAppraisal(cfg, full.stubModel) != nil {
		t.Error("appraises without ψ")
	}
	if newAppraisal(DefaultConfig(), full) != nil {
		t.Error("appraises without stop_when_learnt")
	}
	cfg.Strategy = Fixed
	if newAppraisal(cfg, full) != nil {
		t.Error("appraises a fixed z")
	}
}

func TestPlanner_FollowsTheMeanOfALearntTask(t *testing.T) {
	cfg := configured(Thompson)
	cfg.Draw = DrawConfig{Scale: 1, Held: 0.5, Ticks: 3}
	p := newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent))
	s := learnt(t, cfg, 7)
	drawn := slices.Clone(plan(t, p, s).Z)
	s.Next, s.Learnt = s.Next+1, 1
	mean := make([]float64, rigLatent)
	p.belief.Mean(mean)
	for i, x := range plan(t, p, s).Z {
		if math.Abs(x-mean[i]) > 1e-12 {
			t.Errorf("z[%d] is %g, want the mean %g", i, x, mean[i])
		}
	}
	if slices.Equal(drawn, mean) {
		t.Error("follows the mean before the task is learnt")
	}
}

func TestPredictions_CountTheNewestLabels(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	var p predictions
	var all []float64
	for range 300 {
		e := 4 * (random.Float64() - 0.5)
		p.add(e)
		all = append(all, e)
		want := Predicted{}
		for _, e := range all[max(0, len(all)-10):] {
			want.Of++
			want.Last = 0
			if math.Abs(e) <= 1.5 {
				want.Labels++
				want.Last = 1
			}
		}
		if got := p.summary(); got != want {
			t.Fatalf("after %d labels: %+v, want %+v", len(all), got, want)
		}
	}
	if p.add(nan); p.summary().Last != 0 {
		t.Error("a NaN was predicted")
	}
}

func TestProficiency_NeedsTimeLabelsAndPredictions(t *testing.T) {
	const lasts = 15 * 50 // ticks of 20 ms
	good := Predicted{Labels: 7, Of: 10, Last: 1}
	tick := func(known, skill, shortfall float64, predicted Predicted) *Tick {
		return &Tick{Header: &Header{
			Elapsed: 1, Known: Interval{known, 1, 1}, Predicted: predicted,
			Evidence: Evidence{Skill: skill, SkillError: 0.2, Shortfall: shortfall},
		}}
	}
	cfg := GateConfig{StopWhenLearnt: true}
	for name, c := range map[string]struct {
		known, skill, shortfall float64
		predicted               Predicted
		periods                 int
		want                    bool
	}{
		"all":                    {0.7, 0.21, 0.5, good, lasts, true},
		"too short":              {0.7, 0.21, 0.5, good, lasts - 1, false},
		"too little known":       {0.69, 0.21, 0.5, good, lasts, false},
		"as a constant":          {1, 0.2, 0.5, good, lasts, false},
		"mostly bad":             {1, 1, 0.51, good, lasts, false},
		"few predicted":          {1, 1, 0, Predicted{Labels: 6, Of: 10, Last: 1}, lasts, false},
		"few labels":             {1, 1, 0, Predicted{Labels: 9, Of: 9, Last: 1}, lasts, false},
		"no number of known":     {nan, 1, 0, good, lasts, false},
		"no number of shortfall": {1, 1, nan, good, lasts, false},
	} {
		p := NewProficiency(cfg, testPeriod)
		for range c.periods {
			p.Advance(tick(c.known, c.skill, c.shortfall, c.predicted))
		}
		if p.Learnt() != c.want {
			t.Errorf("%s: learnt is %v", name, p.Learnt())
		}
	}
	p := NewProficiency(cfg, testPeriod)
	p.Resume(true)
	if !p.Advance(tick(0, 0, 0.75, good)) || p.Advance(tick(1, 1, 0.76, good)) {
		t.Error("a learnt task must remain so until bad labels are expected")
	}
	long := tick(1, 1, 0, good)
	long.Elapsed = lasts - 1
	p.Advance(long)
	p.Advance(tick(0.5, 1, 0, good))
	if p.Advance(long) {
		t.Error("an interruption does not restart the time")
	}
	long.Elapsed = 10 * lasts
	if off := NewProficiency(GateConfig{}, testPeriod); off.Advance(long) {
		t.Error("off, but learnt")
	}
}

func TestAgent_StopsAskingUntilLabelsContradict(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Gate.StopWhenLearnt, c.Gate.RequestsPerMinute, c.Sigma = true, 0, 0.1
	})
	plans := r.stubPlanner()
	plans.plan.Known = Interval{Low: 0.9, Middle: 1, High: 1}
	seen, observe := 0.0, r.robot.Observe
	r.robot.Observe = func(n int, obs []float32) error {
		err := observe(n, obs)
		seen = float64(obs[0])
		return err
	}
	reward, id := 0.0, uint64(0)
	r.source.onAsk = func(q rewardsrc.Request) {
		if q.State == rewardsrc.Open {
			id++
			r.source.give(answer(id, q.ID, seen+reward))
		}
	}
	r.steps(50 + int(ticks(learntS, testPeriod, 1)))
	if !r.tick.Flags.Has(FlagLearnt) || plans.state.Learnt != 1 {
		t.Fatalf("not learnt: %+v", r.tick.Predicted)
	}
	asked := id
	r.steps(500)
	if id != asked {
		t.Errorf("%d requests for a learnt task", id-asked)
	}
	reward = 50
	r.source.give(value(1e6, r.tick.Index, reward)) // the task has changed
	r.steps(1)
	if !r.tick.Flags.Has(FlagLearnt) || r.tick.Predicted.Last != 0 {
		t.Fatalf("one label: flags %b, predicted %+v", r.tick.Flags, r.tick.Predicted)
	}
	for range 50 {
		reward *= -3 // which no belief predicts
		r.steps(1)
	}
	if r.tick.Flags.Has(FlagLearnt) || id == asked {
		t.Errorf("still learnt: %+v after %d requests", r.tick.Predicted, id-asked)
	}
}

// A robot that lies where the operator put it does nothing that the labels are about.
func TestAgent_RestIsNoShortfall(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Gate.StopWhenLearnt, c.LabelRange, c.Sigma = true, LabelRange{-1, 1}, 0.1
	})
	lies, observe := false, r.robot.Observe
	r.robot.Observe = func(n int, obs []float32) error {
		err := observe(n, obs)
		obs[0] = 0.5
		if lies {
			obs[0] = -1
		}
		return err
	}
	r.steps(1)
	r.source.give(value(1, r.tick.Index, 1))
	r.steps(500)
	moving := r.tick.Evidence.Shortfall
	fatal.If(t, r.agent.Disarm())
	lies = true
	r.steps(3000)
	if at := r.tick.Evidence.Shortfall; at != moving || !(moving > 0 && moving < 0.5) {
		t.Errorf("shortfall %g, after a rest %g", moving, at)
	}
	r.arm()
	if r.steps(3000); !(r.tick.Evidence.Shortfall > 0.7) {
		t.Errorf("of a robot that moves in a bad state: %g", r.tick.Evidence.Shortfall)
	}
}

func TestLearner_CountsPredictionsOfLabelsHalfASecondApart(t *testing.T) {
	for relearn, want := range map[bool]uint32{true: 4, false: recentLabels} {
		l, _ := newTestLearner(t, func(c *Config) { c.Gate.Relearn, c.Gate.StopWhenLearnt = relearn, true })
		for tick := range uint64(100) { // 2 s
			l.Observe(tick, int64(tick)*int64(testPeriod), []float64{1, 0, 0, 0}, nil)
			l.Apply(value(0, tick, 1), 0)
		}
		if got := l.Predicted().Of; got != want {
			t.Errorf("relearn %v: %d labels of 2 s count, want %d", relearn, got, want)
		}
	}
}
