package npz

import (
	"fmt"
	"math"
	"slices"
)

// Array is a row-major array. The zero Array is invalid: use Float32, Float64,
// Int64 or a file.
type Array struct {
	shape  []int
	values any // []float32, []float64 or []int64
	unread error
}

// Float32 wraps values as an array of a shape. Without a shape it is a vector.
// It panics if the shape does not have len(values) elements.
func Float32(values []float32, shape ...int) Array { return wrap(values, shape) }

// Float64 is Float32 for float64 values.
func Float64(values []float64, shape ...int) Array { return wrap(values, shape) }

// Int64 is Float32 for int64 values.
func Int64(values []int64, shape ...int) Array { return wrap(values, shape) }

func wrap[T float32 | float64 | int64](values []T, shape []int) Array {
	if len(shape) == 0 {
		shape = []int{len(values)}
	}
	if n, ok := elements(shape); !ok || n != len(values) {
		panic(fmt.Sprintf("npz: shape %v does not have %d elements", shape, len(values)))
	}
	return Array{shape: slices.Clone(shape), values: values}
}

// Shape returns the array's dimensions, outermost first; empty for a scalar.
func (a Array) Shape() []int { return slices.Clone(a.shape) }

// Float64s returns the elements as float64. The result is a copy unless the
// array has that type.
func (a Array) Float64s() []float64 {
	switch v := a.values.(type) {
	case []float64:
		return v
	case []float32:
		return convert[float64](v)
	case []int64:
		return convert[float64](v)
	}
	return nil
}

// Float32s returns the elements rounded to float32. A finite element beyond the
// range of float32 is an error. The result is a copy unless the array has that
// type.
func (a Array) Float32s() ([]float32, error) {
	if v, ok := a.values.([]float32); ok {
		return v, nil
	}
	wide := a.Float64s()
	for i, x := range wide {
		if math.Abs(x) > math.MaxFloat32 && !math.IsInf(x, 0) {
			return nil, fmt.Errorf("npz: element %d does not fit float32 (%g); rescale the data", i, x)
		}
	}
	return convert[float32](wide), nil
}

// Int64s returns the elements of an array of integers or booleans; an array
// of floats is an error.
func (a Array) Int64s() ([]int64, error) {
	v, ok := a.values.([]int64)
	if !ok {
		return nil, fmt.Errorf("npz: array holds %T, want integers; save it as an integer array", a.values)
	}
	return v, nil
}

// elements multiplies the dimensions of a shape. It returns false if one is
// negative or the product exceeds maxBytes.
func elements(shape []int) (int, bool) {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d != 0 && n > maxBytes/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

func convert[To, From float32 | float64 | int64 | int8 | int16 | int32 | uint8 | uint16 | uint32](from []From) []To {
	to := make([]To, len(from))
	for i, x := range from {
		to[i] = To(x)
	}
	return to
}
