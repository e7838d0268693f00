package kernel

// tanhTable has the coefficients of tanh x = x·P(x²)/Q(x²) for |x| up to 9, where tanh
// rounds to 1. It is the rational function of these degrees with the least relative
// error, 2e-8 before rounding. In float32 its error is at most 5e-7, absolute and
// relative; it is odd, within [-1, 1], and NaN for NaN. Each number fills a vector: x's
// bounds, the result's bounds, P from the lowest power, Q without its 1.
var tanhTable = vectors(
	9, -9, 1, -1,
	9.999999795e-01, 1.338101871e-01, 3.495579867e-03, 2.060894711e-05, 1.335447891e-08,
	4.671433430e-01, 2.587695082e-02, 3.285621318e-04, 7.776482395e-07,
)

func vectors(numbers ...float32) (table [13][8]float32) {
	for i, x := range numbers {
		for j := range table[i] {
			table[i][j] = x
		}
	}
	return table
}

// tanh32 evaluates tanh x like the vectors.
func tanh32(x float32) float32 {
	t := &tanhTable
	x = min(max(x, t[1][0]), t[0][0])
	s := x * x
	p, q := t[8][0], t[12][0]
	for i := 7; i >= 4; i-- {
		p = p*s + t[i][0]
	}
	for i := 11; i >= 9; i-- {
		q = q*s + t[i][0]
	}
	q = q*s + t[2][0]
	return min(max(x*p/q, t[3][0]), t[2][0])
}
