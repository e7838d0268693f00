package controller

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/rewardsrc"
)

// labelling gives a learner labels of random states, one a second.
type labelling struct {
	t       *testing.T
	learner *Learner
	random  *rand.Rand
	tick    uint64
	changed int // labels after which the task counted as changed
}

func newLabelling(t *testing.T, change func(*Config)) *labelling {
	l, _ := newTestLearner(t, func(c *Config) {
		*c = PersonConfig()
		c.Gate.Relearn = true
		if change != nil {
			change(c)
		}
	})
	return &labelling{t: t, learner: l, random: rand.New(rand.NewPCG(4, 7))}
}

// label labels a state and lets the weights settle.
func (s *labelling) label(phi []float64, reward float64) {
	s.t.Helper()
	s.tick += 50
	s.learner.Advance(50)
	s.learner.Observe(s.tick, int64(s.tick)*int64(testPeriod), phi, nil)
	if got := s.learner.Apply(value(s.tick, s.tick, reward), 0); got.Outcome != Applied {
		s.t.Fatal(got.Outcome)
	}
	for i := range uint64(50) {
		s.learner.Settle(s.tick + i)
	}
	if s.learner.Changed() {
		s.changed++
	}
}

// labels labels n states of a task: 1 where reward is above 0, else -1.
func (s *labelling) labels(n int, reward func(phi []float64) float64) {
	s.t.Helper()
	for range n {
		phi := gaussian(s.random, rigLatent)
		s.label(phi, math.Copysign(1, reward(phi)))
	}
}

func along(i int, sign float64) func([]float64) float64 {
	return func(phi []float64) float64 { return sign * phi[i] }
}

func TestEvidence_CallsAChangeOfTheTask(t *testing.T) {
	for name, after := range map[string]func([]float64) float64{
		"opposite": along(0, -1), "another": along(1, 1),
	} {
		s := newLabelling(t, nil)
		s.labels(60, along(0, 1))
		if s.changed > 0 {
			t.Fatalf("%s: called without a change", name)
		}
		if skill := s.learner.Evidence().Skill; skill < 0.5 {
			t.Errorf("%s: the skill is %g after 60 labels", name, skill)
		}
		s.labels(40, after)
		if s.changed == 0 {
			t.Errorf("%s: not called in 40 labels: %+v", name, s.learner.Evidence())
		}
	}
}

func TestEvidence_CallsNoChangeOfTheSameTask(t *testing.T) {
	for name, run := range map[string]func(s *labelling){
		"it never knew better than a constant": func(s *labelling) {
			noise := func([]float64) float64 { return s.random.Float64() - 0.5 }
			s.labels(100, noise)
			s.labels(60, along(0, 1))
		},
		"all labels were alike": func(s *labelling) {
			s.labels(60, func([]float64) float64 { return -1 })
			s.labels(60, func([]float64) float64 { return 1 })
		},
		"mistakes": func(s *labelling) {
			s.labels(200, func(phi []float64) float64 {
				if s.random.IntN(10) == 0 {
					return -phi[0]
				}
				return phi[0]
			})
		},
		"states of a new kind": func(s *labelling) {
			inFirst := func(phi []float64) { phi[2], phi[3] = 0, 0 }
			for range 60 {
				phi := gaussian(s.random, rigLatent)
				inFirst(phi)
				s.label(phi, phi[0])
			}
			for range 60 {
				phi := gaussian(s.random, rigLatent)
				s.label(phi, phi[0]-3*phi[2])
			}
		},
		"the robot improves": func(s *labelling) {
			for i := range 150 {
				phi := gaussian(s.random, rigLatent)
				phi[0] = math.Abs(phi[0]) * min(1, float64(i-50)/50)
				s.label(phi, phi[0])
			}
		},
		"the robot stays where the belief is wrong": func(s *labelling) {
			s.labels(600, along(0, 1))
			stay(s)
		},
		"it stays there after Keep": func(s *labelling) {
			s.labels(600, along(0, 1))
			s.labels(40, along(0, -1))
			s.learner.Relearn(s.tick)
			s.learner.keep()
			s.changed = 0
			s.labels(100, along(0, 1))
			stay(s)
		},
		"states of a new kind after many labels": func(s *labelling) {
			for i := range 700 {
				phi := gaussian(s.random, rigLatent)
				if i < 600 {
					phi[2], phi[3] = 0, 0
				}
				s.label(phi, phi[0]-3*phi[2])
			}
		},
	} {
		s := newLabelling(t, nil)
		if run(s); s.changed > 0 {
			t.Errorf("%s: called", name)
		}
	}
}

// stay labels one state against the belief.
func stay(s *labelling) {
	phi := gaussian(s.random, rigLatent)
	for range 100 {
		s.label(phi, -math.Copysign(1, phi[0]))
	}
}

// TestEvidence_CountsAlikeForOldLogs is about logs before format 10.
func TestEvidence_CountsAlikeForOldLogs(t *testing.T) {
	s := newLabelling(t, nil)
	s.learner.UseFormerRules(FormerRules{EqualWeights: true, IgnoreCorrelation: true})
	s.labels(600, along(0, 1))
	if stay(s); s.changed == 0 {
		t.Error("a label of the same state counts less")
	}
}

// TestEvidence_CountsCorrelatedSurprisesLess adds something slow, which the features do not express,
// to the labels.
func TestEvidence_CountsCorrelatedSurprisesLess(t *testing.T) {
	// calls counts the runs of 20 that call a change of an unchanged task, and of a changed one.
	calls := func(former bool, slowness float64) (wrong, right int) {
		for seed := range uint64(20) {
			s := newLabelling(t, nil)
			s.learner.UseFormerRules(FormerRules{IgnoreCorrelation: former})
			s.random = rand.New(rand.NewPCG(seed, 0))
			slow := 0.0
			run := func(n int, sign float64) (called int) {
				s.changed = 0
				for range n {
					phi := gaussian(s.random, rigLatent)
					phi[1] = 1
					slow = 0.9*slow + slowness*s.random.NormFloat64()
					s.label(phi, sign*phi[0]+slow)
				}
				return min(s.changed, 1)
			}
			wrong += run(1000, 1)
			right += run(100, -1)
		}
		return wrong, right
	}
	former, _ := calls(true, 0.3)
	if now, _ := calls(false, 0.3); former < 15 || now > former/2 {
		t.Errorf("%d of 20 runs call a change, %d by the rule of old logs", now, former)
	}
	if _, right := calls(false, 0.1); right < 18 {
		t.Errorf("%d of 20 runs call a change of a changed task", right)
	}
}

func TestEvidence_CallsAChangeAfterManyLabelsOnMoreEvidence(t *testing.T) {
	// call returns the evidence at which the opposite task is called after n labels.
	call := func(n int, former bool) float64 {
		s := newLabelling(t, nil)
		if former {
			s.learner.UseFormerRules(FormerRules{ConstantLimit: true, IgnoreCorrelation: true})
		}
		for s.labels(n, along(0, 1)); n < 5000 && s.changed == 0; n++ {
			s.labels(1, along(0, -1))
		}
		return s.learner.Evidence().Change
	}
	few, many, former := call(60, false), call(1000, false), call(1000, true)
	if grown := changedAt + 2*math.Log(10); few < changedAt || few > grown || many < grown || former > grown {
		t.Errorf("called at %g nats after 60 labels, at %g after 1,000, at %g by the rule of old logs", few, many, former)
	}
}

func TestEvidence_IsOffWithoutRelearn(t *testing.T) {
	s := newLabelling(t, func(c *Config) { c.Gate.Relearn, c.Gate.StopWhenLearnt = false, true })
	s.labels(60, along(0, 1))
	s.labels(60, along(0, -1))
	if s.changed > 0 || s.learner.Evidence().Skill == 0 {
		t.Errorf("called %d times, evidence %+v: want skill alone", s.changed, s.learner.Evidence())
	}
	if s.learner.Relearn(s.tick); s.learner.Keepable() {
		t.Error("a former task without relearn")
	}
}

// changedTask returns a learner whose task has changed, before Relearn.
func changedTask(t *testing.T, change func(*Config)) *labelling {
	t.Helper()
	s := newLabelling(t, change)
	s.labels(60, along(0, 1))
	for range 40 {
		if s.labels(1, along(0, -1)); s.changed > 0 {
			return s
		}
	}
	t.Fatal("no change called")
	return nil
}

func TestLearner_KeepRestoresTheFormerBeliefWithAllLabels(t *testing.T) {
	exact := func(c *Config) { c.Noise, c.Rho, c.ExactRestore = NoiseConfig{}, 0.9999, true }
	s, never := changedTask(t, exact), changedTask(t, exact)
	s.learner.Relearn(s.tick)
	mean := make([]float64, rigLatent)
	if s.learner.belief.Mean(mean); mean[0] > 0 {
		t.Errorf("the new task begins with %g", mean[0])
	}
	// A label, and the undo of one from before the change.
	for _, run := range []*labelling{s, never} {
		run.labels(3, along(0, -1))
		undo := rewardsrc.Label{ID: 1e6, Kind: rewardsrc.Undo, Undoes: run.tick - 3*50}
		if got := run.learner.Apply(undo, 0); got.Outcome != Applied {
			t.Fatalf("undo: %v", got.Outcome)
		}
	}
	keep := rewardsrc.Label{ID: 2e6, Kind: rewardsrc.Keep}
	if got := s.learner.Apply(keep, 0); got.Outcome != Applied {
		t.Fatalf("keep: %v", got.Outcome)
	}
	want := state(never.learner)
	for i, x := range state(s.learner) {
		if math.Abs(x-want[i]) > 1e-9*max(1, math.Abs(want[i])) {
			t.Fatalf("state[%d] is %g, want %g", i, x, want[i])
		}
	}
	if noise := never.learner.Noise(); s.learner.Noise() != noise {
		t.Errorf("the noise is %+v, want %+v", s.learner.Noise(), noise)
	}
	old := rewardsrc.Label{ID: 3e6, Kind: rewardsrc.Undo, Undoes: 50 * 30} // from the former task
	if got := s.learner.Apply(old, 0); got.Outcome != Applied {
		t.Errorf("undo of a label of the former task: %v", got.Outcome)
	}
	keep.ID++
	if got := s.learner.Apply(keep, 0); got.Outcome != NothingToUndo {
		t.Errorf("a second keep: %v", got.Outcome)
	}
}

// The beliefs that compare the moments of presses follow each change of the task.
func TestLearner_MomentsFollowAChangedTask(t *testing.T) {
	s := changedTask(t, func(c *Config) { c.Credit.Answers = Estimated })
	follow := func(when string) {
		t.Helper()
		for i, b := range s.learner.reaction.beliefs {
			if b.LogDet() != s.learner.belief.LogDet() || b.Hash() != s.learner.belief.Hash() {
				t.Errorf("%s: moment %d has another belief", when, i)
			}
		}
	}
	s.learner.Relearn(s.tick)
	follow("changed")
	s.learner.keep()
	follow("kept")
}

func TestLearner_KeepEndsAfterAMinute(t *testing.T) {
	s := changedTask(t, nil)
	s.learner.Relearn(s.tick)
	s.learner.Settle(s.tick + ticks(keepS, testPeriod, 1) - 1)
	if !s.learner.Keepable() {
		t.Error("it ended early")
	}
	s.learner.Settle(s.tick + ticks(keepS, testPeriod, 1))
	if got := s.learner.Apply(rewardsrc.Label{ID: 1e6, Kind: rewardsrc.Keep}, 0); got.Outcome != NothingToUndo {
		t.Errorf("after a minute: %v", got.Outcome)
	}
}

func TestLearner_HandsTheFormerBeliefOverOnce(t *testing.T) {
	s := changedTask(t, nil)
	hash := s.learner.belief.Hash()
	s.learner.Relearn(s.tick)
	if s.learner.belief.Hash() == hash {
		t.Fatal("the belief stays")
	}
	former := make([]float64, stateLen(s.learner))
	if _, got, ok := s.learner.Former(former); !ok || got != hash {
		t.Errorf("hash %x, %v: want %x", got, ok, hash)
	}
	if _, _, ok := s.learner.Former(former); ok {
		t.Error("twice")
	}
}

func TestEvidence_AllocatesNothing(t *testing.T) {
	s := changedTask(t, nil)
	phi := gaussian(s.random, rigLatent)
	if n := testing.AllocsPerRun(100, func() {
		s.label(phi, 1)
		s.learner.Relearn(s.tick)
		s.learner.keep()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAgent_BeginsAChangedTaskAgainAndKeepsItOnRequest(t *testing.T) {
	r := newRig(t, func(c *Config) {
		*c = PersonConfig()
		c.Gate.Relearn, c.Gate.RequestsPerMinute, c.Offset = true, 0, 0
	})
	plans := r.stubPlanner()
	sign, changed, id := 1.0, 0, uint64(0)
	step := func() {
		if r.next > 0 && r.next%25 == 0 { // half a second
			id++
			r.source.give(value(id, r.next-1, sign*math.Copysign(1, r.tick.Phi[0])))
		}
		r.steps(1)
		if r.tick.Flags.Has(FlagChanged) {
			changed++
		}
	}
	for range 25 * 60 {
		step()
	}
	if changed != 0 {
		t.Fatalf("changed %d times without a change", changed)
	}
	for sign = -1; changed == 0 && r.next < 25*120; {
		step()
	}
	hash, switches := r.tick.Hash, plans.state.Switches
	step()
	if changed != 1 || !r.tick.Flags.Has(FlagKeepable) || r.tick.Hash == hash || plans.state.Switches != switches+1 {
		t.Fatalf("changed %d times, flags %b, %d switches", changed, r.tick.Flags, plans.state.Switches-switches)
	}
	r.source.give(rewardsrc.Label{ID: 1e6, Kind: rewardsrc.Keep, Tick: rewardsrc.NoTick})
	r.steps(1)
	if got := r.tick.Labels[0].Outcome; got != Applied || r.tick.Flags.Has(FlagKeepable) {
		t.Errorf("keep: %v, flags %b", got, r.tick.Flags)
	}
	if plans.state.Switches != switches+2 {
		t.Error("the planner does not begin with the former belief")
	}
}

func TestEvidence_LabelsOfOneKindTellNothing(t *testing.T) {
	e := &evidence{}
	e.restart(changedAt)
	for k := range 50 {
		if e.score(-1, -1); e.out.Words() != "too early to tell" || e.out.BeatsGuessing() {
			t.Fatalf("after %d bad labels: %s (%+v)", k+1, e.out.Words(), e.out)
		}
	}
	for range 4 {
		e.score(1, 1)
	}
	if got := e.out.Words(); got != "predicts you well" {
		t.Errorf("after 4 good labels: %s", got)
	}
}

func TestEvidence_ShortfallAveragesExpectedLabels(t *testing.T) {
	labels := LabelRange{2, 10}
	l, _ := newTestLearner(t, func(c *Config) { c.Gate.StopWhenLearnt, c.LabelRange, c.Sigma = true, labels, 0.1 })
	l.Observe(0, 0, []float64{1, 0, 0, 0}, nil)
	l.Apply(value(1, 0, 9), 0)
	tick := uint64(0)
	observe := func(x float64, periods uint64) {
		tick += periods
		l.Advance(periods)
		l.Observe(tick, int64(tick)*int64(testPeriod), []float64{x, 0, 0, 0}, nil)
	}
	below := (labels.Good - l.Belief().Predict([]float64{1, 0, 0, 0})) / 8
	for range 3 {
		observe(1, 10)
		if got := l.Evidence().Shortfall; math.Abs(got-below) > 1e-12 || !(below > 0.1 && below < 0.2) {
			t.Fatalf("of one state: %g, want %g", got, below)
		}
	}
	observe(-1, 30) // beyond bad
	if got, want := l.Evidence().Shortfall, (below+1)/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("of two states: %g, want their mean %g", got, want)
	}
	for range 30 * 50 {
		observe(1, 1)
	}
	// After the 1,440 ticks of the plain mean that are left and 60 of the moving one:
	want := below + (1-below)*30/1500*math.Pow(1-1/1500., 60)
	if got := l.Evidence().Shortfall; math.Abs(got-want) > 1e-9 {
		t.Errorf("after 30 s: %g, want %g", got, want)
	}
	l.Observe(tick+1, int64(tick+1)*int64(testPeriod), []float64{-1, 0, 0, 0}, nil) // disarmed
	observe(math.Inf(1), 1)
	if got := l.Evidence().Shortfall; math.Abs(got-want) > 1e-9 {
		t.Errorf("after a tick of a disarmed robot and one without a number: %g, want %g", got, want)
	}
}

func TestEvidence_Judgement(t *testing.T) {
	known := Interval{0.8, 0.9, 1}
	for want, e := range map[string]Evidence{
		"too early to tell":                   {},
		"predicts you well, reaches 80–100 %": {Skill: 0.6, SkillError: 0.15},
		"predicts you well, reaches 80–100 %, expects mostly bad labels": {
			Skill: 0.6, SkillError: 0.15, Shortfall: 0.6,
		},
	} {
		if got := e.Judgement(known); got != want {
			t.Errorf("%+v: %s, want %s", e, got, want)
		}
	}
}

func TestEvidence_Words(t *testing.T) {
	for want, e := range map[string]Evidence{
		"too early to tell":       {}, // also after labels without a value
		"no better than guessing": {Skill: 0.2, SkillError: 0.25},
		"better than guessing":    {Skill: 0.45, SkillError: 0.15},
		"predicts you well":       {Skill: 0.6, SkillError: 0.15},
	} {
		if got := e.Words(); got != want {
			t.Errorf("%+v: %s, want %s", e, got, want)
		}
	}
}
