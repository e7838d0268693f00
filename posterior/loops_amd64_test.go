//go:build !noasm

package posterior

import (
	"math"
	"slices"
	"testing"
)

// loopCase has the operands of a loop: parts of n elements of longer vectors.
type loopCase struct {
	n       int
	vectors [3][]float64
	s, t    float64
}

var (
	small   = []float64{0, math.Copysign(0, -1), 0x1p-1074, -0x1p-1074, 0x1.8p-1030, 0x1p-1022, -0x1p-600}
	special = []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, -math.MaxFloat64}
)

// newLoopCase makes operands in which a fraction of the numbers is from rare.
func newLoopCase(seed *splitMix, n int, rare []float64) loopCase {
	number := func() float64 {
		if pick := seed.next() % 64; pick < uint64(len(rare)) {
			return rare[pick]
		}
		return seed.float()
	}
	c := loopCase{n: n, s: number(), t: number()}
	for i := range c.vectors {
		c.vectors[i] = make([]float64, n+8)
		for j := range c.vectors[i] {
			c.vectors[i][j] = number()
		}
	}
	return c
}

// operand returns operand i, n numbers that begin at element 1+i of their vector.
func (c *loopCase) operand(i int) []float64 { return c.vectors[i][1+i : 1+i+c.n] }

// apply returns all numbers after a loop: the whole vectors and the sums.
func (c loopCase) apply(l loop) []float64 {
	for i, v := range c.vectors {
		c.vectors[i] = slices.Clone(v)
	}
	s, t := l(c.operand(0), c.operand(1), c.operand(2), c.s, c.t)
	return append(slices.Concat(c.vectors[:]...), s, t)
}

// equalNumbers reports whether a and b have the same bits, or NaN in the same places.
func equalNumbers(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	})
}

func first(v []float64) *float64 { return &v[:1][0] }

type loop = func(a, b, x []float64, s, t float64) (float64, float64)

// loops has each loop in Go and in assembly.
var loops = map[string][2]loop{
	"rotate": {
		func(a, b, _ []float64, s, t float64) (float64, float64) {
			portableRotate(a, b, s, t)
			return 0, 0
		},
		func(a, b, _ []float64, s, t float64) (float64, float64) {
			rotateAVX2(first(a), first(b), len(a), s, t)
			return 0, 0
		},
	},
	"subtractTwo": {
		func(a, b, x []float64, s, t float64) (float64, float64) {
			portableSubtractTwo(a, b, x, s, t)
			return 0, 0
		},
		func(a, b, x []float64, s, t float64) (float64, float64) {
			subtractTwoAVX2(first(a), first(b), first(x), len(a), s, t)
			return 0, 0
		},
	},
	"dotTwo": {
		func(a, b, x []float64, _, _ float64) (float64, float64) { return portableDotTwo(a, b, x) },
		func(a, b, x []float64, _, _ float64) (float64, float64) {
			return dotTwoAVX2(first(a), first(b), first(x), len(a))
		},
	},
}

func TestAssembly_HasTheBitsOfGo(t *testing.T) {
	if !accelerated {
		t.Skip("this processor has no AVX2")
	}
	seed := splitMix(5)
	for n := range 301 {
		if n > 70 && n%23 > 2 {
			continue
		}
		for round, rare := range [][]float64{nil, small, append(special, small...)} {
			c := newLoopCase(&seed, n, rare)
			for name, l := range loops {
				if got, want := c.apply(l[1]), c.apply(l[0]); !equalNumbers(got, want) {
					t.Fatalf("%s, %d elements, round %d: %v, not %v", name, n, round, got, want)
				}
			}
		}
	}
}
