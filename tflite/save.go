package tflite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a bundle of tensors (see New) as a new directory. The directory
// appears whole or not at all; one that has files in it is left alone.
func Save(dir string, m Manifest, tensors map[string]Tensor) error {
	// What Load would refuse is not written.
	if _, err := New(m, tensors); err != nil {
		return err
	}
	var raw bytes.Buffer
	if err := writeSafetensors(&raw, tensors); err != nil {
		return fmt.Errorf("tflite: %w", err)
	}
	text, err := encodeManifest(m, hashOf(raw.Bytes()))
	if err != nil {
		return fmt.Errorf("tflite: %w", err)
	}
	return writeDir(dir, func(temporary string) error {
		return errors.Join(
			writeSynced(filepath.Join(temporary, manifestFileName), bytes.NewReader(text)),
			writeSynced(filepath.Join(temporary, weightsFileName), &raw))
	})
}

// writeDir has a directory beside dir filled and renames it.
func writeDir(dir string, fill func(temporary string) error) (err error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("tflite: %s has files in it (%s, ...): choose a new directory", dir, entries[0].Name())
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), ".bundle-*")
	if err != nil {
		return fmt.Errorf("tflite: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("tflite: %w", errors.Join(err, os.RemoveAll(temporary)))
		}
	}()
	if err := fill(temporary); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	// An empty directory gives way; os.Remove refuses any other.
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(temporary, dir)
}

func writeSynced(path string, content io.Reader) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}
