package panel

import (
	"cmp"
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
	// queueLen is the number of presses that can wait for a Poll.
	queueLen = 64
	// signalLen is the number of signals that can wait for the lamp.
	signalLen = 16
	// reportEvery is the shortest interval between two reports of losses.
	reportEvery = int64(1e9)
	// undoable is the most labels of a stream that one undo takes back; each
	// needs its own fsync.
	undoable = 64
)

// Options configures a panel. Only Name is required.
type Options struct {
	// Name is the name of the device in messages.
	Name string
	// Display shows notices; nil shows none. It is called by the goroutine
	// that calls Ask and Poll, and must not block.
	Display func(rewardsrc.Notice)
	// Now is the clock; nil means CLOCK_MONOTONIC.
	Now func() int64
	// Retry is the time between two attempts to open an absent device; 0
	// means a second.
	Retry time.Duration
	// Quiet is the time that a stream of labels continues without [Panel.Heard]; 0
	// means until its release. It is for devices whose loss is noticed late.
	Quiet time.Duration
}

// Panel is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable]. The device calls Down, Up, Deflect and Missed within
// Conn.Read. Any goroutine may call Halt; one goroutine calls the rest.
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
	absence atomic.Pointer[error] // why the device is absent; nil: it is there
	note    atomic.Pointer[string]
	wake    *os.File // an eventfd that wakes the panel's goroutine
	stopped atomic.Bool
	worker  sync.WaitGroup
	halt    sync.Once
	haltErr error

	// Used by the goroutine that calls Poll.
	attribution     rewardsrc.Attribution
	reported        uint64 // of missed
	reportedAt      int64
	reportedAbsence string
	reportedNote    *string
	notedAt         int64
	streams         []uint64 // the stream of each unacknowledged label, 0 for a press
	last            uint64   // the stream of the newest saved label
	saved           []uint64 // IDs of the newest stream's labels
	undos           []uint64 // labels that the present undo takes back
	undoAt          int64
}

// press is a queued input and the number of its stream, 0 for none.
type press struct {
	rewardsrc.Input
	stream uint64
}

// Start opens a device and begins to listen. It waits for an absent device; any
// other failure is an error.
func Start(cfg Config, device Device, opts Options) (*Panel, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Panel{
		cfg: cfg, name: opts.Name, display: opts.Display, now: opts.Now, retry: opts.Retry, device: device,
		stream:      stream{interval: nanos(cfg.IntervalMS), holdAfter: nanos(cfg.HoldAfterMS), quiet: int64(opts.Quiet)},
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
	p.retry = cmp.Or(p.retry, time.Second)
	p.stream.onStuck = func() {
		text := fmt.Sprintf("%s: held for a minute: ignored as stuck until it is released", p.name)
		p.note.Store(&text)
	}
	p.stream.onQuiet = func() {
		text := fmt.Sprintf("%s: held without an event for %v: labels pause until it moves or is pressed again; "+
			"see whether the device is still connected", p.name, time.Duration(p.stream.quiet))
		p.note.Store(&text)
	}
}

// Heard reports a sign of life of the device: an event, even one without a meaning.
func (p *Panel) Heard() { p.stream.hear(p.now()) }

// Down reports that a button went down at a CLOCK_MONOTONIC time, nanoseconds. A
// press before the device was opened, or in the future, does not count.
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
	in := r.input(&p.cfg)
	in.At = at
	p.queue(press{Input: in})
}

// Up reports that a button was released.
func (p *Panel) Up(r Role, at int64) { p.stream.press(r, false, at) }

// Deflect reports the position of an axis, from -1 (bad) to 1 (good); 0 is centred.
func (p *Panel) Deflect(x float64) { p.stream.axis = max(-1, min(x, 1)) }

// Missed reports that up to n presses were lost.
func (p *Panel) Missed(n uint64) { p.missed.Add(n) }

// Release reports that the state of the buttons and the axis is unknown.
func (p *Panel) Release() { p.stream.reset() }

func (p *Panel) queue(e press) {
	select {
	case p.presses <- e:
	default:
		p.Missed(1)
	}
}

// Ask shows that a request is open or closed.
func (p *Panel) Ask(r rewardsrc.Request) {
	p.attribution.Ask(r, p.now())
	switch {
	case r.State == rewardsrc.Open:
		p.signal(Asking)
	case p.attribution.Wanted(): // another request is open
		return
	default:
		p.signal(Idle)
	}
	p.display(rewardsrc.RequestNotice(r, "good or bad"))
}

func (p *Panel) signal(s Signal) {
	if s == Asking || s == Idle {
		p.asking.Store(s == Asking)
	}
	select {
	case p.signals <- s:
	default: // the lamp is far behind: skip one
	}
	p.nudge()
}

// nudge wakes the panel's goroutine. After Halt it has no effect.
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

// label makes the label of a press. It reports false for a press without a label
// and for the undo of a stream, which Poll expands.
func (p *Panel) label(dst *rewardsrc.Label, e press) bool {
	if e.Kind == rewardsrc.Undo && len(p.saved) > 0 {
		p.undos, p.undoAt = p.saved, e.At
		p.saved = nil
		return false
	}
	l, ok := p.attribution.Label(e.Input)
	if !ok {
		return false
	}
	if l.Mode == rewardsrc.Held {
		l.Weight = p.cfg.Weight
	}
	p.streams = append(p.streams, e.stream)
	*dst = l
	return true
}

// Acknowledge shows that a label is safe.
func (p *Panel) Acknowledge(l rewardsrc.Label) {
	stream := p.settle()
	switch {
	case !l.Kind.Teaches():
	case stream == 0:
		p.last, p.saved = 0, nil
	default:
		if stream != p.last {
			p.last, p.saved = stream, nil
		}
		p.saved = append([]uint64{l.ID}, p.saved[:min(len(p.saved), undoable-1)]...)
	}
	p.signal(Acknowledged)
	p.display(rewardsrc.SavedNotice(l))
}

// Refuse shows that a label does not count.
func (p *Panel) Refuse(l rewardsrc.Label, reason error) {
	p.settle()
	p.signal(Refused)
	p.display(rewardsrc.RefusedNotice(l, reason))
}

// settle returns the stream of the oldest label without an outcome. Outcomes
// come in the order in which the labels were polled.
func (p *Panel) settle() (stream uint64) {
	if len(p.streams) == 0 {
		return 0
	}
	stream = p.streams[0]
	p.streams = p.streams[1:]
	return stream
}

// report shows the findings of the panel's goroutine.
func (p *Panel) report() {
	p.reportAbsence()
	now := p.now()
	if note := p.note.Load(); note != p.reportedNote && now-p.notedAt >= reportEvery {
		p.reportedNote, p.notedAt = note, now
		p.display(rewardsrc.Notice{Event: rewardsrc.Ignored, Text: *note})
	}
	if n := p.missed.Load(); n != p.reported && now-p.reportedAt >= reportEvery {
		text := fmt.Sprintf("%s: %d presses may be lost: press again", p.name, n-p.reported)
		p.reported, p.reportedAt = n, now
		p.display(rewardsrc.Notice{Event: rewardsrc.Ignored, Text: text})
	}
}

// reportAbsence reports a loss once, and again when the reason changes to
// something other than an absent device.
func (p *Panel) reportAbsence() {
	why := p.absence.Load()
	if why == nil {
		if p.reportedAbsence != "" {
			p.reportedAbsence = ""
			p.display(rewardsrc.Notice{Event: rewardsrc.Returned, Text: p.name + ": connected: labels count again"})
		}
		return
	}
	text := (*why).Error()
	if text == p.reportedAbsence || p.reportedAbsence != "" && errors.Is(*why, ErrAbsent) {
		return
	}
	p.reportedAbsence = text
	text += ": nothing is asked until it is back; the robot continues"
	p.display(rewardsrc.Notice{Event: rewardsrc.Lost, Text: text})
}

// Reachable implements [rewardsrc.Reachable]: the device is connected.
func (p *Panel) Reachable() bool { return p.absence.Load() == nil }

// Missing returns the number of presses that may be lost.
func (p *Panel) Missing() uint64 { return p.missed.Load() }

// Err returns the reason why the device is absent, nil while it is connected.
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
