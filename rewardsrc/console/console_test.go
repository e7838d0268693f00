package console

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"optibfm/rewardsrc"
)

var (
	_ rewardsrc.Source       = (*Console)(nil)
	_ rewardsrc.Acknowledger = (*Console)(nil)
	_ rewardsrc.Reachable    = (*Console)(nil)
)

// operator is a console and the other ends of its pipes.
type operator struct {
	*Console
	in  *io.PipeWriter
	out *bufio.Reader
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := Open(Options{In: inR, Out: outW, Good: 1, Bad: -1})
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		if err := c.Halt(); err != nil {
			t.Error(err)
		}
	})
	return &operator{c, inW, bufio.NewReader(outR)}
}

func (o *operator) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(o.in, text); err != nil {
		t.Fatal(err)
	}
}

func (o *operator) labels(t *testing.T, n int) []rewardsrc.Label {
	t.Helper()
	var got []rewardsrc.Label
	buf := make([]rewardsrc.Label, 8)
	for range 500 {
		got = append(got, buf[:o.Poll(buf)]...)
		if len(got) >= n {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d labels, want %d", len(got), n)
	return nil
}

func (o *operator) hears(t *testing.T, want string) {
	t.Helper()
	line, err := o.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		t.Errorf("heard %q, %v; want %q", line, err, want)
	}
}

func TestLinesGiveLabels(t *testing.T) {
	o := newOperator(t)
	o.write(t, "+\n-\r\n\n# a remark\n 0.25 \nu\n")
	got := o.labels(t, 4)
	for i, want := range []rewardsrc.Label{
		{Kind: rewardsrc.Value, Value: 1}, {Kind: rewardsrc.Value, Value: -1},
		{Kind: rewardsrc.Value, Value: 0.25}, {Kind: rewardsrc.Undo},
	} {
		if got[i].Kind != want.Kind || got[i].Value != want.Value || got[i].Tick != rewardsrc.NoTick || got[i].At == 0 {
			t.Errorf("label %d is %+v, want %+v", i, got[i], want)
		}
	}
}

func TestALineAnswersTheRequestThatIsOpen(t *testing.T) {
	o := newOperator(t)
	o.Ask(rewardsrc.Request{ID: 4, Tick: 30, State: rewardsrc.Open})
	o.hears(t, "wanted 4\n")
	o.write(t, "0.5\n")
	l := o.labels(t, 1)[0]
	if l.Request != 4 || l.Tick != 30 {
		t.Errorf("label %+v, want an answer to request 4", l)
	}
	l.ID = 9
	o.Acknowledge(l)
	o.hears(t, "saved 9\n")
	o.Refuse(l, errors.New("the ring is full"))
	o.hears(t, "refused the ring is full\n")
}

func TestALineThatIsNotUnderstoodIsAnsweredAndGivesNoLabel(t *testing.T) {
	o := newOperator(t)
	for line, want := range map[string]string{
		"good":                    "error not understood (\"good\"): write +, -, a number, ? or u",
		"NaN":                     "error not understood",
		"-inf":                    "error not understood",
		"1e9":                     "error not understood (\"1e9\"): write a reward from -1000 to 1000",
		strings.Repeat("1", 5000): "error the line is longer than 256 bytes",
	} {
		o.write(t, line+"\n")
		o.hears(t, want)
	}
	o.write(t, "?\n")
	for n := range 500 {
		if o.Poll(make([]rewardsrc.Label, 1)) != 0 {
			t.Fatal("a label came")
		}
		if len(o.lines) > 0 || n > 20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	o.hears(t, "error no label is wanted")
}

func TestTheEndOfTheInputIsToldAndAnUnfinishedLineStillCounts(t *testing.T) {
	o := newOperator(t)
	o.write(t, "0.5")
	o.in.Close()
	if l := o.labels(t, 1)[0]; l.Value != 0.5 {
		t.Errorf("label %+v", l)
	}
	for range 500 {
		if o.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if o.Reachable() {
		t.Error("the end of the input is asked")
	}
	if !errors.Is(o.Err(), io.EOF) {
		t.Errorf("Err() = %v, want io.EOF", o.Err())
	}
}

func TestAnOutputThatNobodyReadsBlocksNothing(t *testing.T) {
	_, out := io.Pipe()
	c := Open(Options{In: strings.NewReader(strings.Repeat("bad\n", 1000)), Out: out})
	for range 1000 {
		c.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	}
	if err := c.Halt(); err != nil {
		t.Error(err)
	}
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{"+", "-", "0.5", "u", "?", "# x", "", "1e400", "nan", "0x1p-2", "1_0", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := parseLine(line, 1, -1)
		if err != nil && (e != entry{} || !errors.Is(err, ErrLine)) {
			t.Fatalf("%q: %+v, %v", line, e, err)
		}
		if !(math.Abs(e.value) <= maxReward) {
			t.Fatalf("%q: reward %g", line, e.value)
		}
	})
}
