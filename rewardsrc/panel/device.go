package panel

import "errors"

// ErrAbsent is wrapped by Device.Open's error for a device that is not there
// now and may come. Every other error says that it never will as things are:
// a permission, a device that another program holds, a wrong pin.
var ErrAbsent = errors.New("not connected")

// Device is hardware that can be opened, again and again where it goes away.
type Device interface {
	// Open opens the device, which will tell p what it sees. It must not
	// wait for a person.
	Open(p *Panel) (Conn, error)
}

// Conn is an open device. All methods are called by the panel's goroutine.
type Conn interface {
	// Fd becomes readable when events wait.
	Fd() int
	// Read takes what waits, without blocking, and tells the panel. An error
	// says that the device is gone.
	Read() error
	// Close releases the device.
	Close() error
}

// Signal is something to show at the device itself.
type Signal uint8

// The signals.
const (
	Asking       Signal = iota + 1 // a label is wanted, until Idle
	Idle                           // none is wanted any more
	Acknowledged                   // a label is safe
	Refused                        // a label does not count
)

// Lamp is implemented by a Conn that can show signals.
type Lamp interface {
	// Signal begins to show a signal at now, CLOCK_MONOTONIC nanoseconds.
	Signal(s Signal, now int64)
	// Tick brings the lamp to where it shall be at now and returns when it
	// must be called next, math.MaxInt64 for never. It may tell the panel
	// what it saw, as Conn.Read does.
	Tick(now int64) (next int64)
}
