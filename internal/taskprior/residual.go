package taskprior

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"optibfm/tflite"
)

const (
	maxResiduals = 64
	// termsDrawn is the number of random terms among which residuals are chosen, rewardsCompared
	// that of the random rewards that they are chosen to explain.
	termsDrawn, rewardsCompared = 384, 512
	// leastExplained is the smallest share of these rewards' unexplained variance that one more
	// residual explains.
	leastExplained = 1e-3
)

// residuals are terms of the observation, and what φ leaves unexplained of them on the states.
type residuals struct {
	tflite.Residuals
	values *mat.Dense // [n, K]
}

// drawResiduals returns residuals of random terms.
func (s *states) drawResiduals(k kind, count int, rng *rand.Rand) (r residuals, err error) {
	phi := s.phi()
	n, d := phi.values.Dims()
	r.values = mat.NewDense(n, count, nil)
	value := make([]float64, n)
	for i := range count {
		t := k.term(s, rng)
		s.value(value, t)
		mean := stat.Mean(value, nil)
		for j := range value {
			r.values.Set(j, i, value[j]-mean)
		}
		r.Terms, r.Mean = append(r.Terms, t), append(r.Mean, mean)
	}
	var products, fit mat.Dense
	products.Mul(phi.values.T(), r.values)
	products.Scale(1/float64(n), &products)
	if err := phi.gram.SolveTo(&fit, &products); err != nil {
		return r, fmt.Errorf("regression of terms on the features: %w", err)
	}
	for i := range count {
		r.Fit = append(r.Fit, mat.Col(make([]float64, d), i, &fit)...)
	}
	var explained mat.Dense
	explained.Mul(phi.values, &fit)
	r.values.Sub(r.values, &explained)
	return r, nil
}

// addResiduals chooses up to n residuals and adds them to the designs.
func (s *states) addResiduals(n int, rng *rand.Rand) (tflite.Residuals, error) {
	k := everything(s.varying)
	drawn, err := s.drawResiduals(k, termsDrawn, rng)
	if err != nil {
		return tflite.Residuals{}, err
	}
	rows, _ := drawn.values.Dims()
	rewards := mat.NewDense(rewardsCompared, rows, nil)
	for i := range rewardsCompared {
		k.draw(rewards.RawRowView(i), s, rng)
	}
	// The residuals are orthogonal to φ - μ: their products with rewards are those with what φ
	// leaves unexplained.
	var products, gram mat.Dense
	products.Mul(rewards, drawn.values)
	gram.Mul(drawn.values.T(), drawn.values)
	chosen := chooseVectors(&gram, products.T(), n)
	if len(chosen) == 0 {
		return tflite.Residuals{}, nil
	}
	r := drawn.some(chosen)
	added, err := newDesign(r.values)
	if err != nil {
		return tflite.Residuals{}, err
	}
	s.designs = append([]design{added}, s.designs...)
	return r.Residuals, nil
}

// some returns the residuals with the given indices.
func (r residuals) some(indices []int) (some residuals) {
	rows, _ := r.values.Dims()
	d := len(r.Fit) / len(r.Terms)
	some.values = mat.NewDense(rows, len(indices), nil)
	for to, i := range indices {
		some.Terms, some.Mean = append(some.Terms, r.Terms[i]), append(some.Mean, r.Mean[i])
		some.Fit = append(some.Fit, r.Fit[i*d:(i+1)*d]...)
		some.values.SetCol(to, mat.Col(nil, i, r.values))
	}
	return some
}

// chooseVectors returns the indices of up to n vectors. Each explains the most of the variance that
// the earlier ones leave of some targets. gram has the inner products of the vectors, products
// those of each vector with the targets.
func chooseVectors(gram *mat.Dense, products mat.Matrix, n int) (chosen []int) {
	left := mat.DenseCopyOf(products) // of each vector, orthogonal to the chosen ones, with the targets
	count, targets := left.Dims()
	least := make([]float64, count) // squared norm below which a vector depends on the chosen ones
	for i := range count {
		least[i] = 1e-6 * gram.At(i, i)
	}
	first := 0.0
	for len(chosen) < n {
		best, most := -1, 0.0
		for i := range count {
			if square := gram.At(i, i); square > least[i] {
				row := left.RawRowView(i)
				if explained := floats.Dot(row, row) / square; explained > most {
					best, most = i, explained
				}
			}
		}
		first = max(first, most)
		if best < 0 || most < leastExplained*first {
			return chosen
		}
		chosen = append(chosen, best)
		// Remove the direction of the chosen vector from all vectors.
		products, square := mat.Col(nil, best, gram), gram.At(best, best)
		vector := mat.Row(nil, best, left)
		for i := range count {
			share := products[i] / square
			floats.AddScaled(left.RawRowView(i)[:targets], -share, vector)
			floats.AddScaled(gram.RawRowView(i), -share, products)
		}
	}
	return chosen
}
