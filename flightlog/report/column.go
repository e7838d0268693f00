package report

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// maxPoints is the largest number of values in a column. A longer column holds the
// smallest and the largest value of every few ticks.
const maxPoints = 1 << 17

// packed is a little-endian array in base64. The reader knows its element type.
type packed string

// number is a float64 that is null in JSON if it is not finite.
type number float64

// MarshalJSON implements json.Marshaler.
func (x number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// bucket returns the number of ticks that share a point of a column of n ticks with at most
// limit values.
func bucket(n, limit int) int {
	if n <= limit {
		return 1
	}
	return (2*n + limit - 1) / limit
}

// envelope reduces a curve: one value a tick, or the smallest and the largest of each
// size ticks. It skips NaN unless a bucket has no other value.
type envelope struct {
	size   int // ticks in a bucket
	n      int // ticks added
	points []float32
}

func (e *envelope) add(v float64) {
	if e.size == 1 {
		e.points = append(e.points, float32(v))
		return
	}
	if e.n%e.size == 0 {
		unknown := float32(math.NaN())
		e.points = append(e.points, unknown, unknown)
	}
	e.n++
	last := e.points[len(e.points)-2:]
	if x := float32(v); x == x {
		if !(x >= last[0]) {
			last[0] = x
		}
		if !(x <= last[1]) {
			last[1] = x
		}
	}
}

// column packs the envelope of x.
func column(x []float64, size int) packed {
	e := envelope{size: size, points: make([]float32, 0, min(len(x), maxPoints))}
	for _, v := range x {
		e.add(v)
	}
	return float32s(e.points)
}

func pack[T any](x []T) packed {
	raw, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err) // T has no fixed size
	}
	return packed(base64.StdEncoding.EncodeToString(raw))
}

func float64s(x []float64) packed { return pack(x) }
func float32s(x []float32) packed { return pack(x) }
func uint32s(x []uint32) packed   { return pack(x) }
func int32s(x []int32) packed     { return pack(x) }
func bytesOf(x []uint8) packed    { return pack(x) }
