package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/tflite/internal/wire"
)

// This file encodes a ModelProto, see onnx/onnx.proto. The fields used here have not changed since
// ONNX 1.0.

// irVersion and opset are the versions that Export writes. Opset 17 is the first one with
// LayerNormalization.
const irVersion, opset = 8, 17

// dtype is TensorProto.DataType.
type dtype uint64

const (
	float32Type dtype = 1
	int64Type   dtype = 7
	float64Type dtype = 11
)

// ref is the name of a tensor.
type ref string

// graph collects nodes and constants.
type graph struct {
	nodes     []byte // fields 1 of GraphProto
	constants []byte // fields 5
	inputs    []byte // fields 11
	outputs   []byte // fields 12
	count     int
}

// rows is a size of a shape: any number n.
const rows = -1

func (g *graph) input(name string, dims ...int) ref {
	g.inputs = wire.AppendMessage(g.inputs, 11, valueInfo(name, dims))
	return ref(name)
}

func (g *graph) output(name string, x ref, dims ...int) {
	g.named(name, "Identity", []ref{x})
	g.outputs = wire.AppendMessage(g.outputs, 12, valueInfo(name, dims))
}

// valueInfo encodes a ValueInfoProto of float32.
func valueInfo(name string, dims []int) []byte {
	var shape []byte
	for _, size := range dims {
		dim := wire.AppendVarint(nil, 1, uint64(size))
		if size == rows {
			dim = wire.AppendString(nil, 2, "n")
		}
		shape = wire.AppendMessage(shape, 1, dim)
	}
	tensor := wire.AppendMessage(wire.AppendVarint(nil, 1, uint64(float32Type)), 2, shape)
	return wire.AppendMessage(wire.AppendString(nil, 1, name), 2, wire.AppendMessage(nil, 1, tensor))
}

// attribute is an encoded AttributeProto.
type attribute []byte

func integer(name string, v int) attribute {
	return wire.AppendVarint(wire.AppendVarint(wire.AppendString(nil, 1, name), 3, uint64(v)), 20, 2)
}

func integers(name string, values ...int) attribute {
	a := wire.AppendString(nil, 1, name)
	for _, v := range values {
		a = wire.AppendVarint(a, 8, uint64(v))
	}
	return wire.AppendVarint(a, 20, 7)
}

func float(name string, v float32) attribute {
	a := protowire.AppendTag(wire.AppendString(nil, 1, name), 2, protowire.Fixed32Type)
	return wire.AppendVarint(protowire.AppendFixed32(a, math.Float32bits(v)), 20, 1)
}

// node adds an operation with one output.
func (g *graph) node(op string, inputs []ref, attributes ...attribute) ref {
	g.count++
	name := op + "_" + strconv.Itoa(g.count)
	g.named(name, op, inputs, attributes...)
	return ref(name)
}

func (g *graph) named(name, op string, inputs []ref, attributes ...attribute) {
	var node []byte
	for _, input := range inputs {
		node = wire.AppendString(node, 1, string(input))
	}
	node = wire.AppendString(node, 2, name)
	node = wire.AppendString(node, 3, name)
	node = wire.AppendString(node, 4, op)
	for _, a := range attributes {
		node = wire.AppendMessage(node, 5, a)
	}
	g.nodes = wire.AppendMessage(g.nodes, 1, node)
}

// Constants are encoded in little-endian order, as ONNX demands.

func (g *graph) floats(values []float32, dims ...int) ref {
	return g.constant(float32Type, dims, func(raw []byte) []byte {
		for _, x := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		return raw
	}, 4*len(values))
}

func (g *graph) doubles(values []float64, dims ...int) ref {
	return g.constant(float64Type, dims, func(raw []byte) []byte {
		for _, x := range values {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
		}
		return raw
	}, 8*len(values))
}

func (g *graph) ints(values []int) ref {
	return g.constant(int64Type, []int{len(values)}, func(raw []byte) []byte {
		for _, x := range values {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
		}
		return raw
	}, 8*len(values))
}

// constant adds a TensorProto whose size bytes of data fill appends.
func (g *graph) constant(t dtype, dims []int, fill func([]byte) []byte, size int) ref {
	g.count++
	name := "constant_" + strconv.Itoa(g.count)
	var head []byte
	for _, d := range dims {
		head = wire.AppendVarint(head, 1, uint64(d))
	}
	head = wire.AppendString(wire.AppendVarint(head, 2, uint64(t)), 8, name)
	head = protowire.AppendVarint(protowire.AppendTag(head, 9, protowire.BytesType), uint64(size))
	g.constants = protowire.AppendTag(g.constants, 5, protowire.BytesType)
	g.constants = fill(append(protowire.AppendVarint(g.constants, uint64(len(head)+size)), head...))
	return ref(name)
}

// maxBytes is the largest message of protocol buffers.
const maxBytes = 1<<31 - 1

// writeTo writes the ModelProto. The metadata are pairs of keys and values.
func (g *graph) writeTo(w io.Writer, name string, metadata ...string) error {
	end := append(g.inputs, g.outputs...)
	head := wire.AppendString(nil, 2, name)
	size := len(g.nodes) + len(head) + len(g.constants) + len(end)
	model := wire.AppendString(wire.AppendVarint(nil, 1, irVersion), 2, "optibfm")
	model = wire.AppendMessage(model, 8, wire.AppendVarint(wire.AppendString(nil, 1, ""), 2, opset))
	for i := 0; i < len(metadata); i += 2 {
		entry := wire.AppendString(wire.AppendString(nil, 1, metadata[i]), 2, metadata[i+1])
		model = wire.AppendMessage(model, 14, entry)
	}
	model = protowire.AppendVarint(protowire.AppendTag(model, 7, protowire.BytesType), uint64(size))
	if len(model)+size > maxBytes {
		return fmt.Errorf("the graph %s has %d bytes, ONNX allows %d", name, len(model)+size, maxBytes)
	}
	for _, part := range [][]byte{model, g.nodes, head, g.constants, end} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
