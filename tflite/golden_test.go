package tflite

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

// The scripts that train models write the same format.
func TestSave_WritesGoldenFiles(t *testing.T) {
	m, tensors := tiny()
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := Save(dir, m, tensors); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "golden")
	for _, name := range []string{manifestFileName, weightsFileName} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.MkdirAll(golden, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(golden, name), got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the golden file (%d bytes, want %d); after an intended change run with -update",
				name, len(got), len(want))
		}
	}
	if _, err := LoadDir(golden); err != nil {
		t.Error(err)
	}
}
