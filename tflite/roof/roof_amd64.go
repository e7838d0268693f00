//go:build !noasm

package roof

import "golang.org/x/sys/cpu"

// Instructions names what the limits were measured with.
func Instructions() string {
	if accelerated {
		return "AVX2 and FMA"
	}
	return "Go code"
}

var accelerated = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// flopsOfRound: 12 multiply-adds of 8 numbers; portableMultiplyAdds does as many.
const flopsOfRound = 2 * 12 * 8

func multiplyAdds(rounds int) {
	if !accelerated {
		portableMultiplyAdds(rounds)
		return
	}
	multiplyAdds12(rounds)
}

func read(p *byte, n int) {
	if !accelerated {
		portableRead(p, n)
		return
	}
	read512(p, n)
}

// multiplyAdds12 makes 12 multiply-adds of 8 float32 a round.
//
//go:noescape
func multiplyAdds12(rounds int)

// read512 reads n bytes, a multiple of 512 above 0.
//
//go:noescape
func read512(p *byte, n int)
