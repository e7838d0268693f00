package controller

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/tflite/tflitetest"
)

// counting always draws the same z.
type counting struct {
	ellipsoids, gaussians int
	radius                float64
}

func (c *counting) Ellipsoid(dst []float64, _ *posterior.Belief, radius float64, _ *rand.Rand) {
	c.ellipsoids += len(dst) / rigLatent
	c.radius = radius
	c.fill(dst)
}

func (c *counting) Gaussian(dst []float64, _ *posterior.Belief, _ float64, _ *rand.Rand) {
	c.gaussians++
	c.fill(dst)
}

func (c *counting) fill(dst []float64) {
	for i := range dst {
		dst[i] = float64(i%rigLatent + 1)
	}
}

func TestPlanner_UsesGivenSampler(t *testing.T) {
	for strategy, want := range map[string]counting{
		UCB: {ellipsoids: 128, radius: 2}, Thompson: {gaussians: 1}, UCBSphere: {}, Random: {},
	} {
		cfg, c := configured(strategy), &counting{}
		p, err := NewPlannerWithSampler(cfg, tflitetest.Network(plannerDims, 1), c)
		fatal.If(t, err)
		z := plan(t, p, learnt(t, cfg, 10)).Z
		if *c != want {
			t.Errorf("%s: drew %+v, want %+v", strategy, *c, want)
		}
		drawn := make([]float64, rigLatent)
		c.fill(drawn)
		uses := slices.EqualFunc(z, drawn, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
		if uses != (want != counting{}) {
			t.Errorf("%s: z is %v", strategy, z)
		}
	}
}
