//go:build tensorflow

package tensorflow

import (
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// This file encodes a GraphDef for TF_GraphImportGraphDef, see
// tensorflow/core/framework/{graph,node_def,attr_value,tensor,tensor_shape,types}.proto.
// The fields used here have not changed since TensorFlow 1.0.

// dtype is tensorflow.DataType.
type dtype int32

const (
	float32Type dtype = 1
	float64Type dtype = 2
	int32Type   dtype = 3
	int64Type   dtype = 9
)

// graphDefProducer is the GraphDef version of the graph: that of TensorFlow 2.16,
// which later versions read.
const graphDefProducer = 1690

// ref is the name of a node, and of its first output.
type ref string

// graphDef collects nodes, all on one device.
type graphDef struct {
	device string
	wire   []byte
	names  map[string]int // number of nodes by the start of their names
}

func newGraphDef(device string) *graphDef {
	return &graphDef{device: device, names: make(map[string]int)}
}

// bytes returns the encoded GraphDef.
func (g *graphDef) bytes() []byte {
	versions := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), graphDefProducer)
	return appendMessage(g.wire, 4, versions)
}

// add appends a node. Its name is name or, if that is empty, the operation's;
// a number makes it unique.
func (g *graphDef) add(name, op string, inputs []ref, attributes ...attribute) ref {
	if name == "" {
		name = op
	}
	if n := g.names[name]; n > 0 {
		g.names[name]++
		name += "_" + strconv.Itoa(n)
	}
	g.names[name]++
	node := appendString(nil, 1, name)
	node = appendString(node, 2, op)
	for _, input := range inputs {
		node = appendString(node, 3, string(input))
	}
	node = appendString(node, 4, g.device)
	for _, a := range attributes {
		node = appendMessage(node, 5, appendMessage(appendString(nil, 1, a.name), 2, a.value))
	}
	g.wire = appendMessage(g.wire, 1, node)
	return ref(name)
}

// attribute is an entry of a node's attr map; value is an encoded AttrValue.
type attribute struct {
	name  string
	value []byte
}

func typed(name string, t dtype) attribute { return attribute{name, appendVarint(nil, 6, uint64(t))} }

func flag(name string, v bool) attribute {
	return attribute{name, appendVarint(nil, 5, protowire.EncodeBool(v))}
}

func count(name string, n int) attribute { return attribute{name, appendVarint(nil, 3, uint64(n))} }

func shaped(name string, dims []int) attribute {
	return attribute{name, appendMessage(nil, 7, shapeProto(dims))}
}

func content(name string, t dtype, dims []int, raw []byte) attribute {
	proto := appendVarint(nil, 1, uint64(t))
	proto = appendMessage(proto, 2, shapeProto(dims))
	proto = appendMessage(proto, 4, raw)
	return attribute{name, appendMessage(nil, 8, proto)}
}

// shapeProto returns a TensorShapeProto; a size of -1 is not known.
func shapeProto(dims []int) []byte {
	var wire []byte
	for _, size := range dims {
		wire = appendMessage(wire, 2, appendVarint(nil, 1, uint64(int64(size))))
	}
	return wire
}

func appendMessage(wire []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(wire, field, protowire.BytesType), message)
}

func appendString(wire []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(wire, field, protowire.BytesType), s)
}

func appendVarint(wire []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(wire, field, protowire.VarintType), v)
}

// Constants are encoded in little-endian order, that of all machines that
// TensorFlow supports.

func (g *graphDef) floats(values []float32, dims ...int) ref {
	raw := make([]byte, 0, 4*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return g.constant(float32Type, dims, raw)
}

func (g *graphDef) doubles(values []float64, dims ...int) ref {
	raw := make([]byte, 0, 8*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
	}
	return g.constant(float64Type, dims, raw)
}

func (g *graphDef) ints(values []int, dims ...int) ref {
	raw := make([]byte, 0, 4*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(int32(x)))
	}
	return g.constant(int32Type, dims, raw)
}

func (g *graphDef) constant(t dtype, dims []int, raw []byte) ref {
	return g.add("", "Const", nil, typed("dtype", t), content("value", t, dims, raw))
}
