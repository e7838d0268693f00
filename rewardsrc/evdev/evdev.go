package evdev

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
)

// quiet bounds a stream without events. The kernel notices the loss of a wireless device up to a
// minute late, and reports no event while an axis or a key does not change.
const quiet = 5 * time.Second

// Options configures Open. The zero value uses the devices of this machine.
type Options struct {
	// System finds and opens devices; nil means [Kernel].
	System System
	// Display, Now and Retry are as in panel.Options.
	Display func(rewardsrc.Notice)
	Now     func() int64
	Retry   time.Duration
}

// Open listens to the configured device. It waits for an absent device; a device
// without permission or without a bound key is an error.
func Open(cfg Config, opts Options) (*panel.Panel, error) {
	if err := errors.Join(cfg.Validate(), cfg.Bound()); err != nil {
		return nil, err
	}
	if opts.System == nil {
		opts.System = Kernel{}
	}
	d := &device{cfg: cfg, system: opts.System}
	for _, r := range panel.Roles() {
		if name := *cfg.Button(r); name != "" {
			code, _ := ParseKey(name) // validated
			d.keys = append(d.keys, binding{code, r})
		}
	}
	if cfg.Axis.Code != "" {
		d.axis, _ = ParseAxis(cfg.Axis.Code) // validated
		d.hasAxis = true
	}
	return panel.Start(cfg.Labels, d, panel.Options{
		Name: "evdev: " + cfg.Device.String(), Display: opts.Display, Now: opts.Now, Retry: opts.Retry, Quiet: quiet,
	})
}

type binding struct {
	code uint16
	role panel.Role
}

type device struct {
	cfg     Config
	system  System
	keys    []binding
	axis    uint16
	hasAxis bool
}

// Open implements panel.Device.
func (d *device) Open(p *panel.Panel) (panel.Conn, error) {
	info, err := d.find()
	if err != nil {
		return nil, err
	}
	in, err := d.system.Open(info)
	if err != nil {
		return nil, err
	}
	c := &conn{
		device: d, panel: p, input: in,
		splitter: splitter{word: nativeWord}, buf: make([]byte, 64*eventSize(nativeWord)),
	}
	if err := c.begin(); err != nil {
		return nil, errors.Join(absent(err), in.Close())
	}
	return c, nil
}

// find returns the first matching device with all bound keys.
func (d *device) find() (Info, error) {
	all, err := d.system.List()
	if err != nil {
		return Info{}, err
	}
	var lacking error
	for _, info := range all {
		if !d.cfg.Device.Fits(info) {
			continue
		}
		if lacks := d.lacks(&info); lacks != "" {
			err := fmt.Errorf("%s has no %s; bind its keys with `optibfm label bind`", info, lacks)
			lacking = errors.Join(lacking, err)
			continue
		}
		if d.hasAxis && d.cfg.Device.Name == "" && !info.steered() {
			err := fmt.Errorf("%s is a motion sensor or touch surface; to use its %s, name it in operator.evdev.device",
				info, AxisName(d.axis))
			lacking = errors.Join(lacking, err)
			continue
		}
		return info, nil
	}
	if lacking != nil {
		return Info{}, lacking
	}
	return Info{}, panel.ErrAbsent
}

// lacks returns a bound key or axis that a device does not have.
func (d *device) lacks(i *Info) string {
	for _, k := range d.keys {
		if !i.Keys.Has(k.code) {
			return KeyName(k.code)
		}
	}
	if d.hasAxis && !i.Axes.Has(d.axis) {
		return AxisName(d.axis)
	}
	return ""
}

// absent wraps ErrAbsent around an error of an unplugged device.
func absent(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w (%w)", panel.ErrAbsent, err)
	}
	return err
}

// conn is an open device: a panel.Conn.
type conn struct {
	*device
	panel    *panel.Panel
	input    Input
	splitter splitter
	buf      []byte

	down     [panel.NumRoles]bool
	limits   Range
	rested   bool     // the axis was in its rest position once
	packet   []change // of the keys, since the last SYN_REPORT
	moved    bool     // the axis, in this packet, to position
	position int32
	dropping bool // events were lost: void until the next SYN_REPORT
}

// change is a bound key that went down or up.
type change struct {
	role panel.Role
	down bool
	at   int64
}

// begin grabs the device and reads its state.
func (c *conn) begin() error {
	if c.cfg.Grab {
		err := c.input.Grab()
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("grab: %w: held by another program; end that program, or set grab to false", err)
		}
		if err != nil {
			return fmt.Errorf("grab: %w", err)
		}
	}
	keys, err := c.input.Keys()
	if err != nil {
		return fmt.Errorf("state of the keys: %w", err)
	}
	for _, k := range c.keys {
		c.down[k.role] = keys.Has(k.code)
	}
	if !c.hasAxis {
		return nil
	}
	if c.limits, err = c.input.Range(c.axis); err != nil {
		return fmt.Errorf("range of %s: %w", AxisName(c.axis), err)
	}
	if c.limits.Min >= c.limits.Max {
		return fmt.Errorf("range of %s: from %d to %d; bind another axis", AxisName(c.axis), c.limits.Min, c.limits.Max)
	}
	c.deflect(c.limits.Value)
	return nil
}

// Fd implements panel.Conn.
func (c *conn) Fd() int { return c.input.Fd() }

// Close implements panel.Conn.
func (c *conn) Close() error { return c.input.Close() }

// Read implements panel.Conn.
func (c *conn) Read() error {
	n, err := unix.Read(c.input.Fd(), c.buf)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return err
	case n == 0:
		return unix.ENODEV
	}
	return c.splitter.feed(c.buf[:n], c.take)
}

// take handles one event.
func (c *conn) take(e event) error {
	if e.kind != evSyn && e.kind != evRep && (e.kind != evKey || e.value != 2) { // the kernel repeats keys, not the device
		c.panel.Heard()
	}
	if e.kind == evSyn {
		return c.synchronise(e.code)
	}
	if c.dropping {
		return nil
	}
	switch {
	case e.kind == evKey && (e.value == 0 || e.value == 1): // 2 repeats a held key
		for _, k := range c.keys {
			if k.code == e.code {
				c.packet = append(c.packet, change{k.role, e.value == 1, e.at})
			}
		}
	case e.kind == evAbs && c.hasAxis && e.code == c.axis:
		c.moved, c.position = true, e.value
	}
	return nil
}

func (c *conn) synchronise(code uint16) error {
	switch {
	case code == synDropped:
		c.packet, c.moved, c.dropping = c.packet[:0], false, true
	case code != synReport:
	case c.dropping:
		c.dropping = false
		return c.recover()
	default:
		c.commit()
	}
	return nil
}

// commit applies a complete packet.
func (c *conn) commit() {
	for _, change := range c.packet {
		if change.down == c.down[change.role] { // it was down when the device was opened
			continue
		}
		c.down[change.role] = change.down
		if change.down {
			c.panel.Down(change.role, change.at)
		} else {
			c.panel.Up(change.role, change.at)
		}
	}
	if c.moved {
		c.deflect(c.position)
	}
	c.packet, c.moved = c.packet[:0], false
}

// recover reads the state again after events were lost. It reports the presses
// that the state shows as missed, at least one.
func (c *conn) recover() error {
	keys, err := c.input.Keys()
	if err != nil {
		return err
	}
	shown := uint64(0)
	for _, k := range c.keys {
		down := keys.Has(k.code)
		if down && !c.down[k.role] {
			shown++
		}
		c.down[k.role] = down
	}
	c.panel.Missed(max(1, shown))
	c.panel.Release()
	if !c.hasAxis {
		return nil
	}
	limits, err := c.input.Range(c.axis)
	if err != nil {
		return err
	}
	c.deflect(limits.Value)
	return nil
}

// deflect reports the axis to the panel, after its first return to rest.
func (c *conn) deflect(position int32) {
	x := c.cfg.Axis.deflection(position, c.limits)
	c.rested = c.rested || x == 0
	if c.rested {
		c.panel.Deflect(x)
	}
}

// deflection converts a position within limits to [-1, 1], 0 within the dead
// zone; good is positive.
func (a Axis) deflection(position int32, limits Range) float64 {
	low, high, at := float64(limits.Min), float64(limits.Max), float64(position)
	var x float64
	switch a.Rest {
	case RestLow:
		x = (at - low) / (high - low)
	case RestHigh:
		x = (high - at) / (high - low)
	default:
		x = (2*at - low - high) / (high - low)
	}
	if a.Inverted {
		x = -x
	}
	x = max(-1, min(x, 1))
	switch {
	case x > a.DeadZone:
		return (x - a.DeadZone) / (1 - a.DeadZone)
	case x < -a.DeadZone:
		return (x + a.DeadZone) / (1 - a.DeadZone)
	}
	return 0
}
