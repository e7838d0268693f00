package tflite

import (
	"fmt"
	"math"
	"slices"
)

// maxFactors is the largest number of factors of a term.
const maxFactors = 3

// maxResiduals is the largest number of residuals of a prior.
const maxResiduals = 1024

// Residuals are parts of rewards that the features of a model may not express:
//
//	e(s) = c(s) - E[c] - A (φ(s) - μ)
//
// for terms c(s). On the states of the prior they are not correlated with φ. They are nuisance for
// the task: z is the regression of a reward on φ with or without them. But on the few states of a
// run, a reward that φ does not express would be mistaken for other tasks.
type Residuals struct {
	Terms []Term    // c, [K]
	Mean  []float64 // E[c], [K]
	Fit   []float64 // A, the regression of c on φ - μ, [K, d] row-major
}

// Term is a function of an observation: the product of its factors, in [0, 1].
type Term []Factor

// Factor is a function of one channel of an observation, in [0, 1].
type Factor struct {
	Channel int // of the observation
	Shape   Shape
	Centre  float64 // in the unit of the channel
	Slope   float64 // 1 over the width, which is in the unit of the channel; a negative one mirrors the shape
}

// Shape is a function of (value - centre)·slope.
type Shape int

// The shapes. They need + - × ÷ √ alone, so that their bits are the same on every CPU.
const (
	Sigmoid Shape = iota // ½ + ½x/√(1+x²)
	Bump                 // 1/(1+x²/4)²
	Ramp                 // ½ + x/4, from 0 to 1
)

// At returns the value of the shape at x.
func (s Shape) At(x float64) float64 {
	switch s {
	case Sigmoid:
		return 0.5 + 0.5*(x/math.Sqrt(1+float64(x*x)))
	case Bump:
		root := 1 + float64(x*x)/4
		return 1 / float64(root*root)
	}
	return min(max(0.5+x/4, 0), 1)
}

// At returns the value of the term at an observation [O], which is finite.
func (t Term) At(obs []float32) float64 {
	value := 1.0
	for _, f := range t {
		value *= f.Shape.At(float64((float64(obs[f.Channel]) - f.Centre) * f.Slope))
	}
	return value
}

// Validate returns an error for the first invalid value of the residuals of a model with obs
// channels and d features.
func (r *Residuals) Validate(obs, d int) error {
	k := len(r.Terms)
	if k > maxResiduals || len(r.Mean) != k || len(r.Fit) != k*d {
		return fmt.Errorf("%d residuals with %d means and a regression of %d numbers, want at most %d with %d and %d",
			k, len(r.Mean), len(r.Fit), maxResiduals, k, k*d)
	}
	for i, t := range r.Terms {
		if err := t.validate(obs); err != nil {
			return fmt.Errorf("residual %d: %w", i, err)
		}
	}
	for i, x := range append(append([]float64(nil), r.Mean...), r.Fit...) {
		if x-x != 0 {
			return fmt.Errorf("residuals: number %d of the means and the regression is not finite", i)
		}
	}
	return nil
}

func (t Term) validate(obs int) error {
	if len(t) < 1 || len(t) > maxFactors {
		return fmt.Errorf("%d factors, want 1 to %d", len(t), maxFactors)
	}
	for _, f := range t {
		// Then no value of a float32 overflows.
		if math.Abs(f.Centre) > 1e38 || !(math.Abs(f.Slope) <= 1e38) || f.Centre != f.Centre {
			return fmt.Errorf("centre %g or slope %g is not finite or too large", f.Centre, f.Slope)
		}
		if f.Channel < 0 || f.Channel >= obs || f.Shape < Sigmoid || f.Shape > Ramp {
			return fmt.Errorf("channel %d or shape %d does not exist", f.Channel, f.Shape)
		}
	}
	return nil
}

// Numbers returns the terms as [K, maxFactors, 4] numbers: channel, shape, centre and slope of each
// factor. A missing factor has the channel -1.
func (r *Residuals) Numbers() []float64 {
	var numbers []float64
	for _, t := range r.Terms {
		for i := range maxFactors {
			if i >= len(t) {
				numbers = append(numbers, -1, 0, 0, 0)
				continue
			}
			numbers = append(numbers, float64(t[i].Channel), float64(t[i].Shape), t[i].Centre, t[i].Slope)
		}
	}
	return numbers
}

// decodeTerms returns the terms of Numbers.
func decodeTerms(numbers []float64) ([]Term, error) {
	const size = 4 * maxFactors
	var terms []Term
	for i := range len(numbers) / size {
		terms = append(terms, nil)
		for f := numbers[i*size : (i+1)*size]; len(f) > 0; f = f[4:] {
			if slices.Equal(f[:4], []float64{-1, 0, 0, 0}) {
				continue
			}
			channel, shape := int(f[0]), Shape(f[1])
			if float64(channel) != f[0] || float64(shape) != f[1] {
				return nil, fmt.Errorf("residual %d: channel %g or shape %g is not a whole number", i, f[0], f[1])
			}
			terms[i] = append(terms[i], Factor{channel, shape, f[2], f[3]})
		}
	}
	return terms, nil
}
