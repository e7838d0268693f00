package tflite

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

// The scripts that train models write the same format.
func TestSave_WritesGoldenFiles(t *testing.T) {
	m, tensors := tiny()
	dir := filepath.Join(t.TempDir(), "tiny")
	fatal.If(t, Save(dir, m, tensors))
	golden := filepath.Join("testdata", "golden")
	for _, name := range []string{manifestFileName, weightsFileName} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		fatal.If(t, err)
		if *update {
			fatal.If(t, os.MkdirAll(golden, 0o755))
			fatal.If(t, os.WriteFile(filepath.Join(golden, name), got, 0o644))
		}
		want, err := os.ReadFile(filepath.Join(golden, name))
		fatal.If(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the golden file (%d bytes, want %d); after an intended change run with -update",
				name, len(got), len(want))
		}
	}
	errtest.Nil(t, errtest.Of(LoadDir(golden)))
}
