package report

import (
	"math/rand/v2"
	"testing"
)

func TestOneIsEnoughForSomeAndNoneForAll(t *testing.T) {
	sure, not, perhaps := doubts{holds: 0, fails: 1, tried: true}, doubts{holds: 1, fails: 0, tried: true}, undecided
	for _, c := range []struct {
		each      []doubts
		all, some Verdict
	}{
		{[]doubts{sure, sure}, Holds, Holds},
		{[]doubts{sure, not}, DoesNotHold, Holds},
		{[]doubts{sure, perhaps}, CannotTell, Holds},
		{[]doubts{not, perhaps}, DoesNotHold, CannotTell},
		{[]doubts{not}, DoesNotHold, DoesNotHold},
		{[]doubts{sure, untried}, HoldsInPart, HoldsInPart},
		{[]doubts{sure, untold}, Holds, Holds},
		{[]doubts{not, untried}, DoesNotHold, DoesNotHold},
		{[]doubts{perhaps, untried}, CannotTell, CannotTell},
		{[]doubts{untried, untried}, NotRun, NotRun},
	} {
		if all, some := allOf(c.each).verdict(), someOf(c.each).verdict(); all != c.all || some != c.some {
			t.Errorf("%+v: all %s, some %s; want %s, %s", c.each, all, some, c.all, c.some)
		}
	}
}

func TestOneOfManyChecksMustFailTheMoreClearly(t *testing.T) {
	alone := doubts{holds: 0.98, fails: 0.02, tried: true}
	fine := doubts{holds: 0.001, fails: 0.999, tried: true}
	if v := alone.verdict(); v != DoesNotHold {
		t.Errorf("alone: %s", v)
	}
	if v := allOf([]doubts{alone, fine, fine}).verdict(); v != CannotTell {
		t.Errorf("one of three: %s", v)
	}
}

// An independent reference: Holm's procedure as a sequence of tests.
func holm(p []float64, level float64) (rejected int) {
	left := append([]float64(nil), p...)
	for len(left) > 0 {
		least := 0
		for i := range left {
			if left[i] < left[least] {
				least = i
			}
		}
		if left[least] > level/float64(len(left)) {
			return rejected
		}
		left = append(left[:least], left[least+1:]...)
		rejected++
	}
	return rejected
}

func TestTogetherIsHolmsProcedure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		judgements := make([]Judgement, 1+rng.IntN(12))
		p := make([]float64, len(judgements))
		for i := range judgements {
			p[i] = rng.Float64() * rng.Float64() * rng.Float64() * 0.1
			judgements[i] = Judgement{Verdict: Holds, Doubt: p[i]}
		}
		judgements = append(judgements, Judgement{Verdict: NotRun, Doubt: 1, Together: 1})
		together(judgements)
		stands := 0
		for i := range judgements {
			if judgements[i].Stands() {
				stands++
			}
		}
		if want := holm(p, 0.05); stands != want {
			t.Fatalf("%v: %d stand, want %d", p, stands, want)
		}
	}
}

// All claims true at their bounds: how often is any of them starred?
func TestStarsAreWrongAsSeldomAsThePageSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pages, wrong := 400, 0
	for page := range pages {
		var judgements []Judgement
		for claim := range 8 {
			d := duel{tasks: 2, trials: 5, alike: 0.5}
			of, against := d.draw(rng)
			statistic := func(c centre) float64 { return of.statistic(c) - against.statistic(c) }
			u := bootstrap{seed: uint64(page*100 + claim), resamples: 200}.uncertainty("", []sample{of, against}, statistic)
			k := check{}
			each := k.doubts(u)
			judgements = append(judgements, Judgement{Verdict: each.verdict(), Doubt: min(1, 2*min(each.holds, each.fails))})
		}
		together(judgements)
		for i := range judgements {
			if judgements[i].Stands() {
				wrong++
				break
			}
		}
	}
	if share := float64(wrong) / float64(pages); share > 0.08 { // 5 %, and three standard errors
		t.Errorf("%.1f %% of pages have a star that is wrong", 100*share)
	}
}

func TestTheSurestOfSomeDecidesOrTheLeastRefutedWhereAllFail(t *testing.T) {
	of := func(holds, fails float64) doubts { return doubts{holds: holds, fails: fails, tried: true} }
	for _, c := range []struct {
		each []doubts
		want int
	}{
		{[]doubts{of(0.004, 1), of(0.001, 1), of(1, 0)}, 1},
		{[]doubts{untried, of(1, 0.001), of(1, 0.004)}, 2},
		{[]doubts{of(1, 0), undecided}, -1},
		{[]doubts{untried}, -1},
	} {
		if got := decider(c.each); got != c.want {
			t.Errorf("%+v: %d, want %d", c.each, got, c.want)
		}
	}
}
