package composite

import (
	"errors"
	"fmt"

	"optibfm/hal"
)

// operation is what was being done with a device.
type operation int

const (
	reading operation = iota
	writing
	arming
	halting
	operations
)

func (o operation) String() string { return [...]string{"read", "write", "arm", "halt"}[o] }

// Error is what went wrong with a device. It wraps one of package hal's kinds.
type Error struct {
	Device    string
	Operation string
	Err       error
}

func (e *Error) Error() string {
	return fmt.Sprintf("composite: %s: %s: %v", e.Device, e.Operation, e.Err)
}

// Unwrap returns what was found.
func (e *Error) Unwrap() error { return e.Err }

// What a device cannot see itself.
var (
	errFrozen    = fmt.Errorf("%w: it is frozen: its inputs do not change by a bit: restart it, or raise frozen_ticks", hal.ErrDevice)
	errNotFinite = fmt.Errorf("%w: an input is not finite: check the driver", hal.ErrProtocol)
	errBackwards = fmt.Errorf("%w: its time went back: check the driver", hal.ErrProtocol)
	errTooLarge  = errors.New("composite: an observation is too large for a float32: check scale and offset")
)

// fail counts what this package found.
func (d *device) fail(o operation, err error) error {
	d.faults.Count(err)
	return d.note(o, err)
}

// failOf counts what the device found, unless it counts itself.
func (d *device) failOf(o operation, err error) error {
	d.failing = true
	if d.counting == nil {
		d.faults.Count(err)
	}
	return d.note(o, err)
}

func (d *device) note(o operation, err error) error {
	e := &d.failure[o]
	*e = Error{Device: d.Name, Operation: o.String(), Err: err}
	return e
}

// DeviceFaults is what went wrong with a device since the robot was opened.
type DeviceFaults struct {
	Name   string // of the device
	Faults hal.Faults
}

// Faults appends the counters of all devices to dst, in their order: what their
// drivers counted, and what was found here: stale and frozen samples, numbers
// that are not finite.
func (r *Robot) Faults(dst []DeviceFaults) []DeviceFaults {
	for _, d := range r.devices {
		f := d.faults
		if d.counting != nil {
			f = sum(f, d.counting.Faults())
		}
		dst = append(dst, DeviceFaults{d.Name, f})
	}
	return dst
}

func sum(a, b hal.Faults) hal.Faults {
	return hal.Faults{
		Timeout: a.Timeout + b.Timeout, Checksum: a.Checksum + b.Checksum, Short: a.Short + b.Short, Protocol: a.Protocol + b.Protocol,
		Device: a.Device + b.Device, Bus: a.Bus + b.Bus, Stale: a.Stale + b.Stale, Mended: a.Mended + b.Mended,
	}
}
