package posterior

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func TestTheory_IsTheFormula(t *testing.T) {
	const dim, lambda = 5, 0.5
	b := mustNew(t, dim, lambda, 1)
	seed := splitMix(1)
	phi := make([]float64, dim)
	for range 30 {
		seed.fill(phi)
		must(t, b.Update(phi, 1, 1))
	}
	got := Theory{S: 2, Sigma: 0.3, Delta: 0.05}.Beta(b)
	logDet, _ := mat.LogDet(dense(b))
	want := math.Sqrt(lambda)*2 + 0.3*math.Sqrt(logDet-dim*math.Log(lambda)+2*math.Log(1/0.05))
	if math.Abs(got-want) > 1e-12 {
		t.Fatalf("β is %g, not %g", got, want)
	}
}

func TestTheory_UsesThePresentPrior(t *testing.T) {
	const dim = 10
	b := mustNew(t, dim, 1, 0.95)
	phi := make([]float64, dim)
	phi[3] = 2
	for range 2*dim + 3 {
		b.Forget()
	}
	must(t, b.Update(phi, 1, 1))
	prior := make([]float64, dim)
	b.Prior(prior)
	gain := math.Log1p(4 / prior[3])
	want := 1 + math.Sqrt(gain+2*math.Log(10))
	if got := (Theory{S: 1, Sigma: 1, Delta: 0.1}).Beta(b); math.Abs(got-want) > 1e-12 {
		t.Fatalf("β is %g, not %g", got, want)
	}
}

// distance returns ‖z - ẑ‖ in V.
func distance(b *Belief, z []float64) float64 {
	diff := make([]float64, b.dim)
	b.Mean(diff)
	for i := range diff {
		diff[i] -= z[i]
	}
	x := mat.NewVecDense(b.dim, diff)
	return math.Sqrt(mat.Inner(x, dense(b), x))
}

func TestSchedule_EllipsoidContainsTheTruth(t *testing.T) {
	const dim, zeta, sigma = 6, 0.2, 0.1
	truth := []float64{0.3, -0.2, 0.5, 0.1, -0.4, 0.2}
	limit := math.Sqrt(dim)
	theory := Theory{S: 1, Sigma: sigma, Delta: 0.01}
	inflated := Misspecified{Schedule: theory, Zeta: zeta, L: limit}
	must(t, inflated.Validate())
	for _, rho := range []float64{1, 0.99} {
		missed := 0
		for run := range 100 {
			linear, bent := mustNew(t, dim, 0.5, rho), mustNew(t, dim, 0.5, rho)
			seed := splitMix(run)
			phi := make([]float64, dim)
			for range 200 {
				seed.fill(phi)
				reward := dot(phi, truth) + sigma*seed.float()
				must(t, linear.Update(phi, reward, 1))
				// The worst error of its kind: always with the sign of one feature.
				must(t, bent.Update(phi, reward+math.Copysign(zeta, phi[0]), 1))
				linear.Forget()
				bent.Forget()
			}
			if distance(bent, truth) > inflated.Beta(bent) {
				t.Fatalf("ρ %g: the truth is %g away, β′ is %g", rho, distance(bent, truth), inflated.Beta(bent))
			}
			if distance(linear, truth) > theory.Beta(linear) {
				t.Fatalf("ρ %g: the truth is %g away, β is %g", rho, distance(linear, truth), theory.Beta(linear))
			}
			if distance(bent, truth) > theory.Beta(bent) {
				missed++
			}
		}
		if rho == 1 && missed == 0 {
			t.Error("misspecified rewards never left the plain ellipsoid: the test is ineffective")
		}
	}
}

// The test compares the worst errors, m = ±ζ with the sign that moves ẑ farthest,
// with the bound and with ζ√W.
func TestMisspecified_BoundsTheBias(t *testing.T) {
	const dim, zeta, limit = 4, 0.5, 2.0
	tightest := math.Inf(1)
	for run := range 200 {
		seed := splitMix(1000 + run)
		b := mustNew(t, dim, 0.1, 0.98)
		phi := make([]float64, dim)
		// One dominant direction makes the errors add up.
		for range 1 + run%40 {
			seed.fill(phi)
			phi[0] = 1.9 * math.Copysign(1, phi[0])
			for i := 1; i < dim; i++ {
				phi[i] *= 0.3
			}
			must(t, b.Update(phi, math.Copysign(zeta, phi[0]), seed.weight()))
			b.Forget()
		}
		moved := distance(b, make([]float64, dim))
		bound := Misspecified{Schedule: Constant(0), Zeta: zeta, L: limit}.Beta(b)
		loose := Misspecified{Schedule: Constant(0), Zeta: zeta, L: math.Inf(1)}.Beta(b)
		if root := zeta * math.Sqrt(b.Weight()); math.Abs(loose-root) > 1e-12*root || bound > loose {
			t.Fatalf("the bounds are %g and, without L, %g; ζ√W is %g", bound, loose, root)
		}
		if moved > bound {
			t.Fatalf("ẑ moved by %g, the bound is %g", moved, bound)
		}
		tightest = min(tightest, bound/moved)
	}
	if tightest > 1.1 {
		t.Errorf("the bound is never closer than %.2f times the move: it is not tight", tightest)
	}
}

func TestSchedule_IsFiniteForEveryBelief(t *testing.T) {
	full := Misspecified{Schedule: Theory{S: 1, Sigma: 1, Delta: 0.1}, Zeta: 0.1, L: 1}
	b := mustNew(t, 8, 1, 0.95)
	for range 100 {
		b.Forget()
		for _, s := range []Schedule{Constant(1), full.Schedule, full} {
			if beta := s.Beta(b); !(beta >= 0 && beta < 10) {
				t.Fatalf("%T gives β = %g without a label", s, beta)
			}
		}
	}
	if full.Beta(b) != full.Schedule.Beta(b) {
		t.Error("without labels there is nothing to inflate")
	}
}

func TestSchedule_RefusesBadParameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good := Theory{S: 1, Sigma: 1, Delta: 0.1}
	must(t, good.Validate())
	must(t, Constant(0).Validate())
	for _, s := range []Schedule{
		Constant(-1), Constant(nan), Constant(inf),
		Theory{-1, 1, 0.1}, Theory{1, -1, 0.1}, Theory{1, 1, 0}, Theory{1, 1, 1},
		Theory{nan, 1, 0.1}, Theory{1, inf, 0.1}, Theory{1, 1, nan},
		Misspecified{nil, 1, 1}, Misspecified{good, -1, 1}, Misspecified{good, 1, 0}, Misspecified{good, 1, nan},
		Misspecified{Theory{1, 1, 2}, 1, 1},
	} {
		if s.Validate() == nil {
			t.Errorf("%#v is valid", s)
		}
	}
}
