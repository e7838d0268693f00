package tflite_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func TestNetwork_PhiWithoutCovarianceIsAnError(t *testing.T) {
	b := loadDir(t, shared(t, "cheetah"))
	if b.HasCovariance() {
		t.Error("the checkpoint has a covariance")
	}
	n, err := b.NewNetwork()
	fatal.If(t, err)
	d := n.Dims()
	err = n.Phi(make([]float64, d.Latent), make([]float32, d.Obs))
	errtest.Is(t, err, tflite.ErrNoCovariance, "Phi")
	errtest.Contains(t, err, "optibfm model import", "Phi")
}

func TestImport_AddsCovariance(t *testing.T) {
	dir := shared(t, "cheetah")
	observations, err := npz.ReadFile(filepath.Join(dir, "obs.npz"))
	fatal.If(t, err)
	obs, err := observations["obs"].Float32s()
	fatal.If(t, err)
	rows := 4000
	if testing.Short() {
		rows = 400
	}
	obs = obs[:rows*17]
	out := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, tflite.Import(dir, obs, out, tflite.ImportOptions{Gamma: 0.98}))
	b := loadDir(t, out)
	if b.Name != "cheetah" || b.Gamma != 0.98 || !b.HasCovariance() {
		t.Errorf("imported as %+v", b.Manifest)
	}
	cov, err := loadDir(t, dir).Covariance(obs)
	fatal.If(t, err)
	// B has norm √d, so the trace of E[B Bᵀ] is d. B = Cov B · φ.
	trace := 0.0
	for i := range 50 {
		trace += cov[i*50+i]
	}
	if math.Abs(trace-50) > 1e-3 {
		t.Errorf("the trace of Cov B is %g, want 50", trace)
	}
	n, err := b.NewNetwork()
	fatal.If(t, err)
	phi, back, product := make([]float64, 50), make([]float64, 50), make([]float64, 50)
	fatal.If(t, errors.Join(n.Phi(phi, obs[:17]), n.Backward(back, obs[:17])))
	for i := range product {
		for j, x := range phi {
			product[i] += cov[i*50+j] * x
		}
	}
	if e := tflite.Relative(product, back); !(e < 1e-9) {
		t.Errorf("Cov B · φ differs from B by %g", e)
	}
	vectors, err := npz.ReadFile(filepath.Join(dir, "vectors.npz"))
	fatal.If(t, err)
	if e, err := tflite.Check(b, vectors); err != nil || e.Worst() > 1e-4 {
		t.Errorf("relative errors %+v, %v", e, err)
	}
}

func TestBundle_CovarianceRejectsBadObservations(t *testing.T) {
	b := tflitetest.Bundle(small, 1)
	for name, obs := range map[string][]float32{
		"too few": make([]float32, 7*small.Obs), "incomplete row": make([]float32, 10*small.Obs+1),
	} {
		errtest.NotNil(t, errtest.Of(b.Covariance(obs)), name)
	}
	bad := make([]float32, 10*small.Obs)
	bad[12] = float32(math.NaN())
	_, err := b.Covariance(bad)
	errtest.Is(t, err, tflite.ErrNotFinite, "NaN")
	errtest.Contains(t, err, "observation 2", "NaN")
}

func TestSave_WritesAllOrNothing(t *testing.T) {
	m := tflitetest.Manifest(small)
	tensors := tflitetest.Tensors(m.Architecture, 1)
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	fatal.If(t, os.Mkdir(dir, 0o755))
	if err := tflite.Save(dir, m, tensors); err != nil {
		t.Fatalf("into an empty directory: %v", err)
	}
	b := loadDir(t, dir)
	if same, err := tflite.New(m, tensors); err != nil || same.Hash != b.Hash {
		t.Errorf("New: hash %s, %v, want %s", same.Hash, err, b.Hash)
	}
	errtest.Contains(t, tflite.Save(dir, m, tensors), "files in it", "over a bundle")
	delete(tensors, "cov_b")
	errtest.NotNil(t, tflite.Save(filepath.Join(parent, "other"), m, tensors), "Save accepts a model without cov_b")
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func loadDir(t *testing.T, dir string) *tflite.Bundle {
	t.Helper()
	b, err := tflite.LoadDir(dir)
	fatal.If(t, err)
	return b
}

func TestLoadDir_WithoutModelIsAnError(t *testing.T) {
	errtest.Contains(t, errtest.Of(tflite.LoadDir(t.TempDir())), "bfm.json")
}

func TestCheck_NamesMissingVectors(t *testing.T) {
	b := tflitetest.Bundle(small, 1)
	errtest.Is(t, errtest.Of(tflite.Check(b, npz.Archive{})), npz.ErrMissing, "empty")
	obs := npz.Float32(make([]float32, 2*small.Obs), 2, small.Obs)
	errtest.Contains(t, errtest.Of(tflite.Check(b, npz.Archive{"obs": obs})), `"psi"`, "only obs")
}
