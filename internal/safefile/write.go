package safefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace calls write with a new file in the folder of path, which then replaces the file at path.
// If Replace returns nil, the new file is on disk. If write returns an error, the old file is
// unchanged. It refuses to replace what is not a regular file, such as a device.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; give another name", path)
	}
	return place(path, mode, write, os.Rename)
}

// Create is Replace for a path at which a file must not exist. If one exists, the error wraps
// fs.ErrExist. The file system must support hard links.
func Create(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return place(path, mode, write, os.Link)
}

func place(path string, mode fs.FileMode, write func(io.Writer) error, name func(from, to string) error) error {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	f, err := os.CreateTemp(dir, "."+base+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename
	buffered := bufio.NewWriterSize(f, 1<<16)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// WriteNew writes a new file, and removes it if that fails. Unlike Create it needs no hard links, but
// readers may see a part of the file. If one exists, the error wraps fs.ErrExist. If WriteNew returns
// nil, the file is on disk.
func WriteNew(path string, mode fs.FileMode, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a folder durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
