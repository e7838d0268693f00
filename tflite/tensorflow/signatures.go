//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"optibfm/tflite"
)

// maxSize limits the sizes of a SavedModel, because d² elements are allocated.
const maxSize = 16384

// tensorNames are the names of a signature's tensors in the graph.
type tensorNames struct {
	inputs []string
	output string
}

// matched is the result of match.
type matched struct {
	dims             tflite.Dims
	phi, policy, psi tensorNames
}

// expected is a tensor of a signature: its key and the letters of its shape. n is
// not fixed; each of O, A, d and E is the same number in all shapes.
type expected struct{ key, shape string }

// match compares the signatures with the expected ones. Its error is a table of
// all tensors, expected and found.
func match(signatures map[string]signature, names tflite.Signatures) (matched, error) {
	var f matched
	c := comparison{sizes: make(map[byte]int), signatures: signatures}
	f.psi = c.compare(names.Psi, []expected{{"obs", "nO"}, {"action", "nA"}, {"z", "nd"}}, expected{"psi", "End"})
	f.policy = c.compare(names.Policy, []expected{{"obs", "nO"}, {"z", "nd"}}, expected{"action", "nA"})
	f.phi = c.compare(names.Phi, []expected{{"obs", "nO"}}, expected{"phi", "nd"})
	if c.wrong {
		return f, c.error()
	}
	f.dims = tflite.Dims{Obs: c.sizes['O'], Action: c.sizes['A'], Latent: c.sizes['d'], Ensemble: c.sizes['E']}
	return f, nil
}

// comparison collects the lines of the table.
type comparison struct {
	signatures map[string]signature
	sizes      map[byte]int // of the letters, from their first occurrence
	rows       []string
	wrong      bool
}

func (c *comparison) compare(name string, in []expected, out expected) (e tensorNames) {
	s, ok := c.signatures[name]
	if !ok {
		c.wrong = true
		c.rows = append(c.rows, fmt.Sprintf("%s\t\tthe signature\tnothing\tmissing", name))
		return e
	}
	for _, want := range in {
		e.inputs = append(e.inputs, c.tensor(name, "in", s.inputs, want))
	}
	e.output = c.tensor(name, "out", s.outputs, out)
	c.unexpected(name, "in", s.inputs, in...)
	c.unexpected(name, "out", s.outputs, out)
	return e
}

func (c *comparison) tensor(signature, side string, of map[string]tensorInfo, want expected) string {
	info, ok := of[want.key]
	found, mark := "nothing", "missing"
	if ok {
		found, mark = info.String(), c.mismatch(info, want.shape)
	}
	shape := "float32 [" + strings.Join(strings.Split(want.shape, ""), ", ") + "]"
	c.row(signature, side+" "+want.key, shape, found, mark)
	return info.name
}

// unexpected adds a row for each tensor that is not expected.
func (c *comparison) unexpected(signature, side string, of map[string]tensorInfo, want ...expected) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if !slices.ContainsFunc(want, func(w expected) bool { return w.key == key }) {
			c.row(signature, side+" "+key, "nothing", of[key].String(), "unexpected")
		}
	}
}

func (c *comparison) row(signature, tensor, want, found, mark string) {
	c.wrong = c.wrong || mark != ""
	cells := strings.Join([]string{signature, tensor, want, found, mark}, "\t")
	c.rows = append(c.rows, strings.TrimRight(cells, "\t"))
}

// mismatch describes what is wrong with a tensor; "" means nothing.
func (c *comparison) mismatch(info tensorInfo, shape string) string {
	switch {
	case info.t != float32Type:
		return "type"
	case info.unranked || len(info.dims) != len(shape):
		return "shape"
	}
	for i, size := range info.dims {
		letter := shape[i]
		known, seen := c.sizes[letter]
		switch {
		case letter == 'n' && size >= 0:
			return "n is fixed"
		case letter != 'n' && size < 1:
			return string(letter) + " is not fixed"
		case letter != 'n' && size > maxSize:
			return string(letter) + " is too large"
		case letter != 'n' && seen && size != known:
			return fmt.Sprintf("%c is %d above", letter, known)
		}
		c.sizes[letter] = size
	}
	return ""
}

func (c *comparison) error() error {
	var text strings.Builder
	text.WriteString("the signatures are not those of a model:\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  signature\ttensor\texpected\tfound\t")
	for _, row := range c.rows {
		fmt.Fprintln(table, "  "+row)
	}
	if err := table.Flush(); err != nil { // writing to a strings.Builder cannot fail
		return err
	}
	fmt.Fprintf(&text, "n must not be fixed (None), O, A, d and E must be; the SavedModel has the signatures %s; "+
		"see docs/tensorflow.md, \"Your own model as a SavedModel\"",
		strings.Join(slices.Sorted(maps.Keys(c.signatures)), ", "))
	return errors.New(text.String())
}

// typeNames are of tensorflow/core/framework/types.proto.
var typeNames = map[dtype]string{
	float32Type: "float32", float64Type: "float64", int32Type: "int32", 7: "string", int64Type: "int64",
	10: "bool", 14: "bfloat16", 19: "float16",
}

// String returns the type and the shape; ? is a size that is not fixed.
func (t tensorInfo) String() string {
	name, ok := typeNames[t.t]
	if !ok {
		name = fmt.Sprintf("type %d", t.t)
	}
	if t.unranked {
		return name + " of any shape"
	}
	var sizes []string
	for _, size := range t.dims {
		if size < 0 {
			sizes = append(sizes, "?")
			continue
		}
		sizes = append(sizes, strconv.Itoa(size))
	}
	return name + " [" + strings.Join(sizes, ", ") + "]"
}
