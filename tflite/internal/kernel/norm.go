package kernel

import "math"

// LayerNorm is y = gain·(x - mean x)/√(var x + eps) + bias.
type LayerNorm struct {
	gain, bias []float32 // with capacity for Padded elements, zeros beyond their width
	eps        float64
}

// NewLayerNorm copies gain and bias.
func NewLayerNorm(gain, bias []float32, eps float64) LayerNorm {
	l := LayerNorm{Aligned(len(gain)), Aligned(len(gain)), eps}
	copy(l.gain, gain)
	copy(l.bias, bias)
	return l
}

// Tanh replaces each of n rows by tanh of its LayerNorm.
func (l LayerNorm) Tanh(x Rows, n int) {
	width := Padded(len(l.gain))
	for i := range n {
		row := x.Row(i, width)
		mean, scale := l.Moments(row[:len(l.gain)])
		normTanh(row, l.gain[:width], l.bias[:width], float32(mean), float32(scale))
	}
}

// Moments returns a row's mean and the reciprocal of its standard deviation, summed in
// float64.
func (l LayerNorm) Moments(row []float32) (mean, scale float64) {
	n, whole := float64(len(row)), len(row)&^(panelWidth-1)
	mean = (sum(row[:whole]) + portableSum(row[whole:])) / n
	variance := (squares(row[:whole], mean) + portableSquares(row[whole:], mean)) / n
	return mean, 1 / math.Sqrt(variance+l.eps)
}

// Backward turns the gradient of a row's LayerNorm into that of its input, in place.
// With x̂ = (x - mean)·scale and g = gain·grad it is scale·(g - mean g - x̂·mean(g·x̂)).
// The conversions to float64 keep compilers from fusing products and sums.
func (l LayerNorm) Backward(grad, x []float32) {
	mean, scale := l.Moments(x)
	var sum, product float64
	for k, v := range grad {
		g := float64(v) * float64(l.gain[k])
		sum += g
		product += float64(g * (float64(x[k]) - mean) * scale)
	}
	sum, product = sum/float64(len(x)), product/float64(len(x))
	for k, v := range grad {
		g := float64(float64(v) * float64(l.gain[k]))
		grad[k] = float32(scale * (g - sum - float64((float64(x[k])-mean)*scale*product)))
	}
}

// Tanh replaces the first width elements of n rows by their tanh.
func Tanh(x Rows, n, width int) {
	for i := range n {
		tanhRow(x.Row(i, Padded(width)))
	}
}

// Gain returns the gain and the bias. They must not be modified.
func (l LayerNorm) Gain() (gain, bias []float32) { return l.gain, l.bias }
