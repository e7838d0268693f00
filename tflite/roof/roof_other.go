//go:build noasm || !(amd64 || arm64)

package roof

// Instructions names what the limits were measured with.
func Instructions() string { return "Go code" }

const flopsOfRound = 2 * 12 * 8

func multiplyAdds(rounds int) { portableMultiplyAdds(rounds) }

func read(p *byte, n int) { portableRead(p, n) }
