package kernel

import "math"

// mishTable has the bounds of the exponent, log₂e, ln 2 in two parts, the coefficients c7 to c2 of
// eˣ on [-ln 2/2, ln 2/2], and 1 and 2. Each number fills a vector. Above the upper bound mish x
// rounds to x; below the lower one eˣ is 0 to the precision of the result. In float32 the error is
// at most 5e-7, relative.
var mishTable = vectors(
	-80, 20, 1.44269504, 0.693359375, -2.12194440e-4,
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
	1, 2,
)

// mish32 evaluates x·tanh(ln(1 + eˣ)) = x·n/(n + 2) with n = eˣ(eˣ + 2), like the vectors.
func mish32(x float32) float32 {
	t := &mishTable
	r := min(max(x, t[0][0]), t[1][0])
	k := float32(math.RoundToEven(float64(r * t[2][0])))
	r -= k * t[3][0]
	r -= k * t[4][0]
	p := t[5][0]
	for i := 6; i <= 11; i++ {
		p = p*r + t[i][0]
	}
	p = p*r + t[11][0]
	p = math.Float32frombits(math.Float32bits(p) + uint32(int32(k))<<23) // times 2 to the power k
	n := p * (p + t[12][0])
	return x * (n / (n + t[12][0]))
}

// Mish replaces the first width elements of n rows by their Mish activation, x·tanh(ln(1 + eˣ)).
func Mish(x Rows, n, width int) {
	for i := range n {
		mishRow(x.Row(i, Padded(width)))
	}
}

// MishSlope is the derivative of Mish.
func MishSlope(x float64) float64 {
	e := math.Exp(min(x, 20))
	n := e * (e + 2)
	tanh := n / (n + 2)
	return tanh + x*(1-tanh*tanh)*e/(1+e)
}

// Add adds the first width elements of n rows of x to those of dst.
func Add(dst, x Rows, n, width int) {
	for i := range n {
		to, from := dst.Row(i, width), x.Row(i, width)
		for k := range to {
			to[k] += from[k]
		}
	}
}
