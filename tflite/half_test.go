package tflite_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// halved returns tensors with the weights of the linear layers in float16, and as the same numbers
// in float32.
func halved(tensors map[string]tflite.Tensor) (half, rounded map[string]tflite.Tensor) {
	half, rounded = map[string]tflite.Tensor{}, map[string]tflite.Tensor{}
	for name, t := range tensors {
		half[name], rounded[name] = t, t
		if !strings.HasSuffix(name, ".weight") || len(t.Shape) < 2 || slices.Contains(t.Shape, 1) {
			continue
		}
		narrow, wide := make([]float16.Float16, len(t.F32)), make([]float32, len(t.F32))
		for i, x := range t.F32 {
			narrow[i] = float16.Fromfloat32(x)
			wide[i] = narrow[i].Float32()
		}
		half[name], rounded[name] = tflite.Tensor{Shape: t.Shape, F16: narrow}, tflite.Tensor{Shape: t.Shape, F32: wide}
	}
	return half, rounded
}

func TestLoad_Float16WeightsGiveTheResultsOfTheSameNumbers(t *testing.T) {
	for _, residual := range []bool{false, true} {
		m := tflitetest.Manifest(small)
		m.Architecture.F.Residual, m.Architecture.Actor.Residual = residual, residual
		half, rounded := halved(tflitetest.Tensors(m.Architecture, 1))
		reference, err := tflite.New(m, rounded)
		fatal.If(t, err)
		obs := randomObs(reference.Dims(), 40)
		cov, err := reference.Covariance(obs)
		fatal.If(t, err)
		half["cov_b"] = tflite.Tensor{Shape: half["cov_b"].Shape, F64: cov}
		dir := filepath.Join(t.TempDir(), "half")
		fatal.If(t, tflite.Save(dir, m, half))
		e, err := tflite.Difference(loadDir(t, dir), reference, obs, 20)
		fatal.If(t, err)
		// A residual network also rounds the products of its weights and the gains of LayerNorm.
		if limit := map[bool]float64{false: 0, true: 2e-3}[residual]; e.Worst() > limit {
			t.Errorf("residual %t: %+v, want at most %g", residual, e, limit)
		}
	}
}

// A block whose products of weights and gains are beyond float16 stays float32.
func TestLoad_Float16ProductsDoNotOverflow(t *testing.T) {
	m := tflitetest.Manifest(small)
	m.Architecture.Actor.Residual = true
	tensors := tflitetest.Tensors(m.Architecture, 1)
	for _, name := range []string{"_actor.embed_z.0.mlp.0.weight", "_actor.embed_z.0.mlp.1.weight"} {
		for i := range tensors[name].F32 {
			tensors[name].F32[i] *= 400
		}
	}
	half, rounded := halved(tensors)
	b, err1 := tflite.New(m, half)
	reference, err2 := tflite.New(m, rounded)
	fatal.If(t, errors.Join(err1, err2))
	e, err := tflite.Difference(b, reference, randomObs(reference.Dims(), 40), 20)
	if err != nil || e.Action > 2e-3 {
		t.Errorf("%+v: %v", e, err)
	}
}

func randomObs(d tflite.Dims, n int) []float32 {
	obs := make([]float32, n*d.Obs)
	for i := range obs {
		obs[i] = float32((i*7919)%1000)/500 - 1
	}
	return obs
}

func TestImport_Float16(t *testing.T) {
	for _, name := range []string{"fbcpr-simple", "fbcpr-residual", "bfmzero"} {
		dir := shared(t, "public/"+name)
		vectors, err1 := npz.ReadFile(filepath.Join(dir, "vectors.npz"))
		archive, err2 := npz.ReadFile(filepath.Join(dir, "obs.npz"))
		fatal.If(t, errors.Join(err1, err2))
		checkpoint := loadDir(t, dir)
		obs, _, err := tflite.Observations(archive, checkpoint.Dims().Obs, checkpoint.Architecture.Groups)
		fatal.If(t, err)
		out := filepath.Join(t.TempDir(), name)
		fatal.If(t, tflite.Import(dir, obs, out, tflite.ImportOptions{Float16: true}))
		b := loadDir(t, out)
		e, err := tflite.Check(b, vectors)
		fatal.If(t, err)
		printed, err := tflite.Difference(b, checkpoint, obs, 64)
		fatal.If(t, err)
		t.Logf("%s: against PyTorch %+v, against float32 %+v", name, e, printed)
		if e.Worst() > 1e-2 || printed.Worst() > 5e-3 || printed.Worst() < 1e-6 {
			t.Errorf("%s: against PyTorch %+v, against float32 %+v", name, e, printed)
		}
		before, err1 := os.Stat(filepath.Join(dir, "model.safetensors"))
		after, err2 := os.Stat(filepath.Join(out, "model.safetensors"))
		fatal.If(t, errors.Join(err1, err2))
		if float64(after.Size()) > 0.7*float64(before.Size()) {
			t.Errorf("%s: %d bytes, %d in float32", name, after.Size(), before.Size())
		}
	}
}
