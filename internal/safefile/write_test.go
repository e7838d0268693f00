package safefile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/safefile"
)

func TestReplace_KeepsTheOldFileAfterAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, failed := io.WriteString(w, s)
			return errors.Join(failed, err)
		}
	}
	full := errors.New("full")
	for _, step := range []struct {
		name string
		do   func() error
		want string
		err  error
	}{
		{"create", func() error { return safefile.Create(path, 0o640, text("one", nil)) }, "one", nil},
		{"create again", func() error { return safefile.Create(path, 0o640, text("two", nil)) }, "one", fs.ErrExist},
		{"replace", func() error { return safefile.Replace(path, 0o640, text("three", nil)) }, "three", nil},
		{"fail", func() error { return safefile.Replace(path, 0o640, text("four", full)) }, "three", full},
	} {
		errtest.Is(t, step.do(), step.err, step.name)
		content, err := os.ReadFile(path)
		if err != nil || string(content) != step.want {
			t.Errorf("%s: found %q, %v, want %q", step.name, content, err, step.want)
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestReplace_RefusesWhatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	err := safefile.Replace(path, 0o640, func(io.Writer) error { return nil })
	errtest.Contains(t, err, "is not a regular file", "device")
	if _, err := os.Readlink(path); err != nil {
		t.Error(err)
	}
}

func TestWriteNew_LeavesNoPartOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	errtest.Nil(t, safefile.WriteNew(path, 0o640, []byte("one")))
	errtest.Is(t, safefile.WriteNew(path, 0o640, []byte("two")), fs.ErrExist, "again")
	if content, err := os.ReadFile(path); err != nil || string(content) != "one" {
		t.Errorf("found %q, %v", content, err)
	}
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	errtest.Nil(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	errtest.Nil(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: before.Max}))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &before)
	full := path + "-full"
	errtest.Is(t, safefile.WriteNew(full, 0o640, make([]byte, 100)), unix.EFBIG, "full")
	if _, err := os.Stat(full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part remains: %v", err)
	}
}
