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
	// queueLen is the number of presses that can wait for a Poll.
	queueLen = 64
	// maxKeys is the most keys of one read that count: fingers do not press
	// more in the time in which a reader wakes up.
	maxKeys = 4
	// ignoredEvery limits how often ignored keys are reported.
	ignoredEvery = int64(1e9)
)

// Options selects the terminal and the other users of it. The zero value is
// the terminal at standard input, in plain mode.
type Options struct {
	// Terminal is read and written; nil means os.Stdin, which must be a
	// terminal. It is not closed.
	Terminal *os.File
	// Display shows notices; nil prints them as lines. It is called by the
	// goroutine that calls Ask and Poll, and must not block.
	Display func(Notice)
	// OnKey receives every key that gives no label, such as q or CtrlC, on the
	// reading goroutine; nil ignores them. It must not call Halt.
	OnKey func(Key)
	// KeysOnly passes every key to OnKey, and none gives a label. Keys such as Ctrl-C
	// send their signals, as in a terminal that is not raw.
	KeysOnly bool
	// RestoreOnSignal restores the terminal at SIGINT, SIGTERM and SIGHUP
	// and then lets the signal take its default effect. Leave it false
	// where the program handles these signals and calls Halt.
	RestoreOnSignal bool
	// Now is the clock of presses; nil means CLOCK_MONOTONIC.
	Now func() int64
}

// Keyboard is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable]. Any goroutine may call Halt; one goroutine calls the
// other methods.
type Keyboard struct {
	cfg      Config
	terminal *os.File
	now      func() int64
	onKey    func(Key)
	keysOnly bool
	display  func(Notice)
	printer  *printer // nil with a display

	attribution rewardsrc.Attribution
	inputs      chan rewardsrc.Input
	ignored     atomic.Uint64 // keys that gave no label
	reported    uint64        // of ignored
	reportedAt  int64
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

// Open makes the terminal raw and starts to read. Call Halt, in a defer, to
// restore the terminal.
func Open(cfg Config, opts Options) (*Keyboard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &Keyboard{
		cfg:         cfg,
		terminal:    opts.Terminal,
		now:         opts.Now,
		onKey:       opts.OnKey,
		keysOnly:    opts.KeysOnly,
		display:     opts.Display,
		attribution: rewardsrc.Attribution{Reaction: int64(cfg.ReactionMS * 1e6)},
		inputs:      make(chan rewardsrc.Input, queueLen),
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

// grab makes the terminal raw, or leaves it unchanged and returns an error.
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
	if err := makeRaw(int(k.terminal.Fd()), k.keysOnly); err != nil {
		return errors.Join(
			fmt.Errorf("keyboard: %s: no raw mode (%w); check the terminal", k.terminal.Name(), err),
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

// watchSignals may call Halt, which therefore does not wait for it.
func (k *Keyboard) watchSignals() {
	for s := range k.signals {
		if s == unix.SIGCONT {
			// The reader notices a failure.
			_ = makeRaw(int(k.terminal.Fd()), k.keysOnly)
			continue
		}
		// The process ends: a failure cannot be reported.
		_ = k.Halt()
		number := s.(unix.Signal)
		signal.Reset(number)
		_ = unix.Kill(unix.Getpid(), number)
		return
	}
}

// Ask shows that a request is open or closed.
func (k *Keyboard) Ask(r rewardsrc.Request) {
	k.attribution.Ask(r, k.now())
	k.display(rewardsrc.RequestNotice(r, keysHelp))
}

// Poll copies the labels of the keys that were pressed since the last poll.
func (k *Keyboard) Poll(dst []rewardsrc.Label) int {
	n := 0
	for n < len(dst) {
		select {
		case in := <-k.inputs:
			if label, ok := k.attribution.Label(in); ok {
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

// report shows the problems of the reading side.
func (k *Keyboard) report() {
	now := k.now()
	if n := k.ignored.Load(); n != k.reported && now-k.reportedAt >= ignoredEvery {
		text := fmt.Sprintf("%d keys ignored: a paste, or too many at once", n-k.reported)
		k.reported, k.reportedAt = n, now
		k.display(Notice{Event: Ignored, Text: text})
	}
	if err := k.lost.Load(); err != nil && !k.lostShown {
		k.lostShown = true
		k.display(Notice{Event: Lost, Text: (*err).Error()})
	}
}

// Acknowledge shows that a label is safe.
func (k *Keyboard) Acknowledge(l rewardsrc.Label) {
	k.display(rewardsrc.SavedNotice(l))
}

// Refuse shows that a label does not count.
func (k *Keyboard) Refuse(l rewardsrc.Label, reason error) {
	k.display(rewardsrc.RefusedNotice(l, reason))
}

// Ignored returns the number of keys that counted as a paste or found the queue full.
func (k *Keyboard) Ignored() uint64 { return k.ignored.Load() }

// Reachable implements [rewardsrc.Reachable]: the terminal is there.
func (k *Keyboard) Reachable() bool { return k.lost.Load() == nil }

// Err returns the reason why no more labels will come, nil while the terminal works.
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
		// Restore first: the printer may hang on a terminal that stopped
		// reading.
		restoreErr := k.restore()
		if k.Err() != nil { // the terminal is closed
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
