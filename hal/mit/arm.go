package mit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/can"
	"optibfm/hal/monotonic"
)

// Registers of a DaMiao motor, and the codes of their frames.
const (
	registerID    = 0x7FF
	readRegister  = 0x33
	writeRegister = 0x55
	regTimeout    = 9 // uint32
	regPMax       = 21
	regVMax       = 22
	regTMax       = 23
	lastRegister  = 81
	timeoutUnit   = 50 * time.Microsecond
	registerFrame = 8
)

// Arm implements hal.Device. It opens a lost interface again, sets and reads back the motors'
// timeout (damiao), enters motor mode and commands each motor at once: the position of its answer,
// with the velocity and the torque of the latest Write. It refuses a position at the end of the
// range. After a failure it takes every motor out of motor mode.
func (d *Device) Arm() error {
	if d.bus.Lost() {
		if err := d.bus.Reopen(); err != nil {
			d.faults.Count(err)
			return fmt.Errorf("mit: arm: %w", err)
		}
	}
	d.armed = false
	d.receiveArrived() // also the error of an interface that was down
	for i := range d.motors {
		if err := d.arm(&d.motors[i]); err != nil {
			for i := range d.motors {
				_ = d.exit(&d.motors[i], 0)
			}
			return fmt.Errorf("mit: arm: %w", err)
		}
	}
	d.active, d.armed = true, true
	return nil
}

func (d *Device) arm(m *motor) error {
	if d.config.Dialect == Damiao {
		if m.status == statusSilence { // arming clears a passed timeout
			if err := d.special(m, Clear); err != nil {
				return err
			}
		}
		if err := d.setDeadman(m); err != nil {
			return err
		}
	}
	if err := d.special(m, Enter); err != nil {
		return err
	}
	m.addGains() // before the first Write
	if m.goal = m.latest; m.positions() {
		if m.goal.Position = m.answer.Position; !m.measured() {
			return fmt.Errorf("%q (ID %d): position %.3f rad is not within the range, %.3f to %.3f rad; "+
				"move it within the range, or set its zero", m.Name, m.ID, m.answer.Position, -m.PMax, m.PMax)
		}
	}
	deadline := monotonic.After(d.timeout)
	if err := d.sendGoal(m, deadline); err != nil {
		return err
	}
	if err := d.await(deadline, m); err != nil {
		return err
	}
	rejected := m.code != 0 || (d.config.Dialect == Damiao && m.status != statusEnabled)
	if m.failed != nil || rejected {
		d.faults.Device++
		return fmt.Errorf("%w: status %#x, error code %d", m.errs.device, m.status, m.code)
	}
	return nil
}

// measured reports whether the motor's position is within its range. The codes at the ends stand
// for every position beyond.
func (m *motor) measured() bool { return math.Abs(m.answer.Position) < m.PMax*(1-1e-5) }

// exit takes a motor out of motor mode. It first commands no torque and waits until the deadline
// for the answer: with some firmware the next Enter continues the latest command.
func (d *Device) exit(m *motor, deadline int64) error {
	m.goal = Goal{}
	if err := d.sendGoal(m, deadline); err == nil {
		_ = d.await(deadline, m)
	}
	return d.special(m, Exit)
}

// special sends a special command and waits for its answer, at most twice.
func (d *Device) special(m *motor, command byte) error {
	for try := range 2 {
		d.receiveArrived()
		d.sentAt = 0
		d.frame.Data = specialFrame(command)
		deadline := monotonic.After(d.timeout)
		if err := d.send(m, deadline); err != nil {
			return err
		}
		if err := d.await(deadline, m); err != nil {
			return err
		}
		if command == Exit {
			d.checkExit(m)
		}
		if m.failed == nil {
			d.faults.Recovered += uint64(try)
			return nil
		}
		d.faults.Count(m.failed)
	}
	return m.errs.timeout
}

// checkExit fails a motor whose answer reports that it is in motor mode. The mit dialect does not
// report it.
func (d *Device) checkExit(m *motor) {
	if m.failed == nil && d.config.Dialect == Damiao && m.status == statusEnabled {
		m.failed = hal.ErrDevice
	}
}

func specialFrame(command byte) [8]byte {
	return [8]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, command}
}

// setDeadman sets the motor's timeout and reads it back. 0 disables it.
func (d *Device) setDeadman(m *motor) error {
	m.deadman = 0
	wanted := uint32(math.Round(d.config.DeadmanMs * float64(time.Millisecond) / float64(timeoutUnit)))
	if _, err := d.register(m, writeRegister, regTimeout, wanted); err != nil {
		return fmt.Errorf("set timeout (register 9): %w", err)
	}
	got, err := d.register(m, readRegister, regTimeout, 0)
	if err != nil {
		return fmt.Errorf("read timeout (register 9): %w", err)
	}
	if got != wanted {
		d.faults.Device++
		return fmt.Errorf("%w: its timeout (register 9) is %v, not %v",
			m.errs.device, time.Duration(got)*timeoutUnit, time.Duration(wanted)*timeoutUnit)
	}
	m.deadman = time.Duration(got) * timeoutUnit
	return nil
}

// checkRanges compares the configured ranges with the motor's.
func (d *Device) checkRanges(m *motor) error {
	for _, r := range []struct {
		register byte
		key      string
		want     float64
	}{{regPMax, "p_max", m.PMax}, {regVMax, "v_max", m.VMax}, {regTMax, "t_max", m.TMax}} {
		bits, err := d.register(m, readRegister, r.register, 0)
		if err != nil {
			return fmt.Errorf("mit: open: read register %d: %w", r.register, err)
		}
		if got := float64(math.Float32frombits(bits)); math.Abs(got-r.want) > 1e-4*r.want {
			return fmt.Errorf("mit: %q (ID %d): %s is %v in the configuration and %v in the motor; set %s to %v",
				m.Name, m.ID, r.key, r.want, got, r.key, got)
		}
	}
	return nil
}

// register reads or writes one register of a DaMiao motor, at most twice.
func (d *Device) register(m *motor, how, number byte, value uint32) (uint32, error) {
	for try := range 2 {
		got, err := d.tryRegister(m, how, number, value)
		if err == nil {
			d.faults.Recovered += uint64(try)
			return got, nil
		}
		d.faults.Count(err)
		if errors.Is(err, hal.ErrBus) || hal.KindOf(err) == nil {
			return 0, err
		}
	}
	return 0, m.errs.timeout
}

func (d *Device) tryRegister(m *motor, how, number byte, value uint32) (uint32, error) {
	d.receiveArrived()
	f := can.Frame{ID: registerID, Len: registerFrame, Data: [8]byte{byte(m.ID), byte(m.ID >> 8), how, number}}
	binary.LittleEndian.PutUint32(f.Data[4:], value)
	deadline := monotonic.After(d.timeout)
	if err := d.bus.Send(&f, deadline); err != nil {
		return 0, err
	}
	head := [4]byte(f.Data[:4])
	for {
		if err := d.bus.Receive(&f, deadline); err != nil {
			return 0, err
		}
		if monotonic.Now() > deadline { // a flooded bus must not hold the thread
			return 0, hal.ErrTimeout
		}
		if f.ID == uint32(m.ReplyID) && f.Len == registerFrame && [4]byte(f.Data[:4]) == head {
			return binary.LittleEndian.Uint32(f.Data[4:]), nil
		}
		d.accept(&f)
	}
}

// isRegister reports whether an answer is about a register, such as a late one or one for another
// program: it must not count as the motor's state. A state has these bytes only in the lowest 0.2 %
// of the range of positions and the lowest third of that of speeds.
func (m *motor) isRegister(f *can.Frame) bool {
	about := f.Data[2] == readRegister || f.Data[2] == writeRegister
	return f.Len == registerFrame && [2]byte(f.Data[:2]) == [2]byte{byte(m.ID), byte(m.ID >> 8)} && about &&
		f.Data[3] <= lastRegister
}

// Halt implements hal.Device. It commands every motor, also after errors, and motors without an
// answer again. With Config.HaltExit the command has no torque, and the motors leave motor
// mode.
func (d *Device) Halt(failsafe []float64) error {
	if !d.config.HaltExit { // receive the newest positions, which hal.Hold needs
		_ = d.await(monotonic.After(d.timeout), nil)
	}
	err := d.setLatest(failsafe, true)
	if d.config.HaltExit {
		return first(err, d.exitAll())
	}
	d.armed = false
	if err != nil {
		return err
	}
	d.active = true
	for i := range d.motors {
		d.motors[i].goal = d.motors[i].latest
	}
	return d.commandAll()
}

// Relax implements hal.Relaxer. It takes every motor out of motor mode, and forgets the goals.
func (d *Device) Relax() error {
	for i := range d.motors {
		d.motors[i].latest = Goal{}
	}
	return d.exitAll()
}

// commandAll sends the goals and waits for the answers.
func (d *Device) commandAll() error {
	d.receiveArrived()
	deadline := monotonic.After(d.timeout)
	err := first(d.command(deadline), d.collect(deadline))
	d.sentAt = 0
	return err
}

// exitAll commands no torque, as exit does, and takes every motor out of motor mode, also after
// errors.
func (d *Device) exitAll() error {
	d.active, d.armed = false, false
	for i := range d.motors {
		d.motors[i].goal = Goal{}
	}
	return first(d.commandAll(), d.leaveMotorMode())
}

func (d *Device) leaveMotorMode() error {
	missing := 0
	for try := range 2 {
		deadline := monotonic.After(d.timeout)
		var lost error
		for i := range d.motors {
			m := &d.motors[i]
			if try > 0 && m.failed == nil {
				continue
			}
			d.frame.Data = specialFrame(Exit)
			if err := d.send(m, deadline); err != nil && lost == nil {
				lost = err
			}
		}
		err := first(lost, d.await(deadline, nil))
		if err != nil && errors.Is(err, hal.ErrBus) {
			return err
		}
		for i := range d.motors {
			d.checkExit(&d.motors[i])
		}
		before := missing
		if missing = d.countFailed(); missing == 0 {
			d.faults.Recovered += uint64(before)
			return nil
		}
	}
	return d.firstFault()
}

// first returns the first error that is not nil. errors.Join would allocate.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
