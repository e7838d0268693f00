package tensorflow

import (
	"cmp"
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/tflite/internal/wire"
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
	device    string
	wire      []byte
	names     map[string]int // number of nodes by the start of their names
	variables []variable     // the session must assign their values
	assigned  bool           // large constants become variables
}

// variable has weights that are not part of the graph. TensorFlow keeps several copies of a
// constant of a graph, but only one of a variable.
type variable struct {
	values []float32
	dims   []int
	feed   ref // the placeholder of its value
	assign ref // the operation that assigns it
}

// minVariable is the number of elements from which a constant becomes a variable.
const minVariable = 1024

func newGraphDef(device string) *graphDef {
	return &graphDef{device: device, names: make(map[string]int)}
}

// bytes returns the encoded GraphDef.
func (g *graphDef) bytes() []byte {
	versions := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), graphDefProducer)
	return wire.AppendMessage(g.wire, 4, versions)
}

// add appends a node. Its name is name or, if that is empty, the operation's;
// a number makes it unique.
func (g *graphDef) add(name, op string, inputs []ref, attributes ...attribute) ref {
	name, node := g.node(name, op, inputs, attributes)
	g.wire = wire.AppendMessage(g.wire, 1, node)
	return ref(name)
}

// node returns the name of a node and its NodeDef.
func (g *graphDef) node(name, op string, inputs []ref, attributes []attribute) (unique string, node []byte) {
	name = cmp.Or(name, op)
	if n := g.names[name]; n > 0 {
		g.names[name]++
		name += "_" + strconv.Itoa(n)
	}
	g.names[name]++
	node = wire.AppendString(nil, 1, name)
	node = wire.AppendString(node, 2, op)
	for _, input := range inputs {
		node = wire.AppendString(node, 3, string(input))
	}
	node = wire.AppendString(node, 4, g.device)
	for _, a := range attributes {
		node = wire.AppendMessage(node, 5, wire.AppendMessage(wire.AppendString(nil, 1, a.name), 2, a.value))
	}
	return name, node
}

// attribute is an entry of a node's attr map; value is an encoded AttrValue.
type attribute struct {
	name  string
	value []byte
}

func typed(name string, t dtype) attribute {
	return attribute{name, wire.AppendVarint(nil, 6, uint64(t))}
}

func flag(name string, v bool) attribute {
	return attribute{name, wire.AppendVarint(nil, 5, protowire.EncodeBool(v))}
}

func count(name string, n int) attribute {
	return attribute{name, wire.AppendVarint(nil, 3, uint64(n))}
}

func text(name, v string) attribute {
	return attribute{name, wire.AppendString(nil, 2, v)}
}

func shaped(name string, dims []int) attribute {
	return attribute{name, wire.AppendMessage(nil, 7, shapeProto(dims))}
}

// shapeProto returns a TensorShapeProto; a size of -1 is not known.
func shapeProto(dims []int) []byte {
	var raw []byte
	for _, size := range dims {
		raw = wire.AppendMessage(raw, 2, wire.AppendVarint(nil, 1, uint64(int64(size))))
	}
	return raw
}

// Constants are encoded in little-endian order, that of all machines that
// TensorFlow supports.

func (g *graphDef) floats(values []float32, dims ...int) ref {
	if g.assigned && len(values) >= minVariable {
		return g.variable(values, dims)
	}
	name := g.constant(float32Type, dims, 4*len(values))
	for _, x := range values {
		g.wire = binary.LittleEndian.AppendUint32(g.wire, math.Float32bits(x))
	}
	return name
}

// variable adds a variable and returns the node that reads it. The session must assign its value
// before the first run.
func (g *graphDef) variable(values []float32, dims []int) ref {
	float := typed("dtype", float32Type)
	name := "weights_" + strconv.Itoa(len(g.variables))
	handle := g.add(name, "VarHandleOp", nil, float, shaped("shape", dims), text("shared_name", name))
	feed := g.placeholder(name+"_value", dims...)
	assign := g.add(name+"_assign", "AssignVariableOp", []ref{handle, feed}, float)
	g.variables = append(g.variables, variable{values, dims, feed, assign})
	return g.add("", "ReadVariableOp", []ref{handle}, float)
}

func (g *graphDef) doubles(values []float64, dims ...int) ref {
	name := g.constant(float64Type, dims, 8*len(values))
	for _, x := range values {
		g.wire = binary.LittleEndian.AppendUint64(g.wire, math.Float64bits(x))
	}
	return name
}

func (g *graphDef) ints(values []int, dims ...int) ref {
	name := g.constant(int32Type, dims, 4*len(values))
	for _, x := range values {
		g.wire = binary.LittleEndian.AppendUint32(g.wire, uint32(int32(x)))
	}
	return name
}

// constant appends a node that ends with size bytes of content, which the caller appends
// to the wire. Weights are hundreds of megabytes: each copy of a message takes seconds.
func (g *graphDef) constant(t dtype, dims []int, size int) ref {
	name, node := g.node("", "Const", nil, []attribute{typed("dtype", t)})
	tensor := wire.AppendMessage(wire.AppendVarint(nil, 1, uint64(t)), 2, shapeProto(dims))
	head := appendHead(tensor, 4, nil, size)
	head = appendHead(nil, 8, head, size) // AttrValue
	head = appendHead(wire.AppendString(nil, 1, "value"), 2, head, size)
	head = appendHead(node, 5, head, size)
	g.wire = appendHead(g.wire, 1, head, size)
	return ref(name)
}

// appendHead appends a message without its last size bytes.
func appendHead(raw []byte, field protowire.Number, head []byte, size int) []byte {
	raw = protowire.AppendTag(raw, field, protowire.BytesType)
	raw = protowire.AppendVarint(raw, uint64(len(head)+size))
	return append(raw, head...)
}
