package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// zeros is the fraction of sparse inputs that are 0, in all rows.
const zeros = 0.5

func activations(rng *rand.Rand, n, width int, zero float64) Rows {
	x := NewRows(n, width)
	for k := range width {
		if rng.Float64() < zero {
			continue
		}
		for r := range n {
			x.Row(r, width)[k] = float32(rng.NormFloat64())
		}
	}
	return x
}

func weightsOf(rng *rand.Rand, out, in int) []float32 {
	w := make([]float32, out*in)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	return w
}

// best runs f and returns the shortest processor time of a call, in nanoseconds: other programs
// disturb it less than the time of a clock.
func best(b *testing.B, f func()) float64 {
	start := processorTime(b)
	f()
	calls := 1 + 20000/(1+processorTime(b)-start)
	least := math.Inf(1)
	for b.Loop() {
		start = processorTime(b)
		for range calls {
			f()
		}
		least = min(least, float64(processorTime(b)-start)/float64(calls))
	}
	return least
}

// processorTime returns the processor time of the process in nanoseconds.
func processorTime(b *testing.B) int64 {
	var t unix.Timespec
	fatal.If(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return t.Nano()
}

// BenchmarkMultiply reports GFLOP/s and the weights' GB/s of all inputs, also the skipped
// ones.
func BenchmarkMultiply(b *testing.B) {
	for _, n := range []int{1, 6, 12, 128} {
		for _, size := range []int{256, 1024, 2048} {
			for _, kind := range []string{"dense", "sparse", "half"} {
				b.Run(fmt.Sprintf("%s/rows=%d/size=%d", kind, n, size), func(b *testing.B) {
					rng := rand.New(rand.NewPCG(1, 2))
					pack := Pack
					if kind == "half" {
						pack = PackHalf
					}
					m := pack(weightsOf(rng, size, size), size, size, size)
					x, y, scratch := activations(rng, n, size, zeros), NewRows(n, size), NewScratch(n, size, nil)
					start := Repeated(Aligned(size))
					ns := best(b, func() { m.Multiply(y, x, start, n, true, kind == "sparse", scratch) })
					b.ReportMetric(float64(2*n*size*size)/ns, "GFLOP/s")
					b.ReportMetric(float64(4*size*size)/ns, "GB/s")
				})
			}
		}
	}
}

// BenchmarkRoof measures the limits of the machine: one tile in the first-level cache, and
// reading 8 MB, the size of a large policy.
func BenchmarkRoof(b *testing.B) {
	b.Run("multiply-add", func(b *testing.B) {
		x, w, y := Rows{Aligned(tileRows * 128), 128}, Aligned(128*panelWidth), NewRows(tileRows, panelWidth)
		ns := best(b, func() { denseTile(tileRows, y, x, w, 128, y, 0) })
		b.ReportMetric(2*tileRows*128*panelWidth/ns, "GFLOP/s")
	})
	b.Run("read", func(b *testing.B) {
		x := Aligned(2 << 20)
		for i := range x {
			x[i] = 1 // pages that were never written are one page of zeros
		}
		b.ReportMetric(float64(4*len(x))/best(b, func() { sum(x) }), "GB/s")
	})
}

func BenchmarkLayerNormTanh(b *testing.B) {
	for _, size := range []int{256, 1024} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			l := NewLayerNorm(weightsOf(rng, 1, size), weightsOf(rng, 1, size), 1e-5)
			x := activations(rng, 1, size, 0)
			b.ReportMetric(best(b, func() { l.Tanh(x, 1) })/float64(size), "ns/element")
		})
	}
}

func BenchmarkActive(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, list := activations(rng, tileRows, inputBlock, zeros), make([]uint32, inputBlock)
	ns := best(b, func() { active(tileRows, list, x.Data, x.Stride, inputBlock) })
	b.ReportMetric(ns/float64(inputBlock), "ns/input")
}

// BenchmarkStream reports the bandwidth of a single row's products with matrices of 256 MB
// together, and its share of that of reading as many bytes, measured in turn.
func BenchmarkStream(b *testing.B) {
	const size, total = 2048, 256 << 20
	for kind, pack := range map[string]func([]float32, int, int, int) *Matrix{"float32": Pack, "float16": PackHalf} {
		b.Run(kind, func(b *testing.B) {
			m := pack(weightsOf(rand.New(rand.NewPCG(1, 2)), size, size), size, size, size)
			copies := []*Matrix{m}
			for len(copies)*m.Bytes() < total {
				copies = append(copies, &Matrix{m.in, m.out, slices.Clone(m.packed), slices.Clone(m.half)})
			}
			x, y, start := NewRows(1, size), NewRows(1, size), Repeated(Aligned(size))
			memory := Aligned(total / 4)
			for i := range memory {
				memory[i] = 1 // pages that were never written are one page of zeros
			}
			products, read := math.Inf(1), math.Inf(1)
			for b.Loop() {
				began := processorTime(b)
				for _, c := range copies {
					c.Multiply(y, x, start, 1, false, false, nil)
				}
				between := processorTime(b)
				readStreams(memory)
				products = min(products, float64(between-began))
				read = min(read, float64(processorTime(b)-between))
			}
			b.ReportMetric(total/products, "GB/s")
			b.ReportMetric(total/read, "read-GB/s")
			b.ReportMetric(read/products, "share")
		})
	}
}

// readStreams reads memory as eight streams, which is faster than one: the hardware's prefetchers
// begin again in each page.
func readStreams(memory []float32) {
	const streams, step = 8, 128
	length := len(memory) / streams
	for at := 0; at < length; at += step {
		for s := range streams {
			sum(memory[s*length+at:][:step])
		}
	}
}
