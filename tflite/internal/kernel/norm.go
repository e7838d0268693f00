package kernel

import (
	"math"

	"github.com/x448/float16"
)

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

// Apply writes the LayerNorm of n rows of x to dst. The two may be the same.
func (l LayerNorm) Apply(dst, x Rows, n int) {
	width := Padded(len(l.gain))
	for i := range n {
		row := x.Row(i, width)
		mean, scale := l.Moments(row[:len(l.gain)])
		normRow(dst.Row(i, width), row, l.gain[:width], l.bias[:width], float32(mean), float32(scale))
	}
}

// Folded is a LayerNorm that the following linear layer contains: with weights W·gain, x·(W·gain)ᵀ
// is known before the moments of x are, and parts of x that rows share are multiplied once.
type Folded struct {
	sums, bias []float32 // of W·gain over the inputs; of the layer and of W·(LayerNorm's bias)
	width      int       // inputs
	eps        float64
}

// Fold multiplies the weights of a linear layer, w [out, in], by the gain of its LayerNorm, in
// place. If half is set, it rounds the products to float16.
func (l LayerNorm) Fold(w, bias []float32, half bool) Folded {
	in, out := len(l.gain), len(bias)
	f := Folded{Aligned(out), Aligned(out), in, l.eps}
	for o := range out {
		sum, shift := 0.0, float64(bias[o])
		for i, v := range w[o*in:][:in] {
			shift += float64(float64(v) * float64(l.bias[i]))
			w[o*in+i] = v * l.gain[i]
			if half {
				w[o*in+i] = float16.Fromfloat32(w[o*in+i]).Float32()
			}
			sum += float64(w[o*in+i])
		}
		f.sums[o], f.bias[o] = float32(sum), float32(shift)
	}
	return f
}

// Arrays returns the arrays that RestoreFolded needs; read only.
func (f Folded) Arrays() (sums, bias []float32) { return f.sums, f.bias }

// RestoreFolded returns the result of Fold from its Arrays.
func (l LayerNorm) RestoreFolded(sums, bias []float32) Folded {
	f := Folded{Aligned(len(bias)), Aligned(len(bias)), len(l.gain), l.eps}
	copy(f.sums, sums)
	copy(f.bias, bias)
	return f
}

// Bias returns the bias of the linear layer with that of the LayerNorm; read only.
func (f Folded) Bias() []float32 { return f.bias }

// Unit returns the LayerNorm without gain and bias.
func (f Folded) Unit() LayerNorm {
	ones := make([]float32, f.width)
	for i := range ones {
		ones[i] = 1
	}
	return NewLayerNorm(ones, make([]float32, f.width), f.eps)
}

// Sums are the sum and the sum of squares of a part of a row.
type Sums struct{ sum, squares float64 }

// SumsOf returns the sums of x.
func SumsOf(x []float32) Sums {
	whole := len(x) &^ (panelWidth - 1)
	return Sums{
		sum(x[:whole]) + portableSum(x[whole:]),
		squares(x[:whole], 0) + portableSquares(x[whole:], 0),
	}
}

// Plus returns the sums of two parts.
func (s Sums) Plus(t Sums) Sums { return Sums{s.sum + t.sum, s.squares + t.squares} }

// Finish turns a row x·(W·gain)ᵀ into the output of the linear layer, where s are the sums of all
// of x.
func (f Folded) Finish(row []float32, s Sums) {
	n := float64(f.width)
	mean := s.sum / n
	variance := max(s.squares/n-float64(mean*mean), 0)
	width := Padded(len(f.bias))
	finishRow(row[:width], f.sums[:width], f.bias[:width], float32(mean), float32(1/math.Sqrt(variance+f.eps)))
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
