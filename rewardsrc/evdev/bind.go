package evdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc/panel"
)

// ErrNotPressed marks the error of Bind after a timeout.
var ErrNotPressed = errors.New("nothing was pressed in time")

// BindOptions configures Bind.
type BindOptions struct {
	// System finds and opens devices; nil means [Kernel].
	System System
	// Device is a part of the wanted device's name; "" selects any device.
	Device string
	// Roles are the buttons to ask for. Good and bad are required. Bind skips the
	// others after the timeout.
	Roles []panel.Role
	// Axis also asks for a stick, slider or analogue pedal.
	Axis bool
	// Timeout is the time for each button and for the axis.
	Timeout time.Duration
	// Say shows instructions to the person.
	Say func(string)
}

// Bind asks a person to press the button for each role and returns the
// configuration that binds them. The first button selects the device. Bind grabs
// no device: each press also has its normal effect.
func Bind(ctx context.Context, opts BindOptions) (Config, error) {
	if opts.System == nil {
		opts.System = Kernel{}
	}
	b := &binder{BindOptions: opts, ctx: ctx}
	defer b.close()
	if err := b.open(); err != nil {
		return Config{}, err
	}
	cfg := DefaultConfig()
	cfg.Good, cfg.Bad = "", ""
	for _, r := range opts.Roles {
		code, err := b.button(r)
		if errors.Is(err, ErrNotPressed) && r != panel.Good && r != panel.Bad {
			b.Say(fmt.Sprintf("no button for %s", spoken(r)))
			continue
		}
		if err != nil {
			return Config{}, err
		}
		*cfg.Button(r) = KeyName(code)
	}
	if opts.Axis {
		if err := b.axis(&cfg.Axis); err != nil {
			return Config{}, err
		}
	}
	if b.chosen == nil {
		return Config{}, errors.New("evdev: nothing to bind; ask for a button or an axis")
	}
	cfg.Device = b.identity()
	cfg.Grab = !typesText(b.chosen.info)
	return cfg, nil
}

// spoken returns the name of a role for a person.
func spoken(r panel.Role) string {
	if r == panel.CantTell {
		return "CAN'T TELL"
	}
	return strings.ToUpper(r.String())
}

// typesText reports whether a device is a keyboard. A person cannot type on a
// grabbed keyboard.
func typesText(i Info) bool {
	for code := range uint16(31) { // KEY_ESC to KEY_S, the criterion of udev
		if !i.Keys.Has(code + 1) {
			return false
		}
	}
	return true
}

// binder listens to all devices at once.
type binder struct {
	BindOptions
	ctx     context.Context
	devices []*listener
	chosen  *listener
	taken   map[uint16]panel.Role
}

// listener is one open device.
type listener struct {
	info     Info
	input    Input
	splitter splitter
	ranges   map[uint16]Range // of its axes, at the start
}

// heard is one event of a device.
type heard struct {
	from *listener
	event
}

func (b *binder) open() error {
	b.taken = make(map[uint16]panel.Role)
	all, err := b.System.List()
	if err != nil {
		return err
	}
	var refused []error
	for _, info := range all {
		named := strings.Contains(strings.ToLower(info.Name), strings.ToLower(b.Device))
		if !named || info.Keys == (Bits{}) && info.Axes == (Bits{}) {
			continue
		}
		in, err := b.System.Open(info)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		b.Say("listening to " + info.String())
		b.devices = append(b.devices, &listener{info: info, input: in, splitter: splitter{word: nativeWord}})
	}
	if len(b.devices) > 0 {
		return nil
	}
	for _, err := range refused {
		if errors.Is(err, fs.ErrPermission) { // it includes the fix
			return fmt.Errorf("evdev: open input devices: %w", err)
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("evdev: open input devices: %w", errors.Join(refused...))
	}
	if b.Device != "" && len(all) > 0 {
		return fmt.Errorf("evdev: no device with the name %q (connected: %s); change --device", b.Device, list(all))
	}
	return errors.New("evdev: no device with buttons (see /proc/bus/input/devices); " +
		"plug it in, or pair it (bluetoothctl)")
}

func list(all []Info) string {
	var names []string
	for _, i := range all {
		names = append(names, i.String())
	}
	return strings.Join(names, ", ")
}

func (b *binder) close() {
	for _, l := range b.devices {
		_ = l.input.Close() // it was only read
	}
}

// button waits for the button of a role.
func (b *binder) button(r panel.Role) (uint16, error) {
	b.Say(fmt.Sprintf("press the button for %s now", spoken(r)))
	deadline := time.Now().Add(b.Timeout)
	for {
		h, err := b.next(deadline, func(h heard) bool { return h.kind == evKey && h.value == 1 })
		if err != nil {
			return 0, b.late("for "+spoken(r), err)
		}
		if !b.same(h.from) {
			continue
		}
		if other, twice := b.taken[h.code]; twice {
			b.Say(fmt.Sprintf("%s is already %s: press another button for %s",
				KeyName(h.code), spoken(other), spoken(r)))
			continue
		}
		b.taken[h.code] = r
		b.Say(fmt.Sprintf("%s is %s", spoken(r), KeyName(h.code)))
		return h.code, b.waitForRelease(h, deadline)
	}
}

// same selects the first device that is used, and rejects others.
func (b *binder) same(l *listener) bool {
	if b.chosen == nil {
		b.chosen = l
		b.Say("the device is " + l.info.String())
	}
	if b.chosen == l {
		return true
	}
	b.Say(fmt.Sprintf("that was %s: use %s", l.info, b.chosen.info))
	return false
}

// waitForRelease waits until the button is up: its bouncing must not count as the
// next press.
func (b *binder) waitForRelease(down heard, deadline time.Time) error {
	_, err := b.next(deadline, func(h heard) bool {
		return h.from == down.from && h.kind == evKey && h.code == down.code && h.value == 0
	})
	if errors.Is(err, ErrNotPressed) { // still held: accepted
		return nil
	}
	return err
}

func (b *binder) late(what string, err error) error {
	if errors.Is(err, ErrNotPressed) {
		return fmt.Errorf("evdev: %s: %w (%v); start again with a longer --timeout or another --device",
			what, err, b.Timeout)
	}
	return err
}

// minTravel is the least movement of an axis, as a fraction of its range.
const minTravel = 0.35

// axis waits for the widest movement of an axis and its return.
func (b *binder) axis(a *Axis) error {
	b.Say("push the stick, slider or pedal all the way towards GOOD now, then let it go")
	deadline := time.Now().Add(b.Timeout)
	var widest float64
	var at heard
	var limits Range
	for {
		h, err := b.next(deadline, func(h heard) bool { return h.kind == evAbs })
		if errors.Is(err, ErrNotPressed) && widest >= minTravel { // a slider does not return
			break
		}
		if err != nil {
			return b.late("for the axis", err)
		}
		r, ok := h.from.ranges[h.code]
		if !ok || r.Min >= r.Max || b.chosen != nil && h.from != b.chosen || !h.from.info.steered() {
			continue
		}
		travel := math.Abs(float64(h.value)-float64(r.Value)) / (float64(r.Max) - float64(r.Min))
		if travel > widest {
			widest, at, limits = travel, h, r
			continue
		}
		if widest >= minTravel && h.from == at.from && h.code == at.code && travel < 0.1 {
			break
		}
	}
	b.same(at.from)
	a.Code, a.Rest = AxisName(at.code), restOf(limits)
	a.Inverted = a.Rest == RestCentre && at.value < limits.Value
	b.Say(fmt.Sprintf("the axis is %s, rest position: %s", a.Code, a.Rest))
	return nil
}

// restOf returns the rest position of an axis.
func restOf(r Range) string {
	switch part := (float64(r.Value) - float64(r.Min)) / (float64(r.Max) - float64(r.Min)); {
	case part < 0.25:
		return RestLow
	case part > 0.75:
		return RestHigh
	}
	return RestCentre
}

// recordRest records the current positions of all axes.
func (l *listener) recordRest() {
	l.ranges = make(map[uint16]Range)
	for _, axis := range l.info.Axes.Codes() {
		if r, err := l.input.Range(axis); err == nil {
			l.ranges[axis] = r
		}
	}
}

// next returns the first wanted event.
func (b *binder) next(deadline time.Time, wanted func(heard) bool) (heard, error) {
	for {
		for _, l := range b.devices {
			if l.ranges == nil {
				l.recordRest()
			}
			h, ok, err := l.read(wanted)
			if err != nil {
				return heard{}, err
			}
			if ok {
				return h, nil
			}
		}
		left := time.Until(deadline)
		if left <= 0 {
			return heard{}, ErrNotPressed
		}
		if err := b.ctx.Err(); err != nil {
			return heard{}, fmt.Errorf("evdev: bind: %w", err)
		}
		b.wait(min(left, 100*time.Millisecond))
	}
}

// wait blocks until an event or a timeout.
func (b *binder) wait(timeout time.Duration) {
	fds := make([]unix.PollFd, len(b.devices))
	for i, l := range b.devices {
		fds[i] = unix.PollFd{Fd: int32(l.input.Fd()), Events: unix.POLLIN}
	}
	if _, err := unix.Poll(fds, int(timeout.Milliseconds())+1); err != nil {
		time.Sleep(time.Millisecond) // interrupted
	}
}

// read reads one event at a time and leaves later events in the kernel.
func (l *listener) read(wanted func(heard) bool) (h heard, ok bool, err error) {
	buf := make([]byte, eventSize(nativeWord))
	for !ok {
		n, err := unix.Read(l.input.Fd(), buf)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return heard{}, false, nil
		}
		if err != nil || n == 0 {
			return heard{}, false, fmt.Errorf("evdev: %s was unplugged; plug it in and start again", l.info)
		}
		_ = l.splitter.feed(buf[:n], func(e event) error { // never an error
			h = heard{l, e}
			ok = wanted(h)
			return nil
		})
	}
	return h, true, nil
}

// identity returns the properties that identify the chosen device. They include
// phys only if an identical device is connected.
func (b *binder) identity() Match {
	m := b.chosen.info.Match()
	for _, l := range b.devices {
		if l != b.chosen && m.Fits(l.info) && l.info.Keys == b.chosen.info.Keys && l.info.Axes == b.chosen.info.Axes {
			m.Phys = b.chosen.info.Phys
		}
	}
	return m
}
