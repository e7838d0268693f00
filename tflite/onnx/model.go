package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/internal/safefile"
	"optibfm/tflite/internal/wire"
)

// model is a decoded ModelProto.
type model struct {
	producers map[string]*node  // by output
	constants map[string]tensor // by name
	inputs    []input
	outputs   []string
	nodes     []*node
	known     map[string][]column // results of columns
	total     int                 // columns in known
	layers    map[string]*node    // the linear layer of each weight matrix
}

// Limits, so that a damaged graph cannot exhaust the memory. A network of public models has up to
// 500 nodes.
const (
	maxParts   = 1 << 14 // nodes, constants, inputs and other parts of a graph
	maxColumns = 1 << 15 // of a tensor: those of an observation and of z have up to 1 << 14 in a bundle
	maxKnown   = 1 << 20 // columns of all tensors
)

// input is an input of a graph, [n, width].
type input struct {
	name  string
	width int
}

// node is a NodeProto.
type node struct {
	name, op        string
	inputs, outputs []string
	numbers         map[string]float64 // of attributes that are one number
	lists           map[string][]int
	value           *tensor // of an operation Constant
}

// tensor is a constant. Integers are float64 too: those of a graph are indices.
type tensor struct {
	dims   []int
	values []float64
}

func readModel(path string) (*model, error) {
	raw, err := safefile.Read(path, maxBytes)
	if err != nil {
		return nil, err
	}
	m := &model{
		producers: make(map[string]*node), constants: make(map[string]tensor), known: make(map[string][]column),
		layers: make(map[string]*node),
	}
	found := false
	err = wire.EachField(raw, func(field protowire.Number, graph []byte, _ uint64) error {
		if field != 7 {
			return nil
		}
		found = true
		return m.readGraph(graph, filepath.Dir(path))
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("cut short or damaged; copy the file again")
	case err != nil:
		return nil, err
	case !found:
		return nil, errors.New("no graph: not an ONNX model; give the .onnx file itself")
	}
	// Inputs may list the constants too.
	m.inputs = slices.DeleteFunc(m.inputs, func(in input) bool { _, ok := m.constants[in.name]; return ok })
	return m, m.validate()
}

// validate checks what the recognition of networks relies on: the order of the nodes, which
// excludes cycles, and the number of inputs of operations.
func (m *model) validate() error {
	defined := map[string]bool{"": true} // "" is an input that is left out
	for _, in := range m.inputs {
		if in.width < 1 || in.width > maxColumns {
			return fmt.Errorf("the input %q has the width %d, want a fixed one of 1 to %d; export it with a fixed width",
				in.name, in.width, maxColumns)
		}
		defined[in.name] = true
	}
	for name, t := range m.constants {
		if i := slices.IndexFunc(t.values, func(x float64) bool { return x-x != 0 }); i >= 0 && len(t.dims) > 0 {
			return fmt.Errorf("the constant %q is not finite (element %d is %g); export another checkpoint",
				name, i, t.values[i])
		}
		defined[name] = true
	}
	for _, n := range m.nodes {
		want := map[string]int{"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Pow": 2, "MatMul": 2}[n.op]
		if len(n.inputs) == 0 || want > 0 && len(n.inputs) != want {
			return n.unexpected(fmt.Sprintf("%d inputs", max(want, 1)))
		}
		for _, input := range n.inputs {
			if !defined[input] {
				return fmt.Errorf("node %q (%s) reads %q, which is not defined before", n.name, n.op, input)
			}
		}
		for _, output := range n.outputs {
			if output == "" || defined[output] {
				return fmt.Errorf("node %q (%s): the output %q has no name or is defined twice", n.name, n.op, output)
			}
			defined[output] = true
		}
	}
	return nil
}

func (m *model) readGraph(graph []byte, dir string) error {
	parts, files := 0, &weightFiles{dir: dir, left: make(map[string]int64)}
	return wire.EachField(graph, func(field protowire.Number, value []byte, _ uint64) error {
		if parts++; parts > maxParts {
			return fmt.Errorf("more than %d nodes, constants and inputs: not a network of tflite/FORMAT.md", maxParts)
		}
		switch field {
		case 1:
			n, err := readNode(value, files)
			if err != nil {
				return err
			}
			if n.op == "Constant" && n.value != nil && len(n.outputs) == 1 {
				m.constants[n.outputs[0]] = *n.value
				return nil
			}
			m.nodes = append(m.nodes, n)
			for _, output := range n.outputs {
				m.producers[output] = n
			}
		case 5:
			name, t, err := readTensor(value, files)
			m.constants[name] = t
			return err
		case 11:
			in, err := readValueInfo(value)
			m.inputs = append(m.inputs, in)
			return err
		case 12:
			out, err := readValueInfo(value)
			m.outputs = append(m.outputs, out.name)
			return err
		}
		return nil
	})
}

func readNode(raw []byte, files *weightFiles) (*node, error) {
	n := &node{numbers: make(map[string]float64), lists: make(map[string][]int)}
	err := wire.EachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			n.inputs = append(n.inputs, string(value))
		case 2:
			n.outputs = append(n.outputs, string(value))
		case 3:
			n.name = string(value)
		case 4:
			n.op = string(value)
		case 5:
			return n.readAttribute(value, files)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", n.name, err)
	}
	return n, nil
}

func (n *node) readAttribute(raw []byte, files *weightFiles) error {
	var name string
	return wire.EachField(raw, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case 1:
			name = string(value)
		case 2:
			n.numbers[name] = float64(math.Float32frombits(uint32(number)))
			if name == "value_float" {
				n.value = &tensor{values: []float64{n.numbers[name]}}
			}
		case 3:
			n.numbers[name] = float64(int64(number))
			if name == "value_int" {
				n.value = &tensor{values: []float64{n.numbers[name]}}
			}
		case 5:
			_, t, err := readTensor(value, files)
			n.value = &t
			return err
		case 8:
			list, err := appendIntegers(n.lists[name], value, number)
			n.lists[name] = list
			if name == "value_ints" {
				n.value = &tensor{dims: []int{len(list)}}
				for _, x := range list {
					n.value.values = append(n.value.values, float64(x))
				}
			}
			return err
		}
		return nil
	})
}

// appendIntegers parses a repeated integer, packed or one at a time. Those of a graph are sizes and
// columns.
func appendIntegers(all []int, packed []byte, single uint64) ([]int, error) {
	if packed == nil {
		all = append(all, int(int64(single)))
	}
	for len(packed) > 0 && len(all) <= maxColumns {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return all, protowire.ParseError(n)
		}
		all, packed = append(all, int(int64(v))), packed[n:]
	}
	if len(all) > maxColumns {
		return all, fmt.Errorf("a list of more than %d integers", maxColumns)
	}
	return all, nil
}

// weightFiles reads data that are not in the model, from files of its folder.
type weightFiles struct {
	dir  string
	left map[string]int64 // of each file, bytes that were not read; a byte is not read twice
}

// readTensor parses a TensorProto.
func readTensor(raw []byte, files *weightFiles) (name string, t tensor, err error) {
	var kind dtype
	var data []byte
	var integers []int
	external := make(map[string]string)
	err = wire.EachField(raw, func(field protowire.Number, value []byte, number uint64) (err error) {
		switch field {
		case 1:
			t.dims, err = appendIntegers(t.dims, value, number)
		case 2:
			kind = dtype(number)
		case 4: // float_data, packed
			data = append(data, value...)
		case 7: // int64_data
			integers, err = appendIntegers(integers, value, number)
		case 8:
			name = string(value)
		case 9:
			data = value
		case 13:
			var key, text string
			err = wire.EachField(value, func(field protowire.Number, part []byte, _ uint64) error {
				switch field {
				case 1:
					key = string(part)
				case 2:
					text = string(part)
				}
				return nil
			})
			external[key] = text
		}
		return err
	})
	for _, x := range integers {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
	}
	if err == nil && len(external) > 0 {
		data, err = files.read(external)
	}
	if err == nil {
		t.values, err = decodeValues(kind, data, t.dims)
	}
	if err != nil {
		err = fmt.Errorf("tensor %q: %w", name, err)
	}
	return name, t, err
}

// read reads the data of a tensor.
func (w *weightFiles) read(entries map[string]string) ([]byte, error) {
	location := entries["location"]
	if !filepath.IsLocal(location) {
		return nil, fmt.Errorf("its data is outside of the model's folder (%q)", location)
	}
	location = filepath.Clean(location) // one name of a file, for left
	offset, failed := strconv.ParseInt("0"+entries["offset"], 10, 64)
	length, err := strconv.ParseInt("0"+entries["length"], 10, 64)
	if err := errors.Join(failed, err); err != nil {
		return nil, fmt.Errorf("its data has the offset %q and the length %q", entries["offset"], entries["length"])
	}
	f, size, err := safefile.Open(filepath.Join(w.dir, location))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if offset > size || length > size-offset {
		return nil, fmt.Errorf("%s has %d bytes, want %d from byte %d; copy it again", location, size, length, offset)
	}
	left, known := w.left[location]
	if !known {
		left = size
	}
	if w.left[location] = left - length; length > left {
		return nil, fmt.Errorf("%s has %d bytes, but all tensors read more; export the model again", location, size)
	}
	data := make([]byte, length)
	_, err = f.ReadAt(data, offset)
	return data, err
}

func decodeValues(kind dtype, data []byte, dims []int) ([]float64, error) {
	size := map[dtype]int{float32Type: 4, float64Type: 8, int64Type: 8}[kind]
	if size == 0 {
		return nil, fmt.Errorf("type %d of TensorProto.DataType, want 1 (float32), 7 (int64) or 11 (float64); "+
			"export the model in float32", kind)
	}
	count := len(data) / size
	for _, d := range dims {
		if d < 0 || d > 0 && count%d != 0 {
			return nil, fmt.Errorf("%d bytes for the shape %v; copy the file again", len(data), dims)
		}
		if d > 0 {
			count /= d
		} else if len(data) > 0 {
			count = 0
		}
	}
	if len(data)%size != 0 || len(data) > 0 && count != 1 {
		return nil, fmt.Errorf("%d bytes for the shape %v; copy the file again", len(data), dims)
	}
	values := make([]float64, len(data)/size)
	for i := range values {
		part := data[i*size:]
		switch kind {
		case float32Type:
			values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(part)))
		case float64Type:
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(part))
		default:
			values[i] = float64(int64(binary.LittleEndian.Uint64(part)))
		}
	}
	return values, nil
}

// readValueInfo parses the name and the last size of a ValueInfoProto.
func readValueInfo(raw []byte) (in input, err error) {
	const tensorType, shapeField, dimField = 1, 2, 1
	err = wire.EachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			in.name = string(value)
		case 2:
			return within(value, []protowire.Number{tensorType, shapeField, dimField}, func(dim []byte) error {
				in.width = 0
				return wire.EachField(dim, func(field protowire.Number, _ []byte, number uint64) error {
					if field == 1 {
						in.width = int(int64(number))
					}
					return nil
				})
			})
		}
		return nil
	})
	return in, err
}

// within calls f for each message at a path of fields.
func within(raw []byte, path []protowire.Number, f func([]byte) error) error {
	if len(path) == 0 {
		return f(raw)
	}
	return wire.EachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		if field != path[0] {
			return nil
		}
		return within(value, path[1:], f)
	})
}
