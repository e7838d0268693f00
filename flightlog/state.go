package flightlog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// StateSum identifies the features of a tick: labels given to another log are noticed.
func StateSum(phi []float64) (sum uint32) {
	var buf [8]byte
	for _, x := range phi {
		binary.LittleEndian.PutUint64(buf[:], math.Float64bits(x))
		sum = crc32.Update(sum, crc32.IEEETable, buf[:])
	}
	return sum
}
