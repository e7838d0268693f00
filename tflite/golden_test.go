package tflite

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/golden anew")

// The format is a contract with the scripts that train models: a change of a
// single byte of either file shows here, the weights by their hash.
func TestTheFilesOfABundleAreGolden(t *testing.T) {
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
			t.Errorf("%s is not the golden one (%d bytes, %d): if the format was meant to change, run with -update", name, len(got), len(want))
		}
	}
	if _, err := LoadDir(golden); err != nil {
		t.Error(err)
	}
}
