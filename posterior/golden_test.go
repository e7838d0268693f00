package posterior

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// replayGolden applies every operation that changes a belief and returns the hash of
// all hashes. Exact operations on integers produce the inputs. The result depends
// only on the arithmetic of this package: every CPU must reproduce it.
func replayGolden(t *testing.T, dim int, rho float64, opts ...Option) uint64 {
	t.Helper()
	b, other := mustNew(t, dim, 0.75, rho, opts...), mustNew(t, dim, 1.25, 1)
	seed := splitMix(dim)
	phi := make([]float64, dim)
	undo := make([]float64, dim)
	batch, reward, weight := make([]float64, 7*dim), make([]float64, 7), make([]float64, 7)
	read := make([]float64, dim*dim)
	var trail xxhash.Digest
	trail.Reset()
	record := func(v uint64) {
		var buf [8]byte
		binary.LittleEndian.PutUint64(buf[:], v)
		_, _ = trail.Write(buf[:])
	}
	for tick := range 4000 {
		b.Forget()
		seed.fill(phi)
		must(t, b.Update(phi, seed.float(), seed.weight()))
		if tick%5 == 0 {
			seed.fill(undo)
			must(t, b.Update(undo, 0.5, 0.25))
			must(t, b.Downdate(undo, 0.5, 0.25))
		}
		if tick%400 == 100 {
			seed.fill(batch)
			seed.fill(reward)
			for i := range weight {
				weight[i] = seed.weight()
			}
			must(t, b.UpdateBatch(batch, reward, weight))
			must(t, other.UpdateBatch(batch, reward, nil))
		}
		if tick%1000 == 500 {
			must(t, b.Merge(other))
			state := stateOf(b)
			b = mustNew(t, dim, b.Lambda(), rho, opts...)
			must(t, b.Restore(state))
		}
		record(b.Hash())
		if tick%100 == 0 {
			b.Mean(phi)
			record(hashSlowly(phi))
			record(math.Float64bits(b.NormSq(undo)))
			b.InvR(read)
			record(hashSlowly(read))
		}
	}
	return trail.Sum64()
}

func TestBelief_HasTheSameBitsOnEveryCPU(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uint64
		want uint64
	}{
		{"cyclic restore", replayGolden(t, 23, 0.999), 0xe12d7e9f9f6a56c5},
		{"exact restore", replayGolden(t, 10, 0.8, WithExactRestore()), 0x345593c4dd606bac},
		{"no forgetting", replayGolden(t, 16, 1), 0x2d000d733cfdcc4b},
		{"one dimension", replayGolden(t, 1, 0.9), 0xc286869432c30189},
	} {
		if c.got != c.want {
			t.Errorf("%s: the trail of hashes is %#x, not %#x", c.name, c.got, c.want)
		}
	}
}

func TestHash_IsThatOfTheDocumentedBytes(t *testing.T) {
	b := trained(t, 7, 1)
	var bytes []byte
	for _, v := range stateOf(b)[:7*8/2+7] {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v))
	}
	if want := xxhash.Sum64(bytes); b.Hash() != want {
		t.Errorf("Hash is %#x, the documented bytes have %#x", b.Hash(), want)
	}
	if want := b.Hash(); hashSlowly(b.state[:7*8/2+7]) != want {
		t.Error("the two ways to hash differ")
	}
	before := b.Hash()
	b.b[6] = math.Nextafter(b.b[6], 1)
	if b.Hash() == before {
		t.Error("the hash ignores a change of one bit")
	}
}
