// Command amd64 writes kernel_amd64.s: the loops for every number of rows and outputs of a
// tile. It is in a separate module, so that the robot's program does not depend on the
// assembler's library.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tileRows by 2 vectors of sums, 2 vectors of weights and 2 of inputs use all 16 registers.
const tileRows = 6

// ahead is the distance in bytes at which the tiles prefetch weights. The hardware's prefetchers
// stop at pages of 4 KiB. A prefetch beyond the weights does not fault.
const ahead = 2048

// Parts of the signatures.
const (
	tileParameters   = "dst *float32, dstStride int, x *float32, xStride int, w *float32, "
	startParameters  = "start *float32, startStride int, floor float32"
	vectorParameters = "dst, x, w *float32, panelStride"
)

func main() {
	ConstraintExpr("amd64,!noasm")
	for rows := 1; rows <= tileRows; rows++ {
		dense(rows)
		sparse(rows)
		active(rows)
	}
	for rows := 2; rows <= tileRows; rows++ {
		denseGroup(rows)
		sparseGroup(rows)
	}
	for _, panels := range []int{2, 3, 4} {
		vector(panels)
		sparseVector(panels)
	}
	for _, panels := range []int{1, 2, 3, 4} {
		halfVector(panels)
	}
	hasF16C()
	widen()
	sum()
	squares()
	norms()
	inPlace("mish16", applyMish)
	Generate()
}

func load(name string) Register { return Load(Param(name), GP64()) }

// parameter returns the address of a parameter.
func parameter(name string) Op {
	address, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return address.Addr
}

// inBytes loads a number of elements and converts it to bytes.
func inBytes(name string) Register {
	r := load(name)
	SHLQ(U8(2), r)
	return r
}

func vectors(n int) []VecVirtual {
	v := make([]VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

// raiseToFloor computes max(sum, floor). The sum is the second source of VMAXPS, so that
// NaN stays NaN.
func raiseToFloor(sums []VecVirtual) {
	floor := broadcast("floor")
	for _, s := range sums {
		VMAXPS(s, floor, s)
	}
}

// loop repeats body, which processes step elements, while at least step of n are left.
func loop(label string, n Register, step int, body func()) {
	JMP(LabelRef(label + "_test"))
	Label(label)
	body()
	Label(label + "_test")
	SUBQ(U8(step), n)
	JGE(LabelRef(label))
	ADDQ(U8(step), n)
}

// dense: rows of x by one panel of 16 outputs.
func dense(rows int) {
	TEXT(fmt.Sprintf("dense%d", rows), NOSPLIT, "func("+tileParameters+"k int, "+startParameters+")")
	sums := loadTile(rows)
	x, stride := load("x"), inBytes("xStride")
	far := x
	if rows > 3 { // base address of the fourth and later rows
		far = GP64()
		LEAQ(Mem{Base: x, Index: stride, Scale: 2}, far)
		ADDQ(stride, far)
	}
	at := func(r, k int) Mem {
		base := x
		if r >= 3 {
			base, r = far, r-3
		}
		m := Mem{Base: base, Disp: 4 * k}
		if r > 0 {
			m.Index, m.Scale = stride, uint8(r)
		}
		return m
	}
	w, k := load("w"), load("k")
	step := func(unroll int) func() {
		return func() {
			for i := range unroll {
				w0, w1 := YMM(), YMM()
				VMOVUPS(Mem{Base: w, Disp: 64 * i}, w0)
				VMOVUPS(Mem{Base: w, Disp: 64*i + 32}, w1)
				PREFETCHT0(Mem{Base: w, Disp: 64*i + ahead})
				for r := range rows {
					v := YMM()
					VBROADCASTSS(at(r, i), v)
					VFMADD231PS(w0, v, sums[2*r])
					VFMADD231PS(w1, v, sums[2*r+1])
				}
			}
			ADDQ(U32(64*unroll), w)
			ADDQ(U8(4*unroll), x)
			if rows > 3 {
				ADDQ(U8(4*unroll), far)
			}
		}
	}
	loop("four", k, 4, step(4))
	loop("one", k, 1, step(1))
	storeTile(sums)
}

// loadTile loads the sums of rows by 16 outputs.
func loadTile(rows int) []VecVirtual {
	start, stride := load("start"), inBytes("startStride")
	sums := vectors(2 * rows)
	for r := range rows {
		VMOVUPS(Mem{Base: start}, sums[2*r])
		VMOVUPS(Mem{Base: start, Disp: 32}, sums[2*r+1])
		if r < rows-1 {
			ADDQ(stride, start)
		}
	}
	return sums
}

func storeTile(sums []VecVirtual) {
	raiseToFloor(sums)
	dst, stride := load("dst"), inBytes("dstStride")
	rows := len(sums) / 2
	for r := range rows {
		VMOVUPS(sums[2*r], Mem{Base: dst})
		VMOVUPS(sums[2*r+1], Mem{Base: dst, Disp: 32})
		if r < rows-1 {
			ADDQ(stride, dst)
		}
	}
	VZEROUPPER()
	RET()
}

func loadSums(start Register, n int) []VecVirtual {
	sums := vectors(n)
	for i, s := range sums {
		VMOVUPS(Mem{Base: start, Disp: 32 * i}, s)
	}
	return sums
}

func storeSums(sums []VecVirtual) {
	raiseToFloor(sums)
	dst := load("dst")
	for i, s := range sums {
		VMOVUPS(s, Mem{Base: dst, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// groupPanels by tileRows sums, a vector of weights for each panel and one or more of inputs are at
// least 29 of AVX-512's 32 registers.
const groupPanels = 4

// group: rows of x by a group of panels of 16 outputs, stride elements apart, in AVX-512. Each
// output is summed as in dense.
func group(name, parameters string, rows int, multiply func(x, w []Register, sums []VecVirtual)) {
	TEXT(fmt.Sprintf("%s%d", name, rows), NOSPLIT,
		"func("+tileParameters+"panelStride int, "+parameters+", "+startParameters+")")
	sums := make([]VecVirtual, rows*groupPanels)
	eachGroupRow("start", rows, func(r, p int, at Mem) {
		sums[r*groupPanels+p] = ZMM()
		VMOVUPS(at, sums[r*groupPanels+p])
	})
	multiply(addresses("x", "xStride", rows), addresses("w", "panelStride", groupPanels), sums)
	floor := ZMM()
	VBROADCASTSS(parameter("floor"), floor)
	eachGroupRow("dst", rows, func(r, p int, at Mem) {
		sum := sums[r*groupPanels+p]
		VMAXPS(sum, floor, sum)
		VMOVUPS(sum, at)
	})
	VZEROUPPER()
	RET()
}

// eachGroupRow calls body with the addresses of the sums of a group.
func eachGroupRow(name string, rows int, body func(r, p int, at Mem)) {
	address, stride := load(name), inBytes(name+"Stride")
	for r := range rows {
		for p := range groupPanels {
			body(r, p, Mem{Base: address, Disp: 64 * p})
		}
		if r < rows-1 {
			ADDQ(stride, address)
		}
	}
}

// addresses loads an address and adds n-1 times a stride.
func addresses(name, stride string, n int) []Register {
	step := inBytes(stride)
	all := []Register{load(name)}
	for i := 1; i < n; i++ {
		all = append(all, GP64())
		LEAQ(Mem{Base: all[i-1], Index: step, Scale: 1}, all[i])
	}
	return all
}

// multiplyGroup adds the products of one input of each row.
func multiplyGroup(sums []VecVirtual, w, x func(i int) Mem) {
	weights := make([]VecVirtual, groupPanels)
	for p := range weights {
		weights[p] = ZMM()
		VMOVUPS(w(p), weights[p])
		PREFETCHT0(w(p).Offset(ahead))
	}
	for r := range len(sums) / groupPanels {
		v := ZMM()
		VBROADCASTSS(x(r), v)
		for p := range weights {
			VFMADD231PS(weights[p], v, sums[r*groupPanels+p])
		}
	}
}

func denseGroup(rows int) {
	group("denseGroup", "k int", rows, func(x, w []Register, sums []VecVirtual) {
		k, at := load("k"), GP64()
		XORQ(at, at)
		loop("one", k, 1, func() {
			at64 := GP64()
			MOVQ(at, at64)
			SHLQ(U8(4), at64)
			multiplyGroup(sums,
				func(p int) Mem { return Mem{Base: w[p], Index: at64, Scale: 4} },
				func(r int) Mem { return Mem{Base: x[r], Index: at, Scale: 4} })
			INCQ(at)
		})
	})
}

func sparseGroup(rows int) {
	group("sparseGroup", "list *uint32, n int", rows,
		func(x, w []Register, sums []VecVirtual) {
			list, n, at, at64 := load("list"), load("n"), GP64(), GP64()
			loop("one", n, 1, func() {
				MOVL(Mem{Base: list}, at.As32())
				MOVQ(at, at64)
				SHLQ(U8(6), at64)
				multiplyGroup(sums,
					func(p int) Mem { return Mem{Base: w[p], Index: at64, Scale: 1} },
					func(r int) Mem { return Mem{Base: x[r], Index: at, Scale: 4} })
				ADDQ(U8(4), list)
			})
		})
}

// vector: one row by several panels of 16 outputs, panelStride elements apart. Several
// panels hide the latency of the multiply-add.
func vector(panels int) {
	TEXT(fmt.Sprintf("vector%d", panels), NOSPLIT, "func("+vectorParameters+", k int, start *float32, floor float32)")
	multiplyPanels(panels, inBytes("panelStride"), 64, func(w Mem, v, sum VecVirtual) { VFMADD231PS(w, v, sum) })
}

// halfVector is vector with float16 weights.
func halfVector(panels int) {
	TEXT(fmt.Sprintf("halfVector%d", panels), NOSPLIT,
		"func(dst, x *float32, w *uint16, panelStride, k int, start *float32, floor float32)")
	stride := load("panelStride")
	SHLQ(U8(1), stride)
	multiplyPanels(panels, stride, 32, func(w Mem, v, sum VecVirtual) {
		wide := YMM()
		VCVTPH2PS(w, wide)
		VFMADD231PS(wide, v, sum)
	})
}

// multiplyPanels writes the loop of one row by several panels, stride bytes apart, with size bytes
// for each input. add adds the products of eight weights and an input to a sum.
func multiplyPanels(panels int, stride Register, size int, add func(w Mem, v, sum VecVirtual)) {
	sums := loadSums(load("start"), 2*panels)
	x, w, k := load("x"), load("w"), load("k")
	triple := GP64()
	if panels == 4 {
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, triple)
	}
	at := func(panel, disp int) Mem {
		m := Mem{Base: w, Disp: disp}
		switch panel {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(panel)
		case 3:
			m.Index, m.Scale = triple, 1
		}
		return m
	}
	step := func(unroll int) func() {
		return func() {
			for i := range unroll {
				v := YMM()
				VBROADCASTSS(Mem{Base: x, Disp: 4 * i}, v)
				for p := range panels {
					add(at(p, size*i), v, sums[2*p])
					add(at(p, size*i+size/2), v, sums[2*p+1])
				}
			}
			ADDQ(U8(4*unroll), x)
			ADDQ(U32(size*unroll), w)
		}
	}
	loop("four", k, 4, step(4))
	loop("one", k, 1, step(1))
	storeSums(sums)
}

// eachListed repeats body for every input in a list, four at a time. at is the input's
// number, w64 the offset of its weights in a panel.
func eachListed(list, n Register, body func(at, w64 Register)) {
	step := func(unroll int) func() {
		return func() {
			for i := range unroll {
				at, w64 := GP64(), GP64()
				MOVL(Mem{Base: list, Disp: 4 * i}, at.As32())
				MOVQ(at, w64)
				SHLQ(U8(6), w64)
				body(at, w64)
			}
			ADDQ(U8(4*unroll), list)
		}
	}
	loop("four", n, 4, step(4))
	loop("one", n, 1, step(1))
}

// sparse: rows of x by one panel of 16 outputs, over the inputs in a list.
func sparse(rows int) {
	TEXT(fmt.Sprintf("sparse%d", rows), NOSPLIT, "func("+tileParameters+"list *uint32, n int, "+startParameters+")")
	sums := loadTile(rows)
	stride := inBytes("xStride")
	x := []Register{load("x")}
	for r := 1; r < rows; r++ {
		x = append(x, GP64())
		LEAQ(Mem{Base: x[r-1], Index: stride, Scale: 1}, x[r])
	}
	w := load("w")
	eachListed(load("list"), load("n"), func(at, w64 Register) {
		w0, w1 := YMM(), YMM()
		VMOVUPS(Mem{Base: w, Index: w64, Scale: 1}, w0)
		VMOVUPS(Mem{Base: w, Index: w64, Scale: 1, Disp: 32}, w1)
		PREFETCHT0(Mem{Base: w, Index: w64, Scale: 1, Disp: ahead})
		for r := range rows {
			v := YMM()
			VBROADCASTSS(Mem{Base: x[r], Index: at, Scale: 4}, v)
			VFMADD231PS(w0, v, sums[2*r])
			VFMADD231PS(w1, v, sums[2*r+1])
		}
	})
	storeTile(sums)
}

// sparseVector: vector over the inputs in a list.
func sparseVector(panels int) {
	TEXT(fmt.Sprintf("sparseVector%d", panels), NOSPLIT,
		"func("+vectorParameters+" int, list *uint32, n int, start *float32, floor float32)")
	sums := loadSums(load("start"), 2*panels)
	x, stride := load("x"), inBytes("panelStride")
	w := []Register{load("w")}
	for p := 1; p < panels; p++ {
		w = append(w, GP64())
		LEAQ(Mem{Base: w[p-1], Index: stride, Scale: 1}, w[p])
	}
	eachListed(load("list"), load("n"), func(at, w64 Register) {
		v := YMM()
		VBROADCASTSS(Mem{Base: x, Index: at, Scale: 4}, v)
		for p := range panels {
			VFMADD231PS(Mem{Base: w[p], Index: w64, Scale: 1}, v, sums[2*p])
			VFMADD231PS(Mem{Base: w[p], Index: w64, Scale: 1, Disp: 32}, v, sums[2*p+1])
		}
	})
	storeSums(sums)
}

// active: the list of the inputs that are not 0 in every row. To avoid mispredicted
// branches, it writes every input to the list's end and adds a carry to the list's length,
// which is set for an input that is not 0. All bits of 0 are 0 except its sign, which
// doubling drops.
func active(rows int) {
	TEXT(fmt.Sprintf("active%d", rows), NOSPLIT, "func(list *uint32, x *float32, xStride, k int) int")
	list, stride, k := load("list"), inBytes("xStride"), load("k")
	x := []Register{load("x")}
	for r := 1; r < rows; r++ {
		x = append(x, GP64())
		LEAQ(Mem{Base: x[r-1], Index: stride, Scale: 1}, x[r])
	}
	at, n, bits, none := GP64(), GP64(), GP32(), GP32()
	XORQ(at, at)
	XORQ(n, n)
	XORL(none, none)
	zero := YMM()
	VPXOR(zero, zero, zero)
	loop("eight", k, 8, func() {
		v := YMM()
		VMOVUPS(Mem{Base: x[0], Index: at, Scale: 4}, v)
		for _, row := range x[1:] {
			VPOR(Mem{Base: row, Index: at, Scale: 4}, v, v)
		}
		VPADDD(v, v, v)
		VPCMPEQD(zero, v, v)
		VMOVMSKPS(v, bits)
		NOTL(bits)
		for range 8 {
			MOVL(at.As32(), Mem{Base: list, Index: n, Scale: 4})
			INCL(at.As32())
			SHRL(U8(1), bits)
			ADCQ(Imm(0), n)
		}
	})
	loop("one", k, 1, func() {
		MOVL(at.As32(), Mem{Base: list, Index: n, Scale: 4})
		MOVL(Mem{Base: x[0], Index: at, Scale: 4}, bits)
		for _, row := range x[1:] {
			ORL(Mem{Base: row, Index: at, Scale: 4}, bits)
		}
		INCL(at.As32())
		ADDL(bits, bits)
		CMPL(none, bits)
		ADCQ(Imm(0), n)
	})
	Store(n, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// returnTotal returns the sum of four vectors of four float64.
func returnTotal(sums []VecVirtual) {
	VADDPD(sums[0], sums[1], sums[0])
	VADDPD(sums[2], sums[3], sums[2])
	VADDPD(sums[0], sums[2], sums[0])
	high := XMM()
	VEXTRACTF128(U8(1), sums[0], high)
	VADDPD(high, sums[0].AsX(), high)
	VHADDPD(high, high, high)
	Store(high, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func zeros(n int) []VecVirtual {
	v := vectors(n)
	for _, s := range v {
		VXORPD(s, s, s)
	}
	return v
}

// hasF16C: golang.org/x/sys/cpu does not report it.
func hasF16C() {
	TEXT("hasF16C", NOSPLIT, "func() bool")
	MOVL(U32(1), EAX)
	XORL(ECX, ECX)
	CPUID()
	SHRL(U8(29), ECX)
	ANDL(U8(1), ECX)
	Store(CL, ReturnIndex(0))
	RET()
}

func widen() {
	TEXT("widen16", NOSPLIT, "func(dst *float32, src *uint16, n int)")
	dst, src, n := load("dst"), load("src"), load("n")
	loop("more", n, 16, func() {
		for i := range 2 {
			v := YMM()
			VCVTPH2PS(Mem{Base: src, Disp: 16 * i}, v)
			VMOVUPS(v, Mem{Base: dst, Disp: 32 * i})
		}
		ADDQ(U8(32), src)
		ADDQ(U8(64), dst)
	})
	VZEROUPPER()
	RET()
}

func sum() {
	TEXT("sum16", NOSPLIT, "func(x *float32, n int) float64")
	x, n := load("x"), load("n")
	sums := zeros(4)
	loop("more", n, 16, func() {
		for i, s := range sums {
			v := YMM()
			VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
			VADDPD(v, s, s)
		}
		ADDQ(U8(64), x)
	})
	returnTotal(sums)
}

func squares() {
	TEXT("squares16", NOSPLIT, "func(x *float32, n int, mean float64) float64")
	x, n := load("x"), load("n")
	mean := YMM()
	VBROADCASTSD(parameter("mean"), mean)
	sums := zeros(4)
	loop("more", n, 16, func() {
		for i, s := range sums {
			v := YMM()
			VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
			VSUBPD(mean, v, v)
			VFMADD231PD(v, v, s)
		}
		ADDQ(U8(64), x)
	})
	returnTotal(sums)
}

// The rows of tanhTable, 8 equal numbers each.
const (
	limit, minusLimit = 0, 1
	one, minusOne     = 2, 3
	numerator         = 4 // c0 to c4
	denominator       = 9 // c1 to c4; c0 is one
	degree            = 4
)

func row(table Register, i int) Mem { return Mem{Base: table, Disp: 32 * i} }

// applyTanh replaces x by tanh x. If an operand of VMINPS or VMAXPS is NaN, the result is
// the second source: NaN stays NaN.
func applyTanh(x VecVirtual, table Register) {
	clamp(x, table, minusLimit, limit)
	s, p, q := YMM(), YMM(), YMM()
	VMULPS(x, x, s)
	VMOVUPS(row(table, numerator+degree), p)
	for i := degree - 1; i >= 0; i-- {
		VFMADD213PS(row(table, numerator+i), s, p)
	}
	VMOVUPS(row(table, denominator+degree-1), q)
	for i := degree - 2; i >= 0; i-- {
		VFMADD213PS(row(table, denominator+i), s, q)
	}
	VFMADD213PS(row(table, one), s, q)
	VMULPS(x, p, p)
	VDIVPS(q, p, x)
	clamp(x, table, minusOne, one)
}

func clamp(x VecVirtual, table Register, low, high int) {
	bound := YMM()
	VMOVUPS(row(table, low), bound)
	VMAXPS(x, bound, x)
	VMOVUPS(row(table, high), bound)
	VMINPS(x, bound, x)
}

func broadcast(name string) VecVirtual {
	v := YMM()
	VBROADCASTSS(parameter(name), v)
	return v
}

// elements writes a function of n elements, a multiple of 16. compute, called for each half of 16, has the half of an
// address.
func elements(name, parameters string, addresses []string, body func() func(at func(name string) Mem)) {
	TEXT(name, NOSPLIT, "func("+parameters+")")
	registers := map[string]Register{}
	for _, address := range addresses {
		registers[address] = load(address)
	}
	n, compute := load("n"), body()
	loop("more", n, 16, func() {
		for i := range 2 {
			compute(func(name string) Mem { return Mem{Base: registers[name], Disp: 32 * i} })
		}
		for _, address := range addresses {
			ADDQ(U8(64), registers[address])
		}
	})
	VZEROUPPER()
	RET()
}

// normalised is (x-mean)·scale·gain + bias.
func normalised(at func(string) Mem, mean, scale VecVirtual) VecVirtual {
	v := YMM()
	VMOVUPS(at("x"), v)
	VSUBPS(mean, v, v)
	VMULPS(scale, v, v)
	b := YMM()
	VMOVUPS(at("bias"), b)
	VFMADD132PS(at("gain"), b, v)
	return v
}

func norms() {
	row := []string{"x", "gain", "bias"}
	elements("normTanh16", "x, gain, bias *float32, n int, mean, scale float32, table *[13][8]float32", row,
		func() func(at func(string) Mem) {
			table, mean, scale := load("table"), broadcast("mean"), broadcast("scale")
			return func(at func(string) Mem) {
				v := normalised(at, mean, scale)
				applyTanh(v, table)
				VMOVUPS(v, at("x"))
			}
		})
	inPlace("tanh16", applyTanh)
	elements("norm16", "dst, x, gain, bias *float32, n int, mean, scale float32", append([]string{"dst"}, row...),
		func() func(at func(string) Mem) {
			mean, scale := broadcast("mean"), broadcast("scale")
			return func(at func(string) Mem) { VMOVUPS(normalised(at, mean, scale), at("dst")) }
		})
	elements("finish16", "x, sums, bias *float32, n int, mean, scale float32", []string{"x", "sums", "bias"},
		func() func(at func(string) Mem) {
			mean, scale := broadcast("mean"), broadcast("scale")
			return func(at func(string) Mem) {
				v := YMM()
				VMOVUPS(at("x"), v)
				VFNMADD231PS(at("sums"), mean, v)
				VFMADD213PS(at("bias"), scale, v)
				VMOVUPS(v, at("x"))
			}
		})
}

// inPlace writes a function that applies another one to each element.
func inPlace(name string, apply func(x VecVirtual, table Register)) {
	elements(name, "x *float32, n int, table *[13][8]float32", []string{"x"}, func() func(at func(string) Mem) {
		table := load("table")
		return func(at func(string) Mem) {
			v := YMM()
			VMOVUPS(at("x"), v)
			apply(v, table)
			VMOVUPS(v, at("x"))
		}
	})
}

// The rows of mishTable, 8 equal numbers each.
const (
	mishLow, mishHigh = 0, 1
	log2e             = 2
	ln2               = 3 // in two parts
	exponential       = 5 // c7 to c2 of eˣ; c1 and c0 are one
	mishOne, mishTwo  = 11, 12
)

// applyMish replaces x by its Mish. NaN stays NaN.
func applyMish(x VecVirtual, table Register) {
	r, k, whole, p, n := YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVAPS(x, r)
	clamp(r, table, mishLow, mishHigh)
	VMULPS(row(table, log2e), r, k)
	VCVTPS2DQ(k, k)
	VCVTDQ2PS(k, whole)
	VFNMADD231PS(row(table, ln2), whole, r)
	VFNMADD231PS(row(table, ln2+1), whole, r)
	VMOVUPS(row(table, exponential), p)
	for i := exponential + 1; i <= mishOne; i++ {
		VFMADD213PS(row(table, i), r, p)
	}
	VFMADD213PS(row(table, mishOne), r, p)
	VPSLLD(U8(23), k, k)
	VPADDD(k, p, p) // times 2 to the power k
	VADDPS(row(table, mishTwo), p, n)
	VMULPS(p, n, n)
	VADDPS(row(table, mishTwo), n, p)
	VDIVPS(p, n, n)
	VMULPS(n, x, x)
}
