package posterior

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// withNuisance returns a belief with n dimensions of nuisance and the dense V and b of its labels.
func withNuisance(t testing.TB, dim, n int, seed splitMix) (*Belief, *mat.SymDense, *mat.VecDense) {
	t.Helper()
	b := mustNew(t, dim, 0.5, 1, WithNuisance(n), WithMovablePrior())
	v, rhs := mat.NewSymDense(dim, nil), mat.NewVecDense(dim, nil)
	for i := range dim {
		v.SetSym(i, i, 0.5)
	}
	x := make([]float64, dim)
	for range 3 * dim {
		seed.fill(x)
		x[0] = 0.7
		reward, weight := seed.float(), seed.weight()
		must(t, b.Update(x, reward, weight))
		phi := mat.NewVecDense(dim, append([]float64(nil), x...))
		v.SymRankOne(v, weight, phi)
		rhs.AddScaledVec(rhs, weight*reward, phi)
	}
	return b, v, rhs
}

// marginal returns the inverse of the task's block of V⁻¹.
func marginal(t testing.TB, v *mat.SymDense, n int) *mat.Dense {
	t.Helper()
	d := v.SymmetricDim()
	var inverse, precision mat.Dense
	must(t, inverse.Inverse(v))
	must(t, precision.Inverse(inverse.Slice(n, d, n, d)))
	return &precision
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*(1+math.Abs(want))) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// eachNuisance calls f for several dimensions and shares of nuisance.
func eachNuisance(f func(dim, n int)) {
	for dim := 2; dim <= 9; dim++ {
		for _, n := range []int{0, 1, dim / 2, dim - 1} {
			f(dim, n)
		}
	}
}

func TestBelief_IntegratesTheNuisanceOut(t *testing.T) {
	eachNuisance(func(dim, n int) {
		b, v, rhs := withNuisance(t, dim, n, splitMix(dim))
		task := dim - n
		var solution mat.VecDense
		must(t, solution.SolveVec(v, rhs))
		mean := make([]float64, task)
		b.Mean(mean)
		for i, got := range mean {
			near(t, "mean", got, solution.AtVec(i+n))
		}
		if first := b.FirstNuisance(); n > 0 {
			near(t, "first", first, solution.AtVec(0))
		} else if first != 0 {
			t.Errorf("the first of no nuisance is %g", first)
		}
		precision := marginal(t, v, n)
		logDet, _ := mat.LogDet(precision)
		near(t, "log det", b.LogDet(), logDet)
		near(t, "log det of the prior", b.LogDetPrior(), float64(task)*math.Log(0.5))

		var covariance, product mat.Dense
		must(t, covariance.Inverse(precision))
		inverse := make([]float64, task*task)
		b.InvR(inverse)
		invR := mat.NewDense(task, task, inverse)
		product.Mul(invR, invR.T())
		if !mat.EqualApprox(&product, &covariance, 1e-9) {
			t.Errorf("dimension %d with %d of nuisance: InvR is not a factor of the covariance", dim, n)
		}
		psi, bound := make([]float64, task), make([]float64, 1)
		seed := splitMix(99)
		seed.fill(psi)
		b.UCB(bound, psi, 1, 2)
		x := mat.NewVecDense(task, psi)
		var spread mat.VecDense
		spread.MulVec(&covariance, x)
		near(t, "bound", bound[0], mat.Dot(x, mat.NewVecDense(task, mean))+2*math.Sqrt(mat.Dot(x, &spread)))
	})
}

func TestBelief_GainIsThatOfTheTask(t *testing.T) {
	eachNuisance(func(dim, n int) {
		b, v, _ := withNuisance(t, dim, n, splitMix(100+dim))
		x := make([]float64, dim)
		seed := splitMix(7)
		seed.fill(x)
		gain, before := b.Gain(x, 3), b.LogDet()
		v.SymRankOne(v, 3, mat.NewVecDense(dim, x))
		after, _ := mat.LogDet(marginal(t, v, n))
		near(t, "log(1 + weight·gain)", DGap(gain, 3), after-before)
	})
}

func TestLabelSum_IsThatOfTheLabels(t *testing.T) {
	eachNuisance(func(dim, n int) {
		b, v, rhs := withNuisance(t, dim, n, splitMix(dim))
		sum, rewards := make([]float64, dim*dim), make([]float64, dim)
		b.LabelSum(sum)
		b.RewardSum(rewards)
		for i := range dim {
			near(t, "b", rewards[i], rhs.AtVec(i))
			for j := range dim {
				want := v.At(i, j)
				if i == j {
					want -= 0.5
				}
				near(t, "Σ w φφᵀ", sum[i*dim+j], want)
			}
		}
	})
}

func TestNew_RefusesImpossibleNuisance(t *testing.T) {
	for _, n := range []int{-1, 4, MaxDim} {
		if _, err := New(4, 1, 1, WithNuisance(n)); err == nil {
			t.Errorf("a belief of 4 dimensions has %d of nuisance", n)
		}
	}
}

func TestBelief_GainWithoutNuisanceIsNormSq(t *testing.T) {
	b := trained(t, 6, 3)
	x := []float64{1, -2, 0.5, 0, 3, 1}
	if got, want := b.Gain(x, 5), b.NormSq(x); math.Float64bits(got) != math.Float64bits(want) {
		t.Errorf("gain %g, ‖x‖² %g", got, want)
	}
}

func TestTrackPrior_ReplacesThePrior(t *testing.T) {
	const dim = 7
	for _, precision := range []float64{0.02, 0.5, 3, 1000} {
		b, v, _ := withNuisance(t, dim, 3, 5)
		b.SetPrior(precision)
		for range dim {
			b.TrackPrior()
		}
		want := min(precision, 0.5*PriorRange)
		for i := range dim {
			v.SetSym(i, i, v.At(i, i)+want-0.5)
		}
		logDet, _ := mat.LogDet(marginal(t, v, 3))
		near(t, "log det", b.LogDet(), logDet)
		prior := make([]float64, dim)
		b.Prior(prior)
		near(t, "prior", prior[dim-1], want)
		must(t, mustNew(t, dim, 0.5, 1, WithNuisance(3), WithMovablePrior()).Restore(stateOf(b)))
	}
}

func TestSetPrior_HasNoEffectWithoutItsOptionOrWithoutANumber(t *testing.T) {
	fixed, movable := mustNew(t, 3, 0.5, 1), mustNew(t, 3, 0.5, 1, WithMovablePrior())
	before := stateOf(fixed)
	fixed.SetPrior(2)
	movable.SetPrior(math.NaN())
	for range 3 {
		fixed.TrackPrior()
		movable.TrackPrior()
	}
	if !sameBits(stateOf(fixed), before) || !sameBits(stateOf(movable), before) {
		t.Error("the prior moved")
	}
}

func TestForget_KeepsAMovedPrior(t *testing.T) {
	b := mustNew(t, 4, 1, 0.99, WithMovablePrior())
	b.SetPrior(0.25)
	for range 1000 {
		b.Forget()
	}
	prior := make([]float64, 4)
	b.Prior(prior)
	for i, v := range prior {
		if v > 0.25 || v < 0.25*0.97 {
			t.Errorf("direction %d: %g, want at most 0.25 and little less", i, v)
		}
	}
}

func TestSampleGaussian_HasTheCovarianceOfTheTask(t *testing.T) {
	const dim, n, scale = 4, 40_000, 0.5
	b, v, _ := withNuisance(t, dim, 1, 8)
	var covariance mat.Dense
	must(t, covariance.Inverse(marginal(t, v, 1)))
	mean, z := make([]float64, dim-1), make([]float64, dim-1)
	b.Mean(mean)
	rng, sum := rand.New(rand.NewPCG(1, 2)), mat.NewDense(dim-1, dim-1, nil)
	for range n {
		b.SampleGaussian(z, scale, rng)
		for i := range z {
			z[i] -= mean[i]
		}
		x := mat.NewVecDense(dim-1, z)
		sum.RankOne(sum, 1/(n*scale*scale), x, x)
	}
	if !mat.EqualApprox(sum, &covariance, 0.05*mat.Norm(&covariance, 2)) {
		t.Errorf("covariance %v, want %v", mat.Formatted(sum), mat.Formatted(&covariance))
	}
}

func TestRestore_KeepsNuisanceAndMovablePrior(t *testing.T) {
	b, _, _ := withNuisance(t, 5, 2, 4)
	restored := mustNew(t, 5, b.Lambda(), b.Rho(), WithNuisance(2), WithMovablePrior())
	must(t, restored.Restore(stateOf(b)))
	if restored.TaskDim() != 3 || !restored.MovablePrior() || restored.Hash() != b.Hash() {
		t.Error("the restored belief differs")
	}
	restored.SetPrior(5)
	restored.TrackPrior()
	if restored.Hash() == b.Hash() {
		t.Error("the prior of the restored belief does not move")
	}
}
