package taskprior

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/fatal"
)

// unexplained returns Σ‖target - projection on the chosen vectors‖², by QR.
func unexplained(vectors, targets *mat.Dense, chosen []int) float64 {
	left := mat.DenseCopyOf(targets)
	if len(chosen) > 0 {
		rows, _ := vectors.Dims()
		basis := mat.NewDense(rows, len(chosen), nil)
		for i, c := range chosen {
			basis.SetCol(i, mat.Col(nil, c, vectors))
		}
		var qr mat.QR
		var solution, explained mat.Dense
		qr.Factorize(basis)
		if err := qr.SolveTo(&solution, false, targets); err != nil {
			return math.Inf(1)
		}
		explained.Mul(basis, &solution)
		left.Sub(targets, &explained)
	}
	norm := mat.Norm(left, 2)
	return norm * norm
}

func TestChooseVectors_ExplainsMostAtEachStep(t *testing.T) {
	const rows, count, targetCount = 40, 12, 7
	rng := rand.New(rand.NewPCG(1, 2))
	vectors, targets := mat.NewDense(rows, count, nil), mat.NewDense(rows, targetCount, nil)
	for i := range rows {
		for j := range count {
			vectors.Set(i, j, rng.NormFloat64())
		}
		for j := range targetCount {
			targets.Set(i, j, rng.NormFloat64()+3*vectors.At(i, j))
		}
		vectors.Set(i, 3, 2*vectors.At(i, 0)-vectors.At(i, 5)) // depends on two others
	}
	var gram, products mat.Dense
	gram.Mul(vectors.T(), vectors)
	products.Mul(vectors.T(), targets)
	chosen := chooseVectors(&gram, &products, 9)
	if len(chosen) != 9 {
		t.Fatalf("%d chosen", len(chosen))
	}
	for n := range chosen {
		best := unexplained(vectors, targets, chosen[:n+1])
		for i := range count {
			other := unexplained(vectors, targets, append(append([]int(nil), chosen[:n]...), i))
			if other < best-1e-9 {
				t.Errorf("step %d: vector %d leaves %g unexplained, the chosen %d %g", n, i, other, chosen[n], best)
			}
		}
	}
}

func TestChooseVectors_StopsWhereNothingIsLeft(t *testing.T) {
	gram := mat.NewDense(3, 3, []float64{1, 0, 0, 0, 4, 0, 0, 0, 0})
	products := mat.NewDense(3, 2, []float64{1, 2, 0, 0, 0, 0})
	if chosen := chooseVectors(gram, products, 3); len(chosen) != 1 || chosen[0] != 0 {
		t.Errorf("chose %v, want only the first vector", chosen)
	}
}

// The reference is a least-squares solution by QR with a column of ones, of φ alone for z and of φ
// and terms for the whole reward.
func TestAddResiduals_ExtendsTheRegressionAndKeepsZ(t *testing.T) {
	s, without := someStates(t), someStates(t)
	k := everything(s.varying)
	r, err := s.addResiduals(5, seeded())
	fatal.If(t, err)
	with, err := s.tasks(k, 20, seeded())
	fatal.If(t, err)
	z, err := without.tasks(k, 20, seeded())
	fatal.If(t, err)
	const d, count = 6, 5
	if !mat.EqualApprox(with.w.Slice(0, 20, count, count+d), z.w, 1e-9) {
		t.Error("the residuals change z")
	}
	n := len(s.columns[0])
	phi := s.phi().values
	design := mat.NewDense(n, 1+d+count, nil)
	values := mat.NewDense(n, count+d, nil) // (e, φ - μ) as documented
	obs := make([]float32, len(s.columns))
	for i := range n {
		for c := range obs {
			obs[c] = float32(s.columns[c][i])
		}
		design.Set(i, 0, 1)
		for j := range d {
			design.Set(i, 1+j, phi.At(i, j))
			values.Set(i, count+j, phi.At(i, j))
		}
		for j, term := range r.Terms {
			design.Set(i, 1+d+j, term.At(obs))
			values.Set(i, j, term.At(obs)-r.Mean[j]-mat.Dot(phi.RowView(i), mat.NewVecDense(d, r.Fit[j*d:(j+1)*d])))
		}
	}
	rng, reward := seeded(), mat.NewVecDense(n, nil)
	for i := range 20 {
		k.draw(reward.RawVector().Data, s, rng)
		var solution, want, got mat.VecDense
		fatal.If(t, solution.SolveVec(design, reward))
		want.MulVec(design, &solution)
		got.MulVec(values, with.w.RowView(i))
		mean := mat.Sum(reward) / float64(n)
		for j := range n {
			if math.Abs(got.AtVec(j)+mean-want.AtVec(j)) > 1e-3 {
				t.Fatalf("reward %d at state %d: %g, want %g", i, j, got.AtVec(j)+mean, want.AtVec(j))
			}
		}
	}
}
