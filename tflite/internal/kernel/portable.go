package kernel

import "github.com/x448/float16"

// The tiles in Go: the reference for the assembly, used on other processors.

// portableDense computes rows by 16 outputs of dst = max(start + x·w, floor).
// w is [k, 16].
func portableDense(rows int, dst, x Rows, w []float32, k int, start Rows, floor float32) {
	for r := range rows {
		sums := [panelWidth]float32(start.From(r).Data)
		for i, v := range x.Row(r, k) {
			multiplyAdd(&sums, v, (*[panelWidth]float32)(w[i*panelWidth:]))
		}
		store(dst.From(r).Data, &sums, floor)
	}
}

// portableSparse is portableDense over the listed inputs.
func portableSparse(rows int, dst, x Rows, w []float32, list []uint32, start Rows, floor float32) {
	for r := range rows {
		sums := [panelWidth]float32(start.From(r).Data)
		row := x.From(r).Data
		for _, i := range list {
			multiplyAdd(&sums, row[i], (*[panelWidth]float32)(w[i*panelWidth:]))
		}
		store(dst.From(r).Data, &sums, floor)
	}
}

// portableDenseGroup computes rows by a group of panels, stride elements apart.
func portableDenseGroup(rows int, dst, x Rows, w []float32, stride, k int, start Rows, floor float32) {
	for p := range groupPanels {
		at := p * panelWidth
		portableDense(rows, dst.at(0, at), x, w[p*stride:], k, start.at(0, at), floor)
	}
}

// portableSparseGroup is portableDenseGroup over the listed inputs.
func portableSparseGroup(
	rows int, dst, x Rows, w []float32, stride int, list []uint32, start Rows, floor float32,
) {
	for p := range groupPanels {
		at := p * panelWidth
		portableSparse(rows, dst.at(0, at), x, w[p*stride:], list, start.at(0, at), floor)
	}
}

// portableVector computes one row by several panels, panelStride elements apart.
func portableVector(panels int, dst, x, w []float32, panelStride, k int, start []float32, floor float32) {
	for p := range panels {
		at := p * panelWidth
		portableDense(1, Rows{Data: dst[at:]}, Rows{Data: x}, w[p*panelStride:], k, Rows{Data: start[at:]}, floor)
	}
}

// portableHalfVector is portableVector with float16 weights.
func portableHalfVector(
	panels int, dst, x []float32, w []float16.Float16, panelStride, k int, start []float32, floor float32,
) {
	var wide [panelWidth]float32
	for p := range panels {
		sums := [panelWidth]float32(start[p*panelWidth:])
		for i, v := range x[:k] {
			portableWiden(wide[:], w[p*panelStride+i*panelWidth:][:panelWidth])
			multiplyAdd(&sums, v, &wide)
		}
		store(dst[p*panelWidth:], &sums, floor)
	}
}

// portableSparseVector is portableVector over the listed inputs.
func portableSparseVector(
	panels int, dst, x, w []float32, panelStride int, list []uint32, start []float32, floor float32,
) {
	for p := range panels {
		at := p * panelWidth
		portableSparse(1, Rows{Data: dst[at:]}, Rows{Data: x}, w[p*panelStride:], list, Rows{Data: start[at:]}, floor)
	}
}

// portableActive lists the inputs below k that are not 0 in every row and
// returns their number. list has room for k.
func portableActive(rows int, list []uint32, x []float32, xStride, k int) int {
	n := 0
	for i := range k {
		list[n] = uint32(i)
		for r := range rows {
			if x[r*xStride+i] != 0 {
				n++
				break
			}
		}
	}
	return n
}

func multiplyAdd(sums *[panelWidth]float32, v float32, w *[panelWidth]float32) {
	for j := range sums {
		sums[j] += v * w[j]
	}
}

// store writes max(sums, floor); NaN stays NaN.
func store(dst []float32, sums *[panelWidth]float32, floor float32) {
	for j, v := range sums {
		dst[j] = max(v, floor)
	}
}

func portableWiden(dst []float32, src []float16.Float16) {
	for i, v := range src {
		dst[i] = v.Float32()
	}
}

func portableSum(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v)
	}
	return sum
}

func portableSquares(x []float32, mean float64) float64 {
	sum := 0.0
	for _, v := range x {
		d := float64(v) - mean
		sum += float64(d * d) // not fused: every processor uses it for the end of a row
	}
	return sum
}

func portableNormTanh(x, gain, bias []float32, mean, scale float32) {
	for i, v := range x {
		x[i] = tanh32((v-mean)*scale*gain[i] + bias[i])
	}
}

func portableTanh(x []float32) {
	for i, v := range x {
		x[i] = tanh32(v)
	}
}

func portableNorm(dst, x, gain, bias []float32, mean, scale float32) {
	for i, v := range x {
		dst[i] = (v-mean)*scale*gain[i] + bias[i]
	}
}

func portableFinish(x, sums, bias []float32, mean, scale float32) {
	for i, v := range x {
		x[i] = (v-mean*sums[i])*scale + bias[i]
	}
}

func portableMish(x []float32) {
	for i, v := range x {
		x[i] = mish32(v)
	}
}
