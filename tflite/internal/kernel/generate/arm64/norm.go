package main

import "fmt"

// halves is the number of half-vectors of sums. The sums have the same order as on amd64, so that a
// row's mean and standard deviation have the same bits: half-vector i/2 gets element i of 16.
const halves = 8

func (f *file) zeroSums() {
	for s := range halves {
		f.line("VEOR V%d.B16, V%d.B16, V%d.B16", s, s, s)
	}
}

// eachHalf loads 16 elements, converts them to float64, and calls body with the register
// and the sum of each half-vector.
func (f *file) eachHalf(x string, body func(v, sum int)) {
	const quad, double = 16, 20
	for i := 0; i < 4; i += 2 {
		f.line("FLDPQ.P 32(%s), (F%d, F%d)", x, quad+i, quad+i+1)
	}
	for s := range halves {
		if s%2 == 0 {
			f.widen(double+s, quad+s/2)
		} else {
			f.widenHigh(double+s, quad+s/2)
		}
		body(double+s, s)
	}
}

func (f *file) returnTotal() {
	for _, s := range []int{0, 1, 4, 5} {
		f.add2(s, s, s+2)
	}
	f.add2(0, 0, 4)
	f.add2(1, 1, 5)
	f.add2(0, 0, 1)
	f.addPair(0, 0)
	f.line("FMOVD F0, %s", f.parameters["ret"])
	f.line("RET")
}

func (f *file) widen16() {
	f.function("widen16", "converts n float16, a multiple of 16, to float32.", "dst *float32, src *uint16, n int", "")
	f.load("dst", "R0")
	f.load("src", "R1")
	f.load("n", counter)
	f.loop("more", counter, 16, func() {
		f.line("FLDPQ.P 32(R1), (F0, F1)")
		for i := range 2 {
			f.widenHalf(2+2*i, i)
			f.widenHalfHigh(3+2*i, i)
			f.line("FSTPQ.P (F%d, F%d), 32(R0)", 2+2*i, 3+2*i)
		}
	})
	f.line("RET")
}

func (f *file) sum() {
	f.function("sum16", "adds up n elements, a multiple of 16.", "x *float32, n int", "float64")
	f.load("x", "R0")
	f.load("n", counter)
	f.zeroSums()
	f.loop("more", counter, 16, func() {
		f.eachHalf("R0", func(v, sum int) { f.add2(sum, sum, v) })
	})
	f.returnTotal()
}

func (f *file) squares() {
	const mean = 31
	f.function("squares16", "adds up (x - mean)² of n elements, a multiple of 16.",
		"x *float32, n int, mean float64", "float64")
	f.load("x", "R0")
	f.load("n", counter)
	f.line("FMOVD %s, F%d", f.parameters["mean"], mean)
	f.line("VDUP V%d.D[0], V%d.D2", mean, mean)
	f.zeroSums()
	f.loop("more", counter, 16, func() {
		f.eachHalf("R0", func(v, sum int) {
			f.sub2(v, v, mean)
			f.line("VFMLA V%d.D2, V%d.D2, V%d.D2", v, v, sum)
		})
	})
	f.returnTotal()
}

// The rows of tanhTable, 8 equal numbers each.
const (
	limit, minusLimit = 0, 1
	one, minusOne     = 2, 3
	numerator         = 4 // c0 to c4
	denominator       = 9 // c1 to c4; c0 is one
	degree            = 4
)

// The vectors of tanh: groups of four, 16 elements, then single ones for all elements. A
// polynomial alternates between the steps.
const (
	group = 4

	values, squared     = 0, 4
	step0, step1, step2 = 8, 12, 16

	bounds           = 20 // the table's first four rows
	leadingNumerator = 24
	leadingDivisor   = 25
	meanVector       = 26
	scaleVector      = 27
)

const table = "R3"

func (f *file) tableRow(i, v int) { f.line("FMOVQ %d(%s), F%d", 32*i, table, v) }

func (f *file) loadTable() {
	f.load("table", table)
	for i := range 4 {
		f.tableRow(i, bounds+i)
	}
	f.tableRow(numerator+degree, leadingNumerator)
	f.tableRow(denominator+degree-1, leadingDivisor)
}

// eachVector calls body for each vector of a group. Consecutive instructions do not depend
// on each other.
func eachVector(body func(i int)) {
	for i := range group {
		body(i)
	}
}

// hornerStep computes to = coefficient + from·x². It loads the coefficient from the table:
// unlike a copy of a register, a load needs no arithmetic unit.
func (f *file) hornerStep(to, from, coefficient int, shared bool) {
	eachVector(func(i int) { f.tableRow(coefficient, to+i) })
	eachVector(func(i int) {
		source := from + i
		if shared {
			source = from
		}
		f.line("VFMLA V%d.S4, V%d.S4, V%d.S4", squared+i, source, to+i)
	})
}

// applyTanh replaces the values by their tanh. NaN stays NaN.
func (f *file) applyTanh() {
	clamp := func(low, high int) {
		eachVector(func(i int) { f.max4(values+i, values+i, bounds+low) })
		eachVector(func(i int) { f.min4(values+i, values+i, bounds+high) })
	}
	clamp(minusLimit, limit)
	eachVector(func(i int) { f.mul4(squared+i, values+i, values+i) })
	f.hornerStep(step0, leadingNumerator, numerator+3, true)
	f.hornerStep(step1, step0, numerator+2, false)
	f.hornerStep(step0, step1, numerator+1, false)
	f.hornerStep(step1, step0, numerator, false)
	f.hornerStep(step0, leadingDivisor, denominator+2, true)
	f.hornerStep(step2, step0, denominator+1, false)
	f.hornerStep(step0, step2, denominator, false)
	f.hornerStep(step2, step0, one, false)
	eachVector(func(i int) { f.mul4(step1+i, values+i, step1+i) })
	eachVector(func(i int) { f.div4(values+i, step1+i, step2+i) })
	clamp(minusOne, one)
}

// loadQuads loads 16 elements; post increments the address.
func (f *file) loadQuads(address string, v int, post bool) {
	for i := 0; i < group; i += 2 {
		at := fmt.Sprintf("FLDPQ %d(%s)", 16*i, address)
		if post {
			at = fmt.Sprintf("FLDPQ.P 32(%s)", address)
		}
		f.line("%s, (F%d, F%d)", at, v+i, v+i+1)
	}
}

// storeQuads stores 16 elements and increments the address in a separate instruction. If
// the last store incremented it, the next load would wait for that store's data.
func (f *file) storeQuads(address string, v int) {
	for i := 0; i < group; i += 2 {
		f.line("FSTPQ (F%d, F%d), %d(%s)", v+i, v+i+1, 16*i, address)
	}
	f.line("ADD $%d, %s, %s", 16*group, address, address)
}

// elements writes a function of n elements, a multiple of 16, which computes the values of 16 at a
// time from x and stores them. constants loads those of a table.
func (f *file) elements(name, formula, parameters string, constants, body func()) {
	f.function(name, "computes "+formula+" of n elements, a multiple of 16.", parameters, "")
	to := "R0"
	for _, p := range []struct{ name, register string }{
		{"dst", "R4"}, {"x", "R0"}, {"gain", "R1"}, {"sums", "R1"}, {"bias", "R2"}, {"n", counter},
	} {
		if f.parameters[p.name] != "" {
			f.load(p.name, p.register)
		}
	}
	constants()
	if f.parameters["mean"] != "" {
		f.broadcast("mean", meanVector)
		f.broadcast("scale", scaleVector)
	}
	if f.parameters["dst"] != "" {
		to = "R4"
	}
	f.loop("more", counter, 4*group, func() {
		body()
		f.storeQuads(to, values)
	})
	f.line("RET")
}

// normalise loads x, and computes the values (x-mean)·scale·gain + bias.
func (f *file) normalise(post bool) {
	f.loadQuads("R0", step0, post)
	f.loadQuads("R1", step1, true)
	f.loadQuads("R2", values, true)
	eachVector(func(i int) { f.sub4(step0+i, step0+i, meanVector) })
	eachVector(func(i int) { f.mul4(step0+i, step0+i, scaleVector) })
	eachVector(func(i int) { f.line("VFMLA V%d.S4, V%d.S4, V%d.S4", step1+i, step0+i, values+i) })
}

func (f *file) norms() {
	const row, scalars = "x *float32, gain *float32, bias *float32, n int, ", "mean float32, scale float32"
	const table = "x *float32, n int, table *[13][8]float32"
	f.elements("normTanh16", "x ← tanh((x-mean)·scale·gain + bias)", row+scalars+", table *[13][8]float32",
		f.loadTable, func() { f.normalise(false); f.applyTanh() })
	f.elements("tanh16", "x ← tanh x", table, f.loadTable, func() { f.loadQuads("R0", values, false); f.applyTanh() })
	f.elements("norm16", "dst = (x-mean)·scale·gain + bias", "dst *float32, "+row+scalars, func() {},
		func() { f.normalise(true) })
	f.elements("finish16", "x ← (x-mean·sums)·scale + bias",
		"x *float32, sums *float32, bias *float32, n int, "+scalars, func() {}, func() {
			f.loadQuads("R0", step0, false)
			f.loadQuads("R1", step1, true)
			f.loadQuads("R2", values, true)
			eachVector(func(i int) { f.line("VFMLS V%d.S4, V%d.S4, V%d.S4", step1+i, meanVector, step0+i) })
			eachVector(func(i int) { f.line("VFMLA V%d.S4, V%d.S4, V%d.S4", step0+i, scaleVector, values+i) })
		})
	f.elements("mish16", "x ← mish x", table, f.loadMishTable,
		func() { f.loadQuads("R0", values, false); f.applyMish() })
}

// The rows of mishTable, 8 equal numbers each.
const (
	mishLow, mishHigh = 0, 1
	log2e             = 2
	ln2               = 3 // in two parts
	exponential       = 5 // c7 to c2 of eˣ; c1 and c0 are one
	mishOne, mishTwo  = 11, 12
)

// The vectors of Mish beside values, steps and, in squared, the remainder of the exponent: rows 0
// to 5 of the table from bounds on, then 2.
const twoVector = bounds + exponential + 1

// applyMish replaces the values by their Mish. NaN stays NaN.
func (f *file) applyMish() {
	const remainder, power = squared, step0
	eachVector(func(i int) { f.max4(remainder+i, values+i, bounds+mishLow) })
	eachVector(func(i int) { f.min4(remainder+i, remainder+i, bounds+mishHigh) })
	eachVector(func(i int) { f.mul4(power+i, remainder+i, bounds+log2e) })
	eachVector(func(i int) { f.nearest(power+i, power+i) })
	eachVector(func(i int) { f.float4(step1+i, power+i) })
	for part := range 2 {
		eachVector(func(i int) { f.line("VFMLS V%d.S4, V%d.S4, V%d.S4", bounds+ln2+part, step1+i, remainder+i) })
	}
	to, from := step1, step2
	f.hornerStep(to, bounds+exponential, exponential+1, true)
	for _, coefficient := range []int{7, 8, 9, 10, mishOne, mishOne} {
		to, from = from, to
		f.hornerStep(to, from, coefficient, false)
	}
	p, n := to, from
	eachVector(func(i int) { f.line("VSHL $23, V%d.S4, V%d.S4", power+i, power+i) })
	eachVector(func(i int) { f.line("VADD V%d.S4, V%d.S4, V%d.S4", power+i, p+i, p+i) })
	eachVector(func(i int) { f.add4(n+i, p+i, twoVector) })
	eachVector(func(i int) { f.mul4(n+i, n+i, p+i) })
	eachVector(func(i int) { f.add4(p+i, n+i, twoVector) })
	eachVector(func(i int) { f.div4(n+i, n+i, p+i) })
	eachVector(func(i int) { f.mul4(values+i, values+i, n+i) })
}

func (f *file) loadMishTable() {
	f.load("table", table)
	for i := range exponential + 1 {
		f.tableRow(i, bounds+i)
	}
	f.tableRow(mishTwo, twoVector)
}
