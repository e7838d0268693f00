package sealed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"optibfm/internal/regular"
)

// ErrDamaged is wrapped by the error for a file that is not complete.
var ErrDamaged = errors.New("damaged file")

const (
	checkLen  = 8
	maxHeader = 256 << 10 // bytes of the first line
)

// Append appends a file to dst. header is a struct with the key "format". body appends the body; nil: none.
func Append(dst []byte, header any, body func(dst []byte) ([]byte, error)) ([]byte, error) {
	line, err := json.Marshal(header)
	if err != nil {
		return dst, err
	}
	if len(line) > maxHeader-1 {
		return dst, fmt.Errorf("sealed: the header has %d bytes, at most %d", len(line), maxHeader-1)
	}
	start := len(dst)
	dst = append(append(dst, line...), '\n')
	if body != nil {
		if dst, err = body(dst); err != nil {
			return dst, err
		}
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

// Parse is the inverse of Append for a file of one of the formats, the newest first. It fills header, a pointer,
// and returns the body, which is a part of data. Its errors wrap ErrDamaged.
func Parse(data []byte, header any, formats ...string) (body []byte, err error) {
	if body, err = parse(data, header, formats); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return body, nil
}

func parse(data []byte, header any, formats []string) (body []byte, err error) {
	end, err := headerLen(data, formats)
	if err != nil {
		return nil, err
	}
	whole := data[:len(data)-checkLen]
	if got, want := xxhash.Sum64(whole), binary.LittleEndian.Uint64(data[len(whole):]); got != want {
		return nil, fmt.Errorf("wrong checksum (%#x, want %#x)", got, want)
	}
	if err := json.Unmarshal(data[:end], header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return whole[end+1:], nil
}

// headerLen returns the length of the first line of a file of one of the formats.
func headerLen(data []byte, formats []string) (int, error) {
	end := bytes.IndexByte(data[:min(len(data), maxHeader)], '\n')
	if end < 0 || len(data) < end+1+checkLen {
		return 0, fmt.Errorf("incomplete header (%d bytes)", len(data))
	}
	var found struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(data[:end], &found); err != nil {
		return 0, fmt.Errorf("header: %w", err)
	}
	if !slices.Contains(formats, found.Format) {
		return 0, fmt.Errorf("format %.40q, want %q; use the program version that wrote it", found.Format, formats[0])
	}
	return end, nil
}

// ReadHeader fills header, a pointer, from the first line of a file of one of the formats, for a list of files. It
// reads no body and checks no checksum.
func ReadHeader(path string, header any, formats ...string) error {
	f, size, err := regular.Open(path)
	if err != nil {
		return err
	}
	data := make([]byte, min(size, maxHeader+checkLen))
	_, err = io.ReadFull(f, data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	end, err := headerLen(data, formats)
	if err == nil {
		err = json.Unmarshal(data[:end], header)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// Read reads a regular file of at most limit bytes. The error wraps ErrDamaged for another kind of file and for
// a larger one, and fs.ErrNotExist for a missing one.
func Read(path string, limit int64) ([]byte, error) {
	data, err := regular.Read(path, limit)
	var failed *fs.PathError
	if err != nil && (!errors.As(err, &failed) || errors.Is(err, regular.ErrNotRegular)) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return data, err
}

// Unfinished returns the name under which Replace writes the new file. One process at a time may replace a file.
func Unfinished(path string) string { return path + ".new" }

// Replace writes a file, syncs it, renames it and syncs its folder. If it returns nil, the new file is on disk;
// after an error it is the old or the new one.
func Replace(path string, data []byte) error {
	if err := writeDurably(Unfinished(path), data); err != nil {
		return err
	}
	if err := os.Rename(Unfinished(path), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names of a folder durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
