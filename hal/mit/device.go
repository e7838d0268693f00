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

// Device is the set of motors of one interface. It implements hal.Device, hal.Relaxer,
// hal.DeadmanTimer and hal.FaultCounter.
type Device struct {
	config  Config
	bus     *can.Socket
	timeout time.Duration
	motors  []motor
	inputs  []hal.Signal
	outputs []hal.Signal
	active  bool  // since Arm or Halt: motors may be in motor mode
	armed   bool  // since Arm
	sentAt  int64 // time of the latest commands; 0: their answers have been read
	faults  hal.Faults
	frame   can.Frame

	errNotFinite error
}

// motor is the driver's state of one motor.
type motor struct {
	Motor
	span      Range
	first     byte // first byte of its answers
	goal      Goal // the next command; without gains and torque outside of motor mode
	latest    Goal // of Write or Halt
	answer    Answer
	status    byte  // damiao: status in the latest answer
	code      byte  // mit: error code in the latest answer
	owed      int   // commands without an answer yet
	failed    error // fault of the latest answer: a kind of package hal, or nil
	errs      motorErrors
	deadman   time.Duration // confirmed by the motor
	firstGoal int           // index of its outputs
}

// motorErrors are the errors of one motor, made by Open.
type motorErrors struct{ timeout, short, device error }

// The status of a DaMiao motor.
const (
	statusDisabled = 0
	statusEnabled  = 1
	statusSilence  = 0xD // its CAN timeout has passed
)

// openTimeout replaces a shorter timeout in Open, whose thread has no real-time priority.
const openTimeout = 50 * time.Millisecond

// Open opens the interface, takes every motor out of motor mode and checks its answer, with damiao
// also its ranges. It returns an error when ctx ends.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	defer d.bus.Interrupt(ctx)()
	d.timeout = max(d.timeout, openTimeout)
	for i := range d.motors {
		if err := d.probe(&d.motors[i]); err != nil {
			_ = d.bus.Close()
			return nil, err
		}
	}
	d.faults, d.timeout = hal.Faults{}, c.timeout()
	return d, nil
}

// newDevice opens the interface. It sends nothing.
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
		errNotFinite: fmt.Errorf("mit: %s: output not finite", c.Interface),
	}
	for i := range d.motors {
		d.addMotor(i)
	}
	return d, nil
}

// addMotor initialises motor i and appends its outputs.
func (d *Device) addMotor(i int) {
	m := &d.motors[i]
	m.Motor = d.config.Motors[i]
	m.span, m.first, m.firstGoal = m.Motor.span(), byte(d.config.firstByte(m.ID)), len(d.outputs)
	failure := func(kind error, text string) error {
		return fmt.Errorf("mit: %q (ID %d): %w%s", m.Name, m.ID, kind, text)
	}
	m.errs = motorErrors{
		timeout: failure(hal.ErrTimeout, "; check its power, cable, id and reply_id"),
		short:   failure(hal.ErrShort, "; check for another device with its ID"),
		device:  failure(hal.ErrDevice, " (error, wrong mode or timeout); remove the cause, then arm again"),
	}
	d.outputs = append(d.outputs, m.Motor.outputs()...)
}

func (d *Device) probe(m *motor) error {
	if err := d.exit(m, monotonic.After(d.timeout)); err != nil {
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

// Faults implements hal.FaultCounter.
func (d *Device) Faults() hal.Faults { return d.faults }

// Timeout returns the time limit of one round, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.timeout }

// Deadman implements hal.DeadmanTimer. It is the longest that a motor has confirmed.
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

// Bounds implements hal.Bounder: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return d.config.Bounds(0) }

// Close implements hal.Device.
func (d *Device) Close() error { return d.bus.Close() }

// Read implements hal.Device.
func (d *Device) Read(dst []float64) (at int64, err error) {
	deadline := monotonic.After(d.timeout)
	if d.sentAt == 0 {
		d.receiveArrived() // late answers, and the end of bus-off
		if err := d.command(deadline); err != nil {
			return 0, err
		}
	}
	at = d.sentAt
	d.sentAt = 0
	if err := d.collect(deadline); err != nil {
		return 0, err
	}
	for i := range d.motors {
		m := &d.motors[i]
		dst[3*i], dst[3*i+1], dst[3*i+2] = m.answer.Position, m.answer.Velocity, m.answer.Torque
		if d.faulty(m) {
			d.faults.Device++
			err = m.errs.device
		}
	}
	return at, err
}

// faulty reports whether a motor's latest answer reports an error or the wrong mode. While the
// device is not armed, a passed timeout is not an error: Arm clears it.
func (d *Device) faulty(m *motor) bool {
	if d.config.Dialect != Damiao {
		return m.code != 0
	}
	if d.armed {
		return m.status != statusEnabled
	}
	return m.status > statusEnabled && m.status != statusSilence
}

// Write implements hal.Device. Motors that follow positions receive new goals only between Arm and
// Halt, and no motor before the first Arm or Halt, or after Relax: Write then repeats their latest
// command.
func (d *Device) Write(outputs []float64) error {
	if err := d.setLatest(outputs, false); err != nil {
		return err
	}
	for i := range d.motors {
		if m := &d.motors[i]; d.armed || d.active && !m.positions() {
			m.goal = m.latest
		}
	}
	d.receiveArrived() // answers to earlier commands
	return d.command(monotonic.After(d.timeout))
}

// setLatest stores outputs. Pack limits them to the ranges. In a halt a position may be hal.Hold.
func (d *Device) setLatest(outputs []float64, halting bool) error {
	for i, v := range outputs {
		if math.IsInf(v, 0) || math.IsNaN(v) && !(halting && d.outputs[i].Holds) {
			return d.errNotFinite
		}
	}
	for i := range d.motors {
		m := &d.motors[i]
		o := outputs[m.firstGoal:]
		switch m.mode() {
		case Position:
			m.latest = Goal{Position: o[0]}
		case Velocity:
			m.latest = Goal{Velocity: o[0]}
		case Torque:
			m.latest = Goal{Torque: o[0]}
		case Impedance:
			m.latest = Goal{Position: o[0], Velocity: o[1], Torque: o[2]}
		}
		m.addGains()
		if math.IsNaN(m.latest.Position) {
			m.hold(d.armed)
		}
	}
	return nil
}

// hold makes the motor's latest goal its position: the measured one if it is armed and answers,
// else that of its latest command.
func (m *motor) hold(armed bool) {
	switch {
	case armed && m.failed == nil:
		m.latest.Position = m.answer.Position
	case m.goal != Goal{}:
		m.latest.Position = m.goal.Position
	default: // no goal since Open or Relax: it is limp
		m.latest = Goal{}
	}
}

// addGains adds the gains of the motor's mode to its latest goal.
func (m *motor) addGains() {
	if m.positions() {
		m.latest.Kp = m.Kp
	}
	if m.mode() != Torque {
		m.latest.Kd = m.Kd
	}
}

// command sends every motor its goal, also after errors, and returns the first error.
func (d *Device) command(deadline int64) error {
	var first error
	for i := range d.motors {
		m := &d.motors[i]
		if err := d.sendGoal(m, deadline); err != nil && first == nil {
			first = err
		}
	}
	if d.sentAt = monotonic.Now(); first != nil {
		d.sentAt = 0 // Read commands them again
	}
	return first
}

func (d *Device) sendGoal(m *motor, deadline int64) error {
	m.span.Pack(&d.frame.Data, m.goal)
	return d.send(m, deadline)
}

// send sends d.frame's data to a motor.
func (d *Device) send(m *motor, deadline int64) error {
	d.frame.ID, d.frame.Extended, d.frame.Remote, d.frame.Len = uint32(m.ID), false, false, 8
	m.failed = hal.ErrTimeout
	err := d.bus.Send(&d.frame, deadline)
	if err != nil {
		d.faults.Count(err)
		return err
	}
	m.owed++
	return nil
}

// collect waits for the outstanding answers, and repeats the command once for motors without a
// valid answer, which it counts.
func (d *Device) collect(deadline int64) error {
	if err := d.await(deadline, nil); err != nil {
		return err
	}
	missing := d.countFailed()
	if missing == 0 {
		return nil
	}
	deadline = monotonic.After(d.timeout)
	for i := range d.motors {
		if m := &d.motors[i]; m.failed != nil {
			_ = d.sendGoal(m, deadline) // counted; the other motors may still receive theirs
		}
	}
	if err := d.await(deadline, nil); err != nil {
		return err
	}
	failed := d.countFailed()
	d.faults.Recovered += uint64(missing - failed)
	return d.firstFault()
}

// firstFault returns the error of the first motor without a valid answer.
func (d *Device) firstFault() error {
	for i := range d.motors {
		if err := d.motors[i].fault(); err != nil {
			return err
		}
	}
	return nil
}

// fault returns the error of a motor without a valid answer.
func (m *motor) fault() error {
	switch m.failed {
	case nil:
		return nil
	case hal.ErrShort:
		return m.errs.short
	case hal.ErrDevice:
		return m.errs.device
	}
	return m.errs.timeout
}

// countFailed counts the motors without a valid answer.
func (d *Device) countFailed() (n int) {
	for i := range d.motors {
		if err := d.motors[i].failed; err != nil {
			d.faults.Count(err)
			n++
		}
	}
	return n
}

// await receives frames until every motor, or only one, has answered each of its commands, or the
// deadline passes: an answer has no number, and the first may be a late one to an earlier command.
// The error is the interface's.
func (d *Device) await(deadline int64, only *motor) error {
	for d.owed(only) {
		if monotonic.Now() > deadline { // a flooded bus must not hold the thread
			d.forgetLost()
			return nil
		}
		if err := d.receiveOne(deadline); err != nil {
			if errors.Is(err, hal.ErrTimeout) {
				d.forgetLost()
				return nil
			}
			return err
		}
	}
	return nil
}

func (d *Device) owed(only *motor) bool {
	for i := range d.motors {
		if m := &d.motors[i]; m.owed > 0 && (only == nil || only == m) {
			return true
		}
	}
	return false
}

// forgetLost expects no more answers of motors that have answered since their latest command.
func (d *Device) forgetLost() {
	for i := range d.motors {
		if m := &d.motors[i]; m.failed == nil {
			m.owed = 0
		}
	}
}

// receiveOne receives the next frame, and counts a damaged one. The error is hal.ErrTimeout,
// hal.ErrBus or the end of Open's context.
func (d *Device) receiveOne(deadline int64) error {
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

// accept stores a frame that is the answer of a motor.
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
		if d.config.Dialect == Damiao && m.isRegister(f) { // a late one
			return
		}
		answer, err := m.span.UnpackAnswer(f)
		m.owed, m.failed = max(m.owed-1, 0), err
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

// maxArrived limits receiveArrived: a flooded bus must not hold the thread.
const maxArrived = 256

// receiveArrived receives the frames that have arrived, without waiting.
func (d *Device) receiveArrived() {
	for range maxArrived {
		if d.receiveOne(0) != nil {
			return
		}
	}
}
