package main

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestGroup_ComputesTheSumsOfOneRow interprets the tiles of AVX-512, which no emulator of CI has,
// and compares them with sums in their order, to the bit.
func TestGroup_ComputesTheSumsOfOneRow(t *testing.T) {
	assembly, err := os.ReadFile("../../kernel_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for rows := 2; rows <= tileRows; rows++ {
		for _, k := range []int{0, 1, 2, 7} {
			for _, floor := range []float32{0, float32(math.Inf(-1))} {
				c := newGroupCase(rng, rows, k, floor)
				name := fmt.Sprintf("denseGroup%d", rows)
				c.check(t, name, run(t, functionOf(t, assembly, name), c.memory(false)), c.inputs(false))
				name = fmt.Sprintf("sparseGroup%d", rows)
				c.check(t, name, run(t, functionOf(t, assembly, name), c.memory(true)), c.inputs(true))
			}
		}
	}
}

const groupWidth = 16 * groupPanels

// groupCase is a product of rows by a group of panels.
type groupCase struct {
	rows, k                                      int
	x, w, start                                  []float32
	xStride, panelStride, startStride, outputRow int
	list                                         []uint32
	floor                                        float32
}

func newGroupCase(rng *rand.Rand, rows, k int, floor float32) groupCase {
	c := groupCase{
		rows: rows, k: k, floor: floor, xStride: k + 2, panelStride: 16*k + 3, startStride: groupWidth + 1,
		outputRow: groupWidth + 2,
	}
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	c.x, c.w = numbers((rows-1)*c.xStride+k), numbers(3*c.panelStride+16*k)
	c.start = numbers((rows-1)*c.startStride + groupWidth)
	c.start[3], c.start[c.startStride] = float32(math.NaN()), float32(math.Inf(1))
	for i := range k {
		if i%3 != 1 {
			c.list = append(c.list, uint32(i))
		}
	}
	return c
}

func (c groupCase) inputs(listed bool) (inputs []int) {
	for i := range c.k {
		if !listed || slices.Contains(c.list, uint32(i)) {
			inputs = append(inputs, i)
		}
	}
	return inputs
}

// The regions of a machine's memory: the upper half of an address is the region.
const (
	output = 1 + iota
	inputRows
	weightPanels
	initialSums
	inputList
)

// memory returns the machine that calls the tile.
func (c groupCase) memory(listed bool) *machine {
	bits := func(x []float32) (words []uint32) {
		for _, v := range x {
			words = append(words, math.Float32bits(v))
		}
		return words
	}
	arguments := map[string]uint64{
		"dst": output << 32, "dstStride": uint64(c.outputRow), "x": inputRows << 32, "xStride": uint64(c.xStride),
		"w": weightPanels << 32, "panelStride": uint64(c.panelStride), "k": uint64(c.k), "list": inputList << 32,
		"n": uint64(len(c.list)), "start": initialSums << 32, "startStride": uint64(c.startStride),
		"floor": uint64(math.Float32bits(c.floor)),
	}
	return &machine{arguments: arguments, registers: map[string]uint64{}, regions: [][]uint32{
		output: make([]uint32, (c.rows-1)*c.outputRow+groupWidth), inputRows: bits(c.x), weightPanels: bits(c.w),
		initialSums: bits(c.start), inputList: c.list,
	}}
}

func (c groupCase) check(t *testing.T, name string, m *machine, inputs []int) {
	t.Helper()
	for r := range c.rows {
		for o := range groupWidth {
			want := c.start[r*c.startStride+o]
			for _, i := range inputs {
				want = fma(c.x[r*c.xStride+i], c.w[o/16*c.panelStride+16*i+o%16], want)
			}
			want = maximum(c.floor, want)
			if got := m.regions[output][r*c.outputRow+o]; got != math.Float32bits(want) {
				t.Fatalf("%s, k %d, row %d, output %d: %g, want %g", name, c.k, r, o, math.Float32frombits(got), want)
			}
		}
		if r > 0 && (m.regions[output][r*c.outputRow-1] != 0 || m.regions[output][r*c.outputRow-2] != 0) {
			t.Fatalf("%s: write between the rows", name)
		}
	}
}

// fma rounds x·y + z once.
func fma(x, y, z float32) float32 {
	if z-z != 0 {
		return z
	}
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
	product := new(big.Float).SetPrec(1000).Mul(exact(x), exact(y))
	sum, _ := product.Add(product, exact(z)).Float32()
	return sum
}

// maximum is VMAXPS: the second one if one is NaN.
func maximum(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

// functionOf returns the lines of a function.
func functionOf(t *testing.T, assembly []byte, name string) []string {
	t.Helper()
	_, rest, found := strings.Cut(string(assembly), "TEXT ·"+name+"(SB)")
	body, _, ended := strings.Cut(rest, "\tRET\n")
	if !found || !ended {
		t.Fatalf("%s is not in the assembly", name)
	}
	return strings.Split(body, "\n")[1:]
}

// machine interprets the instructions of the tiles.
type machine struct {
	arguments map[string]uint64
	registers map[string]uint64
	vectors   [32][16]float32
	regions   [][]uint32
	negative  bool // the last difference
}

func run(t *testing.T, lines []string, m *machine) *machine {
	t.Helper()
	for at, steps := 0, 0; at < len(lines); at, steps = at+1, steps+1 {
		line := strings.TrimSpace(lines[at])
		if line == "" || strings.HasSuffix(line, ":") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		operands := strings.Split(strings.TrimSpace(rest), ", ")
		if name == "JMP" || name == "JGE" && !m.negative {
			at = slices.Index(lines, operands[0]+":")
		}
		if !m.execute(name, operands) || at < 0 || steps > 10000 {
			t.Fatalf("line %d: %q cannot be interpreted", at, line)
		}
	}
	return m
}

// execute executes an instruction that is not a jump.
func (m *machine) execute(name string, o []string) bool {
	last := o[len(o)-1]
	switch name {
	case "JMP", "JGE", "PREFETCHT0", "VZEROUPPER":
	case "MOVQ":
		m.registers[last] = m.value(o[0])
	case "MOVL":
		m.registers[last] = uint64(*m.word(m.address(o[0])))
	case "LEAQ":
		m.registers[last] = m.address(o[0])
	case "XORQ":
		m.registers[last] ^= m.value(o[0])
	case "INCQ":
		m.registers[last]++
	case "ADDQ":
		m.registers[last] += m.value(o[0])
	case "SUBQ":
		m.registers[last] -= m.value(o[0])
		m.negative = int64(m.registers[last]) < 0
	case "SHLQ":
		m.registers[last] <<= m.value(o[0])
	case "VMOVUPS":
		m.move(o[0], last)
	case "VBROADCASTSS":
		bits := uint32(m.value(o[0]))
		for i := range m.vector(last) {
			m.vector(last)[i] = math.Float32frombits(bits)
		}
	case "VFMADD231PS":
		x, y, sum := m.vector(o[0]), m.vector(o[1]), m.vector(last)
		for i := range sum {
			sum[i] = fma(x[i], y[i], sum[i])
		}
	case "VMAXPS":
		second, first, to := m.vector(o[0]), m.vector(o[1]), m.vector(last)
		for i := range to {
			to[i] = maximum(first[i], second[i])
		}
	default:
		return false
	}
	return true
}

// move loads or stores a vector.
func (m *machine) move(from, to string) {
	if !strings.HasPrefix(to, "Z") {
		for i, v := range m.vector(from) {
			*m.word(m.address(to) + 4*uint64(i)) = math.Float32bits(v)
		}
		return
	}
	for i := range m.vector(to) {
		m.vector(to)[i] = math.Float32frombits(*m.word(m.address(from) + 4*uint64(i)))
	}
}

func (m *machine) vector(name string) *[16]float32 {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "Z"))
	if err != nil {
		panic(err)
	}
	return &m.vectors[number]
}

var (
	parameterOperand = regexp.MustCompile(`^(\w+)\+\d+\(FP\)$`)
	memoryOperand    = regexp.MustCompile(`^(\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
)

// value returns a constant, a parameter, a register or a word of the memory.
func (m *machine) value(operand string) uint64 {
	if constant, found := strings.CutPrefix(operand, "$0x"); found {
		number, err := strconv.ParseUint(constant, 16, 64)
		if err != nil {
			panic(err)
		}
		return number
	}
	if p := parameterOperand.FindStringSubmatch(operand); p != nil {
		return m.arguments[p[1]]
	}
	if memoryOperand.MatchString(operand) {
		return uint64(*m.word(m.address(operand)))
	}
	return m.registers[operand]
}

// address returns disp(base)(index*scale).
func (m *machine) address(operand string) uint64 {
	p := memoryOperand.FindStringSubmatch(operand)
	displacement, _ := strconv.Atoi(p[1])
	scale, _ := strconv.Atoi(p[4])
	return m.registers[p[2]] + m.registers[p[3]]*uint64(scale) + uint64(displacement)
}

// word returns a word of the memory. It panics outside of the regions.
func (m *machine) word(address uint64) *uint32 {
	if address%4 != 0 {
		panic(fmt.Sprintf("address %#x is not that of a word", address))
	}
	return &m.regions[address>>32][uint32(address)/4]
}
