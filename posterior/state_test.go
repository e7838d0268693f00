package posterior

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestRestore_RestoredBeliefContinuesBitForBit(t *testing.T) {
	b := trained(t, 9, 1)
	restored := mustNew(t, 9, b.Lambda(), b.Rho())
	must(t, restored.Restore(stateOf(b)))
	phi := make([]float64, 9)
	seed := splitMix(5)
	for range 50 {
		seed.fill(phi)
		for _, each := range []*Belief{b, restored} {
			must(t, each.Update(phi, 1, 0.5))
			each.Forget()
		}
	}
	if !sameBits(stateOf(b), stateOf(restored)) {
		t.Fatal("the restored belief differs")
	}
}

func TestRestore_RefusesImpossibleStates(t *testing.T) {
	const dim = 3
	b := trained(t, dim, 1)
	good := stateOf(b)
	nan, inf := math.NaN(), math.Inf(1)
	const vec, prior, cursor, weight = 6, 9, 12, 13
	for _, c := range []struct {
		at    int
		value float64
	}{
		{0, nan}, {0, inf}, {0, 0}, {0, -1}, {0, 1e-5}, {0, 1e130}, {1, nan}, {1, -inf}, {3, 0}, {5, -1},
		{vec, nan}, {vec + 2, inf}, {vec, 1e130},
		{prior, nan}, {prior, 0.6}, {prior, 0.1}, {prior + 2, -0.5}, {prior, inf},
		{cursor, nan}, {cursor, -1}, {cursor, 3}, {cursor, 0.5}, {cursor, inf},
		{weight, nan}, {weight, -1}, {weight, inf},
	} {
		state := append([]float64(nil), good...)
		state[c.at] = c.value
		if err := b.Restore(state); err == nil {
			t.Errorf("Restore accepts entry %d = %g", c.at, c.value)
		}
	}
	for _, n := range []int{0, len(good) - 1, len(good) + 1} {
		if err := b.Restore(make([]float64, n)); err == nil {
			t.Errorf("Restore accepts %d numbers", n)
		}
	}
	if !sameBits(good, stateOf(b)) {
		t.Fatal("a refused state changed the belief")
	}
}

// No state panics. An accepted one is a working belief.
func FuzzRestore(f *testing.F) {
	for dim := 1; dim <= 3; dim++ {
		f.Add(dim, floatBytes(stateOf(trained(f, dim, 1))))
	}
	f.Fuzz(func(t *testing.T, dim int, data []byte) {
		if dim < 1 || dim > 8 {
			return
		}
		state := make([]float64, len(data)/8)
		for i := range state {
			state[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		b := mustNew(t, dim, 0.5, 0.999)
		if b.Restore(state) != nil {
			return
		}
		phi := make([]float64, dim)
		phi[0] = 1
		must(t, b.Update(phi, 1, 1))
		b.Forget()
		b.Mean(phi)
		for _, v := range b.state {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatal("the restored belief does not stay finite")
			}
		}
	})
}

func floatBytes(v []float64) (data []byte) {
	for _, e := range v {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(e))
	}
	return data
}
