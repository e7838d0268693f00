package terminal

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestLineWriter_WritesAllLinesInOrderBeforeClose(t *testing.T) {
	var out strings.Builder
	w := NewLineWriter(&out)
	want := ""
	for i := range 20 {
		fmt.Fprintf(w, "line %d\n", i)
		want += fmt.Sprintf("line %d\n", i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestLineWriter_DropsLinesWhileReaderIsStopped(t *testing.T) {
	read, write := io.Pipe()
	defer read.Close()
	w := NewLineWriter(write)
	for i := range 1000 { // a Write that waits hangs here
		fmt.Fprintf(w, "line %d\n", i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
