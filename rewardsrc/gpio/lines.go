package gpio

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"

	"optibfm/internal/decimal"
	"optibfm/rewardsrc/panel"
)

// System opens chips: [Kernel], or a fake.
type System interface {
	// Open requests the lines of a configuration. The error wraps
	// panel.ErrAbsent if the chip is absent.
	Open(Config) (Lines, error)
}

// Lines are the requested lines.
type Lines interface {
	// Fd gives uapi.LineEvent values, without blocking.
	Fd() int
	// Button is the role of a line, by its number.
	Button(offset uint32) (r panel.Role, ok bool)
	// Pressed returns which buttons are down.
	Pressed() ([panel.NumRoles]bool, error)
	// Debounced reports whether the kernel debounces.
	Debounced() bool
	// Set switches an output, if it is configured.
	Set(o Output, on bool) error
	Close() error
}

// Output is a light or a buzzer.
type Output uint8

// The outputs.
const (
	LED Output = iota
	Buzzer
	NumOutputs = iota
)

// Kernel is the running system.
type Kernel struct{}

const consumer = "optibfm"

// lines are requested from a real chip.
type lines struct {
	inputs    int // descriptor of the request
	roles     []panel.Role
	offsets   []uint32
	debounced bool
	outputs   [NumOutputs]int // descriptors, -1 for none
}

// Open implements System.
func (Kernel) Open(cfg Config) (Lines, error) {
	path := cfg.Chip
	if !strings.ContainsRune(path, '/') {
		path = "/dev/" + path
	}
	chip, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w; %s", path, err, permissionFix)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("%s: %w (found: %s)", path, panel.ErrAbsent, chips())
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(chip) // a request stays valid
	l := &lines{inputs: -1, outputs: [NumOutputs]int{-1, -1}}
	if err := l.request(uintptr(chip), cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), l.Close())
	}
	return l, nil
}

const permissionFix = "add the user of the host process to the group gpio " +
	"(sudo usermod -aG gpio USER, then log in again), " +
	`or write a udev rule: SUBSYSTEM=="gpio", GROUP="gpio", MODE="0660"`

// chips lists the chips of this machine.
func chips() string {
	found, err := filepath.Glob("/dev/gpiochip*")
	if err != nil || len(found) == 0 {
		return "no GPIO chip"
	}
	return strings.Join(found, ", ")
}

func (l *lines) request(chip uintptr, cfg Config) error {
	for _, r := range panel.Roles() {
		line := *cfg.Button(r)
		if line == "" {
			continue
		}
		offset, err := find(chip, line)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		l.roles, l.offsets = append(l.roles, r), append(l.offsets, offset)
	}
	if err := l.requestButtons(chip, cfg); err != nil {
		return err
	}
	for o, name := range [NumOutputs]string{LED: cfg.LED, Buzzer: cfg.Buzzer} {
		if name == "" {
			continue
		}
		if err := l.requestOutput(chip, Output(o), name, cfg.LEDActiveLow && Output(o) == LED); err != nil {
			return err
		}
	}
	return nil
}

// find returns the number of a line, given by number or name.
func find(chip uintptr, line string) (uint32, error) {
	if n, err := strconv.ParseUint(line, 10, 16); err == nil {
		if err := decimal.Check(line); err != nil {
			return 0, err
		}
		if _, err := uapi.GetLineInfoV2(chip, int(n)); err != nil {
			return 0, fmt.Errorf("line %d: %w; choose one that gpioinfo lists", n, err)
		}
		return uint32(n), nil
	}
	for n := 0; ; n++ {
		info, err := uapi.GetLineInfoV2(chip, n)
		if errors.Is(err, unix.EINVAL) {
			return 0, fmt.Errorf("line %q: unknown name; choose one that gpioinfo lists", line)
		}
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", line, err)
		}
		if unix.ByteSliceToString(info.Name[:]) == line {
			return uint32(n), nil
		}
	}
}

// requestButtons lets the kernel debounce if it can.
func (l *lines) requestButtons(chip uintptr, cfg Config) error {
	request := newRequest(l.offsets, buttonFlags(cfg))
	plain := request
	if cfg.DebounceMS > 0 {
		period := uapi.DebouncePeriod(cfg.DebounceMS * 1e6)
		request.Config.AddAttribute(uapi.LineConfigAttribute{
			Attr: period.Encode(), Mask: uapi.NewLineBitMask(len(l.offsets)),
		})
	}
	err := uapi.GetLine(chip, &request)
	l.debounced = err == nil
	if err != nil && cfg.DebounceMS > 0 && !errors.Is(err, unix.EBUSY) {
		request = plain
		err = uapi.GetLine(chip, &request)
	}
	if err != nil {
		return fmt.Errorf("buttons: %w", explain(err, chip, l.offsets))
	}
	l.inputs = int(request.Fd)
	return unix.SetNonblock(l.inputs, true)
}

func newRequest(offsets []uint32, flags uapi.LineFlagV2) uapi.LineRequest {
	r := uapi.LineRequest{Lines: uint32(len(offsets)), Config: uapi.LineConfig{Flags: flags}}
	copy(r.Offsets[:], offsets)
	copy(r.Consumer[:], consumer)
	return r
}

// buttonFlags returns the flags of the buttons' lines. The default clock of
// events is CLOCK_MONOTONIC.
func buttonFlags(cfg Config) uapi.LineFlagV2 {
	flags := uapi.LineFlagV2Input | uapi.LineFlagV2EdgeBoth
	if cfg.ActiveLow {
		flags |= uapi.LineFlagV2ActiveLow
	}
	switch cfg.Bias {
	case PullUp:
		flags |= uapi.LineFlagV2BiasPullUp
	case PullDown:
		flags |= uapi.LineFlagV2BiasPullDown
	case Off:
		flags |= uapi.LineFlagV2BiasDisabled
	}
	return flags
}

func (l *lines) requestOutput(chip uintptr, o Output, name string, activeLow bool) error {
	key := [NumOutputs]string{LED: "led", Buzzer: "buzzer"}[o]
	offset, err := find(chip, name)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	flags := uapi.LineFlagV2Output
	if activeLow {
		flags |= uapi.LineFlagV2ActiveLow
	}
	request := newRequest([]uint32{offset}, flags)
	if err := uapi.GetLine(chip, &request); err != nil {
		return fmt.Errorf("%s: %w", key, explain(err, chip, []uint32{offset}))
	}
	l.outputs[o] = int(request.Fd)
	return nil
}

// explain adds the meaning of a refused request and a fix.
func explain(err error, chip uintptr, offsets []uint32) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		for _, offset := range offsets {
			if info, infoErr := uapi.GetLineInfoV2(chip, int(offset)); infoErr == nil && info.Flags.IsUsed() {
				return fmt.Errorf("line %d: %w (used by %q); choose another line, or end that program",
					offset, err, unix.ByteSliceToString(info.Consumer[:]))
			}
		}
	case errors.Is(err, unix.ENOTTY):
		return fmt.Errorf("%w: no version 2 of the GPIO interface; use Linux 5.10 or newer", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP):
		return fmt.Errorf("%w: not supported by the chip; try bias as_is and a resistor on the board", err)
	}
	return err
}

func (l *lines) Fd() int { return l.inputs }

func (l *lines) Button(offset uint32) (panel.Role, bool) {
	for i, o := range l.offsets {
		if o == offset {
			return l.roles[i], true
		}
	}
	return 0, false
}

func (l *lines) Pressed() (down [panel.NumRoles]bool, err error) {
	values := uapi.LineValues{Mask: uapi.NewLineBitMask(len(l.offsets))}
	if err := uapi.GetLineValuesV2(uintptr(l.inputs), &values); err != nil {
		return down, err
	}
	for i, r := range l.roles {
		down[r] = values.Get(i) == 1
	}
	return down, nil
}

func (l *lines) Debounced() bool { return l.debounced }

func (l *lines) Set(o Output, on bool) error {
	if l.outputs[o] < 0 {
		return nil
	}
	values := uapi.LineValues{Mask: 1}
	if on {
		values.Bits = 1
	}
	return uapi.SetLineValuesV2(uintptr(l.outputs[o]), values)
}

// Close switches the outputs off, which the kernel would not do.
func (l *lines) Close() error {
	var errs []error
	for o, fd := range l.outputs {
		if fd >= 0 {
			errs = append(errs, ignoreUnplugged(l.Set(Output(o), false)), unix.Close(fd))
			l.outputs[o] = -1
		}
	}
	if l.inputs >= 0 {
		errs = append(errs, unix.Close(l.inputs))
	}
	return errors.Join(errs...)
}

// ignoreUnplugged drops the error of an unplugged chip.
func ignoreUnplugged(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
