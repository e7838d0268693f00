package posterior

import "math"

// rowStart returns the index of row k in a packed upper triangular [d, d] matrix.
func rowStart(d, k int) int { return k*d - k*(k-1)/2 }

// scale computes v *= s.
func scale(v []float64, s float64) {
	for i := range v {
		v[i] = float64(v[i] * s)
	}
}

// scaleTo computes dst = s v.
func scaleTo(dst, v []float64, s float64) {
	dst = dst[:len(v)]
	for i, e := range v {
		dst[i] = float64(s * e)
	}
}

// rankOneUpdate updates R to the factor of RᵀR + xxᵀ, with a Givens rotation for each
// row. The entries of x before start must be zero. It overwrites x.
func rankOneUpdate(r, x []float64, start int) {
	d := len(x)
	for k, off := start, rowStart(d, start); k < d; k++ {
		row := r[off : off+d-k]
		rest := x[k:]
		rest = rest[:len(row)]
		off += d - k
		if rest[0] == 0 {
			continue
		}
		norm := math.Sqrt(float64(row[0]*row[0]) + float64(rest[0]*rest[0]))
		c, s := row[0]/norm, rest[0]/norm
		row[0] = norm
		rotate(row[1:], rest[1:], c, s)
	}
}

// rankFourUpdate updates R to the factor of RᵀR + XXᵀ, X [d, 4], with a Householder
// reflection for each row. It needs eleven products for each element; four
// rotations need sixteen. The rows of X before start must be zero. It overwrites X.
func rankFourUpdate(r []float64, x [][4]float64, start int) {
	d := len(x)
	for k, off := start, rowStart(d, start); k < d; k++ {
		row := r[off : off+d-k]
		rest := x[k:]
		rest = rest[:len(row)]
		off += d - k
		v0, v1, v2, v3 := rest[0][0], rest[0][1], rest[0][2], rest[0][3]
		sum := (float64(v0*v0) + float64(v1*v1)) + (float64(v2*v2) + float64(v3*v3))
		if sum < vanished {
			continue // negligible beside row[0]², and 2/sum below might overflow
		}
		// The reflection maps (row[0], v) to (norm, 0) along (head, v). head is
		// row[0] - norm, without cancellation.
		norm := math.Sqrt(float64(row[0]*row[0]) + sum)
		head := -sum / (row[0] + norm)
		twice := 2 / (float64(head*head) + sum)
		row[0] = norm
		for j := 1; j < len(row); j++ {
			e, a := &rest[j], row[j]
			e0, e1, e2, e3 := e[0], e[1], e[2], e[3]
			t := float64(head*a) + ((float64(v0*e0) + float64(v1*e1)) + (float64(v2*e2) + float64(v3*e3)))
			t = float64(t * twice)
			row[j] = a - float64(t*head)
			e[0] = e0 - float64(t*v0)
			e[1] = e1 - float64(t*v1)
			e[2] = e2 - float64(t*v2)
			e[3] = e3 - float64(t*v3)
		}
	}
}

// rankOneDowndate updates R to the factor of RᵀR - xxᵀ with the method of LINPACK's
// dchdd: with p = R⁻ᵀx, the rotations that turn (p, √(1-‖p‖²)) into (0, 1) turn R
// over a row of zeros into the new R over xᵀ. The result must be at least floor·I,
// up to rounding. If it detectably is not, rankOneDowndate returns false and does
// not change R. x and p [d] are scratch memory.
func rankOneDowndate(r, x, p []float64, floor float64) bool {
	d := len(x)
	copy(p, x)
	solveTransposed(r, p)
	taken := dot(p, p)
	rest := 1 - taken
	// A smaller 1-‖p‖² is mostly rounding error.
	if !(rest > float64(0x1p-42*float64(d))) {
		return false
	}
	// xᵀV'⁻¹x is ‖p‖²/(1-‖p‖²), and at most ‖x‖²/floor if V' ≥ floor·I.
	const slack = 1.01
	if float64(taken*floor) > float64(slack*float64(rest*dot(x, x))) {
		return false
	}
	least := float64(0.5 * floor)
	// alpha grows from √(1-‖p‖²) to 1. The sines replace p, the cosines x.
	alphaSq := rest
	alpha := math.Sqrt(rest)
	off := len(r)
	for k := d - 1; k >= 0; k-- {
		off -= d - k
		alphaSq += float64(p[k] * p[k])
		norm := math.Sqrt(alphaSq)
		c := alpha / norm
		if diag := float64(c * r[off]); !(float64(diag*diag) >= least) {
			return false
		}
		x[k], p[k] = c, p[k]/norm
		alpha = norm
	}
	rotateDown(r, x, p)
	return true
}

// rotateDown applies the rotations of rankOneDowndate from the last row to the
// first. The row that they fill replaces cosine.
func rotateDown(r, cosine, sine []float64) {
	d := len(cosine)
	off := len(r)
	for k := d - 1; k >= 0; k-- {
		off -= d - k
		row := r[off : off+d-k]
		fill := cosine[k:]
		fill = fill[:len(row)]
		c, s := fill[0], sine[k]
		fill[0] = float64(s * row[0])
		row[0] = float64(c * row[0])
		rotate(row[1:], fill[1:], c, -s)
	}
}

// solveTransposed computes x ← R⁻ᵀx. It processes two rows at a time, to load and
// store x half as often.
func solveTransposed(r, x []float64) {
	d := len(x)
	k, off := 0, 0
	for ; k+1 < d; k += 2 {
		upper := r[off : off+d-k]
		lower := r[off+d-k : off+2*(d-k)-1]
		off += len(upper) + len(lower)
		v := x[k] / upper[0]
		w := (x[k+1] - float64(v*upper[1])) / lower[0]
		x[k], x[k+1] = v, w
		subtractTwo(x[k+2:], upper[2:], lower[1:], v, w)
	}
	if k < d {
		x[k] /= r[off]
	}
}

// solve computes x ← R⁻¹x, two rows at a time.
func solve(r, x []float64) {
	d := len(x)
	k, off := d, len(r)
	for ; k >= 2; k -= 2 {
		n := d - k
		lower := r[off-n-1 : off]
		upper := r[off-2*n-3 : off-n-1]
		off -= 2*n + 3
		s, t := dotTwo(lower[1:], upper[2:], x[k:])
		w := (x[k-1] - s) / lower[0]
		x[k-1] = w
		x[k-2] = (x[k-2] - t - float64(upper[1]*w)) / upper[0]
	}
	if k == 1 {
		solveFirstRow(r, x)
	}
}

// solveFirstRow is the last step of solve where d is odd.
func solveFirstRow(r, x []float64) { x[0] = (x[0] - dot(r[1:len(x)], x[1:])) / r[0] }

// dot returns the inner product of two vectors of equal length. Four partial sums
// avoid waiting for the previous addition. Their order is fixed, so that the bits
// of the result are too.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0 += float64(a[0] * b[0])
		s1 += float64(a[1] * b[1])
		s2 += float64(a[2] * b[2])
		s3 += float64(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	b = b[:len(a)]
	for i, v := range a {
		s0 += float64(v * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}
