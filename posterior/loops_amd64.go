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
