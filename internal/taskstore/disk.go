package taskstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"optibfm/internal/safefile"
)

// read reads a regular file. The error wraps ErrDamaged for another kind of file and for a too
// large one, and fs.ErrNotExist for a missing one.
func read(path string) ([]byte, error) {
	data, err := safefile.Read(path, maxFile)
	var failed *fs.PathError
	if err != nil && (!errors.As(err, &failed) || errors.Is(err, safefile.ErrNotRegular)) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return data, err
}

// unfinished returns the name of a new file until it replaces the old one.
func unfinished(path string) string { return path + ".new" }

// replace writes a file, syncs it, renames it and syncs its folder. If it returns nil, the new file
// is on disk; after an error it is the old or the new one. One process at a time may replace a
// file.
func replace(path string, data []byte) error {
	if err := writeDurably(unfinished(path), data); err != nil {
		return err
	}
	return rename(unfinished(path), path)
}

// rename renames a file in its folder and syncs the folder.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return safefile.SyncDir(filepath.Dir(to))
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
