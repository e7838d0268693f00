package dds

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"optibfm/hal/unitree/idl"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// library loads libddsc, or skips the test; with OPTIBFM_TEST_DDS=required it fails.
func library(t *testing.T) *Library {
	t.Helper()
	l, err := Open("")
	if err == nil {
		return l
	}
	if os.Getenv("OPTIBFM_TEST_DDS") == "required" {
		t.Fatal(err)
	}
	t.Skipf("%v", err)
	return nil
}

func TestVersionOf_AcceptsOnly0_10(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/lib/x86_64-linux-gnu/libddsc.so.0.10.2": "0.10.2",
		"/a/cyclonedds.libs/libddsc-ad12.so.0.10.5":   "0.10.5",
		"/a/libddsc-ad12c33a.so.11.0.1":               "",
		"/a/libddsc.so.0.9.1":                         "",
		"/a/libddsc.so.0.101.0":                       "",
		"/a/libddsc.so":                               "",
	} {
		got, err := versionOf(path)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// TestOpen_RefusesOtherVersions loads nothing: the file is refused by its name.
func TestOpen_RefusesOtherVersions(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "libddsc.so.11.0.1")
	fatal.If(t, errors.Join(os.WriteFile(real, nil, 0o600), os.Symlink(real, filepath.Join(dir, "libddsc.so"))))
	errtest.Is(t, errtest.Of(open(dir)), ErrVersion, "version 11")
	errtest.Is(t, errtest.Of(open(t.TempDir())), ErrNoLibrary, "an empty folder")
}

// domain is one that no other test of this package uses; packages run in parallel.
const domain = 71

func TestEndpoints_CarryMessagesOnLoopback(t *testing.T) {
	l := library(t)
	p, err := l.Join(domain, Loopback)
	fatal.If(t, err)
	defer p.Close()
	w, err := NewWriter[idl.G1Command](p, "rt/lowcmd", idl.G1CommandType)
	fatal.If(t, err)
	r, err := NewReader[idl.G1Command](p, "rt/lowcmd", idl.G1CommandType, 1)
	fatal.If(t, err)
	m, summer := w.Message(), idl.NewSummer[idl.G1Command]()
	m.ModeMachine, m.Motor[28].Q = 5, 0.25
	m.CRC = summer.Sum(m)
	got := exchange(t, w, r)
	if *got != *m || summer.Sum(got) != got.CRC {
		t.Errorf("found %+v", got)
	}
	own, err := p.GUID()
	fatal.If(t, err)
	writers, err := r.Writers(nil)
	if err != nil || len(writers) != 1 || writers[0].Participant != own || w.Readers() != 1 {
		t.Errorf("writers %v, %v, own %v; %d readers", writers, err, own, w.Readers())
	}
	if n := testing.AllocsPerRun(100, func() {
		errtest.Nil(t, w.Write())
		if _, _, err := r.Take(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// exchange writes until a message arrives.
func exchange[T any](t *testing.T, w *Writer[T], r *Reader[T]) *T {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		fatal.If(t, w.Write())
		time.Sleep(5 * time.Millisecond)
		got, _, err := r.Take()
		fatal.If(t, err)
		if got != nil {
			return got
		}
	}
	t.Fatal("nothing arrived")
	return nil
}

func TestJoin_NamesAMissingInterface(t *testing.T) {
	l := library(t)
	errtest.NotNil(t, errtest.Of(l.Join(domain+1, "nosuch0")))
}

// TestDescriptors_AreWhatTheGeneratorWrites needs Cyclone's compiler of IDL and a C compiler.
func TestDescriptors_AreWhatTheGeneratorWrites(t *testing.T) {
	for _, program := range []string{"idlc", "cc", "gofmt"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt install cyclonedds-tools cyclonedds-dev gcc", program)
		}
	}
	dir := filepath.Join(t.TempDir(), "idl")
	fatal.If(t, os.CopyFS(dir, os.DirFS("../idl")))
	fatal.If(t, os.Chmod(filepath.Join(dir, "generate", "generate.sh"), 0o700))
	if out, err := exec.Command(filepath.Join(dir, "generate", "generate.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"descriptors.go", "offsets_test.go"} {
		want, err1 := os.ReadFile(filepath.Join(dir, name))
		got, err2 := os.ReadFile(filepath.Join("../idl", name))
		if err1 != nil || err2 != nil || !slices.Equal(got, want) {
			t.Errorf("%s is not what `go generate ./hal/unitree/idl` writes (%v, %v)", name, err1, err2)
		}
	}
}
