package controller

import (
	"math"
	"testing"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// The reference is a learner that computes the record again and is asked before each
// label how much it trusts it.
func TestTheTicksAloneTellHowMuchEachLabelWasTrusted(t *testing.T) {
	cfg, record := eventful(t, 0.2)
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	if err != nil {
		t.Fatal(err)
	}
	trusts := NewTrusts(cfg)
	full, doubted, rested := 0, 0, 0
	for _, tick := range record {
		trusts.Add(tick)
		if tick.Flags.Has(FlagArmed) {
			l.Advance(tick.Elapsed)
		}
		if !tick.Flags.Has(FlagBadObs) {
			l.Observe(tick.Index, tick.SenseAt, tick.Phi)
		}
		for i := range tick.Labels[:tick.NumLabels] {
			label := &tick.Labels[i]
			share, ok := trusts.Of(tick, label)
			if want := label.Outcome == Applied && label.Kind == rewardsrc.Value; ok != want {
				t.Fatalf("tick %d, %+v: known is %v", tick.Index, label, ok)
			}
			if ok {
				l.past.mean(l.phi, label.From, label.To)
				want := posterior.Trust(l.belief.Surprise(l.phi, label.Value, 1/(cfg.Sigma*cfg.Sigma)), cfg.Robust)
				if math.Abs(share-want) > 1e-12*want {
					t.Fatalf("tick %d, label %d: trusted %v, want %v", tick.Index, label.ID, share, want)
				}
				switch {
				case share == 1:
					full++
				case share < 0.9:
					doubted++
				}
				if trusts.age(label.About, tick.Index) < tick.Index-label.About {
					rested++
				}
			}
			if _, err := l.Reapply(*label); err != nil {
				t.Fatal(err)
			}
		}
	}
	if full < 10 || doubted < 10 || rested < 10 {
		t.Errorf("%d labels counted in full, %d were doubted, %d had not aged all the time: the run shows little", full, doubted, rested)
	}
}

func TestWhereLabelsAreNotDoubtedNothingIsSaidOfTheirTrust(t *testing.T) {
	cfg, record := eventful(t, 0)
	trusts := NewTrusts(cfg)
	for _, tick := range record {
		trusts.Add(tick)
		for i := range tick.Labels[:tick.NumLabels] {
			if share, ok := trusts.Of(tick, &tick.Labels[i]); ok {
				t.Fatalf("tick %d: %v", tick.Index, share)
			}
		}
	}
}

func TestTrustOfWhatNoAgentWroteIsNotKnownOrWithinItsRange(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Robust, cfg.Rho = 0.2, 0.99
	trusts, tick := NewTrusts(cfg), NewTick(Shape{1, 1, 1})
	for i, index := range []uint64{5, 3, 1 << 63, 7, 7} { // backwards, and at once
		tick.Index, tick.Elapsed = index, uint64(1)<<(20*i%64)
		trusts.Add(tick)
	}
	for range 3 * maxRests {
		tick.Index, tick.Elapsed = tick.Index+10, 2
		trusts.Add(tick)
	}
	if len(trusts.rests) > maxRests {
		t.Errorf("%d rests are kept", len(trusts.rests))
	}
	good := AppliedLabel{Kind: rewardsrc.Value, Outcome: Applied, Confidence: 1, Weight: 0.5, About: tick.Index}
	if share, ok := trusts.Of(tick, &good); !ok || share != 0.5 {
		t.Errorf("%v, %v", share, ok)
	}
	for name, spoil := range map[string]func(*AppliedLabel){
		"no weight":             func(l *AppliedLabel) { l.Weight = 0 },
		"a negative weight":     func(l *AppliedLabel) { l.Weight = -1 },
		"a weight of NaN":       func(l *AppliedLabel) { l.Weight = nan },
		"neither":               func(l *AppliedLabel) { l.Weight, l.Confidence = 0, 0 },
		"an undo":               func(l *AppliedLabel) { l.Kind = rewardsrc.Undo },
		"a refused label":       func(l *AppliedLabel) { l.Outcome = TooOld },
		"no answer, can't tell": func(l *AppliedLabel) { l.Kind, l.Outcome = rewardsrc.CantTell, ClosedRequest },
	} {
		l := good
		spoil(&l)
		if share, ok := trusts.Of(tick, &l); ok {
			t.Errorf("%s: %v", name, share)
		}
	}
	for name, spoil := range map[string]func(*AppliedLabel){
		"more than all of it":   func(l *AppliedLabel) { l.Weight = 7 },
		"a moment to come":      func(l *AppliedLabel) { l.About = math.MaxUint64 },
		"the beginning of time": func(l *AppliedLabel) { l.About = 0 },
		"no confidence":         func(l *AppliedLabel) { l.Confidence = 0 },
	} {
		l := good
		spoil(&l)
		if share, ok := trusts.Of(tick, &l); !ok || !(share > 0 && share <= 1) {
			t.Errorf("%s: %v, %v", name, share, ok)
		}
	}
}
