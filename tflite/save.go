package tflite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a bundle of tensors (see New) to a new or empty directory. It writes the
// whole directory or nothing.
func Save(dir string, m Manifest, tensors map[string]Tensor) error {
	hash, err := check(m, tensors) // write only what Load accepts
	if err != nil {
		return fmt.Errorf("tflite: %w", err)
	}
	text, err := encodeManifest(m, hash, nil)
	if err != nil {
		return fmt.Errorf("tflite: %w", err)
	}
	return writeDir(dir, func(temporary string) error {
		raw, encoded := io.Pipe()
		go func() { encoded.CloseWithError(writeSafetensors(encoded, tensors)) }()
		return errors.Join(
			writeSynced(filepath.Join(temporary, manifestFileName), bytes.NewReader(text)),
			writeSynced(filepath.Join(temporary, weightsFileName), raw), raw.Close())
	})
}

// writeDir calls fill with a temporary directory beside dir and renames it to dir.
func writeDir(dir string, fill func(temporary string) error) (err error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("tflite: %s has files in it (%s, ...); use a new directory", dir, entries[0].Name())
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
	// os.Remove removes only an empty directory.
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
