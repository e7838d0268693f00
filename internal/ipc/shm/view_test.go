package shm

import (
	"reflect"
	"testing"
	"unsafe"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestNewView_RefusesPointers(t *testing.T) {
	type good struct {
		A uint64
		B [3]struct{ C, D float32 }
		_ [4]uint8
	}
	if v, err := NewView[good](); err != nil || v.Size() != 40 {
		t.Errorf("size %d, error %v", v.Size(), err)
	}
	refuses := func(err error, path string) {
		t.Helper()
		errtest.Contains(t, err, path)
	}
	_, err := NewView[struct{ A struct{ B [2]bool } }]()
	refuses(err, ".A.B[] is a bool")
	_, err = NewView[struct{ P *int64 }]()
	refuses(err, ".P is a *int64")
	_, err = NewView[struct{ N int }]()
	refuses(err, ".N is a int")
	_, err = NewView[struct{ S string }]()
	refuses(err, ".S is a string")
	_, err = NewView[[]float64]()
	refuses(err, "is a []float64")
}

func TestView_PanicsForWrongBytes(t *testing.T) {
	view, err := NewView[uint64]()
	fatal.If(t, err)
	b := alignedBytes(32)
	for name, call := range map[string]func(){
		"short":     func() { view.At(b[:7]) },
		"empty":     func() { view.At(nil) },
		"unaligned": func() { view.At(b[4:]) },
		"no view":   func() { new(View[uint64]).At(b) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
	*view.At(b[8:]) = 0x0102030405060708
	if got := numbers[uint64](b[:16]); !reflect.DeepEqual(got, []uint64{0, 0x0102030405060708}) {
		t.Errorf("%x", got)
	}
}

// numbers returns an aligned message as numbers without a copy.
func numbers[T uint64 | float32](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
