//go:build tensorflow

package tensorflow_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

// climb makes a model with a gradient, or skips where there is no library.
func climb(t testing.TB, b *tflite.Bundle) tensorflow.Differentiable {
	t.Helper()
	return opened(t, func() (tensorflow.Differentiable, error) { return tensorflow.NewDifferentiable(b, onCPU(), 1) })
}

// slope is the gradient at z.
func slope(t testing.TB, m tflite.Differentiable, obs, z []float32, b tflite.Belief) (dz []float32, score float32) {
	t.Helper()
	dz = make([]float32, len(z))
	score, err := m.Gradient(dz, obs, z, b)
	if err != nil {
		t.Fatal(err)
	}
	return dz, score
}

func norm(x []float32) float64 {
	squares := 0.0
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	return math.Sqrt(squares)
}

// apart is ‖x - y‖/‖y‖.
func apart(x, y []float32) float64 {
	difference := make([]float32, len(y))
	for i, v := range y {
		difference[i] = x[i] - v
	}
	return norm(difference) / norm(y)
}

func nudged(rng *rand.Rand, x []float32, by float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = v * float32(1+by*rng.NormFloat64())
	}
	return y
}

// within is the precision that gradients agree to, of the gradient's norm.
const within = 1e-4

// besideAKink finds the native gradient got at a place that rounding cannot
// tell from z: then z is at a kink, where a ReLU or the least member is at a tie,
// and the two backends took different sides of it.
func besideAKink(t *testing.T, n *tflite.Network, got, obs, z []float32, b tflite.Belief) bool {
	rng := rand.New(rand.NewPCG(1, 7))
	for _, by := range []float64{1e-7, 3e-7, 1e-6, 3e-6} {
		for range 50 {
			want, _ := slope(t, n, nudged(rng, obs, by), nudged(rng, z, by), b)
			if apart(got, want) <= within {
				return true
			}
		}
	}
	return false
}

func TestTheGradientIsTheNativeOne(t *testing.T) {
	cases := 2000
	if testing.Short() {
		cases = 200
	}
	for name, made := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			m, n := climb(t, made), native(t, made)
			rng := rand.New(rand.NewPCG(12, 13))
			d := made.Dims()
			worst, worstScore, kinks := 0.0, 0.0, 0
			for i := range cases {
				obs, z := randoms(rng, d.Obs), randoms(rng, d.Latent)
				b := tflite.Belief{Mean: randoms(rng, d.Latent), InvR: randoms(rng, d.Latent*d.Latent), Beta: 2 * rng.Float32()}
				want, wantScore := slope(t, n, obs, z, b)
				got, gotScore := slope(t, m, obs, z, b)
				// A score may be near 0: what counts is how it varies.
				worstScore = max(worstScore, math.Abs(float64(gotScore-wantScore))/(math.Abs(float64(wantScore))+norm(want)*norm(z)))
				off := apart(got, want)
				if off <= within {
					worst = max(worst, off)
					continue
				}
				if !besideAKink(t, n, got, obs, z, b) {
					t.Errorf("case %d: the gradient is off by %.2g of its norm", i, off)
				}
				kinks++
			}
			t.Logf("%d gradients: %d at kinks, the others off by at most %.2g of their norm, scores by %.2g", cases, kinks, worst, worstScore)
			if !(worstScore <= 1e-5) {
				t.Errorf("the scores are off by %.2g", worstScore)
			}
			if kinks*50 > cases {
				t.Errorf("%d of %d cases are at kinks", kinks, cases)
			}
		})
	}
}

func TestTheGradientIsTheSlopeOfTheScore(t *testing.T) {
	for name, made := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			m := climb(t, made)
			rng := rand.New(rand.NewPCG(14, 15))
			d := made.Dims()
			bends := 0.0
			const cases = 100
			for range cases {
				obs, z, along := randoms(rng, d.Obs), randoms(rng, d.Latent), randoms(rng, d.Latent)
				b := tflite.Belief{Mean: randoms(rng, d.Latent), InvR: randoms(rng, d.Latent*d.Latent), Beta: rng.Float32()}
				got, score := slope(t, m, obs, z, b)
				h := norm(z) / norm(along) / 1000
				at := func(h float64) float64 {
					moved := make([]float32, len(z))
					for i, v := range z {
						moved[i] = v + float32(h)*along[i]
					}
					_, score, err := m.Search(obs, moved, b)
					if err != nil {
						t.Fatal(err)
					}
					return float64(score)
				}
				up, down := (at(h)-float64(score))/h, (float64(score)-at(-h))/h
				var slope float64
				for i, v := range along {
					slope += float64(v) * float64(got[i])
				}
				// Where the score bends, or rounds, the two one-sided slopes
				// tell how much: the gradient's lies between them.
				bend, scale := math.Abs(up-down), norm(got)*norm(along)
				bends += bend / scale / cases
				if off := math.Abs(slope - (up+down)/2); !(off <= bend+3e-3*scale) {
					t.Errorf("the slope is %g, finite differences give %g and %g", slope, down, up)
				}
			}
			t.Logf("the two one-sided differences are %.2g of the gradient's norm apart, on average", bends)
			if bends > 0.05 {
				t.Error("the finite differences say too little")
			}
		})
	}
}

func TestABeliefWithoutWidthHasAGradient(t *testing.T) {
	m, n := climb(t, tflitetest.Bundle(small, 1)), tflitetest.Network(small, 1)
	q := ask(small, 1)
	for _, beta := range []float32{0, 1, 1e6} {
		// ‖R⁻ᵀψ‖ is 0, where a norm has no slope.
		sure := tflite.Belief{Mean: q.belief.Mean, InvR: make([]float32, small.Latent*small.Latent), Beta: beta}
		got, _ := slope(t, m, q.obs, q.candidates, sure)
		if want, _ := slope(t, n, q.obs, q.candidates, sure); !(apart(got, want) <= within) {
			t.Errorf("β = %g: %v, want %v", beta, got, want)
		}
	}
}

func TestAGradientRefusesWhatTheNativeOneRefuses(t *testing.T) {
	m, n := climb(t, tflitetest.Bundle(small, 1)), tflitetest.Network(small, 1)
	q := ask(small, 1)
	nan := float32(math.NaN())
	spoilt := func(x []float32) []float32 { return append([]float32{nan}, x[1:]...) }
	dz := make([]float32, small.Latent)
	before, _ := slope(t, m, q.obs, q.candidates, q.belief)
	for name, bad := range map[string]struct {
		dz []float32
		question
	}{
		"short gradient":     {dz[1:], q},
		"short observation":  {dz, question{q.obs[1:], q.candidates, q.belief}},
		"observation of NaN": {dz, question{spoilt(q.obs), q.candidates, q.belief}},
		"short z":            {dz, question{q.obs, q.candidates[1:], q.belief}},
		"z of NaN":           {dz, question{q.obs, spoilt(q.candidates), q.belief}},
		"z of no direction":  {dz, question{q.obs, make([]float32, small.Latent), q.belief}},
		"short mean":         {dz, question{q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean[1:], InvR: q.belief.InvR}}},
		"negative β":         {dz, question{q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean, InvR: q.belief.InvR, Beta: -1}}},
	} {
		_, err := m.Gradient(bad.dz, bad.obs, bad.candidates, bad.belief)
		_, want := n.Gradient(bad.dz, bad.obs, bad.candidates, bad.belief)
		if err == nil || want == nil || errors.Is(err, tflite.ErrNotFinite) != errors.Is(want, tflite.ErrNotFinite) {
			t.Errorf("%s: %v, natively %v", name, err, want)
		}
	}
	if after, _ := slope(t, m, q.obs, q.candidates, q.belief); apart(after, before) != 0 {
		t.Errorf("the gradient was %v and is %v", before, after)
	}
}

func TestAModelWithAGradientSearchesToo(t *testing.T) {
	q := ask(small, 16)
	best, score := q.of(t, climb(t, tflitetest.Bundle(small, 1)))
	if want, wantScore := q.of(t, tflitetest.Network(small, 1)); best != want || !(relative([]float32{score}, []float32{wantScore}) <= within) {
		t.Errorf("best %d with %g, want %d with %g", best, score, want, wantScore)
	}
}

func TestOnlyAModelThatIsAskedForGradientsHasThem(t *testing.T) {
	if _, ok := open(t, tflitetest.Bundle(small, 1), onCPU(), 1).(tflite.Differentiable); ok {
		t.Error("New makes the gradient")
	}
}

func TestManyGradientsDoNotGrowTheProcess(t *testing.T) {
	m := climb(t, tflitetest.Bundle(small, 1))
	q := ask(small, 1)
	many := func(n int) {
		for range n {
			slope(t, m, q.obs, q.candidates, q.belief)
		}
	}
	many(2000) // TensorFlow's allocators settle
	before := residentKiB(t)
	gradients := 10_000
	if testing.Short() {
		gradients = 2000
	}
	many(gradients)
	grown := residentKiB(t) - before
	t.Logf("%d KiB, then %d gradients, %+d KiB", before, gradients, grown)
	if grown > 16<<10 {
		t.Errorf("%d gradients took %d KiB", gradients, grown)
	}
}
