package keyboard

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
)

const (
	// queueLen is how many presses can wait for a Poll.
	queueLen = 64
	// handful is the most keys of one read that count: fingers do not press
	// more within the time that a reader needs to wake.
	handful = 4
	// ignoredEvery limits how often ignored keys are reported.
	ignoredEvery = int64(1e9)
)

// Options say where the keyboard is and who else uses it. The zero value is
// the terminal at standard input, in plain mode.
type Options struct {
	// Terminal is read and written; nil means os.Stdin, which must be a
	// terminal. It is not closed.
	Terminal *os.File
	// Display shows notices; nil prints them as lines. It is called by the
	// goroutine that calls Ask and Poll, and must not block.
	Display func(Notice)
	// OnKey gets every key that is no label, such as q or CtrlC, on the
	// reading goroutine; nil ignores them. It must not call Halt.
	OnKey func(Key)
	// RestoreOnSignal restores the terminal at SIGINT, SIGTERM and SIGHUP
	// and then lets the signal take its default effect. Leave it false
	// where the program treats these signals and calls Halt.
	RestoreOnSignal bool
	// Now is the clock of presses; nil means CLOCK_MONOTONIC.
	Now func() int64
}

// Keyboard is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable]. Halt may be called by any goroutine, everything else by
// one.
type Keyboard struct {
	cfg      Config
	terminal *os.File
	now      func() int64
	onKey    func(Key)
	display  func(Notice)
	printer  *printer // nil with a display

	attribution rewardsrc.Attribution
	presses     chan press
	ignored     atomic.Uint64 // keys that gave no label
	shown       uint64        // of ignored, reported
	shownAt     int64
	lost        atomic.Pointer[error]
	lostShown   bool

	wake     *os.File // closing it ends the reader
	wakeRead *os.File
	signals  chan os.Signal
	workers  sync.WaitGroup
	restore  func() error
	halt     sync.Once
	haltErr  error
}

type press struct {
	meaning
	at int64
}

// Open makes the terminal raw and starts to read. Call Halt, in a defer, to
// get it back as it was.
func Open(cfg Config, opts Options) (*Keyboard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &Keyboard{
		cfg:         cfg,
		terminal:    opts.Terminal,
		now:         opts.Now,
		onKey:       opts.OnKey,
		display:     opts.Display,
		attribution: rewardsrc.Attribution{Reaction: int64(cfg.ReactionMS * 1e6)},
		presses:     make(chan press, queueLen),
		signals:     make(chan os.Signal, 4),
	}
	k.defaults()
	if err := k.grab(); err != nil {
		return nil, err
	}
	k.start(opts.RestoreOnSignal)
	return k, nil
}

func (k *Keyboard) defaults() {
	if k.terminal == nil {
		k.terminal = os.Stdin
	}
	if k.now == nil {
		k.now = rewardsrc.Monotonic
	}
	if k.onKey == nil {
		k.onKey = func(Key) {}
	}
}

// grab takes the terminal over, or leaves it as it is and returns an error.
func (k *Keyboard) grab() (err error) {
	if k.restore, err = Save(k.terminal); err != nil {
		return err
	}
	if err := checkForeground(k.terminal); err != nil {
		return err
	}
	if k.wakeRead, k.wake, err = os.Pipe(); err != nil {
		return fmt.Errorf("keyboard: %w", err)
	}
	if err := makeRaw(int(k.terminal.Fd())); err != nil {
		return errors.Join(
			fmt.Errorf("keyboard: %s: no raw mode (%w): check the terminal", k.terminal.Name(), err),
			k.wake.Close(), k.wakeRead.Close())
	}
	return nil
}

func (k *Keyboard) start(restoreOnSignal bool) {
	if k.display == nil {
		k.printer = startPrinter(k.terminal, k.cfg.Bell)
		k.display = k.printer.show
	}
	writeBriefly(int(k.terminal.Fd()), pasteOn)
	// Shells reset the terminal when a job is continued.
	signal.Notify(k.signals, unix.SIGCONT)
	if restoreOnSignal {
		signal.Notify(k.signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	}
	go k.watchSignals()
	k.workers.Go(k.read)
}

// watchSignals is not waited for: it may be the goroutine that calls Halt.
func (k *Keyboard) watchSignals() {
	for s := range k.signals {
		if s == unix.SIGCONT {
			// As at the start; a failure shows itself to the reader.
			_ = makeRaw(int(k.terminal.Fd()))
			continue
		}
		// Nobody is left to tell of a failure: the process ends.
		_ = k.Halt()
		number := s.(unix.Signal)
		signal.Reset(number)
		_ = unix.Kill(unix.Getpid(), number)
		return
	}
}

// Ask shows a request, or that it is closed.
func (k *Keyboard) Ask(r rewardsrc.Request) {
	k.attribution.Ask(r, k.now())
	switch r.State {
	case rewardsrc.Open:
		k.display(Notice{Event: Wanted, Request: r, Text: "label wanted: " + keysHelp})
	case rewardsrc.Answered:
		k.display(Notice{Event: Closed, Request: r, Text: "request answered"})
	default:
		k.display(Notice{Event: Closed, Request: r, Text: "no label wanted any more"})
	}
}

// Poll copies the labels of the keys that were pressed since the last poll.
func (k *Keyboard) Poll(dst []rewardsrc.Label) int {
	n := 0
	for n < len(dst) {
		select {
		case p := <-k.presses:
			if label, ok := k.attribution.Label(p.kind, p.value, p.at); ok {
				dst[n] = label
				n++
			}
			continue
		default:
		}
		break
	}
	k.report()
	return n
}

// report shows what went wrong on the reading side.
func (k *Keyboard) report() {
	now := k.now()
	if n := k.ignored.Load(); n != k.shown && now-k.shownAt >= ignoredEvery {
		text := fmt.Sprintf("%d keys ignored: a paste, or more than can be taken at once", n-k.shown)
		k.shown, k.shownAt = n, now
		k.display(Notice{Event: Ignored, Text: text})
	}
	if err := k.lost.Load(); err != nil && !k.lostShown {
		k.lostShown = true
		k.display(Notice{Event: Lost, Text: (*err).Error()})
	}
}

// Acknowledge shows that a label is safe.
func (k *Keyboard) Acknowledge(l rewardsrc.Label) {
	k.display(Notice{Event: Acknowledged, Label: l, Text: fmt.Sprintf("%s saved (%d)", l.Describe(), l.ID)})
}

// Refuse shows that a label does not count.
func (k *Keyboard) Refuse(l rewardsrc.Label, reason error) {
	k.display(Notice{Event: Refused, Label: l, Text: fmt.Sprintf("%s does NOT count: %v", l.Describe(), reason)})
}

// Ignored returns how many keys were taken for a paste or found the queue full.
func (k *Keyboard) Ignored() uint64 { return k.ignored.Load() }

// Reachable implements [rewardsrc.Reachable]: the terminal is there.
func (k *Keyboard) Reachable() bool { return k.lost.Load() == nil }

// Err returns why no more labels will come, nil while the terminal lives.
func (k *Keyboard) Err() error {
	if err := k.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Halt stops reading and restores the terminal. It is idempotent.
func (k *Keyboard) Halt() error {
	k.halt.Do(func() {
		signal.Stop(k.signals)
		close(k.signals)
		closeErr := k.wake.Close()
		k.workers.Wait()
		// Restored before the printer is waited for: it may hang on a
		// terminal that stopped reading.
		restoreErr := k.restore()
		if k.Err() != nil { // a terminal that is gone needs no restoring
			restoreErr = nil
		}
		k.stopPrinter()
		k.haltErr = errors.Join(closeErr, k.wakeRead.Close(), restoreErr)
	})
	return k.haltErr
}

func (k *Keyboard) stopPrinter() {
	if k.printer == nil {
		return
	}
	close(k.printer.quit)
	select {
	case <-k.printer.done:
	case <-time.After(patience):
	}
}
