package panel

import "errors"

// ErrAbsent is wrapped by Device.Open's error for a device that is not
// connected yet. Every other error is permanent: a missing permission, a device
// that another program holds, a wrong pin.
var ErrAbsent = errors.New("not connected")

// Device is hardware that can be opened, repeatedly if it goes away.
type Device interface {
	// Open opens the device, which reports its events to p. It must not
	// wait for a person.
	Open(p *Panel) (Conn, error)
}

// Conn is an open device. All methods are called by the panel's goroutine.
type Conn interface {
	// Fd becomes readable when events are pending.
	Fd() int
	// Read passes the pending events to the panel, without blocking. An
	// error means that the device is missing.
	Read() error
	// Close releases the device.
	Close() error
}

// Signal is shown at the device itself.
type Signal uint8

// The signals.
const (
	Asking       Signal = iota + 1 // a label is wanted, until Idle
	Idle                           // no request is open
	Acknowledged                   // a label is safe
	Refused                        // a label does not count
)

// Lamp is implemented by a Conn that can show signals.
type Lamp interface {
	// Signal begins to show a signal at now, CLOCK_MONOTONIC nanoseconds.
	Signal(s Signal, now int64)
	// Tick sets the lamp to its state at now and returns the time of the next
	// call, math.MaxInt64 for none. Like Conn.Read it may report events to
	// the panel.
	Tick(now int64) (next int64)
}
