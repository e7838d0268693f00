//go:build linux

package kernel

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/x448/float16"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// fenced returns n zeros at the end of a mapped page: access to the next byte kills the
// test.
func fenced[T float32 | uint32 | float16.Float16](t *testing.T, n int) []T {
	t.Helper()
	size, page := int(unsafe.Sizeof(*new(T))), os.Getpagesize()
	room := (size*n + page - 1) &^ (page - 1)
	memory, err := syscall.Mmap(-1, 0, room+page,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, syscall.Munmap(memory)) })
	fatal.If(t, syscall.Mprotect(memory[room:], syscall.PROT_NONE))
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), room/size)[room/size-n:]
}

func TestMultiply_StaysWithinSlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for n := 1; n <= 13; n++ {
		for range 12 {
			in, out := 1+rng.IntN(40), 1+rng.IntN(100)
			m := &Matrix{in: in, out: out, packed: fenced[float32](t, Padded(out)*in)}
			half := &Matrix{in: in, out: out, half: fenced[float16.Float16](t, Padded(out)*in)}
			x := Rows{fenced[float32](t, (n-1)*in+in), in}
			for i := range x.Data {
				x.Data[i] = float32(rng.IntN(2))
			}
			y := Rows{fenced[float32](t, n*Padded(out)), Padded(out)}
			start := Rows{Data: fenced[float32](t, Padded(out))}
			scratch := &Scratch{
				nil, fenced[uint32](t, (tilesOf(n)-1)*inputBlock+in), make([]int, tilesOf(n)),
				[][]float32{fenced[float32](t, inputBlock*groupWidth)},
			}
			for _, sparse := range []bool{false, true} {
				m.Multiply(y, x, start, n, true, sparse, scratch)
				half.Multiply(y, x, start, n, true, sparse, scratch)
			}
			Tanh(y, n, out)
			norm := LayerNorm{fenced[float32](t, Padded(out))[:out], fenced[float32](t, Padded(out))[:out], 1e-5}
			norm.Tanh(y, n)
		}
	}
}
