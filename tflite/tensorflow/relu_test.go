//go:build tensorflow

package tensorflow

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/internal/wire"
)

// writeReLU writes a SavedModel (tensorflow/core/protobuf/saved_model.proto) with O = 1 and
// A = d = width. For an observation o, all elements of its results are
// relu(3e38·o - 2e38·o + 0.25).
func writeReLU(t *testing.T, dir string, width int) {
	g := newGraphDef("/CPU:0")
	obs, action, z := g.placeholder("obs", -1, 1), g.placeholder("action", -1, width), g.placeholder("z", -1, width)
	hidden := g.matMul(float32Type, obs, g.floats([]float32{3e38, 2e38}, 1, 2))
	difference := slices.Concat(slices.Repeat([]float32{1}, width), slices.Repeat([]float32{-1}, width))
	x := g.matMul(float32Type, hidden, g.floats(difference, 2, width))
	bias := g.floats(slices.Repeat([]float32{0.25}, width), width)
	relu := g.unary("Relu", g.add("", "BiasAdd", []ref{x, bias}, typed("T", float32Type)))
	members := g.pack("", []ref{relu})

	o, a := tensorEntry("obs", obs, -1, 1), tensorEntry("action", action, -1, width)
	d := tensorEntry("z", z, -1, width)
	meta := wire.AppendMessage(nil, 1, wire.AppendString(nil, 4, "serve"))
	meta = wire.AppendMessage(meta, 2, g.bytes())
	meta = wire.AppendMessage(meta, 5, signatureEntry("phi", tensorEntry("phi", relu, -1, width), o))
	meta = wire.AppendMessage(meta, 5, signatureEntry("policy", tensorEntry("action", relu, -1, width), o, d))
	meta = wire.AppendMessage(meta, 5, signatureEntry("psi", tensorEntry("psi", members, 1, -1, width), o, a, d))
	path := filepath.Join(dir, tflite.SavedModelFileName)
	fatal.If(t, os.WriteFile(path, wire.AppendMessage(nil, 2, meta), 0o644))
}

// signatureEntry is an entry of a MetaGraphDef's signatures.
func signatureEntry(name string, output []byte, inputs ...[]byte) []byte {
	signature := wire.AppendMessage(nil, 2, output)
	for _, input := range inputs {
		signature = wire.AppendMessage(signature, 1, input)
	}
	return wire.AppendMessage(wire.AppendString(nil, 1, name), 2, signature)
}

// tensorEntry is an entry of a signature's map: a TensorInfo by its key.
func tensorEntry(key string, tensor ref, dims ...int) []byte {
	info := wire.AppendString(nil, 1, string(tensor)+":0")
	info = wire.AppendVarint(info, 2, uint64(float32Type))
	info = wire.AppendMessage(info, 3, shapeProto(dims))
	return wire.AppendMessage(wire.AppendString(nil, 1, key), 2, info)
}

func TestSavedModel_OverflowInFrontOfAReLUIsErrNotFinite(t *testing.T) {
	t.Setenv("TF_ENABLE_ONEDNN_OPTS", "1") // the package overrides the environment
	dir := t.TempDir()
	const width = 16
	writeReLU(t, dir, width)
	c := DefaultConfig()
	c.Device = "/CPU:0"
	m, err := LoadSavedModel(tflite.SavedModel{Dir: dir, Signatures: tflite.DefaultSignatures()}, c, 4)
	if errors.Is(err, ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	fatal.If(t, err)
	defer func() { errtest.Nil(t, m.Close()) }()
	phi, z := make([]float64, width), slices.Repeat([]float64{1}, width)
	action, psi := make([]float32, width), make([]float32, width)
	if err := m.Phi(phi, []float32{1e-37}); err != nil || math.Abs(phi[0]-10.25) > 1e-3 {
		t.Fatalf("φ %g, %v, want 10.25", phi[0], err)
	}
	large := []float32{3}
	for call, err := range map[string]error{
		"phi": m.Phi(phi, large), "act": m.Act(action, large, z), "psi": m.Psi(psi, large, action, z),
	} {
		errtest.Is(t, err, tflite.ErrNotFinite, call, " of inf - inf")
	}
}
