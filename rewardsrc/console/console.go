package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"optibfm/rewardsrc"
)

const (
	queueLen = 64  // lines that can wait for a Poll
	maxLine  = 256 // bytes
	// patience is the longest wait of Halt for the reader of Out.
	patience = 100 * time.Millisecond
	// reportEvery is the time between two replies to lines that do not count.
	reportEvery = int64(time.Second)
)

// Options configures a console.
type Options struct {
	In  io.Reader // lines of the operator
	Out io.Writer // lines for the operator

	Good, Bad float64       // the rewards of + and -
	Reaction  time.Duration // how soon after a request a line can answer it

	// Now is the clock of labels; nil means CLOCK_MONOTONIC.
	Now func() int64
}

// Console is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable]. Its methods are called by one goroutine.
type Console struct {
	opts        Options
	attribution rewardsrc.Attribution
	inputs      chan rewardsrc.Input
	lines       chan string
	quit        chan struct{}
	written     chan struct{}
	halt        sync.Once
	ended       atomic.Pointer[error]

	mu       sync.Mutex
	rejected rejections
}

// rejections are the lines that do not count, until a reply reports them.
type rejections struct {
	n          int
	word, text string // the reply to the last one
	nextAt     int64  // no reply before
}

// Open starts to read. Reading ends at the end of In: close it, because Halt
// cannot interrupt a Read.
func Open(opts Options) *Console {
	if opts.Now == nil {
		opts.Now = rewardsrc.Monotonic
	}
	c := &Console{
		opts:        opts,
		attribution: rewardsrc.Attribution{Reaction: int64(opts.Reaction)},
		inputs:      make(chan rewardsrc.Input, queueLen),
		lines:       make(chan string, queueLen),
		quit:        make(chan struct{}),
		written:     make(chan struct{}),
	}
	go c.read()
	go c.write()
	return c
}

// read runs until the end of In.
func (c *Console) read() {
	in := bufio.NewReaderSize(c.opts.In, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		at := c.opts.Now()
		if errors.Is(err, bufio.ErrBufferFull) {
			err = skipLine(in)
			c.reject("error", fmt.Sprintf("the line is longer than %d bytes; write %s", maxLine, valid))
		} else {
			c.take(string(line), at)
		}
		if err != nil {
			c.say("ended", fmt.Sprintf("the input ended (%v): no more labels come, and the robot asks nothing", err))
			err = fmt.Errorf("console: input ended (%w); no more labels come", err)
			c.ended.Store(&err)
			return
		}
	}
}

// skipLine reads to the end of a line.
func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (c *Console) take(line string, at int64) {
	in, err := parseLine(line, c.opts.Good, c.opts.Bad)
	if err != nil {
		c.reject("error", err.Error())
		return
	}
	if in.Kind == 0 {
		return
	}
	in.At = at
	select {
	case c.inputs <- in:
	default:
		c.reject("error", "too many lines at once, this one is lost; write slower")
	}
}

// reject records a line that does not count.
func (c *Console) reject(word, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected.n++
	c.rejected.word, c.rejected.text = word, text
}

// report replies to the lines that do not count: at once to the first, then
// once a second to all that followed.
func (c *Console) report(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.rejected
	if r.n == 0 || now < r.nextAt {
		return
	}
	text := r.text
	if r.n > 1 {
		text = fmt.Sprintf("%d lines do not count; the last: %s", r.n, r.text)
	}
	if c.say(r.word, text) {
		*r = rejections{nextAt: now + reportEvery}
	}
}

// say passes a line to the writer. It reports false when Out does not keep up
// and the line is lost.
func (c *Console) say(word, text string) bool {
	select {
	case c.lines <- word + " " + text + "\n":
		return true
	default:
		return false
	}
}

func (c *Console) write() {
	defer close(c.written)
	for {
		select {
		case line := <-c.lines:
			if _, err := io.WriteString(c.opts.Out, line); err != nil {
				return // labels still count
			}
		case <-c.quit:
			c.writeRest()
			return
		}
	}
}

// writeRest writes the queued lines.
func (c *Console) writeRest() {
	for {
		select {
		case line := <-c.lines:
			_, _ = io.WriteString(c.opts.Out, line) // the end of the console
		default:
			return
		}
	}
}

// Ask writes that a request is open or closed.
func (c *Console) Ask(r rewardsrc.Request) {
	c.attribution.Ask(r, c.opts.Now())
	if r.State == rewardsrc.Open {
		c.say("wanted", fmt.Sprintf("%d", r.ID))
		return
	}
	c.say("closed", fmt.Sprintf("%d", r.ID))
}

// Poll copies the labels of the lines since the last poll, and replies to the
// lines that do not count. It takes a bounded number of lines.
func (c *Console) Poll(dst []rewardsrc.Label) int {
	defer func() { c.report(c.opts.Now()) }()
	n := 0
	for range queueLen {
		if n == len(dst) {
			break
		}
		select {
		case in := <-c.inputs:
			label, ok := c.attribution.Label(in)
			if !ok {
				c.reject("error", "no open request for ? to close")
				continue
			}
			dst[n] = label
			n++
		default:
			return n
		}
	}
	return n
}

// Acknowledge writes that a label is safe.
func (c *Console) Acknowledge(l rewardsrc.Label) { c.say("saved", fmt.Sprintf("%d", l.ID)) }

// Refuse writes that a label does not count, at the next Poll.
func (c *Console) Refuse(_ rewardsrc.Label, reason error) { c.reject("refused", reason.Error()) }

// Reachable reports false after the end of In.
func (c *Console) Reachable() bool { return c.ended.Load() == nil }

// Err returns the reason why no more labels will come, nil before the end of In.
func (c *Console) Err() error {
	if err := c.ended.Load(); err != nil {
		return *err
	}
	return nil
}

// Halt ends the writing. In and Out stay open.
func (c *Console) Halt() error {
	c.halt.Do(func() {
		c.report(math.MaxInt64)
		close(c.quit)
		select {
		case <-c.written:
		case <-time.After(patience):
		}
	})
	return nil
}
