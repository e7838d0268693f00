package hal

import (
	"errors"
	"time"
)

// The kinds of what goes wrong between a driver and its device. A driver's
// errors wrap one of them, are made when the driver is opened, and are returned
// as they are: an error in a tick allocates nothing.
var (
	ErrTimeout  = errors.New("the device did not answer in time")
	ErrChecksum = errors.New("the answer's checksum is wrong")
	ErrShort    = errors.New("the answer is too short")
	ErrProtocol = errors.New("the answer is not of this protocol")
	ErrDevice   = errors.New("the device reports a fault")
	ErrBus      = errors.New("the bus failed")
	ErrStale    = errors.New("the newest sample is too old")
)

// Device is one piece of hardware of a composite robot: an IMU, a chain of
// servos, a motor controller. Every method is called by the control thread;
// Read, Write and Halt return within a stated time that is small against the
// period, whatever the bus does, try a transaction at most twice, and allocate
// nothing.
type Device interface {
	// Inputs names what Read gives and Outputs what Write takes, with their
	// units. They do not change; callers must not modify them.
	Inputs() []Signal
	Outputs() []Signal

	// Read fills dst, [len(Inputs())], and returns when the sample was taken,
	// CLOCK_MONOTONIC nanoseconds; times never go back. A device whose newest
	// sample is the one of the last call returns that one's time. After an
	// error dst is unspecified. Devices without inputs are not read.
	Read(dst []float64) (at int64, err error)

	// Write commands the outputs, [len(Outputs())], finite and in their units.
	// It may be called before Arm, with outputs for a robot at rest.
	Write(outputs []float64) error

	// Arm makes the outputs effective (torque on, output enabled) and sets and
	// verifies the device's own deadman, where it has one and the configuration
	// wants it.
	Arm() error

	// Halt commands the failsafe outputs, [len(Outputs())], by every way that
	// still works: each member of a bus is tried, also after errors. Then, where
	// the configuration says so, it makes the outputs ineffective (torque off).
	Halt(failsafe []float64) error

	// Close releases the device. It does not halt it.
	Close() error
}

// Signal is an input or an output of a device.
type Signal struct {
	Name string // unique in its list, such as "gyro_z"
	Unit string // SI, such as "rad/s"; empty for dimensionless
}

// Guarded is implemented by devices, and by robots, that stop by themselves when
// they hear nothing: Deadman is the time after which they do, as it was set and
// read back by Arm; 0 where there is none. A robot of several devices has the
// longest of its actuators' times, and 0 where one of them has none.
type Guarded interface {
	Deadman() time.Duration
}

// Bounded is implemented by devices, and by robots, that know how long they keep
// the control thread at most. It is asked once, at the start.
type Bounded interface {
	Bounds() Bounds
}

// Bounds are how long calls take at most, whatever a bus does, less what the
// computer itself takes. 0: no time, or not known.
type Bounds struct {
	Sense time.Duration // of a device: Read
	Act   time.Duration // of a device: Write
	Arm   time.Duration // of a robot: with the Halt that follows where it fails
	Halt  time.Duration
}

// Plus adds what is done one after the other.
func (b Bounds) Plus(c Bounds) Bounds {
	return Bounds{Sense: b.Sense + c.Sense, Act: b.Act + c.Act, Arm: b.Arm + c.Arm, Halt: b.Halt + c.Halt}
}

// BoundsOf asks a robot or a device for its bounds; they are zero where it does
// not know them.
func BoundsOf(v any) Bounds {
	if b, ok := v.(Bounded); ok {
		return b.Bounds()
	}
	return Bounds{}
}

// Counting is implemented by devices that count what goes wrong.
type Counting interface {
	Faults() Faults
}

// Faults counts failed transactions by their kind, and those that a second try
// mended.
type Faults struct {
	Timeout, Checksum, Short, Protocol, Device, Bus, Stale, Mended uint64
}

// KindOf is the kind that err wraps; nil where it wraps none: then the device was
// understood, and it is something else that is wrong.
func KindOf(err error) error {
	for _, kind := range [...]error{ErrTimeout, ErrChecksum, ErrShort, ErrProtocol, ErrDevice, ErrStale, ErrBus} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Count adds one to the kind that err wraps; an error of no kind counts as the
// bus's.
func (f *Faults) Count(err error) {
	for _, k := range []struct {
		kind  error
		count *uint64
	}{
		{ErrTimeout, &f.Timeout}, {ErrChecksum, &f.Checksum}, {ErrShort, &f.Short}, {ErrProtocol, &f.Protocol},
		{ErrDevice, &f.Device}, {ErrStale, &f.Stale}, {ErrBus, &f.Bus},
	} {
		if errors.Is(err, k.kind) {
			*k.count++
			return
		}
	}
	f.Bus++
}
