package tflite_test

import (
	"os"
	"path/filepath"
	"testing"

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
	for _, name := range []string{"cheetah", "walker"} {
		dir := shared(t, name)
		b := loadDir(t, dir)
		vectors, err := npz.ReadFile(filepath.Join(dir, "vectors.npz"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := tflite.Check(b, vectors)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g",
			name, e.Cases, e.Phi, e.Action, e.Psi)
		if e.Worst() > 1e-4 {
			t.Errorf("%s: %+v, want at most 1e-4", name, e)
		}
	}
}
