package npz

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/safefile"
)

func encode(t testing.TB, arrays Archive) []byte {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, Write(&b, arrays))
	return b.Bytes()
}

func decode(raw []byte) (Archive, error) { return Read(bytes.NewReader(raw), int64(len(raw))) }

// zipOf packs one raw .npy, possibly with a damaged header.
func zipOf(t testing.TB, name, raw string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	fatal.If(t, err)
	fatal.If(t, errtest.Of(w.Write([]byte(raw))))
	fatal.If(t, z.Close())
	return b.Bytes()
}

// npyOf returns a version 1.0 array with the given header text.
func npyOf(header, data string) string {
	header += "\n"
	return "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header + data
}

func TestArchive_ReadsBackWhatItWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	want := Archive{
		"obs":    Float32([]float32{1, 2, 3, 4, 5, 6}, 2, 3),
		"psi":    Float64([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2),
		"steps":  Int64([]int64{-1, 1 << 60}),
		"scalar": Array{values: []float64{7}},
		"empty":  Float32(nil, 0, 24),
	}
	fatal.If(t, WriteFile(path, want))
	got, err := ReadFile(path)
	fatal.If(t, err)
	for name, array := range want {
		if !slices.Equal(got[name].Shape(), array.Shape()) {
			t.Errorf("%s: shape %v, want %v", name, got[name].Shape(), array.Shape())
		}
		if !slices.Equal(got[name].Float64s(), array.Float64s()) {
			t.Errorf("%s: %v, want %v", name, got[name].Float64s(), array.Float64s())
		}
	}
	if steps, err := got["steps"].Int64s(); err != nil || steps[1] != 1<<60 {
		t.Errorf("steps: %v, %v: want 2^60 exactly", steps, err)
	}
	errtest.NotNil(t, errtest.Of(got["obs"].Int64s()), "Int64s accepts floats")
}

func TestRead_SupportsEveryNumberType(t *testing.T) {
	for dtype, data := range map[string]string{
		"<i1": "\x02", "|u1": "\x02", "<i2": "\x02\x00", ">i2": "\x00\x02", "<u2": "\x02\x00",
		"<i4": "\x02\x00\x00\x00", "<u4": "\x02\x00\x00\x00", ">u4": "\x00\x00\x00\x02",
		"<i8": "\x02\x00\x00\x00\x00\x00\x00\x00", "<u8": "\x02\x00\x00\x00\x00\x00\x00\x00",
		"<f2": "\x00\x40", ">f2": "\x40\x00", "<f4": "\x00\x00\x00\x40", ">f4": "\x40\x00\x00\x00",
		"<f8": "\x00\x00\x00\x00\x00\x00\x00\x40",
	} {
		raw := zipOf(t, "x.npy", npyOf("{'descr': '"+dtype+"', 'fortran_order': False, 'shape': (1,), }", data))
		got, err := decode(raw)
		if err != nil || got["x"].Float64s()[0] != 2 {
			t.Errorf("%s: %v, %v: want 2", dtype, got["x"].Float64s(), err)
		}
	}
	raw := zipOf(t, "x.npy", npyOf("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\x00\x01\x00"))
	if got, err := decode(raw); err != nil || !slices.Equal(got["x"].Float64s(), []float64{0, 1, 0}) {
		t.Errorf("booleans: %v, %v", got, err)
	}
}

func TestRead_ConvertsFortranOrder(t *testing.T) {
	const header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }"
	raw := zipOf(t, "x.npy", npyOf(header, "\x01\x04\x02\x05\x03\x06"))
	got, err := decode(raw)
	fatal.If(t, err)
	if want := []float64{1, 2, 3, 4, 5, 6}; !slices.Equal(got["x"].Float64s(), want) {
		t.Errorf("got %v, want %v", got["x"].Float64s(), want)
	}
}

func TestRead_RefusesDamagedFiles(t *testing.T) {
	whole := encode(t, Archive{"obs": Float32([]float32{1, 2, 3, 4}, 2, 2)})
	flipped := slices.Clone(whole)
	flipped[len("PK")+120] ^= 0x40
	header := func(dtype, order, shape string) string {
		return "{'descr': '" + dtype + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }"
	}
	for name, raw := range map[string][]byte{
		"empty":            nil,
		"cut off":          whole[:len(whole)-30],
		"flipped bit":      flipped,
		"no magic":         zipOf(t, "x.npy", "hello, world, this is not an array"),
		"no header":        zipOf(t, "x.npy", "\x93NUMPY\x01\x00\x10"),
		"header cut off":   zipOf(t, "x.npy", "\x93NUMPY\x01\x00\xff\xff{}"),
		"huge header":      zipOf(t, "x.npy", "\x93NUMPY\x02\x00\xff\xff\xff\x7f{}"),
		"no newline":       zipOf(t, "x.npy", "\x93NUMPY\x01\x00\x04\x00abcd"),
		"empty dictionary": zipOf(t, "x.npy", npyOf("{}", "")),
		"mixed up keys": zipOf(t, "x.npy",
			npyOf("{'shape': (1,), 'fortran_order': False, 'descr': '<f4'}", "\x00\x00\x00\x00")),
		"negative shape": zipOf(t, "x.npy", npyOf(header("<f4", "False", "(-1,)"), "")),
		"huge shape": zipOf(t, "x.npy",
			npyOf(header("<f4", "False", "(9999999999, 9999999999)"), "")),
		"short data":       zipOf(t, "x.npy", npyOf(header("<f4", "False", "(2,)"), "\x00\x00\x00\x00")),
		"long data":        zipOf(t, "x.npy", npyOf(header("<f4", "False", "(1,)"), "\x00\x00\x00\x00\x00")),
		"bad order":        zipOf(t, "x.npy", npyOf(header("<f4", "Perhaps", "(1,)"), "\x00\x00\x00\x00")),
		"too big a uint64": zipOf(t, "x.npy", npyOf(header("<u8", "False", "(1,)"), strings.Repeat("\xff", 8))),
	} {
		if got, err := decode(raw); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

func TestRead_SkipsArraysOfOtherTypes(t *testing.T) {
	for descr, data := range map[string]string{
		"'<U5'": "\x00", "'|S3'": "abc", "'|O'": "\x00",
		"'|O8'": strings.Repeat("\x00", 8), "'<c8'": strings.Repeat("\x00", 8),
		"'<M8[ns]'": strings.Repeat("\x00", 8), "''": "\x00", "[('a', '<f4')]": "\x00\x00\x00\x00",
	} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, raw := range map[string]string{
			"other.npy": npyOf("{'descr': "+descr+", 'fortran_order': False, 'shape': (1,), }", data),
			"x.npy":     npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "\x00\x00\x00\x40"),
		} {
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write([]byte(raw))
			}
			fatal.If(t, err)
		}
		fatal.If(t, z.Close())
		got, err := decode(b.Bytes())
		if err != nil || got["x"].Float64s()[0] != 2 {
			t.Errorf("%s: %v, %v", descr, got, err)
		}
		errtest.Contains(t, errtest.Of(got.Shaped("other", 1)), `"other": dtype`, descr, ", asked for")
	}
}

func TestRead_NamesPointersOfGitLFS(t *testing.T) {
	if _, err := decode([]byte("version https://git-lfs.github.com/spec/v1\n")); err == nil ||
		!strings.Contains(err.Error(), "git lfs pull") {
		t.Error(err)
	}
}

func TestRead_RefusesBombsBeforeItAllocates(t *testing.T) {
	const elements = leastBytes/4 + 1 // of float32: the file has 65 KB
	zeros := make([]byte, 4*elements)
	shape := func(dtype string, order string, n int) string {
		return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%d,), }", dtype, order, n)
	}
	for name, raw := range map[string]string{
		"float32":       npyOf(shape("<f4", "False", elements), string(zeros)),
		"booleans":      npyOf(shape("|b1", "False", elements), string(zeros[:elements])),
		"Fortran order": npyOf(shape("<f4", "True", elements/2+1), string(zeros[:4*(elements/2+1)])),
	} {
		file := compressed(t, raw)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(file)
		runtime.ReadMemStats(&after)
		errtest.Contains(t, err, "at most", name)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 4 {
			t.Errorf("%s: a file of %d KiB took %d MiB", name, len(file)>>10, n)
		}
	}
}

// compressed packs a raw .npy as numpy.savez_compressed does.
func compressed(t *testing.T, raw string) []byte {
	t.Helper()
	file := zipOf(t, "x.npy", raw)
	if len(file) > len(raw)/100 {
		t.Fatalf("%d bytes became %d", len(raw), len(file))
	}
	return file
}

func TestArchive_NamesKnownArraysInErrors(t *testing.T) {
	archive := Archive{"phi": Float64([]float64{1}), "reward": Float64([]float64{1})}
	_, err := archive.Get("obs")
	errtest.Is(t, err, ErrMissing)
	errtest.Contains(t, err, "phi, reward")
	errtest.Contains(t, errtest.Of(archive.Shaped("phi", -1, 3)), "[1]", "a vector passed for a matrix")
	errtest.Nil(t, errtest.Of(archive.Shaped("phi", -1)))
}

func TestArray_Float32sRefusesOverflow(t *testing.T) {
	errtest.Contains(t, errtest.Of(Float64([]float64{0, 1e300}).Float32s()), "element 1")
}

func TestWriteFile_RemovesTemporaryFileOnError(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "a.npz"), Archive{"x": {}}); err == nil {
		t.Fatal("WriteFile accepts the zero Array")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add(encode(f, Archive{"obs": Float32([]float32{1, 2}, 1, 2), "n": Int64([]int64{3})}))
	f.Add(zipOf(f, "x.npy", npyOf("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "\x00\x00\x00\x00")))
	f.Add(zipOf(f, "x.npy", npyOf("{}", "")))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = decode(raw) })
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add([]byte(npyOf("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "\x00\x00\x00\x00")))
	f.Add([]byte("\x93NUMPY\x02\x00\x04\x00\x00\x00{}\n\n"))
	f.Add([]byte(npyOf("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\x01")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, _, err := parse(bufio.NewReaderSize(bytes.NewReader(raw), maxHeader), uint64(len(raw)), 1<<20)
		if n, ok := elements(a.shape); err == nil && (!ok || n != len(a.Float64s())) {
			t.Fatalf("shape %v with %d values", a.shape, len(a.Float64s()))
		}
	})
}

func TestReadFile_RefusesFilesThatAreNotRegular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.npz")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, "/dev/zero"} {
		errs := make(chan error, 1)
		go func() {
			_, err := ReadFile(path)
			errs <- err
		}()
		select {
		case err := <-errs:
			errtest.Is(t, err, safefile.ErrNotRegular, path)
		case <-time.After(2 * time.Minute): // a guard against a hang
			t.Fatalf("%s: still waiting", path)
		}
	}
}
