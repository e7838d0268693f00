package sealed

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type header struct {
	Format string `json:"format"`
	Note   string `json:"note"`
}

func appendBody(body string) func([]byte) ([]byte, error) {
	return func(dst []byte) ([]byte, error) { return append(dst, body...), nil }
}

func TestParse_IsTheInverseOfAppend(t *testing.T) {
	for _, body := range []string{"", "\n", "a body\nof two lines"} {
		data, err := Append([]byte("before"), header{"test 1", "a\nnote"}, appendBody(body))
		if err != nil {
			t.Fatal(err)
		}
		var h header
		got, err := Parse(data[len("before"):], &h, "test 1")
		if err != nil || string(got) != body || h.Note != "a\nnote" {
			t.Errorf("%q: %q, %+v, %v", body, got, h, err)
		}
	}
}

func TestParse_RefusesDamagedFiles(t *testing.T) {
	whole, err := Append(nil, header{"test 1", "note"}, appendBody("body"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, format string, data []byte, want string) {
		t.Helper()
		var h header
		if _, err := Parse(data, &h, format); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("another format", "test 2", whole, `format "test 1", want "test 2"`)
	check("longer", "test 1", append(bytes.Clone(whole), 0), "checksum")
	for n := range whole {
		check("cut", "test 1", whole[:n], "")
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		check("flipped", "test 1", flipped, "")
	}
}

func TestAppend_RefusesAHeaderThatParseWouldRefuse(t *testing.T) {
	for _, size := range []int{maxHeader / 2, maxHeader} {
		data, err := Append(nil, header{"test 1", strings.Repeat("x", size)}, nil)
		if err == nil {
			_, err = Parse(data, new(header), "test 1")
		}
		if (err == nil) != (size < maxHeader) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestReplace_FailureKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Read(path, 10); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		t.Errorf("no file: %v", err)
	}
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(Unfinished(path), 0o700); err != nil { // blocks the new file
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("no error")
	}
	if data, err := Read(path, 3); err != nil || string(data) != "old" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(path, 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("larger than its limit: %v", err)
	}
	if _, err := Read(Unfinished(path), 10); !errors.Is(err, ErrDamaged) {
		t.Errorf("a folder: %v", err)
	}
}
