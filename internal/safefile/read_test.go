package safefile_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/safefile"
)

// within fails if f does not return: a guard against a hang.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("still waiting")
		return nil
	}
}

func TestInstead_RecognisesPointersAndPages(t *testing.T) {
	for start, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:1": "git-lfs",
		"version ": "git-lfs", "<!DOCTYPE html>": "web page", "<!DOCTYP": "web page", "\n <html>": "web page",
		"PK\x03\x04": "", "{\"a\": 1}": "", "": "", "versions": "",
	} {
		if got := safefile.Instead([]byte(start)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %s", start, got)
		}
	}
}

func TestOpen_RefusesAllButRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	fatal.If(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)))
	listener, err := net.Listen("unix", socket)
	fatal.If(t, err)
	defer listener.Close()
	for _, path := range []string{pipe, link, "/dev/zero", dir} {
		err := within(t, func() error {
			_, _, err := safefile.Open(path)
			return err
		})
		errtest.Is(t, err, safefile.ErrNotRegular)
		errtest.Contains(t, err, path)
	}
	if _, _, err := safefile.Open(socket); err == nil { // the kernel refuses
		t.Error("Open accepts a socket")
	}
	if _, _, err := safefile.Open(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v, want ErrNotExist", err)
	}
}

func TestOpen_FollowsLinksToRegularFiles(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	fatal.If(t, errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink("file", link)))
	f, size, err := safefile.Open(link)
	if err != nil || size != 4 {
		t.Fatalf("size %d, %v", size, err)
	}
	defer f.Close()
}

func TestReadFile_IsBoundedByTheLimitAndTheSizeAtOpening(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	systems := map[string]fs.FS{"dir": safefile.Dir(dir), "map": fstest.MapFS{"file": {Data: []byte("text")}}}
	for name, fsys := range systems {
		if content, err := safefile.ReadFile(fsys, "file", 4); string(content) != "text" || err != nil {
			t.Errorf("%s: %q, %v", name, content, err)
		}
		_, err := safefile.ReadFile(fsys, "file", 3)
		errtest.Contains(t, err, "4 bytes, at most 3", name)
	}
	errtest.Is(t, errtest.Of(safefile.ReadFile(safefile.Dir(dir), "../file", 4)), fs.ErrInvalid)
	// The size of a file in /proc is 0 with any content.
	if content, err := safefile.ReadFile(safefile.Dir("/proc/self"), "maps", 1<<20); len(content) != 0 || err != nil {
		t.Errorf("%d bytes, %v, want none", len(content), err)
	}
}
