package roof

// MultiplyAdds does the given number of rounds of independent multiply-adds in
// registers and returns the floating-point operations that these are, two for
// each multiply-add.
func MultiplyAdds(rounds int) (flops int64) {
	if rounds < 1 {
		return 0
	}
	multiplyAdds(rounds)
	return int64(rounds) * flopsOfRound
}

// line is what Read reads at once.
const line = 512

// Read reads the buffer once, in four streams where there are instructions for
// it, and returns how many bytes that are: all but a rest of less than 512.
func Read(buffer []byte) int64 {
	n := len(buffer) / line * line
	if n > 0 {
		read(&buffer[0], n)
	}
	return int64(n)
}

// NewBuffer returns memory to read. Every page is written to: those that never
// were are all one page, which no read leaves the first-level cache for.
func NewBuffer(size int) []byte {
	b := make([]byte, size)
	const page = 4096
	for i := 0; i < size; i += page {
		b[i] = 1
	}
	return b
}
