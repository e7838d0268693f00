package tflite

import (
	"math"
	"testing"
)

func TestShape_At(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		x, y float64
	}{
		{Sigmoid, 0, 0.5}, {Sigmoid, 0.75, 0.8}, {Sigmoid, -0.75, 0.2}, {Sigmoid, 1e76, 1},
		{Bump, 0, 1}, {Bump, 2, 0.25}, {Bump, -2, 0.25}, {Bump, 1e76, 0},
		{Ramp, 0, 0.5}, {Ramp, 1, 0.75}, {Ramp, -3, 0}, {Ramp, 3, 1},
	} {
		if y := c.s.At(c.x); math.Abs(y-c.y) > 1e-15 {
			t.Errorf("shape %d at %g: %g, want %g", c.s, c.x, y, c.y)
		}
	}
}

func TestTerm_AtIsTheProductOfItsFactors(t *testing.T) {
	term := Term{{1, Sigmoid, 1, 0.5}, {0, Bump, -1, 2}, {1, Ramp, 2, -1}}
	// (1 + 0.75/√(1+0.75²))/2 = 0.8, 1/(1+1)² = 0.25, ½ - 0.5/4 = 0.375
	if got, want := term.At([]float32{0, 2.5}), 0.8*0.25*0.375; math.Abs(got-want) > 1e-15 {
		t.Errorf("%g, want %g", got, want)
	}
	for _, x := range []float32{math.MaxFloat32, -math.MaxFloat32} {
		far := Term{{0, Sigmoid, 1e38, 1e38}, {0, Bump, 0, -1e38}, {0, Ramp, 0, 1e-38}}
		if v := far.At([]float32{x}); !(v >= 0 && v <= 1) {
			t.Errorf("at %g: %g", x, v)
		}
	}
}
