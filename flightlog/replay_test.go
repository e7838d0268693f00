package flightlog

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog/flightlogtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// verify verifies a log that must be readable.
func verify(t *testing.T, path string) Result {
	t.Helper()
	result, err := Verify(open(t, path))
	fatal.If(t, err)
	return result
}

func TestVerify_AgreesWithTheRun(t *testing.T) {
	path, z := simulation{Config: flightlogtest.Config(), Ticks: 1000, Every: 300}.run(t)
	result := verify(t, path)
	if !result.OK() || result.Verified != 1000 || result.Unverified != 0 || len(result.Gaps) != 0 {
		t.Fatalf("first difference %v; %+v", result.First, result)
	}
	sameVector(t, result.Z, z, 0)
	s := result.Summary
	if s.Asked < 5 || s.Labels[controller.Applied] < 20 || s.Undone < 3 || s.Skipped == 0 || s.Dropped != 0 {
		t.Fatalf("the run has too few events: %+v", s)
	}
}

func TestVerify_NamesTheFirstDifference(t *testing.T) {
	for field, change := range map[string]func(t *controller.Tick){
		"hash":    func(t *controller.Tick) { t.Hash ^= 1 },
		"norm_sq": func(t *controller.Tick) { t.NormSq = math.Nextafter(t.NormSq, 2) },
		"dgap":    func(t *controller.Tick) { t.DGap += 1e-9 },
		"logdet":  func(t *controller.Tick) { t.LogDet *= 1 + 1e-9 },
		"kappa":   func(t *controller.Tick) { t.Kappa *= 1 + 1e-9 },
	} {
		run := budgeted()
		run.Ticks = 300
		run.Change = func(t *controller.Tick) {
			if t.Index >= 100 && t.Index < 104 { // at least one of them is a tick
				change(t)
			}
		}
		path, _ := run.run(t)
		result := verify(t, path)
		if result.OK() || result.First.Field != field || result.First.Tick < 100 || result.First.Tick > 103 {
			t.Errorf("%s: got %v", field, result.First)
		}
	}
}

func TestVerify_AnInfiniteNumberDiffers(t *testing.T) {
	change := func(t *controller.Tick) { t.LogDet = math.Inf(1) }
	run := simulation{Config: flightlogtest.Config(), Ticks: 3, Change: change}
	path, _ := run.run(t)
	if result := verify(t, path); result.OK() || result.First.Field != "logdet" {
		t.Fatalf("got %v", result.First)
	}
}

func TestVerify_ALabelThatACompleteLogCannotExplainDiffers(t *testing.T) {
	const unknown = 1 << 20
	for name, change := range map[string]func(l *controller.AppliedLabel){
		"value": func(l *controller.AppliedLabel) {
			if l.Kind.Teaches() {
				l.From, l.To = l.From+unknown, l.To+unknown
			}
		},
		"undo": func(l *controller.AppliedLabel) {
			if l.Kind == rewardsrc.Undo {
				l.Undoes = unknown
			}
		},
	} {
		run := simulation{Config: flightlogtest.Config(), Ticks: 400, Every: 50, Change: func(t *controller.Tick) {
			for i := range t.Labels[:t.NumLabels] {
				change(&t.Labels[i])
			}
		}}
		path, _ := run.run(t)
		if result := verify(t, path); result.OK() || len(result.Gaps) > 0 {
			t.Errorf("%s: first difference %v, gaps %v", name, result.First, result.Gaps)
		}
	}
}

// jumpingLog changes the belief of the run before it writes a snapshot.
type jumpingLog struct{ spoiltLog }

func (l jumpingLog) WriteLearner(next uint64, learner *controller.Learner, task string) error {
	phi := make([]float64, testShape.Latent)
	phi[0] = 1
	if err := learner.Belief().Update(phi, 1, 1); err != nil {
		return err
	}
	return l.spoiltLog.WriteLearner(next, learner, task)
}

func TestVerify_FindsABeliefThatChangedAtASnapshot(t *testing.T) {
	meta := testMetadata(testShape)
	meta.Control = flightlogtest.Config()
	w, path := create(t, meta, Options{NoSync: true})
	run := flightlogtest.Run{
		Config: meta.Control, Ticks: 100, Every: 40, Latent: testShape.Latent, Period: meta.Robot.Period, Silent: true,
	}
	newTick := func(index uint64) *controller.Tick { return randomTick(testShape, index) }
	run.Write(t, jumpingLog{spoiltLog{w, nil}}, newTick)
	fatal.If(t, w.Close())
	if result := verify(t, path); result.OK() || result.First.Tick < 40 || result.Differing != 2 {
		t.Fatalf("the first difference: %v; %d ticks differ", result.First, result.Differing)
	}
}

func TestVerify_DecidesAgainWhetherTheTaskIsLearnt(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Gate.StopWhenLearnt, cfg.Sigma, cfg.LabelRange = true, 0.3, controller.LabelRange{Bad: -4, Good: 1}
	run := simulation{Config: cfg, Ticks: 3000, Every: 300, Turn: 2000, Keep: true, Labels: func(i uint64) bool {
		return i%10 == 0
	}}
	learnt := 0
	for field, change := range map[string]func(t *controller.Tick){
		"": func(t *controller.Tick) {
			if t.Flags.Has(controller.FlagLearnt) {
				learnt++
			}
		},
		"learnt": func(t *controller.Tick) {
			if t.Index >= 900 && t.Index < 904 {
				t.Flags ^= controller.FlagLearnt
			}
		},
		"shortfall": func(t *controller.Tick) {
			if t.Index >= 900 && t.Index < 904 {
				t.Evidence.Shortfall += 1e-3
			}
		},
		"predicted": func(t *controller.Tick) {
			if t.Index >= 900 && t.Index < 904 {
				t.Predicted.Labels++
			}
		},
	} {
		run.Change = change
		path, _ := run.run(t)
		result := verify(t, path)
		if field == "" && !result.OK() || field != "" && (result.OK() || result.First.Field != field) {
			t.Errorf("%q: got %v", field, result.First)
		}
	}
	if learnt < 100 {
		t.Errorf("learnt in %d ticks, want many", learnt)
	}
	run.Change, run.Drop = nil, func(i uint64) bool { return i >= 400 && i < 450 }
	path, _ := run.run(t)
	if result := verify(t, path); !result.OK() || len(result.Gaps) != 1 || !result.Gaps[0].Ended {
		t.Errorf("after a gap: %v, gaps %v", result.First, result.Gaps)
	}
}

func TestVerify_FollowsAChangedTaskAndBothAnswers(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Gate.Relearn, cfg.Sigma = true, 0.3
	for _, keeps := range []uint64{0, 20} {
		run := simulation{Config: cfg, Ticks: 4000, Every: 5000, Turn: 1500, Keeps: keeps, Keep: true}
		run.Labels = func(i uint64) bool { return i%30 == 0 }
		changed, answers := 0, uint64(0)
		for field, change := range map[string]func(t *controller.Tick){
			"": func(t *controller.Tick) {
				if t.Flags.Has(controller.FlagChanged) {
					changed++
				}
				if kept(t) {
					answers++
				}
			},
			"changed":  func(t *controller.Tick) { t.Flags &^= controller.FlagChanged },
			"keepable": func(t *controller.Tick) { t.Flags &^= controller.FlagKeepable },
			"skill":    func(t *controller.Tick) { t.Evidence.Skill += 1e-9 },
		} {
			run.Change = change
			path, _ := run.run(t)
			result := verify(t, path)
			if field == "" && !result.OK() || field != "" && (result.OK() || result.First.Field != field) {
				t.Errorf("keeps %d: %q: got %v", keeps, field, result.First)
			}
		}
		if changed == 0 || answers != min(keeps, 1) {
			t.Errorf("keeps %d: changed %d times, kept %d times", keeps, changed, answers)
		}
		run.Change, run.Drop = nil, func(i uint64) bool { return i >= 1400 && i < 1600 }
		path, _ := run.run(t)
		if result := verify(t, path); !result.OK() || len(result.Gaps) == 0 {
			t.Errorf("keeps %d, after a gap: %v, gaps %v", keeps, result.First, result.Gaps)
		}
	}
}

// After a gap the replay does not know what the former belief forgot and learnt in it.
func TestVerify_LosesAKeptTaskAfterAGapUntilTheNextSnapshot(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Gate.Relearn, cfg.Sigma = true, 0.3
	var changedAt, keptAt uint64
	run := simulation{
		Config: cfg, Ticks: 4000, Every: 20, Turn: 1500, Keeps: 400, Keep: true,
		Labels: func(i uint64) bool { return i%30 == 0 },
	}
	run.Change = func(t *controller.Tick) {
		if t.Flags.Has(controller.FlagChanged) && changedAt == 0 {
			changedAt = t.Index
		}
		if kept(t) {
			keptAt = t.Index
		}
	}
	run.run(t)
	run.Change, run.Drop = nil, func(i uint64) bool { return i >= changedAt+50 && i < changedAt+100 }
	path, z := run.run(t)
	result := verify(t, path)
	if keptAt < changedAt+200 || !result.OK() || len(result.Gaps) < 2 {
		t.Fatalf("changed at %d, kept at %d: %v, gaps %+v", changedAt, keptAt, result.First, result.Gaps)
	}
	if !slices.ContainsFunc(result.Gaps, func(g Gap) bool {
		return g.Tick == keptAt && g.Ended && g.Resumed < keptAt+60
	}) {
		t.Errorf("gaps %+v, want one from tick %d to the next snapshot", result.Gaps, keptAt)
	}
	sameVector(t, result.Z, z, 0)
}

// The robot begins the task again in a missing tick: the snapshot after that has the new belief
// already.
func TestVerify_BeginsATaskAgainOnlyOnceAcrossAGap(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Gate.Relearn, cfg.Sigma = true, 0.3
	changedAt := uint64(0)
	run := simulation{Config: cfg, Ticks: 2500, Every: 20, Turn: 1500, Keep: true, Labels: func(i uint64) bool {
		return i%30 == 0
	}}
	run.Change = func(t *controller.Tick) {
		if t.Flags.Has(controller.FlagChanged) && changedAt == 0 {
			changedAt = t.Index
		}
	}
	run.run(t)
	resumed := (changedAt/20 + 2) * 20 // a snapshot is right before this tick
	run.Change, run.Drop = nil, func(i uint64) bool { return i > changedAt && i < resumed }
	path, z := run.run(t)
	result := verify(t, path)
	if changedAt == 0 || !result.OK() || len(result.Gaps) == 0 {
		t.Fatalf("changed at %d: %v, gaps %+v", changedAt, result.First, result.Gaps)
	}
	for _, g := range result.Gaps {
		if strings.Contains(g.Reason, "forgotten") && g.Tick == resumed {
			t.Errorf("the replay began the task again: %+v", g)
		}
	}
	sameVector(t, result.Z, z, 0)
}

func TestVerify_FindsAChangedFeatureOrWeight(t *testing.T) {
	weight := false
	for name, c := range map[string]struct {
		change func(t *controller.Tick)
		field  string
	}{
		"feature": {func(t *controller.Tick) {
			if t.Index == 0 {
				t.Phi[3] = math.Nextafter(t.Phi[3], 9)
			}
		}, ""},
		"label weight": {func(t *controller.Tick) {
			if t.NumLabels > 0 && t.Labels[0].Outcome == controller.Applied && !weight {
				t.Labels[0].Weight, weight = t.Labels[0].Weight*0.5, true
			}
		}, "weight"},
	} {
		path, _ := simulation{Config: flightlogtest.Config(), Ticks: 300, Change: c.change}.run(t)
		if result := verify(t, path); result.OK() || !strings.Contains(result.First.Field, c.field) {
			t.Errorf("%s: got %v", name, result.First)
		}
	}
}

func TestVerify_ReplaysTheEstimatedMomentsOfPresses(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Rho, cfg.Credit.Answers = 0.999, controller.Estimated
	path, _ := simulation{Config: cfg, Ticks: 300, Every: 100}.run(t)
	if result := verify(t, path); !result.OK() || len(result.Gaps) != 0 {
		t.Errorf("with forgetting: first difference %v; gaps %v", result.First, result.Gaps)
	}
	cfg.Rho = 1
	path, z := simulation{Config: cfg, Ticks: 1000, Every: 300, Another: 500}.run(t)
	result := verify(t, path)
	if !result.OK() || len(result.Gaps) != 0 || result.Verified != 1000 {
		t.Fatalf("first difference %v; gaps %v", result.First, result.Gaps)
	}
	sameVector(t, result.Z, z, 0)
	first := controller.ReactionState{}
	for field, change := range map[string]func(t *controller.Tick){
		"reaction": func(t *controller.Tick) {
			if t.Index == 700 {
				t.Reaction[0], first = math.Nextafter(t.Reaction[0], 2), t.Reaction
			}
		},
		"from": func(t *controller.Tick) {
			if a := &t.Labels[0]; t.Index > 300 && t.NumLabels > 0 && a.Outcome == controller.Applied && a.Asked > 0 {
				a.From, a.To = a.From-1, a.To+1
			}
		},
	} {
		path, _ := simulation{Config: cfg, Ticks: 800, Change: change}.run(t)
		if result := verify(t, path); result.OK() || !strings.HasSuffix(result.First.Field, field) {
			t.Errorf("%s: %v", field, result.First)
		}
	}
	if first[0] == 0 {
		t.Error("nothing was estimated")
	}
	path, z = simulation{
		Config: cfg, Ticks: 1000, Every: 50, Drop: func(i uint64) bool { return i >= 400 && i < 430 },
	}.run(t)
	result = verify(t, path)
	if !result.OK() || len(result.Gaps) == 0 {
		t.Fatalf("with a gap: first difference %v; gaps %v", result.First, result.Gaps)
	}
	sameVector(t, result.Z, z, 0)
}

func TestVerify_ResumesAtTheNextSnapshot(t *testing.T) {
	path, z := simulation{
		Config: flightlogtest.Config(), Ticks: 1000, Every: 7,
		Drop: func(i uint64) bool { return i >= 400 && i < 430 },
	}.run(t)
	result := verify(t, path)
	if !result.OK() {
		t.Fatalf("first difference: %v", result.First)
	}
	if len(result.Gaps) == 0 || result.Gaps[0].Missing == 0 || !result.Gaps[0].Ended || result.Gaps[0].Tick < 430 {
		t.Fatalf("gaps %+v", result.Gaps)
	}
	if result.Unverified == 0 || result.Verified < 500 || result.Summary.Dropped == 0 {
		t.Fatalf("%d verified, %d not, %d dropped", result.Verified, result.Unverified, result.Summary.Dropped)
	}
	sameVector(t, result.Z, z, 0)
}

func TestVerify_NeedsASnapshot(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 50, NoStart: true}.run(t)
	if _, err := Verify(open(t, path)); !errors.Is(err, ErrNoSnapshot) {
		t.Fatalf("got %v", err)
	}
	learning := flightlogtest.Config()
	learning.Gate.StopWhenLearnt, learning.LabelRange = true, controller.LabelRange{Bad: -4, Good: 1}
	for _, run := range []simulation{
		{Config: flightlogtest.Config(), Ticks: 200, NoStart: true, Every: 10},
		{Config: learning, Ticks: 900, NoStart: true, Every: 300, Warm: true, Labels: func(uint64) bool { return false }},
	} {
		path, _ = run.run(t)
		result := verify(t, path)
		if !result.OK() || len(result.Gaps) == 0 || result.Gaps[0].Tick != 0 || result.Verified == 0 {
			t.Fatalf("a late snapshot: %v, gaps %+v, %d verified", result.First, result.Gaps, result.Verified)
		}
	}
}

func TestVerify_ALogWithoutAComparedTickIsNotOK(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 50, Drop: func(i uint64) bool { return i == 0 }}.run(t)
	if result := verify(t, path); result.OK() || result.Verified != 0 || result.Unverified != 49 {
		t.Fatalf("%d ticks agree, %d were not compared", result.Verified, result.Unverified)
	}
}

func TestVerify_AgreesUpToTheCut(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 600, Every: 100}.run(t)
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, log[:len(log)/2], 0o600))
	result := verify(t, path)
	if !result.OK() || result.Cut == nil || result.Verified < 100 {
		t.Fatalf("%v, cut %+v, %d verified", result.First, result.Cut, result.Verified)
	}
}

func TestVerify_ReplaysAWarmBelief(t *testing.T) {
	path, z := simulation{Config: flightlogtest.Config(), Ticks: 200, Warm: true}.run(t)
	result := verify(t, path)
	if !result.OK() || result.Verified != 200 {
		t.Fatalf("first difference %v", result.First)
	}
	sameVector(t, result.Z, z, 0)
}

// budgeted returns a run in which κ follows the label budget of an operator who is away
// for some time.
func budgeted() simulation {
	cfg := flightlogtest.Config()
	cfg.Gate.LabelsPerMinute, cfg.Gate.Kappa = 20, 0.02
	away := func(i uint64) bool { return i >= 300 && i < 500 }
	return simulation{Config: cfg, Ticks: 1500, Keep: true, Away: away}
}

func TestVerify_ReplaysKappaOfALabelBudget(t *testing.T) {
	path, _ := budgeted().run(t)
	if result := verify(t, path); !result.OK() || result.Summary.Asked < 5 {
		t.Fatalf("%d asked; first difference: %v", result.Summary.Asked, result.First)
	}
}

func TestVerify_ContinuesFromTheLoggedKappaAfterAGap(t *testing.T) {
	run := budgeted()
	run.Every = 7
	run.Drop = func(i uint64) bool { return i >= 20 && i < 90 }
	path, _ := run.run(t)
	result := verify(t, path)
	if !result.OK() || len(result.Gaps) == 0 || !result.Gaps[0].Ended || result.Verified < 1000 {
		t.Fatalf("%d verified, gaps %+v, first difference %v", result.Verified, result.Gaps, result.First)
	}
}

func TestRecover_CopiesTheReadablePart(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 400, Every: 100}.run(t)
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, log[:len(log)*2/3], 0o600))
	before := verify(t, path)

	out := filepath.Join(t.TempDir(), "whole.mcap")
	recovered, err := Recover(path, out)
	fatal.If(t, err)
	r := open(t, out)
	after, err := Verify(r)
	fatal.If(t, err)
	if r.Cut() != nil || !after.OK() || after.Verified != before.Verified ||
		recovered.Messages[TopicTick] != before.Summary.Ticks {
		t.Fatalf("recovered %+v: %d ticks verified, %d before; cut %+v",
			recovered, after.Verified, before.Verified, r.Cut())
	}
	if recovered.Cut == nil || recovered.To >= recovered.From {
		t.Errorf("got %+v", recovered)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(log)*2/3) {
		t.Errorf("the input changed: %v", err)
	}
	errtest.Is(t, errtest.Of(Recover(path, out)), os.ErrExist, "an existing output")
	errtest.Is(t, errtest.Of(Recover(path, path)), ErrSameFile, "the input as output")
}
