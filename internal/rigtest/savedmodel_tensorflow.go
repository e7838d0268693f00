//go:build tensorflow

package rigtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"optibfm/configs"
	"optibfm/internal/fatal"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// NewSavedModelSession returns a session whose model is SavedModelDir. Without TensorFlow's library
// it skips the test.
func NewSavedModelSession(t *testing.T, change func(*configs.File)) *setup.Session {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	saved := tflite.SavedModel{Dir: SavedModelDir, Name: "exported", Signatures: tflite.DefaultSignatures()}
	var err error
	if saved.Hash, err = tflite.HashSavedModel(SavedModelDir); err != nil {
		t.Fatal(err)
	}
	config := tensorflow.DefaultConfig()
	config.Device = "/CPU:0"
	model, err := tensorflow.LoadSavedModel(saved, config, 16)
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	fatal.If(t, err)
	saved.Sizes = model.Dims()
	if _, err := tflite.SaveSavedModel(dir, saved); err != nil || model.Close() != nil {
		t.Fatal(err)
	}
	opened, err := setup.OpenModel(dir)
	fatal.If(t, err)
	s := NewSession(t, func(f *configs.File) {
		sections.Edit(&f.Model.Sections, func(c *tensorflow.Config) { c.Device = "/CPU:0" })
		if change != nil {
			change(f)
		}
	})
	s.Model = opened
	return s
}
