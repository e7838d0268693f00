package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Priority is the priority of a line: syslog(3).
type Priority int

// The priorities of the program. The journal gives Info to lines without a prefix.
const (
	Error   Priority = 3
	Warning Priority = 4
	Info    Priority = 6
)

// Reads reports whether the journal reads out: systemd.exec(5), $JOURNAL_STREAM.
func Reads(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	var s unix.Stat_t
	return unix.Fstat(int(f.Fd()), &s) == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}

// For returns a writer of lines with priority p to out. It is out itself unless the journal reads
// it.
func For(out io.Writer, p Priority) io.Writer {
	if !Reads(out) {
		return out
	}
	return NewWriter(out, p)
}

// NewWriter returns a writer that writes the prefix of p before each line. A Write has whole lines.
func NewWriter(out io.Writer, p Priority) io.Writer { return writer{out, fmt.Appendf(nil, "<%d>", p)} }

type writer struct {
	out    io.Writer
	prefix []byte
}

func (w writer) Write(text []byte) (int, error) {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.Write(w.prefix)
		b.Write(line)
	}
	if _, err := w.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}
