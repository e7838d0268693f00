package mit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/can"
	"optibfm/hal/monotonic"
)

// Device is the motors of one interface. It implements hal.Device, hal.Guarded
// and hal.Counting.
type Device struct {
	config  Config
	bus     *can.Socket
	timeout time.Duration
	motors  []motor
	inputs  []hal.Signal
	outputs []hal.Signal
	armed   bool
	written bool  // there has been a Write
	asked   int64 // when the motors were last commanded; 0: their answers have been read
	faults  hal.Faults
	frame   can.Frame

	errNotFinite error
}

// motor is what the driver knows of one.
type motor struct {
	Motor
	span      Range
	first     byte // of its answers
	goal      Goal
	answer    Answer
	status    byte // damiao: of the last answer
	code      byte // mit: the error code of the last answer
	waiting   bool
	problem   error
	problems  kinds
	deadman   time.Duration // as it was read back
	firstGoal int           // index of its outputs
}

// kinds are the errors of one motor.
type kinds struct{ timeout, short, device error }

// The status of a DaMiao motor.
const (
	statusDisabled = 0
	statusEnabled  = 1
	statusSilence  = 0xD // its CAN timeout has passed
)

// Open opens the interface, takes every motor out of motor mode and checks that
// it answers; with damiao also that its ranges are those of the configuration. It
// returns an error when ctx ends.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	defer d.bus.Interrupt(ctx)()
	for i := range d.motors {
		if err := d.meet(&d.motors[i]); err != nil {
			_ = d.bus.Close()
			return nil, err
		}
	}
	d.faults = hal.Faults{}
	return d, nil
}

// newDevice opens the interface. It tells the motors nothing.
func newDevice(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	answers := make([]uint32, len(c.Motors))
	for i, m := range c.Motors {
		answers[i] = uint32(m.ReplyID)
	}
	bus, err := can.Open(c.Interface, answers...)
	if err != nil {
		return nil, fmt.Errorf("mit: %w", err)
	}
	d := &Device{
		config: c, bus: bus, timeout: c.timeout(), motors: make([]motor, len(c.Motors)), inputs: c.Inputs(),
		errNotFinite: fmt.Errorf("mit: %s: an output is not finite: guard the action", c.Interface),
	}
	for i := range d.motors {
		d.name(i)
	}
	return d, nil
}

// name makes motor i and its outputs.
func (d *Device) name(i int) {
	m := &d.motors[i]
	m.Motor = d.config.Motors[i]
	m.span, m.first, m.firstGoal = m.Motor.span(), byte(d.config.firstByte(m.ID)), len(d.outputs)
	of := func(kind error, mend string) error {
		return fmt.Errorf("mit: %q (ID %d): %w: %s", m.Name, m.ID, kind, mend)
	}
	m.problems = kinds{
		timeout: of(hal.ErrTimeout, "see its power and cable, id and reply_id"),
		short:   of(hal.ErrShort, "see whether another device answers with its ID"),
		device:  of(hal.ErrDevice, "it has an error, has left motor mode or was silent too long: mend the cause, then arm again"),
	}
	d.outputs = append(d.outputs, m.Motor.outputs()...)
}

func (d *Device) meet(m *motor) error {
	if err := d.special(m, Exit); err != nil {
		return fmt.Errorf("mit: open: %w", err)
	}
	if d.config.Dialect != Damiao {
		return nil
	}
	return d.checkRanges(m)
}

// Inputs implements hal.Device.
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs implements hal.Device.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Faults implements hal.Counting.
func (d *Device) Faults() hal.Faults { return d.faults }

// Bus gives what the CAN controller has reported.
func (d *Device) Bus() can.Faults { return d.bus.Faults() }

// Timeout is the limit of one round, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.timeout }

// Deadman implements hal.Guarded: the longest that was read back from a motor.
func (d *Device) Deadman() time.Duration {
	var longest time.Duration
	for i := range d.motors {
		if !d.armed || d.motors[i].deadman == 0 {
			return 0
		}
		longest = max(longest, d.motors[i].deadman)
	}
	return longest
}

// Bounds implements hal.Bounded: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return d.config.Bounds(0) }

// Close implements hal.Device.
func (d *Device) Close() error { return d.bus.Close() }

// Read implements hal.Device.
func (d *Device) Read(dst []float64) (at int64, err error) {
	deadline := monotonic.After(d.timeout)
	if d.asked == 0 {
		if err := d.command(deadline); err != nil {
			return 0, err
		}
	}
	at = d.asked
	d.asked = 0
	if err := d.collect(deadline); err != nil {
		return 0, err
	}
	for i := range d.motors {
		m := &d.motors[i]
		dst[3*i], dst[3*i+1], dst[3*i+2] = m.answer.Position, m.answer.Velocity, m.answer.Torque
		if d.ill(m) {
			d.faults.Device++
			err = m.problems.device
		}
	}
	return at, err
}

// ill tells whether a motor's last answer says that it does not do its work.
func (d *Device) ill(m *motor) bool {
	if d.config.Dialect != Damiao {
		return m.code != 0
	}
	return m.status > statusEnabled || (d.armed && m.status != statusEnabled)
}

// Write implements hal.Device.
func (d *Device) Write(outputs []float64) error {
	if err := d.setGoals(outputs); err != nil {
		return err
	}
	d.takeArrived() // answers to what was commanded before
	return d.command(monotonic.After(d.timeout))
}

// setGoals takes outputs over; Pack holds them to the ranges.
func (d *Device) setGoals(outputs []float64) error {
	for _, v := range outputs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return d.errNotFinite
		}
	}
	for i := range d.motors {
		m := &d.motors[i]
		o := outputs[m.firstGoal:]
		switch m.mode() {
		case Position:
			m.goal = Goal{Position: o[0], Kp: m.Kp, Kd: m.Kd}
		case Velocity:
			m.goal = Goal{Velocity: o[0], Kd: m.Kd}
		case Torque:
			m.goal = Goal{Torque: o[0]}
		case Impedance:
			m.goal = Goal{Position: o[0], Velocity: o[1], Torque: o[2], Kp: m.Kp, Kd: m.Kd}
		}
	}
	d.written = true
	return nil
}

// command sends every motor its goal. Each one is tried; the first error is
// returned.
func (d *Device) command(deadline int64) error {
	var first error
	for i := range d.motors {
		m := &d.motors[i]
		if err := d.sendGoal(m, deadline); err != nil && first == nil {
			first = err
		}
	}
	d.asked = monotonic.Now()
	return first
}

func (d *Device) sendGoal(m *motor, deadline int64) error {
	m.span.Pack(&d.frame.Data, m.goal)
	return d.send(m, deadline)
}

// send sends d.frame's data to a motor.
func (d *Device) send(m *motor, deadline int64) error {
	d.frame.ID, d.frame.Extended, d.frame.Remote, d.frame.Len = uint32(m.ID), false, false, 8
	m.waiting, m.problem = true, hal.ErrTimeout
	err := d.bus.Send(&d.frame, deadline)
	if err != nil {
		d.faults.Count(err)
	}
	return err
}

// collect waits for the answers that are outstanding, and asks once more for
// those that do not come. Motors that did not answer are counted.
func (d *Device) collect(deadline int64) error {
	if err := d.await(deadline); err != nil {
		return err
	}
	missing := d.countMissing()
	if missing == 0 {
		return nil
	}
	deadline = monotonic.After(d.timeout)
	for i := range d.motors {
		if m := &d.motors[i]; m.problem != nil {
			_ = d.sendGoal(m, deadline) // counted; the next one may be heard
		}
	}
	if err := d.await(deadline); err != nil {
		return err
	}
	still := d.countMissing()
	d.faults.Mended += uint64(missing - still)
	return d.firstProblem()
}

// firstProblem is the error of the first motor that has not answered well.
func (d *Device) firstProblem() error {
	for i := range d.motors {
		if err := d.motors[i].wrong(); err != nil {
			return err
		}
	}
	return nil
}

// wrong is the error of a motor that has not answered well.
func (m *motor) wrong() error {
	switch m.problem {
	case nil:
		return nil
	case hal.ErrShort:
		return m.problems.short
	}
	return m.problems.timeout
}

func (d *Device) countMissing() (n int) {
	for i := range d.motors {
		if problem := d.motors[i].problem; problem != nil {
			d.faults.Count(problem)
			n++
		}
	}
	return n
}

// await takes frames until no motor is waited for, or the time is over. An
// error is the interface's.
func (d *Device) await(deadline int64) error {
	for d.waiting() {
		if monotonic.Now() > deadline { // a babbling bus must not hold the thread
			return nil
		}
		if err := d.takeOne(deadline); err != nil {
			if errors.Is(err, hal.ErrTimeout) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (d *Device) waiting() bool {
	for i := range d.motors {
		if d.motors[i].waiting {
			return true
		}
	}
	return false
}

// takeOne takes the next frame that arrives. Damaged ones are counted and passed
// over; an error is hal.ErrTimeout, hal.ErrBus or the end of Open's context.
func (d *Device) takeOne(deadline int64) error {
	var f can.Frame
	err := d.bus.Receive(&f, deadline)
	switch {
	case err == nil:
		d.accept(&f)
		return nil
	case errors.Is(err, hal.ErrTimeout):
		return err
	}
	d.faults.Count(err)
	if errors.Is(err, hal.ErrShort) || errors.Is(err, hal.ErrProtocol) {
		return nil
	}
	return err
}

// accept takes a frame, if it is an answer of one of the motors.
func (d *Device) accept(f *can.Frame) {
	if f.Extended || f.Remote || f.Len == 0 {
		return
	}
	for i := range d.motors {
		m := &d.motors[i]
		first, status := f.Data[0], byte(0)
		if d.config.Dialect == Damiao {
			first, status = f.Data[0]&0x0F, f.Data[0]>>4
		}
		if f.ID != uint32(m.ReplyID) || first != m.first {
			continue
		}
		answer, err := m.span.UnpackAnswer(f)
		m.waiting, m.problem = false, err
		if err != nil {
			return
		}
		m.answer, m.status, m.code = answer, status, 0
		if f.Len == longAnswer && d.config.Dialect != Damiao {
			m.code = f.Data[errorCodeAt]
		}
		return
	}
}

// arrivedMost bounds takeArrived: a babbling bus must not hold the thread.
const arrivedMost = 256

// takeArrived takes what has come, without waiting.
func (d *Device) takeArrived() {
	for range arrivedMost {
		if d.takeOne(0) != nil {
			return
		}
	}
}
