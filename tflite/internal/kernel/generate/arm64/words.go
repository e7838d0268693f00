package main

import "fmt"

// The instructions that Go's assembler does not have, as words and, in comments, in the
// notation of GNU's disassembler. The arguments are the numbers of vector registers, the
// destination first.

// word writes one instruction as a number, with text as its comment.
func (f *file) word(code uint32, text string) {
	f.line("WORD $0x%08x // %s", code, text)
}

// threeSame writes an instruction of three vectors of the same arrangement.
func (f *file) threeSame(code uint32, name, arrangement string, d, n, m int) {
	f.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d),
		fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s", name, d, arrangement, n, arrangement, m, arrangement))
}

// Four float32.
func (f *file) mul4(d, n, m int) { f.threeSame(0x6e20dc00, "fmul", "4s", d, n, m) }
func (f *file) add4(d, n, m int) { f.threeSame(0x4e20d400, "fadd", "4s", d, n, m) }
func (f *file) sub4(d, n, m int) { f.threeSame(0x4ea0d400, "fsub", "4s", d, n, m) }
func (f *file) div4(d, n, m int) { f.threeSame(0x6e20fc00, "fdiv", "4s", d, n, m) }

// Maximum and minimum; NaN if either operand is NaN.
func (f *file) max4(d, n, m int) { f.threeSame(0x4e20f400, "fmax", "4s", d, n, m) }
func (f *file) min4(d, n, m int) { f.threeSame(0x4ea0f400, "fmin", "4s", d, n, m) }

// Two float64.
func (f *file) add2(d, n, m int) { f.threeSame(0x4e60d400, "fadd", "2d", d, n, m) }
func (f *file) sub2(d, n, m int) { f.threeSame(0x4ee0d400, "fsub", "2d", d, n, m) }

// fmla4 adds the products of n and one element of m to d.
func (f *file) fmla4(d, n, m, element int) {
	low, high := uint32(element&1), uint32(element>>1)
	f.word(0x4f801000|low<<21|uint32(m)<<16|high<<11|uint32(n)<<5|uint32(d),
		fmt.Sprintf("fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, element))
	f.count.multiplyAdds++
}

// widen converts the two lower float32 of n to float64, widenHigh the two upper.
func (f *file) widen(d, n int) {
	f.word(0x0e617800|uint32(n)<<5|uint32(d), fmt.Sprintf("fcvtl v%d.2d, v%d.2s", d, n))
}

func (f *file) widenHigh(d, n int) {
	f.word(0x4e617800|uint32(n)<<5|uint32(d), fmt.Sprintf("fcvtl2 v%d.2d, v%d.4s", d, n))
}

// widenHalf converts the four lower float16 of n to float32, widenHalfHigh the four upper.
func (f *file) widenHalf(d, n int) {
	f.word(0x0e217800|uint32(n)<<5|uint32(d), fmt.Sprintf("fcvtl v%d.4s, v%d.4h", d, n))
}

func (f *file) widenHalfHigh(d, n int) {
	f.word(0x4e217800|uint32(n)<<5|uint32(d), fmt.Sprintf("fcvtl2 v%d.4s, v%d.8h", d, n))
}

// nearest converts four float32 of n to the nearest integers, float4 four integers to float32.
func (f *file) nearest(d, n int) {
	f.word(0x4e21a800|uint32(n)<<5|uint32(d), fmt.Sprintf("fcvtns v%d.4s, v%d.4s", d, n))
}

func (f *file) float4(d, n int) {
	f.word(0x4e21d800|uint32(n)<<5|uint32(d), fmt.Sprintf("scvtf v%d.4s, v%d.4s", d, n))
}

// addPair adds the two float64 of n.
func (f *file) addPair(d, n int) {
	f.word(0x7e70d800|uint32(n)<<5|uint32(d), fmt.Sprintf("faddp d%d, v%d.2d", d, n))
}
