// Command posterior writes loops_amd64.s of package posterior. The loops round products and sums
// separately, and each partial sum has its own lane: the bits are those of loops.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!noasm")
	rotate()
	subtractTwo()
	dotTwo()
	solveTwoRows()
	Generate()
}

func load(name string) Register { return Load(Param(name), GP64()) }

// broadcast loads a parameter into each lane.
func broadcast(name string) VecVirtual {
	address, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSD(address.Addr, v)
	return v
}

// loop repeats body, which processes step elements of the vectors, while at least step of n are
// left.
func loop(label string, n Register, step int, body func(), vectors ...Register) {
	JMP(LabelRef(label + "_test"))
	Label(label)
	body()
	for _, v := range vectors {
		ADDQ(U8(8*step), v)
	}
	Label(label + "_test")
	SUBQ(U8(step), n)
	JGE(LabelRef(label))
	ADDQ(U8(step), n)
}

// fromEnd ends a function that processes n elements: first n modulo 4 with one, then blocks of
// four. Therefore the blocks have the same places in each row of a triangle, aligned where d is a
// multiple of 4.
func fromEnd(n Register, one func(), four func(at int), vectors ...Register) {
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(U8(3), rest)
	loop("one", rest, 1, one, vectors...)
	MOVQ(n, rest)
	ANDQ(U8(4), rest)
	loop("four", rest, 4, func() { four(0) }, vectors...)
	loop("eight", n, 8, func() { four(0); four(32) }, vectors...)
	VZEROUPPER()
	RET()
}

// function begins a function.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

func rotate() {
	function("rotateAVX2", "func(a, b *float64, n int, c, s float64)",
		"computes a, b = c a + s b, c b - s a for vectors of n elements.")
	a, b, n := load("a"), load("b"), load("n")
	c, s := broadcast("c"), broadcast("s")
	one := func() {
		u, v, w := XMM(), XMM(), XMM()
		VMULSD(Mem{Base: a}, c.AsX(), u)
		VMULSD(Mem{Base: b}, s.AsX(), w)
		VADDSD(w, u, u)
		VMULSD(Mem{Base: b}, c.AsX(), v)
		VMULSD(Mem{Base: a}, s.AsX(), w)
		VSUBSD(w, v, v)
		VMOVSD(u, Mem{Base: a})
		VMOVSD(v, Mem{Base: b})
	}
	fromEnd(n, one, func(at int) { rotateFour(a, b, c, s, at) }, a, b)
}

func rotateFour(a, b Register, c, s VecVirtual, at int) {
	x, y, u, v := YMM(), YMM(), YMM(), YMM()
	VMOVUPD(Mem{Base: a, Disp: at}, x)
	VMOVUPD(Mem{Base: b, Disp: at}, y)
	VMULPD(x, c, u)
	VMULPD(y, c, v)
	VMULPD(x, s, x)
	VMULPD(y, s, y)
	VADDPD(y, u, u)
	VSUBPD(x, v, v)
	VMOVUPD(u, Mem{Base: a, Disp: at})
	VMOVUPD(v, Mem{Base: b, Disp: at})
}

func subtractTwo() {
	function("subtractTwoAVX2", "func(dst, a, b *float64, n int, s, t float64)",
		"computes dst = (dst - s a) - t b for vectors of n elements.")
	dst, a, b, n := load("dst"), load("a"), load("b"), load("n")
	s, t := broadcast("s"), broadcast("t")
	four := func(at int) {
		x, u, v := YMM(), YMM(), YMM()
		VMULPD(Mem{Base: a, Disp: at}, s, u)
		VMULPD(Mem{Base: b, Disp: at}, t, v)
		VMOVUPD(Mem{Base: dst, Disp: at}, x)
		VSUBPD(u, x, x)
		VSUBPD(v, x, x)
		VMOVUPD(x, Mem{Base: dst, Disp: at})
	}
	one := func() {
		x, u, v := XMM(), XMM(), XMM()
		VMULSD(Mem{Base: a}, s.AsX(), u)
		VMULSD(Mem{Base: b}, t.AsX(), v)
		VMOVSD(Mem{Base: dst}, x)
		VSUBSD(u, x, x)
		VSUBSD(v, x, x)
		VMOVSD(x, Mem{Base: dst})
	}
	fromEnd(n, one, four, dst, a, b)
}

// dotTwo: the two lanes of a sum are the partial sums of even and odd elements. It loads each
// element of x separately, because solve has just stored two of them.
func dotTwo() {
	function("dotTwoAVX2", "func(a, b, x *float64, n int) (s, t float64)",
		"returns the inner products of a and of b with x for vectors of n elements.")
	a, b, x, n := load("a"), load("b"), load("x"), load("n")
	s, t := XMM(), XMM()
	VXORPD(s, s, s)
	VXORPD(t, t, t)
	two := func(at int) {
		v, p, q := XMM(), XMM(), XMM()
		VMOVSD(Mem{Base: x, Disp: at}, v)
		VMOVHPD(Mem{Base: x, Disp: at + 8}, v, v)
		VMULPD(Mem{Base: a, Disp: at}, v, p)
		VMULPD(Mem{Base: b, Disp: at}, v, q)
		VADDPD(p, s, s)
		VADDPD(q, t, t)
	}
	loop("eight", n, 8, func() { two(0); two(16); two(32); two(48) }, a, b, x)
	loop("two", n, 2, func() { two(0) }, a, b, x)
	loop("one", n, 1, func() {
		v, p, q := XMM(), XMM(), XMM()
		VMOVSD(Mem{Base: x}, v)
		VMULSD(Mem{Base: a}, v, p)
		VMULSD(Mem{Base: b}, v, q)
		VADDSD(p, s, s)
		VADDSD(q, t, t)
	}, a, b, x)
	for i, sum := range []VecVirtual{s, t} {
		odd := XMM()
		VUNPCKHPD(sum, sum, odd)
		VADDSD(odd, sum, sum)
		Store(sum, ReturnIndex(i))
	}
	RET()
}

// solveTwoRows: the lanes are the four systems, each with the partial sums and the order of solve.
func solveTwoRows() {
	function("solveTwoRowsAVX2", "func(r *float64, x *[4]float64, n int)",
		"solves two rows, of n + 2 and n + 1 elements, for x[0] and x[1] of four systems. n is even.")
	upper, x, n := load("r"), load("x"), load("n")
	lower, at := GP64(), GP64() // at is the byte of the element in a row
	LEAQ(Mem{Base: upper, Index: n, Scale: 8, Disp: 16}, lower)
	XORQ(at, at)
	var sums [4]VecVirtual // of lower, then of upper: even, odd
	for i := range sums {
		sums[i] = YMM()
		VXORPD(sums[i], sums[i], sums[i])
	}
	element := func(i int) {
		v, p, q := YMM(), YMM(), YMM()
		VMOVUPD(Mem{Base: x, Index: at, Scale: 4, Disp: 32 * (i + 2)}, v)
		VBROADCASTSD(Mem{Base: lower, Index: at, Scale: 1, Disp: 8 * (i + 1)}, p)
		VBROADCASTSD(Mem{Base: upper, Index: at, Scale: 1, Disp: 8 * (i + 2)}, q)
		VMULPD(v, p, p)
		VMULPD(v, q, q)
		VADDPD(p, sums[i%2], sums[i%2])
		VADDPD(q, sums[2+i%2], sums[2+i%2])
	}
	loop("four", n, 4, func() { element(0); element(1); element(2); element(3) }, at)
	loop("two", n, 2, func() { element(0); element(1) }, at)
	VADDPD(sums[1], sums[0], sums[0])
	VADDPD(sums[3], sums[2], sums[2])
	divideRows(upper, lower, x, sums[0], sums[2])
	VZEROUPPER()
	RET()
}

// divideRows computes x[1] = (x[1] - s) / lower[0], then
// x[0] = (x[0] - t - upper[1] x[1]) / upper[0].
func divideRows(upper, lower, x Register, s, t VecVirtual) {
	v, w, p := YMM(), YMM(), YMM()
	VMOVUPD(Mem{Base: x, Disp: 32}, w)
	VSUBPD(s, w, w)
	VBROADCASTSD(Mem{Base: lower}, p)
	VDIVPD(p, w, w)
	VMOVUPD(w, Mem{Base: x, Disp: 32})
	VMOVUPD(Mem{Base: x}, v)
	VSUBPD(t, v, v)
	VBROADCASTSD(Mem{Base: upper, Disp: 8}, p)
	VMULPD(w, p, p)
	VSUBPD(p, v, v)
	VBROADCASTSD(Mem{Base: upper}, p)
	VDIVPD(p, v, v)
	VMOVUPD(v, Mem{Base: x})
}
