package hal

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The kinds of faults between a driver and its device. The errors of a driver
// wrap one of them. The driver allocates them when it is opened, so that an error
// in a tick allocates nothing.
var (
	ErrTimeout  = errors.New("the device did not answer in time")
	ErrChecksum = errors.New("the answer's checksum is wrong")
	ErrShort    = errors.New("the answer is too short")
	ErrProtocol = errors.New("the answer is not of this protocol")
	ErrDevice   = errors.New("the device reports a fault")
	ErrBus      = errors.New("the bus failed")
	ErrStale    = errors.New("the newest sample is too old")
)

// ErrLost is an ErrBus of a port that Halt opens again.
var ErrLost = fmt.Errorf("%w (port lost or hung up)", ErrBus)

// Device is one piece of hardware of a composite robot: an IMU, a chain of
// servos, a motor controller. The control thread calls every method. Read, Write
// and Halt allocate nothing, try a transaction at most twice, and return within a
// stated time, small against the period, for any behaviour of the bus.
type Device interface {
	// Inputs lists the values of Read and Outputs those of Write, with their
	// units. They do not change; callers must not modify them.
	Inputs() []Signal
	Outputs() []Signal

	// Read fills dst, [len(Inputs())], and returns when the sample was taken,
	// CLOCK_MONOTONIC nanoseconds; times never decrease. Without a new sample
	// it returns the last one with its time. After an error dst is unspecified.
	// Devices without inputs are not read, except a FailsafeHolder: a
	// StopInput, ArmInput or LabelInput needs inputs.
	Read(dst []float64) (at int64, err error)

	// Write commands the outputs, [len(Outputs())], finite and in their units.
	// It may be called before Arm, with the outputs of a stopped robot.
	Write(outputs []float64) error

	// Arm makes the outputs effective (torque on, output enabled): those with
	// Signal.Measured at the position that Arm itself measures, the others at
	// the latest Write. It sets and verifies the device's deadman, if it has
	// one and the configuration enables it.
	Arm() error

	// Halt commands the failsafe outputs, [len(Outputs())], on every path that
	// still works: it tries each member of a bus, also after errors. Then, if
	// configured, it makes the outputs ineffective (torque off). It may open a
	// lost port again, which allocates and takes some milliseconds. An output with
	// Signal.Holds may be Hold.
	Halt(failsafe []float64) error

	// Close releases the device. It does not halt it.
	Close() error
}

// Hold returns the failsafe output of an actuator that stops where it is: NaN. An armed one gets
// its measured position as its goal; any other keeps its goal.
func Hold() float64 { return math.NaN() }

// FailsafeHolder is implemented by devices that apply the failsafe outputs themselves when their
// deadman expires, and that ignore Write while they are not armed. SetFailsafe stores the failsafe
// outputs, [len(Outputs())], for every Arm. A disarmed robot halts such a device, which holds the
// failsafe outputs.
type FailsafeHolder interface {
	SetFailsafe(outputs []float64) error
}

// Relaxer is implemented by devices whose outputs can be made ineffective without a fault: the
// torque of servos switched off. Relax is the end of an orderly stop; it latches until Arm.
type Relaxer interface {
	Relax() error
}

// Signal is an input or an output of a device.
type Signal struct {
	Name string // unique in its list, such as "gyro_z"
	Unit string // SI, such as "rad/s"; empty for dimensionless
	// Measured is the input, with the same unit and zero, that measures this output; empty: none.
	// The output is a position.
	Measured string
	// Holds reports whether Halt can leave the actuator where it is, see [Hold].
	Holds bool
}

// DeadmanTimer is implemented by devices and robots with a deadman: they stop when
// they receive nothing for the time that Deadman returns, as Arm set it and read
// it back; 0 for none. A robot of several devices has the longest of its
// actuators' times, and 0 if one of them has none.
type DeadmanTimer interface {
	Deadman() time.Duration
}

// Bounder is implemented by devices and robots with known upper bounds on the
// duration of calls. Bounds is called once, at the start.
type Bounder interface {
	Bounds() Bounds
}

// Bounds are upper bounds on the duration of calls for any behaviour of a bus, without
// the time of the computer itself. 0: no time, or unknown.
type Bounds struct {
	Sense time.Duration // of a device: Read
	Act   time.Duration // of a device: Write
	Arm   time.Duration // of a robot: including the Halt after a failure
	Halt  time.Duration
}

// Plus returns the bounds of calls in sequence.
func (b Bounds) Plus(c Bounds) Bounds {
	return Bounds{Sense: b.Sense + c.Sense, Act: b.Act + c.Act, Arm: b.Arm + c.Arm, Halt: b.Halt + c.Halt}
}

// Share is a device's part of the bounds of a robot.
type Share struct {
	Name string // of the device
	Bounds
}

// BoundsOf returns the bounds of a robot or a device, zero if it is not Bounder.
func BoundsOf(v any) Bounds {
	if b, ok := v.(Bounder); ok {
		return b.Bounds()
	}
	return Bounds{}
}

// FaultCounter is implemented by devices that count their faults.
type FaultCounter interface {
	Faults() Faults
}

// Faults counts failed transactions by kind, and those that succeeded at the
// second try.
type Faults struct {
	Timeout, Checksum, Short, Protocol, Device, Bus, Stale, Recovered uint64
}

// KindOf returns the kind that err wraps, or nil: then communication with the
// device worked, and the fault is another one.
func KindOf(err error) error {
	for _, kind := range [...]error{ErrTimeout, ErrChecksum, ErrShort, ErrProtocol, ErrDevice, ErrStale, ErrBus} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Count adds one to the kind that err wraps; an error without a kind counts as
// ErrBus.
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
