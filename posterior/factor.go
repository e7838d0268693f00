package posterior

import "math"

// rowStart returns where row k of a packed upper triangular [d, d] matrix starts.
func rowStart(d, k int) int { return k*d - k*(k-1)/2 }

// scale does v *= s.
func scale(v []float64, s float64) {
	for i := range v {
		v[i] = float64(v[i] * s)
	}
}

// rankOneUpdate makes RᵀR + xxᵀ of RᵀR by a Givens rotation a row. The entries
// of x before start must be zero. x is used up.
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
		for j := 1; j < len(row); j++ {
			a, b := row[j], rest[j]
			row[j] = float64(c*a) + float64(s*b)
			rest[j] = float64(c*b) - float64(s*a)
		}
	}
}

// rankFourUpdate makes RᵀR + XXᵀ of RᵀR, X [d, 4], by a Householder reflection
// a row, which takes five products an element where four rotations take
// sixteen for the four. The rows of X before start must be zero. X is used up.
func rankFourUpdate(r []float64, x [][4]float64, start int) {
	d := len(x)
	for k, off := start, rowStart(d, start); k < d; k++ {
		row := r[off : off+d-k]
		rest := x[k:]
		rest = rest[:len(row)]
		off += d - k
		v := rest[0]
		sum := float64(v[0]*v[0]) + float64(v[1]*v[1]) + (float64(v[2]*v[2]) + float64(v[3]*v[3]))
		if sum == 0 {
			continue
		}
		// The reflection takes (row[0], v) to (norm, 0) along (head, v). head is
		// row[0] - norm, written so that nothing cancels.
		norm := math.Sqrt(float64(row[0]*row[0]) + sum)
		head := -sum / (row[0] + norm)
		twice := 2 / (float64(head*head) + sum)
		row[0] = norm
		for j := 1; j < len(row); j++ {
			e := &rest[j]
			dot := float64(head*row[j]) + (float64(v[0]*e[0]) + float64(v[1]*e[1])) + (float64(v[2]*e[2]) + float64(v[3]*e[3]))
			dot = float64(dot * twice)
			row[j] -= float64(dot * head)
			e[0] -= float64(dot * v[0])
			e[1] -= float64(dot * v[1])
			e[2] -= float64(dot * v[2])
			e[3] -= float64(dot * v[3])
		}
	}
}

// rankOneDowndate makes RᵀR - xxᵀ of RᵀR, by the method of LINPACK's dchdd:
// with p = R⁻ᵀx the rotations that turn (p, √(1-‖p‖²)) into (0, 1) turn R over
// a row of zeros into the new R over xᵀ. It returns false, with R untouched,
// where 1-‖p‖² is lost in rounding or the square of a diagonal entry would
// fall below floor. x and p [d] are scratch.
func rankOneDowndate(r, x, p []float64, floor float64) bool {
	d := len(x)
	copy(p, x)
	solveTransposed(r, p)
	rest := 1.0
	for _, v := range p {
		rest -= float64(v * v)
	}
	const ulp = 0x1p-52
	if !(rest > float64(4*ulp*float64(d))) {
		return false
	}
	// alpha runs from √(1-‖p‖²) up to 1. The sines go into p, the cosines into x.
	alphaSq := rest
	alpha := math.Sqrt(rest)
	off := len(r)
	for k := d - 1; k >= 0; k-- {
		off -= d - k
		alphaSq += float64(p[k] * p[k])
		norm := math.Sqrt(alphaSq)
		c := alpha / norm
		if diag := float64(c * r[off]); !(float64(diag*diag) >= floor) {
			return false
		}
		x[k], p[k] = c, p[k]/norm
		alpha = norm
	}
	rotateDown(r, x, p)
	return true
}

// rotateDown applies the rotations of rankOneDowndate from the last row to the
// first. cosine's entries are replaced by the row that the rotations fill.
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
		for j := 1; j < len(row); j++ {
			a, b := row[j], fill[j]
			row[j] = float64(c*a) - float64(s*b)
			fill[j] = float64(c*b) + float64(s*a)
		}
	}
}

// solveTransposed does x ← R⁻ᵀx.
func solveTransposed(r, x []float64) {
	d := len(x)
	for k, off := 0, 0; k < d; k++ {
		row := r[off : off+d-k]
		rest := x[k:]
		rest = rest[:len(row)]
		off += d - k
		v := rest[0] / row[0]
		rest[0] = v
		if v == 0 {
			continue
		}
		for j := 1; j < len(row); j++ {
			rest[j] -= float64(v * row[j])
		}
	}
}

// solve does x ← R⁻¹x. The four partial sums are there because an addition
// waits for the one before it; their order is fixed, so the bits are too.
func solve(r, x []float64) {
	d := len(x)
	off := len(r)
	for k := d - 1; k >= 0; k-- {
		off -= d - k
		x[k] = (x[k] - dot(r[off+1:off+d-k], x[k+1:])) / r[off]
	}
}

// dot returns the inner product of two vectors of equal length.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for len(a) >= 4 {
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
