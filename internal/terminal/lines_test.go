package terminal

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

func TestLineDisplay_GivesEventsTheirPriorityInTheJournal(t *testing.T) {
	var out strings.Builder
	d := NewLineDisplay(&out, ShowJournal)
	for _, level := range []flightlog.Level{flightlog.Info, flightlog.Warn, flightlog.Error} {
		d.Event(flightlog.Event{Level: level, Text: "text"})
	}
	if got, want := out.String(), "<6>text\n<4>text\n<3>text\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLineDisplay_ShowsKeysThatStopFirst(t *testing.T) {
	for _, c := range []struct {
		change func(*configs.File)
		want   string
	}{
		{func(f *configs.File) { f.Operator.Source = configs.SourceKeyboard }, "keys: q quit, + good, - bad, "},
		{func(f *configs.File) {
			f.Operator.Source, f.Safety.Arm = configs.SourceKeyboard, configs.ArmOperator
		}, "keys: SPACE STOP, q quit, + good, - bad, "},
		{func(*configs.File) {}, ""},
	} {
		var out strings.Builder
		s := &setup.Session{File: testFile(c.change)}
		NewLineDisplay(&out, ShowLines).Begin(s, rigtest.RoverSpec(t), nil, nil)
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "keys:") {
			t.Errorf("want %q in %s", c.want, got)
		}
	}
}

func TestLineWriter_WritesAllLinesInOrderBeforeClose(t *testing.T) {
	var out strings.Builder
	w := NewLineWriter(&out)
	want := ""
	for i := range 20 {
		fmt.Fprintf(w, "line %d\n", i)
		want += fmt.Sprintf("line %d\n", i)
	}
	fatal.If(t, w.Close())
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
	fatal.If(t, w.Close())
}
