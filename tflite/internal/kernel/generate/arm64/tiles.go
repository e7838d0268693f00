package main

import "fmt"

// tileRows by 4 vectors of sums, a vector of inputs for each row and 2 of weights use all
// 32 registers.
//
// A Cortex-A78AE starts two multiply-adds of 4 elements a cycle. Their latency is 4 cycles,
// so it needs 8 independent sums, those of two rows. Six rows by 16 outputs are 24
// multiply-adds an input, 12 cycles. One load gives four inputs of a row, which are
// multiplied by element, without a broadcast: four inputs are 96 multiply-adds, 48 cycles,
// beside 6 loads of inputs and 8 of pairs of weights, 22 vectors. That is half a vector a
// cycle, and the core loads two or three: only the multiply-adds limit the speed. Seven
// rows would need more registers and would not be faster. With only 2 vectors of weights a
// load does not wait for multiply-adds, because the core renames registers.
//
// Listed inputs are loaded one by one into element 0: 24 multiply-adds beside 9 loads, of
// 10 vectors or scalars and a number.
//
// LLVM 19's model of the similar Neoverse N1 gives both loops the 48 cycles of their
// multiply-adds. This is a model, not a measurement.
const tileRows = 6

const (
	tileParameters   = "dst *float32, dstStride int, x *float32, xStride int, w *float32, "
	startParameters  = "start *float32, startStride int, floor float32"
	vectorParameters = "dst *float32, x *float32, w *float32, panelStride int, "
)

// The registers of the loops. The first two hold the address and the stride of the sums
// before and after the loop; loops over sparse panels reuse them.
const (
	sumsAddress, sumsStride = "R0", "R1"
	weights, counter        = "R8", "R9"
	list, input, scratch    = "R10", "R11", "R12"
)

// rowAddress is the register of the address of a row's inputs, panelAddress of a panel's
// weights, panelInput of the weights of one input in a panel.
func rowAddress(r int) string   { return fmt.Sprintf("R%d", 2+r) }
func panelAddress(p int) string { return fmt.Sprintf("R%d", 19+p) }
func panelInput(p int) string   { return fmt.Sprintf("R%d", 4+p) }

// addresses loads an address into the first register and adds the stride for each of the
// other n-1.
func (f *file) addresses(name, stride string, n int, register func(int) string) {
	f.load(name, register(0))
	if n == 1 {
		return
	}
	f.inBytes(stride, scratch)
	for i := 1; i < n; i++ {
		f.line("ADD %s, %s, %s", scratch, register(i-1), register(i))
	}
}

// loadTile loads the sums of rows by 16 outputs; storeTile stores them.
func (f *file) loadTile(rows int) {
	f.load("start", sumsAddress)
	f.inBytes("startStride", sumsStride)
	f.eachRow(rows, func(sum int) {
		f.line("FLDPQ (%s), (F%d, F%d)", sumsAddress, sum, sum+1)
		f.line("FLDPQ 32(%s), (F%d, F%d)", sumsAddress, sum+2, sum+3)
	})
}

func (f *file) storeTile(rows int) {
	f.raiseToFloor(4 * rows)
	f.load("dst", sumsAddress)
	f.inBytes("dstStride", sumsStride)
	f.eachRow(rows, func(sum int) {
		f.line("FSTPQ (F%d, F%d), (%s)", sum, sum+1, sumsAddress)
		f.line("FSTPQ (F%d, F%d), 32(%s)", sum+2, sum+3, sumsAddress)
	})
	f.line("RET")
}

// eachRow calls body with the first sum of each row.
func (f *file) eachRow(rows int, body func(sum int)) {
	for r := range rows {
		body(4 * r)
		if r < rows-1 {
			f.line("ADD %s, %s, %s", sumsStride, sumsAddress, sumsAddress)
		}
	}
}

// raiseToFloor computes max(sum, floor) of n sums; NaN stays NaN.
func (f *file) raiseToFloor(n int) {
	const floor = 31
	f.broadcast("floor", floor)
	for s := range n {
		f.max4(s, s, floor)
	}
}

// multiplyRows adds the products of one input, an element of the rows' vectors, and 16
// weights to the sums of all rows. post increments the address of the weights.
func (f *file) multiplyRows(rows, element int, address string, post bool) {
	first := 5 * rows // the first vector after the sums and the inputs
	pairs := min(2, (32-first)/2)
	for half := range 2 {
		w := first + half%pairs*2
		switch {
		case post:
			f.line("FLDPQ.P 32(%s), (F%d, F%d)", address, w, w+1)
		default:
			f.line("FLDPQ %d(%s), (F%d, F%d)", 32*half, address, w, w+1)
		}
		for r := range rows {
			f.fmla4(4*r+2*half, w, 4*rows+r, element)
			f.fmla4(4*r+2*half+1, w+1, 4*rows+r, element)
		}
	}
}

// dense: rows of x by one panel of 16 outputs.
func (f *file) dense(rows int) {
	f.function(fmt.Sprint("dense", rows), fmt.Sprintf("computes %d rows by 16 outputs.", rows),
		tileParameters+"k int, "+startParameters, "")
	f.loadTile(rows)
	f.addresses("x", "xStride", rows, rowAddress)
	f.load("w", weights)
	f.load("k", counter)
	f.loop("four", counter, 4, func() {
		for r := range rows {
			f.line("FMOVQ.P 16(%s), F%d", rowAddress(r), 4*rows+r)
		}
		for element := range 4 {
			f.multiplyRows(rows, element, weights, true)
		}
	})
	f.loop("one", counter, 1, func() {
		for r := range rows {
			f.line("FMOVS.P 4(%s), F%d", rowAddress(r), 4*rows+r)
		}
		f.multiplyRows(rows, 0, weights, true)
	})
	f.storeTile(rows)
}

// eachListed repeats body for every input in a list, four at a time. The register input has
// its number.
func (f *file) eachListed(body func()) {
	f.load("list", list)
	f.load("n", counter)
	step := func(unroll int) func() {
		return func() {
			for i := range unroll {
				f.line("MOVWU %d(%s), %s", 4*i, list, input)
				body()
			}
			f.line("ADD $%d, %s, %s", 4*unroll, list, list)
		}
	}
	f.loop("four", counter, 4, step(4))
	f.loop("one", counter, 1, step(1))
}

// sparse: rows of x by one panel of 16 outputs, over the inputs in a list.
func (f *file) sparse(rows int) {
	f.function(fmt.Sprint("sparse", rows), fmt.Sprintf("computes %d rows by 16 outputs over the listed inputs.", rows),
		tileParameters+"list *uint32, n int, "+startParameters, "")
	f.loadTile(rows)
	f.addresses("x", "xStride", rows, rowAddress)
	f.load("w", weights)
	f.eachListed(func() {
		f.line("ADD %s<<6, %s, %s", input, weights, scratch)
		for r := range rows {
			f.line("FMOVS (%s)(%s<<2), F%d", rowAddress(r), input, 4*rows+r)
		}
		f.multiplyRows(rows, 0, scratch, false)
	})
	f.storeTile(rows)
}

// The vectors of a row by several panels: up to 16 sums, the inputs, and pairs
// of weights in turn.
const (
	rowInputs   = 16
	rowWeights  = 24
	weightPairs = 4
)

// loadRow loads the sums of one row by several panels; storeRow stores them.
func (f *file) loadRow(panels int) {
	f.load("start", sumsAddress)
	for s := 0; s < 4*panels; s += 2 {
		f.line("FLDPQ %d(%s), (F%d, F%d)", 16*s, sumsAddress, s, s+1)
	}
}

func (f *file) storeRow(panels int) {
	f.raiseToFloor(4 * panels)
	f.load("dst", sumsAddress)
	for s := 0; s < 4*panels; s += 2 {
		f.line("FSTPQ (F%d, F%d), %d(%s)", s, s+1, 16*s, sumsAddress)
	}
	f.line("RET")
}

// multiplyPanels adds the products of one input and its weights, at an offset from each
// panel's address, to the sums of all panels.
func (f *file) multiplyPanels(panels, element, offset int, address func(int) string) {
	pair := 0
	for p := range panels {
		for half := range 2 {
			w := rowWeights + pair%weightPairs*2
			pair++
			f.line("FLDPQ %d(%s), (F%d, F%d)", offset+32*half, address(p), w, w+1)
			f.fmla4(4*p+2*half, w, rowInputs, element)
			f.fmla4(4*p+2*half+1, w+1, rowInputs, element)
		}
	}
}

// vector: one row by several panels of 16 outputs, panelStride elements apart. The sums of
// two panels hide the latency of the multiply-add. Each weight is used once: 16
// multiply-adds, 8 cycles, need 16 vectors, and the first-level cache gives 2 a cycle.
// For matrices larger than the caches the memory limits the speed.
func (f *file) vector(panels int) {
	f.function(fmt.Sprint("vector", panels), fmt.Sprintf("computes one row by %d panels of 16 outputs.", panels),
		vectorParameters+"k int, start *float32, floor float32", "")
	f.loadRow(panels)
	x := rowAddress(0)
	f.load("x", x)
	f.addresses("w", "panelStride", panels, panelAddress)
	f.load("k", counter)
	step := func(load string, inputs int) func() {
		return func() {
			f.line(load, x, rowInputs)
			for element := range inputs {
				f.multiplyPanels(panels, element, 64*element, panelAddress)
			}
			for p := range panels {
				f.line("ADD $%d, %s, %s", 64*inputs, panelAddress(p), panelAddress(p))
			}
		}
	}
	f.loop("four", counter, 4, step("FMOVQ.P 16(%s), F%d", 4))
	f.loop("one", counter, 1, step("FMOVS.P 4(%s), F%d", 1))
	f.storeRow(panels)
}

// halfVector: vector with float16 weights. Each pair of vectors holds the weights of one input,
// which four instructions widen.
func (f *file) halfVector(panels int) {
	const narrow, wide = 24, 26
	f.function(fmt.Sprint("halfVector", panels),
		fmt.Sprintf("computes one row by %d panels of 16 outputs with float16 weights.", panels),
		"dst *float32, x *float32, w *uint16, panelStride int, k int, start *float32, floor float32", "")
	f.loadRow(panels)
	x := rowAddress(0)
	f.load("x", x)
	f.load("w", panelAddress(0))
	f.load("panelStride", scratch)
	for p := 1; p < panels; p++ {
		f.line("ADD %s<<1, %s, %s", scratch, panelAddress(p-1), panelAddress(p))
	}
	f.load("k", counter)
	step := func(load string, inputs int) func() {
		return func() {
			f.line(load, x, rowInputs)
			for element := range inputs {
				for p := range panels {
					f.line("FLDPQ.P 32(%s), (F%d, F%d)", panelAddress(p), narrow, narrow+1)
					for half := range 2 {
						f.widenHalf(wide+2*half, narrow+half)
						f.widenHalfHigh(wide+2*half+1, narrow+half)
					}
					for i := range 4 {
						f.fmla4(4*p+i, wide+i, rowInputs, element)
					}
				}
			}
		}
	}
	f.loop("four", counter, 4, step("FMOVQ.P 16(%s), F%d", 4))
	f.loop("one", counter, 1, step("FMOVS.P 4(%s), F%d", 1))
	f.storeRow(panels)
}

// sparseVector: vector over the inputs in a list.
func (f *file) sparseVector(panels int) {
	f.function(fmt.Sprint("sparseVector", panels),
		fmt.Sprintf("computes one row by %d panels of 16 outputs over the listed inputs.", panels),
		vectorParameters+"list *uint32, n int, start *float32, floor float32", "")
	f.loadRow(panels)
	x := rowAddress(0)
	f.load("x", x)
	f.addresses("w", "panelStride", panels, panelAddress)
	f.eachListed(func() {
		f.line("FMOVS (%s)(%s<<2), F%d", x, input, rowInputs)
		for p := range panels {
			f.line("ADD %s<<6, %s, %s", input, panelAddress(p), panelInput(p))
		}
		f.multiplyPanels(panels, 0, 0, panelInput)
	})
	f.storeRow(panels)
}

// active: the list of the inputs that are not 0 in every row. To avoid mispredicted
// branches, it writes every input to the list's end and adds a bit to the list's length,
// which is set for an input that is not 0. All bits of 0 are 0 except its sign, which
// doubling drops.
func (f *file) active(rows int) {
	const (
		address, at, n, bits, bit = "R0", "R11", "R13", "R14", "R15"
		step                      = 8
	)
	f.function(fmt.Sprint("active", rows),
		fmt.Sprintf("lists the inputs below k that are not 0 in %d rows; list has room for k.", rows),
		"list *uint32, x *float32, xStride int, k int", "int")
	f.load("list", address)
	f.addresses("x", "xStride", rows, rowAddress)
	f.load("k", counter)
	f.line("MOVD ZR, %s", at)
	f.line("MOVD ZR, %s", n)
	f.loop("eight", counter, step, func() {
		for r := range rows {
			low, high := 2*min(r, 1), 2*min(r, 1)+1
			f.line("FLDPQ.P 32(%s), (F%d, F%d)", rowAddress(r), low, high)
			if r > 0 {
				f.line("VORR V%d.B16, V0.B16, V0.B16", low)
				f.line("VORR V%d.B16, V1.B16, V1.B16", high)
			}
		}
		for v := range 2 {
			f.line("VADD V%d.S4, V%d.S4, V%d.S4", v, v, v)
			f.line("VCMTST V%d.S4, V%d.S4, V%d.S4", v, v, v)
		}
		// Eight elements of 32 bits become eight bytes.
		f.line("VUZP1 V1.H8, V0.H8, V0.H8")
		f.line("VUZP1 V0.B16, V0.B16, V0.B16")
		f.line("VMOV V0.D[0], %s", bits)
		for i := range step {
			f.line("MOVW %s, (%s)(%s<<2)", at, address, n)
			f.line("UBFX $%d, %s, $1, %s", 8*i, bits, bit)
			f.line("ADD $1, %s, %s", at, at)
			f.line("ADD %s, %s, %s", bit, n, n)
		}
	})
	f.loop("one", counter, 1, func() {
		f.line("MOVW %s, (%s)(%s<<2)", at, address, n)
		f.line("MOVWU.P 4(%s), %s", rowAddress(0), bits)
		for r := 1; r < rows; r++ {
			f.line("MOVWU.P 4(%s), %s", rowAddress(r), bit)
			f.line("ORR %s, %s, %s", bit, bits, bits)
		}
		f.line("ADD $1, %s, %s", at, at)
		f.line("LSLW $1, %s, %s", bits, bits)
		f.line("CMPW $0, %s", bits)
		f.line("CINC NE, %s, %s", n, n)
	})
	f.line("MOVD %s, %s", n, f.parameters["ret"])
	f.line("RET")
}
