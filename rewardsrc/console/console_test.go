package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/rewardsrctest"
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
	now atomic.Int64
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o := &operator{in: inW, out: bufio.NewReader(outR)}
	o.now.Store(1e12)
	o.Console = Open(Options{In: inR, Out: outW, Good: 1, Bad: -1, Now: o.now.Load})
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		errtest.Nil(t, o.Halt())
	})
	return o
}

func (o *operator) write(t *testing.T, text string) {
	t.Helper()
	fatal.If(t, errtest.Of(io.WriteString(o.in, text)))
}

func (o *operator) labels(t *testing.T, n int) []rewardsrc.Label {
	t.Helper()
	return rewardsrctest.Labels(t, o, n)
}

// hears polls until the console writes a line.
func (o *operator) hears(t *testing.T, want string) {
	t.Helper()
	heard := make(chan string, 1)
	go func() {
		line, _ := o.out.ReadString('\n')
		heard <- line
	}()
	var line string
	rewardsrctest.Eventually(t, want, func() bool {
		if o.Poll(make([]rewardsrc.Label, 1)) != 0 {
			t.Fatal("a label came")
		}
		select {
		case line = <-heard:
			return true
		default:
			return false
		}
	})
	if !strings.HasPrefix(line, want) {
		t.Errorf("heard %q, want %q", line, want)
	}
}

func TestConsole_LinesGiveLabels(t *testing.T) {
	o := newOperator(t)
	o.write(t, "+\n-\r\n\n# a remark\n 0.25 \n>\n<\n g \nu\n")
	got := o.labels(t, 7)
	for i, want := range []rewardsrc.Label{
		{Kind: rewardsrc.Value, Value: 1}, {Kind: rewardsrc.Value, Value: -1},
		{Kind: rewardsrc.Value, Value: 0.25}, {Kind: rewardsrc.Comparison, Value: 0.5},
		{Kind: rewardsrc.Comparison, Value: -0.5}, {Kind: rewardsrc.Goal, Value: 1}, {Kind: rewardsrc.Undo},
	} {
		if got[i].Kind != want.Kind || got[i].Value != want.Value || got[i].Tick != rewardsrc.NoTick || got[i].At == 0 {
			t.Errorf("label %d is %+v, want %+v", i, got[i], want)
		}
	}
}

func TestConsole_LineAnswersRequest(t *testing.T) {
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

func TestConsole_RejectsBadLine(t *testing.T) {
	o := newOperator(t)
	for line, want := range map[string]string{
		"good":                    "error not understood (\"good\"); write +, -, a number, >, <, g, ?, u or k",
		">>":                      "error not understood",
		"> 2":                     "error not understood",
		"goal":                    "error not understood",
		"NaN":                     "error not understood",
		"-inf":                    "error not understood",
		"1e9":                     "error not understood (\"1e9\"); write a reward from -1000 to 1000",
		strings.Repeat("1", 5000): "error the line is longer than 256 bytes",
	} {
		o.write(t, line+"\n")
		o.hears(t, want)
		o.now.Add(reportEvery)
	}
	o.write(t, "?\n")
	o.hears(t, "error no open request")
}

// counter counts the lines that are written to it.
type counter struct {
	mu    sync.Mutex
	lines []string
}

func (c *counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(p))
	return len(p), nil
}

func TestConsole_RepliesOnceASecondToAFlood(t *testing.T) {
	const lines, seconds = 1_000_000, 5
	for name, line := range map[string]string{"labels": "+\n", "nonsense": "x\n", "can't tell": "?\n"} {
		t.Run(name, func(t *testing.T) {
			in, person := io.Pipe()
			var out counter
			var now atomic.Int64
			now.Store(1e12)
			c := Open(Options{In: in, Out: &out, Good: 1, Bad: -1, Now: now.Load})
			flood := []byte(strings.Repeat(line, lines/seconds))
			buf, labels := make([]rewardsrc.Label, 8), 0
			for range seconds {
				fatal.If(t, errtest.Of(person.Write(flood)))
				for n := c.Poll(buf); n > 0; n = c.Poll(buf) { // the queue
					labels += n
				}
				now.Add(reportEvery)
			}
			person.Close()
			rewardsrctest.Eventually(t, "the end of the input", func() bool {
				labels += c.Poll(buf)
				return c.Err() != nil
			})
			for n := c.Poll(buf); n > 0; n = c.Poll(buf) {
				labels += n
			}
			fatal.If(t, c.Halt())
			told := 0
			for _, reply := range out.lines {
				if strings.HasPrefix(reply, "ended ") {
					continue
				}
				n := 1
				_, _ = fmt.Sscanf(reply, "error %d lines", &n)
				told += n
			}
			if len(out.lines) == 0 || len(out.lines) > seconds+3 {
				t.Errorf("%d replies in %d s", len(out.lines), seconds)
			}
			if labels+told != lines || line == "+\n" && labels < queueLen || line != "+\n" && labels != 0 {
				t.Errorf("%d labels and %d lines without one, want %d in all: %q", labels, told, lines, out.lines)
			}
		})
	}
}

func TestConsole_RefusesLabelsOnceASecond(t *testing.T) {
	o := newOperator(t)
	for range 1000 {
		o.Refuse(rewardsrc.Label{}, errors.New("the robot was stopped"))
	}
	o.hears(t, "refused 1000 lines do not count; the last: the robot was stopped\n")
	o.Refuse(rewardsrc.Label{}, errors.New("the disk is full"))
	for range 10 {
		o.Poll(make([]rewardsrc.Label, 1))
	}
	if n := len(o.lines); n != 0 {
		t.Errorf("%d replies within a second", n)
	}
	o.now.Add(reportEvery)
	o.hears(t, "refused the disk is full\n")
}

func TestConsole_EndOfInput(t *testing.T) {
	o := newOperator(t)
	o.write(t, "0.5")
	o.in.Close()
	if l := o.labels(t, 1)[0]; l.Value != 0.5 {
		t.Errorf("label %+v", l)
	}
	rewardsrctest.Eventually(t, "the end of the input", func() bool { return o.Err() != nil })
	o.hears(t, "ended the input ended (EOF): no more labels come, and the robot asks nothing\n")
	if o.Reachable() {
		t.Error("reachable after the end of the input")
	}
	if !errors.Is(o.Err(), io.EOF) {
		t.Errorf("Err() = %v, want io.EOF", o.Err())
	}
}

func TestConsole_StalledOutputBlocksNothing(t *testing.T) {
	_, out := io.Pipe()
	c := Open(Options{In: strings.NewReader(strings.Repeat("bad\n", 1000)), Out: out})
	for range 1000 {
		c.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	}
	errtest.Nil(t, c.Halt())
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{"+", "-", "0.5", "u", "?", "# x", "", "1e400", "nan", "0x1p-2", "1_0", "\x00",
		">", "<", "g", "<>", "g 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		in, err := parseLine(line, 1, -1)
		if err != nil && (in != rewardsrc.Input{} || !errors.Is(err, ErrLine)) {
			t.Fatalf("%q: %+v, %v", line, in, err)
		}
		if !(math.Abs(in.Value) <= maxReward) {
			t.Fatalf("%q: reward %g", line, in.Value)
		}
	})
}
