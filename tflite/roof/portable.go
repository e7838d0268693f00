//go:build noasm || !arm64

package roof

import "unsafe"

// kept is where results go, so that the compiler keeps what makes them.
var kept struct {
	sum  [8]float32
	word uint64
}

// portableMultiplyAdds makes 12 times 8 multiply-adds a round, as far as the Go
// compiler has instructions for them.
func portableMultiplyAdds(rounds int) {
	a, b, c, d, e, f, g, h := kept.sum[0], kept.sum[1], kept.sum[2], kept.sum[3], kept.sum[4], kept.sum[5], kept.sum[6], kept.sum[7]
	x, y := kept.sum[0], kept.sum[1]
	for range 12 * rounds {
		a = a*x + y
		b = b*x + y
		c = c*x + y
		d = d*x + y
		e = e*x + y
		f = f*x + y
		g = g*x + y
		h = h*x + y
	}
	kept.sum = [8]float32{a, b, c, d, e, f, g, h}
}

// portableRead reads n bytes, a multiple of 64, by words.
func portableRead(p *byte, n int) {
	words := unsafe.Slice((*[8]uint64)(unsafe.Pointer(p)), n/64)
	var a, b uint64
	for i := range words {
		w := &words[i]
		a ^= w[0] ^ w[1] ^ w[2] ^ w[3]
		b ^= w[4] ^ w[5] ^ w[6] ^ w[7]
	}
	kept.word = a ^ b
}
