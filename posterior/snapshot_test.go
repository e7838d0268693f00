package posterior

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func snapshotOf(t testing.TB, b *Belief) []byte {
	t.Helper()
	data, err := b.MarshalBinary()
	must(t, err)
	return data
}

// reseal sets the correct checksum of damaged data.
func reseal(data []byte) []byte {
	n := len(data) - 8
	binary.LittleEndian.PutUint64(data[n:], xxhash.Sum64(data[:n]))
	return data
}

func TestSnapshot_RestoredBeliefContinuesBitForBit(t *testing.T) {
	b := trained(t, 9, 1)
	var restored Belief
	data := snapshotOf(t, b)
	if len(data) != SnapshotLen(9) {
		t.Fatalf("the snapshot has %d bytes, not %d", len(data), SnapshotLen(9))
	}
	must(t, restored.UnmarshalBinary(data))
	slot := mustNew(t, 9, b.Lambda(), b.Rho())
	must(t, slot.Restore(stateOf(b)))
	phi := make([]float64, 9)
	seed := splitMix(5)
	for range 50 {
		seed.fill(phi)
		for _, each := range []*Belief{b, &restored, slot} {
			must(t, each.Update(phi, 1, 0.5))
			each.Forget()
		}
	}
	if !sameBits(stateOf(b), stateOf(&restored)) || !sameBits(stateOf(b), stateOf(slot)) {
		t.Fatal("the restored beliefs differ")
	}
	if restored.Lambda() != b.Lambda() || restored.Rho() != b.Rho() {
		t.Fatal("λ or ρ was lost")
	}
	exact := mustNew(t, 9, 1, 0.5, WithExactRestore())
	must(t, restored.UnmarshalBinary(snapshotOf(t, exact)))
	if !restored.ExactRestore() {
		t.Fatal("the kind of restore was lost")
	}
}

func TestUnmarshalBinary_RefusesEveryDamage(t *testing.T) {
	data := snapshotOf(t, trained(t, 3, 1))
	b := trained(t, 2, 2)
	before := stateOf(b)
	for i := range data {
		if err := b.UnmarshalBinary(data[:i]); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut off after %d bytes: %v", i, err)
		}
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			if err := b.UnmarshalBinary(damaged); !errors.Is(err, ErrSnapshot) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
	}
	if err := b.UnmarshalBinary(append(bytes.Clone(data), 0)); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("a byte too many: %v", err)
	}
	if !sameBits(before, stateOf(b)) {
		t.Fatal("a refused snapshot changed the belief")
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
		// The same, hidden behind a right checksum.
		data := snapshotOf(t, b)
		binary.LittleEndian.PutUint64(data[snapshotHead+8*c.at:], math.Float64bits(c.value))
		if err := b.UnmarshalBinary(reseal(data)); !errors.Is(err, ErrSnapshot) {
			t.Errorf("UnmarshalBinary accepts entry %d = %g", c.at, c.value)
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

func TestMarshalBinary_RefusesTheZeroBelief(t *testing.T) {
	if _, err := new(Belief).MarshalBinary(); err == nil {
		t.Fatal("MarshalBinary accepts the zero belief")
	}
}

// No input panics. An accepted input is a working belief that writes the same bytes.
func FuzzUnmarshalBinary(f *testing.F) {
	for dim := 1; dim <= 3; dim++ {
		f.Add(snapshotOf(f, trained(f, dim, 1)))
	}
	f.Add(snapshotOf(f, mustNew(f, 2, 1e-3, 0.3, WithExactRestore())))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 8 {
			data = reseal(bytes.Clone(data))
		}
		var b Belief
		if err := b.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("the error is not ErrSnapshot: %v", err)
			}
			return
		}
		if !bytes.Equal(snapshotOf(t, &b), data) {
			t.Fatal("the snapshot of the restored belief differs")
		}
		phi := make([]float64, b.Dim())
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
