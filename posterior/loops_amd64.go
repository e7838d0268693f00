//go:build !noasm

package posterior

import "golang.org/x/sys/cpu"

// accelerated reports whether the processor and the operating system support the assembly's
// instructions.
var accelerated = cpu.X86.HasAVX2

// shortest is the length from which the assembly is faster, also within a triangular matrix.
const shortest = 8

func rotate(a, b []float64, c, s float64) {
	if len(a) < shortest || !accelerated {
		portableRotate(a, b, c, s)
		return
	}
	b = b[:len(a)]
	rotateAVX2(&a[0], &b[0], len(a), c, s)
}

func subtractTwo(dst, a, b []float64, s, t float64) {
	if len(dst) < shortest || !accelerated {
		portableSubtractTwo(dst, a, b, s, t)
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	subtractTwoAVX2(&dst[0], &a[0], &b[0], len(dst), s, t)
}

func dotTwo(a, b, x []float64) (float64, float64) {
	if len(x) < shortest || !accelerated {
		return portableDotTwo(a, b, x)
	}
	a, b = a[:len(x)], b[:len(x)]
	return dotTwoAVX2(&a[0], &b[0], &x[0], len(x))
}

// solveRows computes x ← R⁻¹x for each row of x [n, d], four rows at a time. block [d] is
// scratch memory for their columns.
func solveRows(r, x []float64, block [][4]float64) {
	d := len(block)
	for ; accelerated && len(x) >= 4*d; x = x[4*d:] {
		solveFour(r, x[:4*d], block)
	}
	portableSolveRows(r, x, d)
}

func solveFour(r, x []float64, block [][4]float64) {
	d := len(block)
	x0, x1, x2, x3 := x[:d], x[d:2*d], x[2*d:3*d], x[3*d:4*d]
	for i := range block {
		block[i] = [4]float64{x0[i], x1[i], x2[i], x3[i]}
	}
	k, off := d, len(r)
	for ; k >= 2; k -= 2 {
		n := d - k
		off -= 2*n + 3
		solveTwoRowsAVX2(&r[off : off+2*n+3][0], &block[k-2 : d][0], n)
	}
	for i, v := range block {
		x0[i], x1[i], x2[i], x3[i] = v[0], v[1], v[2], v[3]
	}
	for ; k == 1 && len(x) > 0; x = x[d:] {
		solveFirstRow(r, x[:d])
	}
}
