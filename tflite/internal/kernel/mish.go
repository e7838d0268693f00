package kernel

import "math"

// expTable has ln 2 in two parts, the coefficients of eˣ on [-ln 2/2, ln 2/2] and the bounds of x. The
// polynomial has a relative error of 3e-8 before rounding.
var expTable = [...]float32{
	1.44269504, 0.693359375, -2.12194440e-4,
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
}

// mishBounds limit the exponent of Mish: above the upper bound mish x rounds to x, below the lower one
// eˣ is 0 to the precision of the result.
const mishLow, mishHigh = -80, 20

// exp32 evaluates eˣ for |x| up to 80.
func exp32(x float32) float32 {
	t := &expTable
	k := float32(math.RoundToEven(float64(x * t[0])))
	r := float32(x - float32(k*t[1]))
	r = float32(r - float32(k*t[2]))
	p := t[3]
	for _, c := range t[4:] {
		p = p*r + c
	}
	p = p*float32(r*r) + r + 1
	return p * math.Float32frombits(uint32(int32(k)+127)<<23)
}

// mish32 is x·tanh(ln(1 + eˣ)) = x·n/(n + 2) with n = eˣ(eˣ + 2).
func mish32(x float32) float32 {
	e := exp32(min(max(x, mishLow), mishHigh))
	n := e * (e + 2)
	return x * (n / (n + 2))
}

// Mish replaces the first width elements of n rows by their Mish activation, x·tanh(ln(1 + eˣ)).
func Mish(x Rows, n, width int) {
	for i := range n {
		mishRow(x.Row(i, Padded(width)))
	}
}

// MishSlope is the derivative of Mish.
func MishSlope(x float64) float64 {
	e := math.Exp(min(max(x, mishLow), mishHigh))
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
