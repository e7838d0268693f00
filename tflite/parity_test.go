package tflite_test

import (
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/tflite"
)

// shared returns the directory of a reference checkpoint, or skips the test.
func shared(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "shared", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference checkpoint %s: %v", name, err)
	}
	return dir
}

func TestNetwork_AgreesWithPyTorch(t *testing.T) {
	for name, tolerance := range map[string]float64{
		"cheetah": 1e-4, "walker": 1e-4,
		"public/fbcpr-simple": 2e-5, "public/fbcpr-residual": 2e-5, "public/bfmzero": 2e-5,
	} {
		dir := shared(t, name)
		b := loadDir(t, dir)
		vectors, err := npz.ReadFile(filepath.Join(dir, "vectors.npz"))
		fatal.If(t, err)
		e, err := tflite.Check(b, vectors)
		fatal.If(t, err)
		t.Logf("%s: largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g",
			name, e.Cases, e.Phi, e.Action, e.Psi)
		if e.Worst() > tolerance {
			t.Errorf("%s: %+v, want at most %g", name, e, tolerance)
		}
	}
}
