package posterior

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// ErrSnapshot is wrapped by the error for a damaged or incomplete snapshot.
var ErrSnapshot = errors.New("damaged belief snapshot")

// A snapshot is, in little-endian order:
//
//	 0  magic     8 bytes "optibelf"
//	 8  version   uint32, 1 for kinds below 2, else 2
//	12  d         uint32
//	16  kind      uint32, the sum of 1 with the exact restore and 4 with a movable prior;
//	              2 in old snapshots: one dimension of nuisance, and nuisance is 0
//	20  nuisance  uint32, dimensions of WithNuisance
//	24  λ, ρ      float64 each
//	40  state     StateLen(d) float64s, see State
//	..  checksum  uint64, xxHash64 (seed 0) of everything before
const (
	snapshotMagic   = "optibelf"
	snapshotVersion = 2
	snapshotHead    = 40
	exactKind       = 1
	offsetKind      = 2 // written before there could be more than one dimension of nuisance
	movableKind     = 4
)

// SnapshotLen returns the length in bytes of a snapshot of a belief of the
// given dimension.
func SnapshotLen(dim int) int { return snapshotHead + 8*StateLen(dim) + 8 }

// MarshalBinary returns a snapshot: the belief with λ and ρ.
func (b *Belief) MarshalBinary() ([]byte, error) {
	return b.AppendBinary(make([]byte, 0, SnapshotLen(b.dim)))
}

// AppendBinary appends a snapshot to dst. It does not allocate if dst has room for
// SnapshotLen more bytes.
func (b *Belief) AppendBinary(dst []byte) ([]byte, error) {
	if b.dim == 0 {
		return dst, errors.New("posterior.AppendBinary: dimension 0; create the belief with New")
	}
	start := len(dst)
	kind := uint64(b.nuisance) << 32
	if b.slack > 1 {
		kind += movableKind
	}
	if b.exact {
		kind += exactKind
	}
	version := uint32(snapshotVersion)
	if kind <= exactKind { // programs of version 1 can read it
		version = 1
	}
	dst = append(dst, snapshotMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.dim))
	dst = binary.LittleEndian.AppendUint64(dst, kind)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(b.lambda))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(b.rho))
	for _, v := range b.state {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

// UnmarshalBinary sets b, of any dimension, to the snapshot. The error for any
// damage wraps ErrSnapshot and changes nothing.
func (b *Belief) UnmarshalBinary(data []byte) error {
	restored, err := readSnapshot(data)
	if err != nil {
		return fmt.Errorf("posterior.UnmarshalBinary: %w: %w", ErrSnapshot, err)
	}
	*b = *restored
	return nil
}

// readSnapshot returns the belief of a snapshot.
func readSnapshot(data []byte) (*Belief, error) {
	if len(data) < snapshotHead {
		return nil, fmt.Errorf("too short (%d bytes)", len(data))
	}
	if magic := string(data[:8]); magic != snapshotMagic {
		return nil, fmt.Errorf("wrong magic (%q)", magic)
	}
	if v := binary.LittleEndian.Uint32(data[8:]); v < 1 || v > snapshotVersion {
		return nil, fmt.Errorf("unknown version (%d); use the program version that wrote it", v)
	}
	dim := binary.LittleEndian.Uint32(data[12:])
	if dim < 1 || dim > MaxDim {
		return nil, fmt.Errorf("impossible dimension (%d)", dim)
	}
	b := &Belief{dim: int(dim)}
	if want := SnapshotLen(b.dim); len(data) != want {
		return nil, fmt.Errorf("wrong length (%d bytes, want %d)", len(data), want)
	}
	body, sum := data[:len(data)-8], binary.LittleEndian.Uint64(data[len(data)-8:])
	if got := xxhash.Sum64(body); got != sum {
		return nil, fmt.Errorf("wrong checksum (%#x, want %#x)", got, sum)
	}
	return b, b.fill(body)
}

// fill sets b, whose dimension is known, from the head and state of a snapshot.
func (b *Belief) fill(body []byte) error {
	kind, nuisance := binary.LittleEndian.Uint32(body[16:]), binary.LittleEndian.Uint32(body[20:])
	if first := kind <= exactKind && nuisance == 0; kind > exactKind+offsetKind+movableKind || nuisance >= MaxDim ||
		kind&offsetKind != 0 && nuisance != 0 || first != (binary.LittleEndian.Uint32(body[8:]) == 1) {
		return fmt.Errorf("unknown kind of belief (%d, %d)", kind, nuisance)
	}
	b.exact, b.nuisance, b.slack = kind&exactKind != 0, int(nuisance+kind&offsetKind/offsetKind), 1
	if kind&movableKind != 0 {
		b.slack = PriorRange
	}
	b.lambda = math.Float64frombits(binary.LittleEndian.Uint64(body[24:]))
	b.rho = math.Float64frombits(binary.LittleEndian.Uint64(body[32:]))
	if err := b.init(); err != nil {
		return err
	}
	state := make([]float64, StateLen(b.dim))
	for i := range state {
		state[i] = math.Float64frombits(binary.LittleEndian.Uint64(body[snapshotHead+8*i:]))
	}
	if err := b.check(state); err != nil {
		return err
	}
	copy(b.state, state)
	return nil
}
