package panel

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
)

const (
	// queueLen is how many presses can wait for a Poll.
	queueLen = 64
	// signalLen is how many signals can wait for the lamp.
	signalLen = 16
	// reportEvery limits how often losses are told.
	reportEvery = int64(1e9)
	// undoable is how many labels of a stream one undo takes back: each is
	// made durable by itself.
	undoable = 64
)

// Options say how a panel is used. Only Name is needed.
type Options struct {
	// Name is what messages call the device.
	Name string
	// Display shows notices; nil shows none. It is called by the goroutine
	// that calls Ask and Poll, and must not block.
	Display func(rewardsrc.Notice)
	// Now is the clock; nil means CLOCK_MONOTONIC.
	Now func() int64
	// Retry is the time between two looks for a device that is gone; 0
	// means a second.
	Retry time.Duration
}

// Panel is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable]. Down, Up, Deflect and Missed are for the device,
// within Conn.Read; Halt may be called by any goroutine; everything else by
// one.
type Panel struct {
	cfg     Config
	name    string
	display func(rewardsrc.Notice)
	now     func() int64
	retry   time.Duration
	device  Device

	// Used by the panel's goroutine.
	stream   stream
	pressed  [NumRoles]int64 // when a press of each button last counted
	counted  [NumRoles]bool
	openedAt int64

	// Used by both.
	presses chan press
	signals chan Signal
	asking  atomic.Bool
	missed  atomic.Uint64
	absence atomic.Pointer[error] // why the device is not there; nil: it is
	note    atomic.Pointer[string]
	wake    *os.File // an eventfd that wakes the panel's goroutine
	stopped atomic.Bool
	worker  sync.WaitGroup
	halt    sync.Once
	haltErr error

	// Used by the goroutine that calls Poll.
	attribution rewardsrc.Attribution
	told        uint64 // of missed
	toldAt      int64
	toldAbsence string
	toldNote    *string
	notedAt     int64
	streams     []uint64 // the stream of each label that was not acknowledged yet, 0 for a press
	last        uint64   // the stream of the newest saved label
	saved       []uint64 // IDs of the newest stream's labels
	undos       []uint64 // labels that an undo is about to take back
	undoAt      int64
}

// press is what somebody did.
type press struct {
	kind   rewardsrc.Kind
	mode   rewardsrc.Mode
	value  float64
	stream uint64
	at     int64
}

// Start opens a device and begins to listen. A device that is not there is
// waited for; any other failure is an error.
func Start(cfg Config, device Device, opts Options) (*Panel, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Panel{
		cfg: cfg, name: opts.Name, display: opts.Display, now: opts.Now, retry: opts.Retry, device: device,
		stream:      stream{interval: nanos(cfg.IntervalMS), holdAfter: nanos(cfg.HoldAfterMS)},
		presses:     make(chan press, queueLen),
		signals:     make(chan Signal, signalLen),
		attribution: rewardsrc.Attribution{Reaction: nanos(cfg.ReactionMS)},
	}
	p.defaults()
	conn, err := p.open()
	if err != nil && !errors.Is(err, ErrAbsent) {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: eventfd: %w", p.name, err), p.close(conn))
	}
	p.wake = os.NewFile(uintptr(fd), "wake")
	p.worker.Go(func() { p.listen(conn) })
	return p, nil
}

func (p *Panel) defaults() {
	if p.display == nil {
		p.display = func(rewardsrc.Notice) {}
	}
	if p.now == nil {
		p.now = rewardsrc.Monotonic
	}
	if p.retry == 0 {
		p.retry = time.Second
	}
	p.stream.onStuck = func() {
		text := fmt.Sprintf("%s: held for a minute: taken for stuck until it is let go", p.name)
		p.note.Store(&text)
	}
}

// Down notes that a button went down at a moment, CLOCK_MONOTONIC nanoseconds.
// A press from before the device was opened, or from the future, does not count.
func (p *Panel) Down(r Role, at int64) {
	if err := rewardsrc.CheckTime(at, p.openedAt, p.now()); err != nil {
		text := fmt.Sprintf("%s: a press does NOT count: %v", p.name, err)
		p.note.Store(&text)
		p.signal(Refused)
		return
	}
	p.stream.press(r, true, at)
	if p.counted[r] && at-p.pressed[r] < nanos(p.cfg.RefractoryMS) {
		return
	}
	p.counted[r], p.pressed[r] = true, at
	p.queue(press{kind: r.kind(), value: p.cfg.value(r.deflection()), at: at})
}

// Up notes that a button was let go.
func (p *Panel) Up(r Role, at int64) { p.stream.press(r, false, at) }

// Deflect notes where an axis is, from -1 (bad) to 1 (good); 0 is rest.
func (p *Panel) Deflect(x float64) { p.stream.axis = max(-1, min(x, 1)) }

// Missed notes that presses were lost, or that n must be feared to be.
func (p *Panel) Missed(n uint64) { p.missed.Add(n) }

// Release notes that nobody knows any more what is held.
func (p *Panel) Release() { p.stream.rest() }

func (p *Panel) queue(e press) {
	select {
	case p.presses <- e:
	default:
		p.Missed(1)
	}
}

// Ask shows a request, or that it is closed.
func (p *Panel) Ask(r rewardsrc.Request) {
	p.attribution.Ask(r, p.now())
	n := rewardsrc.Notice{Event: rewardsrc.Closed, Request: r, Text: "no label wanted any more"}
	signal := Idle
	switch {
	case r.State == rewardsrc.Open:
		n.Event, n.Text = rewardsrc.Wanted, "label wanted: good or bad"
		signal = Asking
	case p.attribution.Wanted(): // another one is open
		return
	case r.State == rewardsrc.Answered:
		n.Text = "request answered"
	}
	p.signal(signal)
	p.display(n)
}

func (p *Panel) signal(s Signal) {
	if s == Asking || s == Idle {
		p.asking.Store(s == Asking)
	}
	select {
	case p.signals <- s:
	default: // a lamp that is so far behind can leave one out
	}
	p.nudge()
}

// nudge wakes the panel's goroutine. It fails after Halt, when there is none.
func (p *Panel) nudge() { _, _ = p.wake.Write([]byte{7: 1}) }

// Poll copies the labels that came since the last poll.
func (p *Panel) Poll(dst []rewardsrc.Label) int {
	p.report()
	n := 0
	for n < len(dst) {
		if len(p.undos) > 0 {
			dst[n] = rewardsrc.Label{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: p.undoAt, Undoes: p.undos[0]}
			p.undos = p.undos[1:]
			p.streams = append(p.streams, 0)
			n++
			continue
		}
		select {
		case e := <-p.presses:
			if p.label(&dst[n], e) {
				n++
			}
			continue
		default:
		}
		break
	}
	return n
}

// label makes the label of a press. It is false for one that says nothing, or
// that became the undo of a stream.
func (p *Panel) label(dst *rewardsrc.Label, e press) bool {
	if e.kind == rewardsrc.Undo && len(p.saved) > 0 {
		p.undos, p.undoAt = p.saved, e.at
		p.saved = nil
		return false
	}
	l, ok := p.attribution.Label(e.kind, e.value, e.at)
	if !ok {
		return false
	}
	if e.mode == rewardsrc.Held {
		l.Mode, l.Weight = rewardsrc.Held, p.cfg.Weight
	}
	p.streams = append(p.streams, e.stream)
	*dst = l
	return true
}

// Acknowledge shows that a label is safe.
func (p *Panel) Acknowledge(l rewardsrc.Label) {
	stream := p.settle()
	switch {
	case l.Kind != rewardsrc.Value:
	case stream == 0:
		p.last, p.saved = 0, nil
	default:
		if stream != p.last {
			p.last, p.saved = stream, nil
		}
		p.saved = append([]uint64{l.ID}, p.saved[:min(len(p.saved), undoable-1)]...)
	}
	p.signal(Acknowledged)
	p.display(rewardsrc.Notice{Event: rewardsrc.Acknowledged, Label: l, Text: fmt.Sprintf("%s saved (%d)", l.Describe(), l.ID)})
}

// Refuse shows that a label does not count.
func (p *Panel) Refuse(l rewardsrc.Label, reason error) {
	p.settle()
	p.signal(Refused)
	text := fmt.Sprintf("%s does NOT count: %v", l.Describe(), reason)
	p.display(rewardsrc.Notice{Event: rewardsrc.Refused, Label: l, Text: text})
}

// settle returns the stream of the oldest label without an answer. Labels are
// answered in the order in which they were polled.
func (p *Panel) settle() (stream uint64) {
	if len(p.streams) == 0 {
		return 0
	}
	stream = p.streams[0]
	p.streams = p.streams[1:]
	return stream
}

// report shows what the panel's goroutine found out.
func (p *Panel) report() {
	p.reportAbsence()
	now := p.now()
	if note := p.note.Load(); note != p.toldNote && now-p.notedAt >= reportEvery {
		p.toldNote, p.notedAt = note, now
		p.display(rewardsrc.Notice{Event: rewardsrc.Ignored, Text: *note})
	}
	if n := p.missed.Load(); n != p.told && now-p.toldAt >= reportEvery {
		text := fmt.Sprintf("%s: %d presses may be lost: press again what you meant", p.name, n-p.told)
		p.told, p.toldAt = n, now
		p.display(rewardsrc.Notice{Event: rewardsrc.Ignored, Text: text})
	}
}

// reportAbsence tells of a loss once, and again where the reason became another
// than that the device is not there.
func (p *Panel) reportAbsence() {
	why := p.absence.Load()
	if why == nil {
		if p.toldAbsence != "" {
			p.toldAbsence = ""
			p.display(rewardsrc.Notice{Event: rewardsrc.Returned, Text: p.name + ": it is here: labels count again"})
		}
		return
	}
	text := (*why).Error()
	if text == p.toldAbsence || p.toldAbsence != "" && errors.Is(*why, ErrAbsent) {
		return
	}
	p.toldAbsence = text
	p.display(rewardsrc.Notice{Event: rewardsrc.Lost, Text: text + ": nothing is asked until it is back; the robot goes on"})
}

// Reachable implements [rewardsrc.Reachable]: the device is there.
func (p *Panel) Reachable() bool { return p.absence.Load() == nil }

// Missing returns how many presses are lost, or must be feared to be.
func (p *Panel) Missing() uint64 { return p.missed.Load() }

// Err returns why the device is not there, nil while it is.
func (p *Panel) Err() error {
	if err := p.absence.Load(); err != nil {
		return *err
	}
	return nil
}

// Halt stops listening and releases the device. It is idempotent.
func (p *Panel) Halt() error {
	p.halt.Do(func() {
		p.stopped.Store(true)
		p.nudge()
		p.worker.Wait()
		p.haltErr = errors.Join(p.haltErr, p.wake.Close())
	})
	return p.haltErr
}
