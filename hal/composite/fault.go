package composite

import (
	"errors"
	"fmt"

	"optibfm/hal"
)

// operation is a call to a device.
type operation int

const (
	reading operation = iota
	writing
	arming
	halting
	operations
)

func (o operation) String() string { return [...]string{"read", "write", "arm", "halt"}[o] }

// Error is the failure of a device. It wraps a kind of package hal.
type Error struct {
	Device    string
	Operation string
	Err       error
}

func (e *Error) Error() string {
	return fmt.Sprintf("composite: %s: %s: %v", e.Device, e.Operation, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Faults that this package detects.
var (
	errFrozen    = fmt.Errorf("%w: frozen inputs; restart the device, or raise frozen_ticks", hal.ErrDevice)
	errNotFinite = fmt.Errorf("%w: input not finite; check the driver", hal.ErrProtocol)
	errBackwards = fmt.Errorf("%w: sample time decreased; check the driver", hal.ErrProtocol)
	errTooLarge  = errors.New("composite: observation too large for a float32; check scale and offset")
)

// fail counts a fault that this package detected.
func (d *device) fail(o operation, err error) error {
	d.faults.Count(err)
	return d.note(o, err)
}

// failOf counts a fault that the device returned, unless its driver counts.
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

// DeviceFaults counts the faults of a device since the robot was opened.
type DeviceFaults struct {
	Name   string // of the device
	Faults hal.Faults
}

// Faults appends the counters of all devices to dst, in their order. They include the faults
// counted by the driver, and those detected here: stale and frozen samples, and numbers that are
// not finite.
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
		Timeout: a.Timeout + b.Timeout, Checksum: a.Checksum + b.Checksum,
		Short: a.Short + b.Short, Protocol: a.Protocol + b.Protocol,
		Device: a.Device + b.Device, Bus: a.Bus + b.Bus,
		Stale: a.Stale + b.Stale, Recovered: a.Recovered + b.Recovered,
	}
}
