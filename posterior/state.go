package posterior

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// StateLen returns the length of the flat state of a belief of the given
// dimension: d(d+1)/2 + 2d + 2.
func StateLen(dim int) int { return dim*(dim+1)/2 + 2*dim + 2 }

// State writes the whole belief into dst [StateLen(d)]:
//
//	R       d(d+1)/2  upper triangular, packed row by row
//	b       d
//	D       d         diagonal of the part of the prior in V
//	cursor  1         direction that the next Forget restores, 0..d-1
//	weight  1         Σ ρ^k w
//
// λ, ρ and the kind of restore are not part of it: both sides have them.
func (b *Belief) State(dst []float64) {
	b.checkLen("State", "dst", len(dst), len(b.state))
	copy(dst, b.state)
}

// Restore sets the belief from the output of State. A state that is impossible for
// this λ and ρ is an error and changes nothing. O(d²). It allocates only for an
// error.
func (b *Belief) Restore(state []float64) error {
	if err := b.check(state); err != nil {
		return fmt.Errorf("posterior.Restore: %w", err)
	}
	copy(b.state, state)
	b.meanKnown = false
	return nil
}

// maxEntry bounds R, b and the weight in a state. It is far above any sum of labels
// bounded by MaxInformation, and its square is finite.
const maxEntry = 1e120

// check returns an error for a state that is impossible for this belief.
func (b *Belief) check(state []float64) error {
	d := b.dim
	if len(state) != StateLen(d) {
		return fmt.Errorf("wrong length of the state (%d, want %d)", len(state), StateLen(d))
	}
	n := d * (d + 1) / 2
	for i, v := range state[:n+d] {
		if !(math.Abs(v) <= maxEntry) {
			return fmt.Errorf("entry %d of R and b is not finite or too large (%g)", i, v)
		}
	}
	least := float64(0.5 * b.floor)
	for k, off := 0, 0; k < d; k++ {
		if v := state[off]; !(v > 0 && float64(v*v) >= least) {
			return fmt.Errorf("diagonal entry %d of R is too small for the prior, λ and ρ (%g)", k, v)
		}
		off += d - k
	}
	for i, v := range state[n+d : n+2*d] {
		if most := float64(b.lambda * b.slack); !(v >= b.floor && v <= most) {
			return fmt.Errorf("entry %d of the prior is out of range for λ and ρ (%g, want [%g, %g])",
				i, v, b.floor, most)
		}
	}
	cursor, weight := state[n+2*d], state[n+2*d+1]
	if !(cursor >= 0 && cursor < float64(d) && cursor == math.Trunc(cursor)) {
		return fmt.Errorf("the cursor is not a direction (%g, want 0..%d)", cursor, d-1)
	}
	if !(weight >= 0 && weight <= maxEntry) {
		return fmt.Errorf("the weight is negative or not finite (%g)", weight)
	}
	return nil
}

// littleEndian reports whether the memory of this CPU has the byte order of the
// hash.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Hash returns the xxHash64 (seed 0) of the IEEE 754 bits of the packed R, row by
// row, then of b. Each float64 has eight bytes, little-endian; d(d+1)/2·8 + d·8 bytes
// in total. Equal hashes on two machines mean equal R and b, bit for bit. D and
// the cursor are not part of the hash: they follow from the number of calls of
// Forget, and the next call propagates a difference to R. The weight is not part
// of it: only schedules read it.
func (b *Belief) Hash() uint64 {
	n := len(b.r) + len(b.b)
	if littleEndian {
		return xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(&b.state[0])), 8*n))
	}
	return hashSlowly(b.state[:n])
}

// hashSlowly is Hash for a big-endian CPU.
func hashSlowly(v []float64) uint64 {
	var digest xxhash.Digest
	digest.Reset()
	var buf [8]byte
	for _, e := range v {
		binary.LittleEndian.PutUint64(buf[:], math.Float64bits(e))
		_, _ = digest.Write(buf[:]) // never fails
	}
	return digest.Sum64()
}
