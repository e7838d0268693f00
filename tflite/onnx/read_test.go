package onnx_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/onnx"
	"optibfm/tflite/tflitetest"
)

// bundleOf returns the model of graphs, with Cov B 1.
func bundleOf(t *testing.T, g *onnx.Graphs) *tflite.Bundle {
	t.Helper()
	d := g.Manifest.Architecture.Latent
	cov := tflite.Tensor{Shape: []int{d, d}, F64: make([]float64, d*d)}
	for i := range d {
		cov.F64[i*d+i] = 1
	}
	g.Tensors["cov_b"] = cov
	g.Manifest.Name = "onnx"
	b, err := tflite.New(g.Manifest, g.Tensors)
	fatal.If(t, err)
	return b
}

func TestRead_RoundTripKeepsPolicyAndFeatures(t *testing.T) {
	for _, folder := range append(folders(t), "../../models/walker") {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			b, err := tflite.LoadDir(folder)
			fatal.If(t, err)
			dir := filepath.Join(t.TempDir(), "onnx")
			fatal.If(t, onnx.Export(dir, b))
			g, err := onnx.Read(filepath.Join(dir, onnx.PolicyFile), filepath.Join(dir, onnx.BackwardFile), false)
			if b.Architecture.Encoder != nil && b.Architecture.Encoder.Actor {
				errtest.NotNil(t, err, "no error for a policy with an encoder")
				return
			}
			fatal.If(t, err)
			again := bundleOf(t, g)
			checkSame(t, again, b)
			e, err := g.Verify(again)
			if errors.Is(err, onnx.ErrNoRuntime) && os.Getenv("OPTIBFM_TEST_ONNX") == "" {
				t.Skip(err)
			}
			t.Logf("%+v", e)
			if err != nil || !(e.Worst() <= 2e-5) {
				t.Errorf("%+v, %v, want at most 2e-5", e, err)
			}
		})
	}
}

// checkSame compares actions and B of two models at the same observations.
func checkSame(t *testing.T, got, want *tflite.Bundle) {
	t.Helper()
	n, err := got.NewNetwork()
	fatal.If(t, err)
	m, err := want.NewNetwork()
	fatal.If(t, err)
	d, rng := want.Dims(), rand.New(rand.NewPCG(7, 8))
	for range 20 {
		obs, z := make([]float32, d.Obs), make([]float64, d.Latent)
		for i := range obs {
			obs[i] = float32(rng.NormFloat64())
		}
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		seen := obs
		if size := n.Dims().Obs; size < d.Obs { // F alone reads the rest
			seen = slices.Concat(obs[:9], obs[20:])
		}
		a, wantA := make([]float32, d.Action), make([]float32, d.Action)
		b, wantB := make([]float64, d.Latent), make([]float64, d.Latent)
		err := errors.Join(n.Act(a, seen, z), m.Act(wantA, obs, z), n.Backward(b, seen), m.Backward(wantB, obs))
		fatal.If(t, err)
		for i := range a {
			if math.Abs(float64(a[i]-wantA[i])) > 1e-5 {
				t.Fatalf("action %v, want %v", a, wantA)
			}
		}
		for i := range b {
			if math.Abs(b[i]-wantB[i]) > 1e-4 {
				t.Fatalf("B %v, want %v", b, wantB)
			}
		}
	}
}

// The graphs are exported by PyTorch, as UFO publishes them.
func TestRead_ReadsWhatPyTorchExports(t *testing.T) {
	for _, opset := range []string{"opset13-", "opset18-"} {
		t.Run(opset, func(t *testing.T) {
			policy, backward := "testdata/ufo/"+opset+"policy.onnx", "testdata/ufo/"+opset+"backward_encoder.onnx"
			g, err := onnx.Read(policy, backward, true)
			fatal.If(t, err)
			b := bundleOf(t, g)
			want := []tflite.Group{
				{Name: "state", Size: 6, NormObs: true}, {Name: "privileged_state", Size: 5, NormObs: true},
				{Name: "actor_obs", Size: 17, NormObs: true},
			}
			if a := b.Architecture; !slices.Equal(a.Groups, want) || !a.NormZ || !a.B.Norm || !a.Actor.Residual ||
				a.Actor.EmbeddingLayers != 3 || a.Actor.HiddenLayers != 2 {
				t.Errorf("read as %+v", a)
			}
			e, err := g.Verify(b)
			if errors.Is(err, onnx.ErrNoRuntime) && os.Getenv("OPTIBFM_TEST_ONNX") == "" {
				t.Skip(err)
			}
			t.Logf("%+v", e)
			if err != nil || !(e.Worst() <= 2e-5) {
				t.Errorf("%+v, %v, want at most 2e-5", e, err)
			}
		})
	}
}

func TestRead_NamesTheFirstUnknownNode(t *testing.T) {
	const policy, backward = "testdata/ufo/opset18-policy.onnx", "testdata/ufo/opset18-backward_encoder.onnx"
	damaged := func(file string, change func([]byte) []byte) string {
		raw, err := os.ReadFile(file)
		fatal.If(t, err)
		changed := change(slices.Clone(raw))
		if bytes.Equal(raw, changed) {
			t.Fatalf("%s: not changed", file)
		}
		path := filepath.Join(t.TempDir(), filepath.Base(file))
		fatal.If(t, os.WriteFile(path, changed, 0o644))
		if weights, err := os.ReadFile(file + ".data"); err == nil {
			fatal.If(t, os.WriteFile(path+".data", weights, 0o644))
		}
		return path
	}
	replace := func(from, to string) func([]byte) []byte { // of the same length
		return func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte(from), []byte(to)) }
	}
	half := func(raw []byte) []byte { return raw[:len(raw)/2] }
	html := func([]byte) []byte { return []byte("<!DOCTYPE html>") }
	for name, c := range map[string]struct {
		policy, backward, words string
	}{
		"another activation": {damaged(policy, replace("Mish", "Selu")), backward, "(Add) is not part of a known network"},
		"another end":        {damaged(policy, replace("Tanh", "Sinh")), backward, "(Sinh)"},
		"another layer of B": {policy, damaged(backward, replace("Relu", "Selu")), "(Selu)"},
		"no normaliser":      {policy, damaged(backward, replace("BatchNormal", "GroupNormal")), "(GroupNormalization)"},
		"cut short":          {damaged(policy, half), backward, "copy the file again"},
		"empty":              {damaged(policy, func([]byte) []byte { return nil }), backward, "no graph"},
		"text":               {damaged(policy, html), backward, "policy.onnx"},
		"no file":            {"testdata/none.onnx", backward, "none.onnx"},
		"the other graph":    {backward, policy, "policy.onnx"},
		"no weights":         {damaged(policy, replace("onnx.data", "onnx.none")), backward, "onnx.none"},
		"weights elsewhere": {
			damaged(policy, replace("opset18-policy.onnx.data", "../18-policy.onnx.data/.")), backward, "outside of the model's",
		},
		"two policies": {policy, policy, "want a linear layer"},
	} {
		_, err := onnx.Read(c.policy, c.backward, true)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q in it", name, err, c.words)
		}
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	for _, file := range []string{"opset13-policy.onnx", "opset18-policy.onnx", "opset13-backward_encoder.onnx"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "ufo", file))
		fatal.If(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "model.onnx")
		fatal.If(t, os.WriteFile(path, raw, 0o644))
		_, _ = onnx.Read(path, "testdata/ufo/opset18-backward_encoder.onnx", true)
		_, _ = onnx.Read("testdata/ufo/opset18-policy.onnx", path, true)
	})
}

func TestRead_HasNoForwardNetwork(t *testing.T) {
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 1}, 1)
	dir := filepath.Join(t.TempDir(), "onnx")
	fatal.If(t, onnx.Export(dir, b))
	g, err := onnx.Read(filepath.Join(dir, onnx.PolicyFile), filepath.Join(dir, onnx.BackwardFile), false)
	fatal.If(t, err)
	n, err := bundleOf(t, g).NewNetwork()
	fatal.If(t, err)
	belief := tflite.Belief{Mean: make([]float32, 4), InvR: make([]float32, 16)}
	if _, _, err := n.Search([]float32{1, 2, 3}, []float32{1, 2, 3, 4}, belief); !errors.Is(err, tflite.ErrNoForward) {
		t.Errorf("Search: %v, want ErrNoForward", err)
	}
	err = n.Psi(nil, []float32{1, 2, 3}, []float32{0, 0}, []float64{1, 0, 0, 0})
	errtest.Is(t, err, tflite.ErrNoForward, "Psi")
}
