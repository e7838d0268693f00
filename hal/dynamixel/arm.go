package dynamixel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Arm implements hal.Device. It reopens a lost port and refuses servos with a hardware error or
// outside of their limits. It sets the watchdog. Position servos get their present positions as
// goals, other servos the goals of the latest Write. Then Arm switches the torque on and reads all
// of that back. If a step after reopening fails, it switches the torque off.
func (d *Device) Arm() error {
	if err := d.bus.Recover(); err != nil {
		return fmt.Errorf("dynamixel: arm: %w", err)
	}
	d.disarm()
	if err := d.arm(); err != nil {
		_ = d.bus.WriteAll(regTorqueEnable, 0)
		_ = d.bus.WriteAll(regWatchdog, 0)
		return fmt.Errorf("dynamixel: arm: %w", err)
	}
	d.armed, d.active = true, true
	d.bus.WatchSilence(d.Deadman())
	return nil
}

// disarm clears the armed state of the driver. It sends nothing.
func (d *Device) disarm() {
	d.armed, d.readAt = false, 0
	for i := range d.servos {
		d.servos[i].jumped = false
	}
	d.bus.WatchSilence(0)
}

func (d *Device) arm() error {
	if _, err := d.bus.SyncRead(regHardwareError, 1); err != nil {
		return err
	}
	for i := range d.servos {
		if status := d.bus.Data(i)[0]; status != 0 {
			d.bus.Faults.Device++
			return fmt.Errorf("%w: hardware error %#02x", d.servos[i].errAlert, status)
		}
	}
	if err := d.holdPositions(); err != nil {
		return err
	}
	// Writing 0 clears a tripped watchdog, which makes the goals writable again.
	clearErr := d.bus.WriteAll(regWatchdog, 0)
	goalErr := d.writeGoals(true, d.bus.Deadline())
	if err := errors.Join(clearErr, goalErr, d.bus.WriteAll(regWatchdog, d.watchdog)); err != nil {
		return err
	}
	if _, err := d.bus.SyncRead(regWatchdog, goalsSize); err != nil {
		return err
	}
	err := d.bus.Verify(func(i int, data []byte) bool { return d.servos[i].holdsGoal(data, d.watchdog) })
	if err != nil {
		return err
	}
	if err := d.bus.WriteAll(regTorqueEnable, 1); err != nil {
		return err
	}
	if _, err := d.bus.SyncRead(regTorqueEnable, 1); err != nil {
		return err
	}
	return d.bus.Verify(func(_ int, data []byte) bool { return data[0] == 1 })
}

// holdPositions makes the present positions the goals of the servos in a position mode.
func (d *Device) holdPositions() error {
	if _, err := d.bus.SyncRead(regPresent, presentSize); err != nil {
		return err
	}
	for i := range d.servos {
		s := &d.servos[i]
		if s.mode.goal != regGoalPosition {
			continue
		}
		s.held, s.lost = false, false
		if s.goal = position(d.bus.Data(i)); s.goal < s.low || s.goal > s.high {
			return d.bus.Outside(i, radians(s.goal), radians(s.low), radians(s.high))
		}
	}
	return nil
}

// Relax implements hal.Relaxer. It switches the torque off, reads that back, and forgets the goals.
// Until Arm, Write sends nothing.
func (d *Device) Relax() error {
	d.disarm()
	d.active = false
	for i := range d.servos {
		d.servos[i].goal, d.servos[i].held, d.servos[i].lost = 0, false, false
	}
	return d.bus.TryTwice(d.relaxOnce)
}

func (d *Device) relaxOnce() error {
	if err := d.bus.WriteAll(regTorqueEnable, 0); err != nil {
		return err
	}
	return d.verifyOff()
}

// verifyOff reads back that no servo has torque.
func (d *Device) verifyOff() error {
	if err := d.bus.SyncReadOnce(regTorqueEnable, 1); err != nil {
		return err
	}
	return d.bus.Verify(func(_ int, data []byte) bool { return data[0] == 0 })
}

// Halt implements hal.Device. It opens a lost port again. Servos that their watchdog has stopped
// refuse goals: it clears their watchdog, writes the goals and sets the watchdog again. It returns
// the error of the first servo that does not confirm; all others have been commanded, twice.
func (d *Device) Halt(failsafe []float64) error {
	armed := d.armed
	d.disarm()
	d.active = true
	if err := d.bus.Recover(); err != nil {
		return err
	}
	goalErr := d.setHaltGoals(failsafe, armed) // after an error the torque can still be switched off
	if err := d.bus.TryTwice(func() error { return d.haltOnce(goalErr == nil) }); err != nil {
		return err
	}
	return goalErr
}

// setHaltGoals is setGoals for Halt. A servo that answers nothing keeps the goal of an armed robot;
// without one it receives none.
func (d *Device) setHaltGoals(failsafe []float64, armed bool) error {
	holds := false
	for i, v := range failsafe {
		s := &d.servos[i]
		if math.IsInf(v, 0) || math.IsNaN(v) && s.mode.goal != regGoalPosition {
			return d.bus.ErrNotFinite
		}
		holds = holds || math.IsNaN(v) && !s.held
	}
	if holds {
		_ = d.bus.SyncReadOnce(regPresent, presentSize) // an error shows in Answered, and in the Halt that follows
	}
	for i, v := range failsafe {
		s := &d.servos[i]
		switch {
		case !math.IsNaN(v):
			s.setGoal(v)
		case s.held:
		case d.bus.Answered(i):
			s.goal = min(max(position(d.bus.Data(i)), s.low), s.high)
			s.held, s.lost = true, false
		case !armed:
			s.lost = true
		}
	}
	return nil
}

func (d *Device) haltOnce(withGoals bool) error {
	var err error
	if withGoals {
		err = d.writeGoals(true, d.bus.Deadline())
	}
	if d.config.HaltTorqueOff {
		err = d.bus.WriteAll(regTorqueEnable, 0)
	}
	if err != nil {
		return err
	}
	if d.config.HaltTorqueOff {
		return d.verifyOff()
	}
	readErr := d.bus.SyncReadOnce(regWatchdog, goalsSize)
	if withGoals { // else a servo would continue to its old goal
		if err := d.wake(); err != nil {
			return err
		}
	}
	if readErr != nil {
		return readErr
	}
	return d.bus.Verify(func(i int, data []byte) bool { return d.servos[i].holdsGoal(data, 0) })
}

// wake gives the servos that their watchdog has stopped, according to the latest read of
// regWatchdog, their goals and their watchdog. The next try of Halt verifies that.
func (d *Device) wake() error {
	deadline := d.bus.Deadline()
	if n, err := d.writeTripped(0, deadline); n == 0 || err != nil {
		return err
	}
	goalErr := d.writeGoals(true, deadline)
	if _, err := d.writeTripped(d.watchdog, deadline); err != nil { // also after an error: it is the deadman
		return err
	}
	return goalErr
}

// writeTripped writes the watchdog of the servos that it has stopped, and returns their number.
func (d *Device) writeTripped(watchdog byte, deadline int64) (n int, err error) {
	p := d.data[:0]
	for i := range d.servos {
		if d.bus.Answered(i) && d.bus.Data(i)[0] == watchdogTripped {
			p = append(p, d.servos[i].id, watchdog)
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, d.bus.SyncWrite(regWatchdog, 1, p, deadline)
}

// holdsGoal compares the block of watchdog and goals with the written one. A watchdog of 0 stands
// for any that has not tripped.
func (s *servo) holdsGoal(data []byte, watchdog byte) bool {
	if data[0] == watchdogTripped || (watchdog != 0 && data[0] != watchdog) {
		return false
	}
	if s.lost {
		return true
	}
	goal := data[s.mode.goal-regWatchdog:]
	if s.mode.size == 2 {
		return int16(binary.LittleEndian.Uint16(goal)) == int16(s.goal)
	}
	return int32(binary.LittleEndian.Uint32(goal)) == s.goal
}
