package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite/internal/wire"
)

// modelOf is a file with the fields of a graph.
func modelOf(t *testing.T, fields []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bomb.onnx")
	fatal.If(t, os.WriteFile(path, wire.AppendMessage(nil, 7, fields), 0o644))
	return path
}

// fields are those of GraphProto.
func (g *graph) fields() []byte { return slices.Concat(g.nodes, g.constants, g.inputs, g.outputs) }

// zeros is a constant of zeros.
func (g *graph) zeros(rows, columns int) ref {
	return g.floats(make([]float32, rows*columns), rows, columns)
}

// Small files of graphs whose reading would take many times their size.
func TestRead_RefusesBombsBeforeItAllocates(t *testing.T) {
	const width = 512
	scaled := new(graph) // each node has as many columns as the input
	x := scaled.input("obs", rows, maxColumns)
	for range 4000 {
		x = scaled.node("Mul", []ref{x, scaled.floats([]float32{1})})
	}
	hidden := scaled.node("Tanh", []ref{scaled.layerNormOf(x, 8)})
	scaled.output("b", scaled.node("MatMul", []ref{hidden, scaled.zeros(8, 8)}), rows, 8)

	shared := new(graph) // each layer copies the weights
	x, w := shared.input("obs", rows, width), shared.zeros(width, width)
	for range 4000 {
		x = shared.node("Relu", []ref{shared.node("MatMul", []ref{x, w})})
	}
	shared.output("b", shared.node("MatMul", []ref{x, w}), rows, width)

	wide := new(graph)
	wide.input("spare", rows, 1<<50)
	wide.output("b", wide.input("obs", rows, 3), rows, 3)

	reread := new(graph) // tensors that all read one file
	for i := range 4000 {
		location := strings.Repeat("./", i) + "weights"
		reread.constants = wire.AppendMessage(reread.constants, 5, externalTensor(location))
	}

	indices := bytes.Repeat([]byte{1}, 4<<20)
	integers := wire.AppendMessage(wire.AppendVarint(nil, 2, uint64(int64Type)), 7, indices)
	for name, c := range map[string]struct {
		fields []byte
		words  string
	}{
		"nodes":    {bytes.Repeat(wire.AppendMessage(nil, 1, nil), 1<<20), "nodes, constants and inputs"},
		"columns":  {scaled.fields(), "columns"},
		"weights":  {shared.fields(), "other weights than those of node"},
		"input":    {wide.fields(), "width 1125899906842624"},
		"files":    {reread.fields(), "all tensors read more"},
		"integers": {wire.AppendMessage(nil, 5, integers), "integers"},
	} {
		path := modelOf(t, c.fields)
		fatal.If(t, os.Truncate(makeFile(t, filepath.Join(filepath.Dir(path), "weights")), 1<<22))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read("testdata/ufo/opset18-policy.onnx", path, true)
		runtime.ReadMemStats(&after)
		errtest.Contains(t, err, c.words, name)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 256 {
			t.Errorf("%s: a file of %d KiB took %d MiB", name, len(c.fields)>>10, n)
		}
	}
}

// layerNormOf is the LayerNorm of a linear layer of wide columns.
func (g *graph) layerNormOf(x ref, out int) ref {
	gain := g.floats(make([]float32, out), out)
	layer := g.node("MatMul", []ref{x, g.zeros(maxColumns, out)})
	return g.node("LayerNormalization", []ref{layer, gain, gain})
}

// externalTensor is a TensorProto of float32 with 4 MiB of data in a file.
func externalTensor(location string) []byte {
	raw := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<20)
	raw = wire.AppendVarint(raw, 2, uint64(float32Type))
	for key, text := range map[string]string{"location": location, "length": "4194304"} {
		raw = wire.AppendMessage(raw, 13, wire.AppendString(wire.AppendString(nil, 1, key), 2, text))
	}
	return raw
}

func makeFile(t *testing.T, path string) string {
	t.Helper()
	fatal.If(t, os.WriteFile(path, nil, 0o644))
	return path
}

// A graph that differs from B in one number is not B.
func TestFeatures_ChecksAxesAndLimits(t *testing.T) {
	const d = 4
	for name, c := range map[string]struct {
		norm func(g *graph, x ref) ref // of the rows of x
		ok   bool
	}{
		"L2": {func(g *graph, x ref) ref { return g.node("ReduceL2", []ref{x}, integers("axes", 1)) }, true},
		"L2 of an input": {func(g *graph, x ref) ref {
			return g.node("ReduceL2", []ref{x, g.ints([]int{-1})}, integer("keepdims", 1))
		}, true},
		"L2 of columns":    {func(g *graph, x ref) ref { return g.node("ReduceL2", []ref{x}, integers("axes", 0)) }, false},
		"L2 of everything": {func(g *graph, x ref) ref { return g.node("ReduceL2", []ref{x}) }, false},
		"root of squares": {func(g *graph, x ref) ref {
			square := g.node("Pow", []ref{x, g.floats([]float32{2})})
			return g.node("Sqrt", []ref{g.node("ReduceSum", []ref{square, g.ints([]int{1})})})
		}, true},
		"root of cubes": {func(g *graph, x ref) ref {
			cube := g.node("Pow", []ref{x, g.floats([]float32{3})})
			return g.node("Sqrt", []ref{g.node("ReduceSum", []ref{cube, g.ints([]int{1})})})
		}, false},
		"small limit": {func(g *graph, x ref) ref {
			size := g.node("ReduceL2", []ref{x}, integers("axes", 1))
			return g.node("Clip", []ref{size, g.floats([]float32{1e-12})})
		}, true},
		"large limit": {func(g *graph, x ref) ref {
			size := g.node("ReduceL2", []ref{x}, integers("axes", 1))
			return g.node("Max", []ref{size, g.floats([]float32{1})})
		}, false},
		"upper limit": {func(g *graph, x ref) ref {
			size := g.node("ReduceL2", []ref{x}, integers("axes", 1))
			return g.node("Clip", []ref{size, g.floats([]float32{0}), g.floats([]float32{1})})
		}, false},
	} {
		g := new(graph)
		gain, bias := g.floats(make([]float32, d), d), g.floats(make([]float32, d), d)
		x := g.node("Gemm", []ref{g.input("obs", rows, 3), g.zeros(3, d), bias})
		x = g.node("Tanh", []ref{g.node("LayerNormalization", []ref{x, gain, bias})})
		x = g.node("Gemm", []ref{x, g.zeros(d, d), bias})
		ratio := g.node("Div", []ref{x, c.norm(g, x)})
		g.output("b", g.node("Mul", []ref{ratio, g.floats([]float32{2})}), rows, d)
		m, err := readModel(modelOf(t, g.fields()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f, err := m.features(); c.ok != (err == nil && f.unit) {
			t.Errorf("%s: %+v, %v", name, f.unit, err)
		}
	}
}
