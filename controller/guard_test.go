package controller

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
)

func limitedSpec() hal.Spec {
	spec := haltest.Spec(2, 3)
	spec.Obs[0].Min, spec.Obs[0].Max = -10, 20
	spec.Action[0] = hal.Channel{Name: "left", Unit: "m/s", Min: -0.1, Max: 0.7, MaxRate: 2, Failsafe: 0.1}
	spec.Action[1] = hal.Channel{Name: "right", Unit: "m/s", Min: 5, Max: 6, Failsafe: 5.5}
	spec.Action[2] = hal.Channel{Name: "arm", Unit: "rad", Min: -3, Max: 3, MaxRate: 1e-3}
	return spec
}

func TestGuard_AdmitsOnlyFinitePlausibleObservations(t *testing.T) {
	g := newGuard(GuardConfig{}, limitedSpec(), false)
	infinite := float32(math.Inf(1))
	for _, c := range []struct {
		obs  []float32
		want bool
	}{
		{[]float32{0, 0}, true},
		{[]float32{-10, 1e30}, true}, // the second has no limits
		{[]float32{20, -1e30}, true},
		{[]float32{-10.001, 0}, false},
		{[]float32{20.001, 0}, false},
		{[]float32{float32(nan), 0}, false},
		{[]float32{0, float32(nan)}, false},
		{[]float32{0, infinite}, false},
		{[]float32{0, -infinite}, false},
	} {
		if got := g.admits(c.obs); got != c.want {
			t.Errorf("%v: %v", c.obs, got)
		}
	}
}

func TestGuard_LimitsValueAndRateOfAnyAction(t *testing.T) {
	spec := limitedSpec()
	g := newGuard(GuardConfig{}, spec, false)
	random := rand.New(rand.NewPCG(7, 7))
	wild := []float32{0, 1, -1, 2, -2, 1e30, -1e30, math.MaxFloat32, float32(nan), float32(inf), float32(-inf)}
	last := []float64{0.1, 5.5, 0}
	action := make([]float32, 3)
	for range 20_000 {
		for i := range action {
			action[i] = float32(2*random.Float64() - 1)
			if random.IntN(10) == 0 {
				action[i] = wild[random.IntN(len(wild))]
			}
		}
		wanted := append([]float32(nil), action...)
		limited, ok := g.limit(action)
		fatal.If(t, spec.CheckAction(action))
		changed := false
		for i, c := range spec.Action {
			if step := c.MaxRate * spec.Period.Seconds(); step > 0 && math.Abs(float64(action[i])-last[i]) > step+1e-6 {
				t.Fatalf("%s went from %v to %v in one period", c.Name, last[i], action[i])
			}
			exact := c.Min + (float64(wanted[i])+1)/2*(c.Max-c.Min)
			changed = changed || math.Abs(float64(action[i])-exact) > 1e-6
		}
		finiteAll := finite(float64(wanted[0]) + float64(wanted[1]) + float64(wanted[2]))
		if ok != finiteAll || (ok && limited != changed) {
			t.Fatalf("%v: ok %v, limited %v", wanted, ok, limited)
		}
		g.sent(action)
		for i := range last {
			last[i] = float64(action[i])
		}
	}
}

func TestGuard_CountsConsecutiveBadTicks(t *testing.T) {
	g := newGuard(GuardConfig{MaxBadTicks: 2}, limitedSpec(), false)
	for i, bad := range []bool{true, true, false, true, true} {
		if g.tooMany(bad) {
			t.Errorf("too many at %d", i)
		}
	}
	if !g.tooMany(true) {
		t.Error("the third in a row was tolerated")
	}
}
