package theory

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestShare_HasTheClopperPearsonInterval(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 10, 0, 0.3085},
		{5, 10, 0.1871, 0.8129},
		{10, 10, 0.6915, 1},
		{1000, 1000, 0.99632, 1},
	} {
		got := Share(c.k, c.n)
		off := max(math.Abs(got.Low-c.low), math.Abs(got.High-c.high))
		if got.Value != float64(c.k)/float64(c.n) || off > 5e-5 {
			t.Errorf("%d of %d: found %v, want %g to %g", c.k, c.n, got, c.low, c.high)
		}
	}
}

func TestExponent_FindsThePower(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, p := range []float64{0.2, 0.5, 1} {
		curves := make([][]float64, 30)
		for i := range curves {
			scale := 1 + rng.Float64()
			for k := range 1000 {
				curves[i] = append(curves[i], scale*math.Pow(float64(k+1), p))
			}
		}
		got := Exponent(curves, fitted(1000), 1)
		if math.Abs(got.Value-p) > 1e-9 || got.Low > got.Value+1e-9 || got.High < got.Value-1e-9 {
			t.Errorf("n^%g: found %v", p, got)
		}
	}
}

func TestExponent_IntervalReflectsDifferentRuns(t *testing.T) {
	// The regret stops in half of the runs and grows in the others.
	curves := make([][]float64, 20)
	for i := range curves {
		for k := range 1000 {
			curves[i] = append(curves[i], 10+float64(k*(i%2)))
		}
	}
	got := Exponent(curves, fitted(1000), 1)
	if !(got.Low < got.Value && got.Value < got.High && got.High < 1) {
		t.Errorf("found %v", got)
	}
}

func TestSpaced_RisesFromFirstToLast(t *testing.T) {
	at := spaced(1, 1000, 40)
	if at[0] != 0 || at[len(at)-1] != 999 {
		t.Errorf("from %d to %d", at[0], at[len(at)-1])
	}
	for i := 1; i < len(at); i++ {
		if at[i] <= at[i-1] {
			t.Fatalf("%d comes after %d", at[i], at[i-1])
		}
	}
}

func TestVerdict_IsUndecidedAroundTheLimit(t *testing.T) {
	for _, c := range []struct {
		i    Interval
		want Verdict
	}{
		{Interval{0.95, 0.91, 0.98}, Holds},
		{Interval{0.95, 0.85, 0.98}, Undecided},
		{Interval{0.5, 0.4, 0.6}, Fails},
	} {
		if got := atLeast(c.i, 0.9); got != c.want {
			t.Errorf("%v at least 0.9: found %s, want %s", c.i, got, c.want)
		}
		mirrored := Interval{-c.i.Value, -c.i.High, -c.i.Low}
		if got := below(mirrored, -0.9); got != c.want {
			t.Errorf("%v below -0.9: found %s, want %s", mirrored, got, c.want)
		}
	}
}
