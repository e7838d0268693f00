package posterior

// This file has the inner loops in Go, the reference for the assembly.

// portableRotate computes a, b = c a + s b, c b - s a for each element of vectors of equal length.
func portableRotate(a, b []float64, c, s float64) {
	b = b[:len(a)]
	for i, u := range a {
		v := b[i]
		a[i] = float64(c*u) + float64(s*v)
		b[i] = float64(c*v) - float64(s*u)
	}
}

// portableSubtractTwo computes dst = (dst - s a) - t b for vectors of equal length.
func portableSubtractTwo(dst, a, b []float64, s, t float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range dst {
		dst[i] = v - float64(s*a[i]) - float64(t*b[i])
	}
}

// portableDotTwo returns the inner products of a and of b with x, all of equal length. Each has
// two partial sums, of the even and of the odd elements.
func portableDotTwo(a, b, x []float64) (float64, float64) {
	var s0, s1, t0, t1 float64
	for len(a) >= 2 && len(b) >= 2 && len(x) >= 2 {
		s0 += float64(a[0] * x[0])
		t0 += float64(b[0] * x[0])
		s1 += float64(a[1] * x[1])
		t1 += float64(b[1] * x[1])
		a, b, x = a[2:], b[2:], x[2:]
	}
	if len(a) == 1 && len(b) == 1 && len(x) == 1 {
		s0 += float64(a[0] * x[0])
		t0 += float64(b[0] * x[0])
	}
	return s0 + s1, t0 + t1
}

// portableSolveRows computes x ← R⁻¹x for each row of x [n, d].
func portableSolveRows(r, x []float64, d int) {
	for ; len(x) > 0; x = x[d:] {
		solve(r, x[:d])
	}
}
