package flightlog

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// simulation is a run of the learner and the gate as the agent makes it, on
// random features, with an operator who answers requests late, presses unasked
// and sometimes takes a press back.
type simulation struct {
	cfg     controller.Config
	ticks   uint64
	every   uint64                   // ticks between snapshots
	drop    func(index uint64) bool  // ticks that do not reach the log
	change  func(t *controller.Tick) // applied to what is logged, not to the run
	reward  bool                     // ticks carry the reward of the true z
	labels  func(index uint64) bool  // an oracle labels this tick at once
	keep    bool                     // no press is taken back
	silent  bool                     // nobody presses
	away    func(index uint64) bool  // the operator cannot be reached
	noStart bool                     // no snapshot at the start
	warm    bool                     // the belief starts with labels
}

func simulationConfig() controller.Config {
	cfg := controller.DefaultConfig()
	cfg.Rho, cfg.Gate.Kappa, cfg.Gate.RequestsPerMinute = 0.999, 0.05, 0
	return cfg
}

// run returns the log and ẑ at its end.
func (s simulation) run(t *testing.T) (path string, z []float64) {
	t.Helper()
	meta := testMetadata(testShape)
	meta.Control = s.cfg
	w, path := create(t, meta, Options{NoSync: true})
	d := testShape.Latent
	learner, err := controller.NewLearner(s.cfg, d, meta.Robot.Period)
	must(t, err)
	gate := controller.NewGate(s.cfg.Gate, learner.LabelWeight(), meta.Robot.Period)
	rng := rand.New(rand.NewPCG(3, 5))
	truth := randomVector(rng, d)
	if s.warm {
		must(t, learner.WarmStart(truth, []float64{1}))
	}
	state := make([]float64, posterior.StateLen(d))
	snapshot := func(next uint64) {
		learner.Belief().State(state)
		must(t, w.WriteSnapshot(next, state, learner.Belief().Hash()))
	}
	if !s.noStart {
		snapshot(0)
	}
	nextID := uint64(1)
	var waiting []rewardsrc.Label // with the tick of delivery in At until then
	index, elapsed := uint64(0), uint64(0)
	for range s.ticks {
		tick := randomTick(testShape, index)
		tick.Elapsed, tick.NumLabels = elapsed, 0
		tick.Flags = controller.FlagArmed
		copy(tick.Phi, randomVector(rng, d))
		learner.Advance(elapsed)
		learner.Observe(index, tick.SenseAt, tick.Phi)
		tick.NormSq = learner.Belief().NormSq(tick.Phi)
		tick.DGap = posterior.DGap(tick.NormSq, learner.LabelWeight())
		tick.Reward = dot(tick.Phi, truth)
		if s.reward {
			tick.Flags |= controller.FlagReward
		}
		gate.Expire(index)
		away := s.away != nil && s.away(index)
		if away {
			tick.Flags |= controller.FlagUnreachable
		} else {
			gate.Advance(elapsed)
		}
		tick.Kappa = gate.Kappa()
		if gate.Passes(tick.NormSq) && !s.silent && !away {
			if request, ok := gate.Ask(index, tick.SenseAt, tick.DGap); ok {
				tick.Flags |= controller.FlagAsked
				must(t, w.WriteRequest(request))
				waiting = append(waiting, rewardsrc.Label{
					Request: request.ID, Tick: request.Tick, At: int64(index) + 12, Value: tick.Reward, Weight: 0.8, Kind: rewardsrc.Value,
				})
			}
		}
		if !s.silent && rng.IntN(40) == 0 {
			waiting = append(waiting, rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(index), Value: 0.3, Kind: rewardsrc.Value})
		}
		if !s.silent && !s.keep && rng.IntN(90) == 0 {
			waiting = append(waiting, rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(index), Kind: rewardsrc.Undo})
		}
		if s.labels != nil && s.labels(index) {
			waiting = append(waiting, rewardsrc.Label{Tick: index, At: int64(index), Value: tick.Reward, Kind: rewardsrc.Value})
		}
		var later []rewardsrc.Label
		for _, label := range waiting {
			if label.At > int64(index) || tick.NumLabels == controller.MaxLabels {
				later = append(later, label)
				continue
			}
			label.ID, label.At = nextID, tick.SenseAt
			nextID++
			must(t, w.WriteLabel(label))
			asked := uint64(0)
			if label.Request != 0 {
				asked, _ = gate.Find(label.Request)
				gate.Answer(label.Request)
			}
			tick.Labels[tick.NumLabels] = learner.Apply(label, asked)
			tick.NumLabels++
		}
		waiting = later
		tick.LogDet, tick.Hash = learner.Belief().LogDet(), learner.Belief().Hash()
		if s.change != nil {
			s.change(tick)
		}
		if s.drop == nil || !s.drop(index) {
			must(t, w.WriteTick(tick))
		}
		if s.every > 0 && (index+1)%s.every == 0 {
			snapshot(index + 1)
		}
		elapsed = 1
		if rng.IntN(20) == 0 {
			elapsed = 1 + rng.Uint64N(3) // skipped periods
		}
		index += elapsed
	}
	must(t, w.Close())
	z = make([]float64, d)
	learner.Belief().Mean(z)
	return path, z
}

func randomVector(rng *rand.Rand, d int) []float64 {
	v := make([]float64, d)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func sameVector(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > tolerance {
			t.Fatalf("[%d]: got %g, want %g", i, got[i], want[i])
		}
	}
}

func TestAReplayOfAnHonestLogAgreesInEveryTickAndFindsTheSameZ(t *testing.T) {
	path, z := simulation{cfg: simulationConfig(), ticks: 1000, every: 300}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || result.Verified != 1000 || result.Unverified != 0 || len(result.Gaps) != 0 {
		t.Fatalf("first difference %v; %+v", result.First, result)
	}
	sameVector(t, result.Z, z, 0)
	s := result.Summary
	if s.Asked < 5 || s.Labels[controller.Applied] < 20 || s.Undone < 3 || s.Skipped == 0 || s.Dropped != 0 {
		t.Fatalf("the run was too quiet to show anything: %+v", s)
	}
}

func TestAReplayNamesTheFirstTickAndFieldThatDiffer(t *testing.T) {
	at := func(index uint64, f func(t *controller.Tick)) func(t *controller.Tick) {
		return func(t *controller.Tick) {
			if t.Index >= index && t.Index < index+4 { // one of them ran
				f(t)
			}
		}
	}
	for field, change := range map[string]func(t *controller.Tick){
		"hash":    func(t *controller.Tick) { t.Hash ^= 1 },
		"norm_sq": func(t *controller.Tick) { t.NormSq = math.Nextafter(t.NormSq, 2) },
		"dgap":    func(t *controller.Tick) { t.DGap += 1e-9 },
		"logdet":  func(t *controller.Tick) { t.LogDet *= 1 + 1e-9 },
	} {
		path, _ := simulation{cfg: simulationConfig(), ticks: 300, change: at(100, change)}.run(t)
		result, err := Verify(open(t, path))
		must(t, err)
		if result.OK() || result.First.Field != field || result.First.Tick < 100 || result.First.Tick > 103 {
			t.Errorf("%s: got %v", field, result.First)
		}
	}
}

func TestAChangedFeatureIsFoundWhenItMatters(t *testing.T) {
	path, _ := simulation{cfg: simulationConfig(), ticks: 300, change: func(t *controller.Tick) {
		if t.Index == 0 {
			t.Phi[3] = math.Nextafter(t.Phi[3], 9)
		}
	}}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if result.OK() {
		t.Fatal("not found")
	}
}

func TestAChangedLabelWeightIsFoundAndNamed(t *testing.T) {
	done := false
	path, _ := simulation{cfg: simulationConfig(), ticks: 300, change: func(t *controller.Tick) {
		if t.NumLabels > 0 && t.Labels[0].Outcome == controller.Applied && !done {
			t.Labels[0].Weight, done = t.Labels[0].Weight*0.5, true
		}
	}}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if result.OK() || !strings.Contains(result.First.Field, "weight") {
		t.Fatalf("got %v", result.First)
	}
}

func TestARunThatDoubtsLabelsIsReplayedBitForBitAlsoFromASnapshotOn(t *testing.T) {
	cfg := simulationConfig()
	cfg.Robust = 0.5
	doubted := 0
	path, z := simulation{
		cfg: cfg, ticks: 1000, every: 50,
		drop: func(i uint64) bool { return i >= 400 && i < 430 },
		change: func(t *controller.Tick) {
			for _, a := range t.Labels[:t.NumLabels] {
				if a.Outcome == controller.Applied && a.Kind == rewardsrc.Value && a.Weight < 0.5*a.Confidence {
					doubted++
				}
			}
		},
	}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() {
		t.Fatalf("first difference: %v", result.First)
	}
	if doubted < 10 || result.Verified < 500 || len(result.Gaps) == 0 {
		t.Fatalf("%d doubted, %d verified, gaps %v: the run shows little", doubted, result.Verified, result.Gaps)
	}
	sameVector(t, result.Z, z, 0)
	if s := result.Summary; s.Doubted < uint64(doubted) || s.Doubted >= s.Labels[controller.Applied] || !(s.Least > 0 && s.Least < 0.5) {
		t.Errorf("the summary has %d doubted labels of %d, the least %g", s.Doubted, s.Labels[controller.Applied], s.Least)
	}
	plain, err := Open(path)
	must(t, err)
	t.Cleanup(func() { _ = plain.Close() })
	plain.meta.Control.Robust = 0
	result, err = Verify(plain)
	must(t, err)
	if result.OK() || !strings.Contains(result.First.Field, "share") {
		t.Fatalf("without robust: %v", result.First)
	}
}

func TestAfterDroppedTicksTheReplayResumesAtTheNextSnapshot(t *testing.T) {
	path, z := simulation{
		cfg: simulationConfig(), ticks: 1000, every: 7,
		drop: func(i uint64) bool { return i >= 400 && i < 430 },
	}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
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

func TestAReplayWithoutASnapshotIsRefusedAndALateOneIsSaid(t *testing.T) {
	path, _ := simulation{cfg: simulationConfig(), ticks: 50, noStart: true}.run(t)
	if _, err := Verify(open(t, path)); !errors.Is(err, ErrNoSnapshot) {
		t.Fatalf("got %v", err)
	}
	path, _ = simulation{cfg: simulationConfig(), ticks: 200, noStart: true, every: 10}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || len(result.Gaps) == 0 || result.Gaps[0].Tick != 0 || result.Verified == 0 {
		t.Fatalf("%v, gaps %+v, %d verified", result.First, result.Gaps, result.Verified)
	}
}

func TestAReplayOfACutLogAgreesUpToTheCut(t *testing.T) {
	path, _ := simulation{cfg: simulationConfig(), ticks: 600, every: 100}.run(t)
	log, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, log[:len(log)/2], 0o600))
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || result.Cut == nil || result.Verified < 100 {
		t.Fatalf("%v, cut %+v, %d verified", result.First, result.Cut, result.Verified)
	}
}

func TestAWarmBeliefIsReplayed(t *testing.T) {
	path, z := simulation{cfg: simulationConfig(), ticks: 200, warm: true}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || result.Verified != 200 {
		t.Fatalf("first difference %v", result.First)
	}
	sameVector(t, result.Z, z, 0)
	half := 0.5
	if _, err := WhatIf(open(t, path), Params{Lambda: &half}); !errors.Is(err, ErrWarmStart) {
		t.Fatalf("got %v", err)
	}
}

func TestWithoutChangesTheAnswerIsWhatHappened(t *testing.T) {
	path, z := simulation{cfg: simulationConfig(), ticks: 600}.run(t)
	answer, err := WhatIf(open(t, path), Params{})
	must(t, err)
	sameVector(t, answer.Z, z, 0)
	if math.Abs(answer.Cosine-1) > 1e-12 || answer.LoggedAsked == 0 {
		t.Fatalf("got %+v", answer)
	}
}

// The same run with the other λ and ρ is the independent reference: where nobody
// asks, the belief has no influence on what is labelled.
func TestAnotherLambdaAndRhoGiveTheZOfARunWithThese(t *testing.T) {
	oracle := func(index uint64) bool { return index%5 == 0 }
	was := simulationConfig()
	path, _ := simulation{cfg: was, ticks: 400, silent: true, labels: oracle}.run(t)
	lambda, rho := 7.0, 0.995
	now := was
	now.Lambda, now.Rho = lambda, rho
	_, want := simulation{cfg: now, ticks: 400, silent: true, labels: oracle}.run(t)
	answer, err := WhatIf(open(t, path), Params{Lambda: &lambda, Rho: &rho})
	must(t, err)
	sameVector(t, answer.Z, want, 0)
}

func TestAHigherKappaAsksForLessAndTheRewardsAnswer(t *testing.T) {
	cfg := simulationConfig()
	cfg.Rho = 1
	path, _ := simulation{cfg: cfg, ticks: 600, silent: true, reward: true}.run(t)
	last := uint64(math.MaxUint64)
	for _, kappa := range []float64{0, 0.05, 0.2, 1} {
		answer, err := WhatIf(open(t, path), Params{Kappa: &kappa})
		must(t, err)
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

// With the κ of the run, the same requests find the same answers.
func TestTheKappaOfTheRunAsksWhatTheRunAsked(t *testing.T) {
	cfg := simulationConfig()
	path, z := simulation{cfg: cfg, ticks: 600, keep: true}.run(t)
	answer, err := WhatIf(open(t, path), Params{Kappa: &cfg.Gate.Kappa})
	must(t, err)
	if answer.Asked != answer.LoggedAsked || answer.ByLabel == 0 || answer.Unasked == 0 || answer.CantTell+answer.ByReward != 0 {
		t.Fatalf("got %+v", answer)
	}
	sameVector(t, answer.Z, z, 1e-9)
}

// budgeted is a run in which κ follows the operator, who is away for a while.
func budgeted() simulation {
	cfg := simulationConfig()
	cfg.Gate.LabelsPerMinute, cfg.Gate.Kappa = 20, 0.02
	return simulation{cfg: cfg, ticks: 1500, keep: true, away: func(i uint64) bool { return i >= 300 && i < 500 }}
}

func TestAKappaThatFollowsTheOperatorIsReplayed(t *testing.T) {
	run := budgeted()
	path, _ := run.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || result.Summary.Asked < 5 {
		t.Fatalf("%d asked; first difference: %v", result.Summary.Asked, result.First)
	}
	run.change = func(t *controller.Tick) {
		if t.Index >= 700 && t.Index < 704 {
			t.Kappa *= 1 + 1e-9
		}
	}
	path, _ = run.run(t)
	result, err = Verify(open(t, path))
	must(t, err)
	if result.OK() || result.First.Field != "kappa" || result.First.Tick < 700 || result.First.Tick > 703 {
		t.Errorf("a changed κ: first difference %v", result.First)
	}
}

func TestAfterAGapTheReplayGoesOnFromTheLoggedKappa(t *testing.T) {
	run := budgeted()
	run.every = 7
	run.drop = func(i uint64) bool { return i >= 20 && i < 90 }
	path, _ := run.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if !result.OK() || len(result.Gaps) == 0 || !result.Gaps[0].Ended || result.Verified < 1000 {
		t.Fatalf("%d verified, gaps %+v, first difference %v", result.Verified, result.Gaps, result.First)
	}
}

func TestTheBudgetOfTheRunAsksWhatTheRunAskedAndAnotherDoesNot(t *testing.T) {
	run := budgeted()
	path, z := run.run(t)
	same, err := WhatIf(open(t, path), Params{LabelsPerMinute: &run.cfg.Gate.LabelsPerMinute})
	must(t, err)
	if same.Asked != same.LoggedAsked || same.Asked == 0 {
		t.Fatalf("asked %d, the run %d", same.Asked, same.LoggedAsked)
	}
	sameVector(t, same.Z, z, 1e-9)
	few := 1.0
	less, err := WhatIf(open(t, path), Params{LabelsPerMinute: &few})
	must(t, err)
	if less.Asked >= same.Asked {
		t.Errorf("with one label a minute %d are asked for, with twenty %d", less.Asked, same.Asked)
	}
	fixed, err := WhatIf(open(t, path), Params{Kappa: &run.cfg.Gate.Kappa})
	must(t, err)
	if fixed.Config.Gate.LabelsPerMinute != 0 {
		t.Error("a given κ is not fixed")
	}
}

func TestARecoveredLogHoldsWhatTheCutOneHeld(t *testing.T) {
	path, _ := simulation{cfg: simulationConfig(), ticks: 400, every: 100}.run(t)
	log, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, log[:len(log)*2/3], 0o600))
	before, err := Verify(open(t, path))
	must(t, err)

	out := filepath.Join(t.TempDir(), "whole.mcap")
	recovered, err := Recover(path, out)
	must(t, err)
	r := open(t, out)
	after, err := Verify(r)
	must(t, err)
	if r.Cut() != nil || !after.OK() || after.Verified != before.Verified || recovered.Messages[TopicTick] != before.Summary.Ticks {
		t.Fatalf("recovered %+v: %d ticks verified, %d before; cut %+v", recovered, after.Verified, before.Verified, r.Cut())
	}
	if recovered.Cut == nil || recovered.To >= recovered.From {
		t.Errorf("got %+v", recovered)
	}
	was, err := os.ReadFile(path)
	must(t, err)
	if len(was) != len(log)*2/3 {
		t.Error("the input changed")
	}
	if _, err := Recover(path, out); !errors.Is(err, os.ErrExist) {
		t.Errorf("an existing output: %v", err)
	}
	if _, err := Recover(path, path); !errors.Is(err, ErrSameFile) {
		t.Errorf("the input as output: %v", err)
	}
}
