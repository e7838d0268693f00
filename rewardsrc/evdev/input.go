package evdev

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc/panel"
)

// System finds and opens devices: [Kernel], or a fake.
type System interface {
	// List returns the connected devices, without opening them.
	List() ([]Info, error)
	// Open opens a device. The error wraps panel.ErrAbsent if it is missing.
	Open(Info) (Input, error)
}

// Input is an open device.
type Input interface {
	// Fd gives events, without blocking.
	Fd() int
	// Keys returns the pressed keys.
	Keys() (Bits, error)
	// Range returns the position and the limits of an axis.
	Range(axis uint16) (Range, error)
	// Grab withholds the events from other programs until Close.
	Grab() error
	Close() error
}

// Range is the needed part of struct input_absinfo.
type Range struct{ Value, Min, Max int32 }

// input is a device node. Errors of its methods are errnos.
type input struct{ fd int }

// Open implements System.
func (k Kernel) Open(info Info) (Input, error) {
	path := filepath.Join(k.dev(), info.Node)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w; %s", path, err, PermissionFix)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("%s: %w (%w)", path, panel.ErrAbsent, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := unix.IoctlSetPointerInt(fd, requestClock, unix.CLOCK_MONOTONIC); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: CLOCK_MONOTONIC: %w: not an input device", path, err), unix.Close(fd))
	}
	return &input{fd}, nil
}

// PermissionFix is the fix for a missing permission.
const PermissionFix = "add the user of the host process to the group input " +
	"(sudo usermod -aG input USER, then log in again), or write a udev rule for this device alone, such as " +
	`SUBSYSTEM=="input", KERNEL=="event*", ATTRS{id/vendor}=="VVVV", ATTRS{id/product}=="PPPP", GROUP="USER", MODE="0640"`

// Requests of the kernel's include/uapi/linux/input.h, in the numbering of
// include/uapi/asm-generic/ioctl.h, which amd64, arm and arm64 have.
const (
	requestClock = 1<<30 | 4<<16 | 'E'<<8 | 0xa0 // EVIOCSCLOCKID
	requestGrab  = 1<<30 | 4<<16 | 'E'<<8 | 0x90 // EVIOCGRAB
)

func requestKeys(size uintptr) uintptr { return 2<<30 | size<<16 | 'E'<<8 | 0x18 } // EVIOCGKEY

func requestRange(axis uint16, size uintptr) uintptr { // EVIOCGABS
	return 2<<30 | size<<16 | 'E'<<8 | 0x40 + uintptr(axis)
}

func (i *input) Fd() int { return i.fd }

func (i *input) Keys() (b Bits, err error) {
	var raw [keyCount / 8]byte
	if err := i.read(requestKeys(unsafe.Sizeof(raw)), unsafe.Pointer(&raw)); err != nil {
		return b, err
	}
	// The kernel's set is an array of longs. On little-endian machines, the
	// only supported ones, that is the same as an array of bytes.
	for code := range uint16(keyCount) {
		if raw[code/8]>>(code%8)&1 == 1 {
			b.Set(code)
		}
	}
	return b, nil
}

func (i *input) Range(axis uint16) (Range, error) {
	var info struct{ Value, Minimum, Maximum, Fuzz, Flat, Resolution int32 }
	if err := i.read(requestRange(axis, unsafe.Sizeof(info)), unsafe.Pointer(&info)); err != nil {
		return Range{}, err
	}
	return Range{Value: info.Value, Min: info.Minimum, Max: info.Maximum}, nil
}

func (i *input) read(request uintptr, to unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(i.fd), request, uintptr(to)); errno != 0 {
		return errno
	}
	return nil
}

func (i *input) Grab() error { return unix.IoctlSetInt(i.fd, requestGrab, 1) }

func (i *input) Close() error { return unix.Close(i.fd) }
