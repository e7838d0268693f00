package gpio

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
)

// Options configures Open. The zero value uses the chips of this machine.
type Options struct {
	// System opens chips; nil means [Kernel].
	System System
	// Display, Now and Retry are as in panel.Options.
	Display func(rewardsrc.Notice)
	Now     func() int64
	Retry   time.Duration
}

// Open listens to the buttons of a configuration. It waits for an absent chip; an
// unavailable line is an error.
func Open(cfg Config, opts Options) (*panel.Panel, error) {
	if err := errors.Join(cfg.Validate(), cfg.Bound()); err != nil {
		return nil, err
	}
	if opts.System == nil {
		opts.System = Kernel{}
	}
	return panel.Start(cfg.Labels, &device{cfg, opts.System}, panel.Options{
		Name: "gpio: " + cfg.Chip, Display: opts.Display, Now: opts.Now, Retry: opts.Retry,
	})
}

type device struct {
	cfg    Config
	system System
}

// Open implements panel.Device.
func (d *device) Open(p *panel.Panel) (panel.Conn, error) {
	l, err := d.system.Open(d.cfg)
	if err != nil {
		return nil, err
	}
	c := &conn{panel: p, lines: l, buf: make([]byte, 32*eventSize)}
	if !l.Debounced() {
		c.period = int64(d.cfg.DebounceMS * 1e6)
	}
	for o := range c.lamps {
		c.lamps[o].patterns = patterns[o]
	}
	pressed, err := l.Pressed()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state of the buttons: %w", err), l.Close())
	}
	for r, down := range pressed { // held at the start: not a press
		c.buttons[r].level, c.buttons[r].down = down, down
	}
	return c, nil
}

// conn is requested lines: a panel.Conn and a panel.Lamp.
type conn struct {
	panel   *panel.Panel
	lines   Lines
	period  int64 // of debouncing here, ns; 0: the kernel does it
	buf     []byte
	buttons [panel.NumRoles]button
	lamps   [NumOutputs]lamp
	on      [NumOutputs]bool
}

// Fd implements panel.Conn.
func (c *conn) Fd() int { return c.lines.Fd() }

// Close implements panel.Conn.
func (c *conn) Close() error { return c.lines.Close() }

// Read implements panel.Conn. The kernel returns whole events.
func (c *conn) Read() error {
	n, err := unix.Read(c.lines.Fd(), c.buf)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return err
	case n == 0:
		return unix.ENODEV
	case n%eventSize != 0:
		return fmt.Errorf("a read of %d bytes is not a multiple of %d, the size of an event", n, eventSize)
	}
	for b := c.buf[:n]; len(b) > 0; b = b[eventSize:] {
		c.take(parseEvent(b))
	}
	return nil
}

// take handles one edge.
func (c *conn) take(e uapi.LineEvent) {
	r, ok := c.lines.Button(e.Offset)
	if !ok || e.ID != uapi.LineEventRisingEdge && e.ID != uapi.LineEventFallingEdge {
		return
	}
	at := int64(min(e.Timestamp, math.MaxInt64))
	b := &c.buttons[r]
	c.settle(r, at) // it was steady until now
	if lost := b.lost(e.LineSeqno); lost > 0 {
		c.panel.Missed(lost)
	}
	b.edge(e.ID == uapi.LineEventRisingEdge, at, e.LineSeqno, c.period)
	if c.period == 0 {
		c.settle(r, at)
	}
}

// settle reports a button's level once it is steady.
func (c *conn) settle(r panel.Role, now int64) {
	b := &c.buttons[r]
	if at, changed := b.settle(now, c.period); changed {
		report(c.panel, r, b.down, at)
	}
}

// Signal implements panel.Lamp.
func (c *conn) Signal(s panel.Signal, now int64) {
	for o := range c.lamps {
		c.lamps[o].signal(s, now)
	}
}

// lossCheck is the interval, in ns, at which poll runs again to notice an unplugged chip: Linux 6.1
// does not wake poll.
const lossCheck = 1e9

// Tick implements panel.Lamp. It also debounces the buttons.
func (c *conn) Tick(now int64) (next int64) {
	next = now + lossCheck
	for _, r := range panel.Roles() {
		c.settle(r, now)
		if b := &c.buttons[r]; b.level != b.down {
			next = min(next, b.last+c.period)
		}
	}
	for o := range c.lamps {
		on, until := c.lamps[o].show(now)
		next = min(next, until)
		if on == c.on[o] {
			continue
		}
		// A failing output must not cost the buttons. If the chip is unplugged,
		// Read returns an error.
		if c.lines.Set(Output(o), on) == nil {
			c.on[o] = on
		}
	}
	return next
}
