//go:build !noasm

package roof

// Instructions names what the limits were measured with.
func Instructions() string { return "NEON" }

// flopsOfRound: 16 multiply-adds of 4 numbers.
const flopsOfRound = 2 * 16 * 4

func multiplyAdds(rounds int) { multiplyAdds16(rounds) }

func read(p *byte, n int) { read512(p, n) }

// multiplyAdds16 makes 16 multiply-adds of 4 float32 a round.
//
//go:noescape
func multiplyAdds16(rounds int)

// read512 reads n bytes, a multiple of 512 above 0.
//
//go:noescape
func read512(p *byte, n int)
