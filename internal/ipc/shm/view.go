package shm

import (
	"fmt"
	"reflect"
	"unsafe"
)

// View reads and writes the start of messages as a T, in place.
type View[T any] struct{ size, align uintptr }

// NewView checks that T consists of numbers of fixed size, arrays and structs.
// Pointers are invalid in another process, ints differ between machines, and a bool
// with the value 2 is undefined behaviour in Go: use a uint8 and compare it with 0.
func NewView[T any]() (View[T], error) {
	t := reflect.TypeFor[T]()
	if err := viewable(t, t.String()); err != nil {
		return View[T]{}, err
	}
	return View[T]{size: t.Size(), align: uintptr(t.Align())}, nil
}

// Size returns the size in bytes of a T.
func (v View[T]) Size() int { return int(v.size) }

// At returns the first Size bytes of b as a T. It panics if b is shorter or not
// aligned for a T, or if v does not come from NewView.
func (v View[T]) At(b []byte) *T {
	if v.align == 0 {
		panic("shm: a View must come from NewView")
	}
	if uintptr(len(b)) < v.size {
		panic(fmt.Sprintf("shm: %d bytes are too few for a view of %d", len(b), v.size))
	}
	start := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(start)%v.align != 0 {
		panic("shm: bytes are not aligned for the view")
	}
	return (*T)(start)
}

func viewable(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return nil
	case reflect.Array:
		return viewable(t.Elem(), path+"[]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if err := viewable(f.Type, path+"."+f.Name); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("shm: %s is a %v; use numbers of fixed size (uint8 for a bool), arrays and structs", path, t)
}
