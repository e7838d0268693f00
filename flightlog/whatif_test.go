package flightlog

import (
	"math"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog/flightlogtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/posterior"
)

// whatIfOf returns the answer for a log that must have one.
func whatIfOf(t *testing.T, path string, p Params) Answer {
	t.Helper()
	answer, err := WhatIf(open(t, path), p)
	fatal.If(t, err)
	return answer
}

func TestWhatIf_WithoutChangesEqualsTheRun(t *testing.T) {
	estimated := flightlogtest.Config()
	estimated.Noise = controller.PersonConfig().Noise
	for name, run := range map[string]simulation{
		"fixed noise":                        {Config: flightlogtest.Config(), Ticks: 600},
		"noise and belief of an earlier run": {Config: estimated, Ticks: 600, Warm: true},
	} {
		path, z := run.run(t)
		answer := whatIfOf(t, path, Params{})
		sameVector(t, answer.Z, z, 0)
		if math.Abs(answer.Cosine-1) > 1e-12 || answer.LoggedAsked == 0 || uint64(len(answer.Entered)) != answer.Labels {
			t.Fatalf("%s: got %+v", name, answer)
		}
	}
}

// A run with the other λ and ρ is the independent reference. Without requests the belief
// does not influence the labels.
func TestWhatIf_LambdaAndRhoEqualARunWithThem(t *testing.T) {
	oracle := func(index uint64) bool { return index%5 == 0 }
	cfg := flightlogtest.Config()
	path, _ := simulation{Config: cfg, Ticks: 400, Silent: true, Labels: oracle}.run(t)
	cfg.Lambda, cfg.Rho = 7, 0.995
	_, want := simulation{Config: cfg, Ticks: 400, Silent: true, Labels: oracle}.run(t)
	answer := whatIfOf(t, path, Params{Lambda: &cfg.Lambda, Rho: &cfg.Rho})
	sameVector(t, answer.Z, want, 0)
}

func TestWhatIf_WarmBeliefKeepsLambdaAndRho(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 200, Warm: true}.run(t)
	half := 0.5
	for name, p := range map[string]Params{"lambda": {Lambda: &half}, "rho": {Rho: &half}} {
		errtest.Is(t, errtest.Of(WhatIf(open(t, path), p)), ErrWarmStart, name)
	}
}

func TestWhatIf_HigherKappaAsksLess(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Rho = 1
	path, _ := simulation{Config: cfg, Ticks: 600, Silent: true, Reward: true}.run(t)
	last := uint64(math.MaxUint64)
	for _, kappa := range []float64{0, 0.05, 0.2, 1} {
		answer := whatIfOf(t, path, Params{Kappa: &kappa})
		if answer.ByReward != answer.Asked || answer.Labels != answer.Asked || answer.Asked > last {
			t.Fatalf("kappa %g: %+v", kappa, answer)
		}
		if kappa == 0 && answer.Asked != 600 {
			t.Fatalf("kappa 0 asked %d times in 600 ticks", answer.Asked)
		}
		last = answer.Asked
	}
	if last == 0 || last > 100 {
		t.Fatalf("kappa 1 asked %d times", last)
	}
}

// With the κ of the run, the same requests get the same answers.
func TestWhatIf_OwnKappaAsksTheSame(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Credit.CompareS = testMetadata(testShape).Robot.Period.Seconds()
	for _, compares := range []bool{false, true} {
		path, z := simulation{Config: cfg, Ticks: 600, Keep: true, Compares: compares}.run(t)
		answer := whatIfOf(t, path, Params{Kappa: &cfg.Gate.Kappa})
		if answer.Asked != answer.LoggedAsked || answer.ByLabel == 0 || answer.Unasked == 0 ||
			answer.CantTell+answer.ByReward != 0 {
			t.Fatalf("got %+v", answer)
		}
		sameVector(t, answer.Z, z, 1e-9)
	}
}

func TestWhatIf_OwnBudgetAsksTheSame(t *testing.T) {
	run := budgeted()
	path, z := run.run(t)
	same := whatIfOf(t, path, Params{LabelsPerMinute: &run.Config.Gate.LabelsPerMinute})
	if same.Asked != same.LoggedAsked || same.Asked == 0 {
		t.Fatalf("asked %d, the run %d", same.Asked, same.LoggedAsked)
	}
	sameVector(t, same.Z, z, 1e-9)
	few := 1.0
	if less := whatIfOf(t, path, Params{LabelsPerMinute: &few}); less.Asked >= same.Asked {
		t.Errorf("1 label a minute: %d requests; 20 labels a minute: %d", less.Asked, same.Asked)
	}
	if fixed := whatIfOf(t, path, Params{Kappa: &run.Config.Gate.Kappa}); fixed.Config.Gate.LabelsPerMinute != 0 {
		t.Error("a given κ is not fixed")
	}
}

func TestWhatIfAll_EqualsWhatIf(t *testing.T) {
	path, _ := simulation{Config: flightlogtest.Config(), Ticks: 300}.run(t)
	r := open(t, path)
	run, err := Verify(r)
	fatal.If(t, err)
	low, high, rho := 0.02, 0.3, 0.99
	params := []Params{{Kappa: &low}, {Kappa: &high, Rho: &rho}, {Rho: &rho}}
	visits, last := make([]int, len(params)), make([][]float64, len(params))
	answers, err := WhatIfAll(r, run, params,
		func(i int, tick *controller.Tick, dgap float64, belief *posterior.Belief) {
			if !(dgap > 0) {
				t.Errorf("setting %d, tick %d: D-gap %g", i, tick.Index, dgap)
			}
			visits[i]++
			last[i] = make([]float64, belief.Dim())
			belief.Mean(last[i])
		})
	fatal.If(t, err)
	for i, p := range params {
		want := whatIfOf(t, path, p)
		if answers[i].Asked != want.Asked || answers[i].Labels != want.Labels || visits[i] != 300 {
			t.Errorf("setting %d: got %+v, want %+v; %d visits", i, answers[i], want, visits[i])
		}
		sameVector(t, answers[i].Z, want.Z, 0)
		sameVector(t, last[i], want.Z, 0)
	}
}

func TestWhatIf_FollowsAChangedTaskAndBothAnswers(t *testing.T) {
	cfg := flightlogtest.Config()
	cfg.Gate.Relearn, cfg.Sigma = true, 0.3
	for _, keeps := range []uint64{0, 20} {
		changed, answers := 0, uint64(0)
		run := simulation{Config: cfg, Ticks: 3000, Turn: 1500, Keeps: keeps, Keep: true, Labels: func(i uint64) bool {
			return i%30 == 0
		}}
		run.Change = func(t *controller.Tick) {
			if t.Flags.Has(controller.FlagChanged) {
				changed++
			}
			if kept(t) {
				answers++
			}
		}
		path, z := run.run(t)
		if changed == 0 || answers != min(keeps, 1) {
			t.Fatalf("keeps %d: changed %d times, kept %d times", keeps, changed, answers)
		}
		sameVector(t, whatIfOf(t, path, Params{}).Z, z, 1e-9)
	}
}
