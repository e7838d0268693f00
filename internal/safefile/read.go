// Package safefile reads regular files and replaces files in one step.
//
// Opening a named pipe waits for a writer, and reading a device may never end. This package refuses
// both. It reads at most the size that a file has when it is opened.
//
// It writes and syncs a new file, which then replaces the old one. If the process or the power
// fails, either the old or the new file remains, and it is complete.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotRegular is wrapped by errors about a directory, a device, a socket or a named pipe.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading and returns its size. It does not wait for a writer. It
// checks the open file, which cannot be exchanged after the check.
func Open(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	size, err := check(f, path)
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// check returns the size of a regular file.
func check(f fs.File, name string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w (%v)", ErrNotRegular, info.Mode())}
	}
	return info.Size(), nil
}

// Dir is the file system of the regular files in a directory and its subdirectories.
type Dir string

// Open implements fs.FS.
func (d Dir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, _, err := Open(filepath.Join(string(d), filepath.FromSlash(name)))
	if err == nil {
		return f, nil
	}
	if pathError := new(fs.PathError); errors.As(err, &pathError) {
		pathError.Path = name // as in os.DirFS
	}
	return nil, err
}

// OpenIn opens a regular file of at most limit bytes and returns its size. It may wait unless fsys
// is a Dir.
func OpenIn(fsys fs.FS, name string, limit int64) (fs.File, int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	size, err := check(f, name)
	if err == nil && size > limit {
		err = fmt.Errorf("%s: too large (%d bytes, at most %d)", name, size, limit)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// Read reads the regular file at path, of at most limit bytes. It does not wait for a writer.
func Read(path string, limit int64) ([]byte, error) {
	return ReadFile(Dir(filepath.Dir(path)), filepath.Base(path), limit)
}

// ReadFile reads a regular file of at most limit bytes. It may wait unless fsys is a Dir.
func ReadFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, size, err := OpenIn(fsys, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
