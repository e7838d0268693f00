// Package regular reads regular files and nothing else.
//
// The files of a model have names that a user gives. Opening a named pipe waits for a writer, and
// reading a device may never end. This package refuses both, and it reads no more of a file than
// the size that the file has when it is opened.
package regular

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

// Open opens a regular file for reading and returns its size. It does not wait for a writer, and
// it checks the opened file: nothing can take its place between the check and the first read.
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
	if of := new(fs.PathError); errors.As(err, &of) {
		of.Path = name // as os.DirFS does it
	}
	return nil, err
}

// ReadFile reads a regular file of at most limit bytes. Of a fsys other than Dir, Open may wait.
func ReadFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := check(f, name)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: too large (%d bytes, at most %d are read)", name, size, limit)
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
