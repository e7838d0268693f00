//go:build (amd64 || arm64) && !noasm

package kernel

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"optibfm/internal/fatal"
)

// TestAssembly_GivesTheSameBitsOnEveryProcessor compares the results of amd64 and arm64 with
// one checksum.
func TestAssembly_GivesTheSameBitsOnEveryProcessor(t *testing.T) {
	if !accelerated {
		t.Skip("this processor has no AVX2 or no FMA")
	}
	const want = 0xd27ab001
	digest := crc32.NewIEEE()
	rng := rand.New(rand.NewPCG(9, 9))
	// Not NormFloat64: functions of package math may differ between processors.
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			if v := 2*rng.Float32() - 1; v > -0.4 {
				x[i] = v
			}
		}
		return x
	}
	for _, n := range []int{1, 2, 5, 6, 13} {
		const in, hidden, out = 300, 75, 37
		first, second := Pack(numbers(hidden*in), hidden, in, in), Pack(numbers(out*hidden), out, hidden, hidden)
		norm := NewLayerNorm(numbers(hidden), numbers(hidden), 1e-5)
		for _, sparse := range []bool{false, true} {
			scratch := NewScratch(n, in, nil)
			x, h, y := NewRows(n, in), NewRows(n, hidden), NewRows(n, out)
			for r := range n {
				copy(x.Row(r, in), numbers(in))
			}
			first.Multiply(h, x, Repeated(Aligned(hidden)), n, sparse, sparse, scratch)
			norm.Tanh(h, n)
			norm.Backward(h.Row(0, hidden), numbers(hidden))
			second.Multiply(y, h, Repeated(Aligned(out)), n, !sparse, sparse, scratch)
			Tanh(y, n, out)
			for r := range n {
				fatal.If(t, binary.Write(digest, binary.LittleEndian, bits(y.Row(r, out))))
			}
		}
	}
	if got := digest.Sum32(); got != want {
		t.Errorf("the results' checksum is %#x, want %#x", got, want)
	}
}

// TestAssembly_BlocksGiveTheSameBitsOnEveryProcessor is the same for the layers of residual
// networks.
func TestAssembly_BlocksGiveTheSameBitsOnEveryProcessor(t *testing.T) {
	if !accelerated {
		t.Skip("this processor has no AVX2 or no FMA")
	}
	const want = 0x23fe6a57
	digest := crc32.NewIEEE()
	rng := rand.New(rand.NewPCG(3, 9))
	numbers := func(n int, scale float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = scale * (2*rng.Float32() - 1)
		}
		return x
	}
	for _, width := range []int{5, 16, 37, 75} {
		norm := NewLayerNorm(numbers(width, 1), numbers(width, 1), 1e-5)
		w := numbers(width*width, 1)
		folded := norm.Fold(w, numbers(width, 1), width%2 == 1)
		half, scratch := PackHalf(w, width, width, width), NewScratch(3, width, nil)
		for _, scale := range []float32{1e-3, 1, 30, 200} {
			x, y := NewRows(1, width), NewRows(1, width)
			copy(x.Data, numbers(width, scale))
			norm.Apply(y, x, 1)
			folded.Finish(y.Row(0, width), SumsOf(x.Row(0, width)))
			Mish(x, 1, width)
			Add(y, x, 1, width)
			for _, n := range []int{1, 3} {
				z := NewRows(3, width)
				half.Multiply(z, Rows{Data: x.Data}, Repeated(y.Row(0, width)), n, false, false, scratch)
				Add(y, z, 1, width)
			}
			for _, row := range [][]float32{x.Row(0, width), y.Row(0, width)} {
				fatal.If(t, binary.Write(digest, binary.LittleEndian, bits(row)))
			}
		}
	}
	if got := digest.Sum32(); got != want {
		t.Errorf("the results' checksum is %#x, want %#x", got, want)
	}
}
