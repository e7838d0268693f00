package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// stream creates a file, and the variable JOURNAL_STREAM that describes it.
func stream(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	var s unix.Stat_t
	fatal.If(t, unix.Fstat(int(f.Fd()), &s))
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", s.Dev, s.Ino))
	return f
}

func TestFor_GivesEachLineAPriority(t *testing.T) {
	f := stream(t)
	fmt.Fprint(For(f, Error), "one\ntwo\n")
	fmt.Fprintln(For(f, Warning), "three")
	const want = "<3>one\n<3>two\n<4>three\n"
	if found, err := os.ReadFile(f.Name()); err != nil || string(found) != want {
		t.Errorf("%q, %v; want %q", found, err, want)
	}
}

func TestReads_OnlyTheStreamOfTheJournal(t *testing.T) {
	f := stream(t)
	if !Reads(f) {
		t.Error("the stream is not recognised")
	}
	other, err := os.Create(filepath.Join(t.TempDir(), "other"))
	fatal.If(t, err)
	defer other.Close()
	if Reads(other) || Reads(io.Discard) {
		t.Error("another file counts as the journal")
	}
	for _, value := range []string{"", "1:2", "x"} {
		t.Setenv("JOURNAL_STREAM", value)
		if Reads(f) {
			t.Errorf("JOURNAL_STREAM %q counts as the journal", value)
		}
	}
}
