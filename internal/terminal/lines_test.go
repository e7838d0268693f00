package terminal

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestLinesAreWrittenInOrderBeforeCloseReturns(t *testing.T) {
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
		t.Errorf("%q", out.String())
	}
}

func TestAReaderThatHasStoppedHoldsNobodyUp(t *testing.T) {
	read, write := io.Pipe() // of which nobody reads
	w := NewLineWriter(write)
	for i := range 1000 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read.Close()
}
