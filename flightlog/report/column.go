package report

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// maxPoints is how many values of a column are drawn one by one. A longer
// column holds the least and the greatest value of each few ticks.
const maxPoints = 1 << 17

// packed is base64 of a little-endian array; the reader knows its type.
type packed string

// number is a float64 that JSON may not know: null where it is not finite.
type number float64

// MarshalJSON implements json.Marshaler.
func (x number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// bucket is how many ticks share a point of a column of n.
func bucket(n int) int {
	if n <= maxPoints {
		return 1
	}
	const buckets = maxPoints / 2
	return (n + buckets - 1) / buckets
}

// column packs values as float32: one a tick, or the least and the greatest of
// each bucket. A NaN is passed over where its bucket has other values.
func column(x []float64, size int) packed {
	out := make([]float32, 0, min(len(x), maxPoints))
	if size == 1 {
		for _, v := range x {
			out = append(out, float32(v))
		}
		return float32s(out)
	}
	for len(x) > 0 {
		n := min(size, len(x))
		least, greatest := math.NaN(), math.NaN()
		for _, v := range x[:n] {
			if !(v >= least) && v == v {
				least = v
			}
			if !(v <= greatest) && v == v {
				greatest = v
			}
		}
		out = append(out, float32(least), float32(greatest))
		x = x[n:]
	}
	return float32s(out)
}

func pack[T any](x []T) packed {
	raw, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err) // only of types without a fixed size
	}
	return packed(base64.StdEncoding.EncodeToString(raw))
}

func float64s(x []float64) packed { return pack(x) }
func float32s(x []float32) packed { return pack(x) }
func uint32s(x []uint32) packed   { return pack(x) }
func int32s(x []int32) packed     { return pack(x) }
func bytesOf(x []uint8) packed    { return pack(x) }
