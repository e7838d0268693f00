package dynamixel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"optibfm/hal"
)

// Arm implements hal.Device: it opens a lost port again, refuses servos with a
// hardware error, sets the watchdog, sends the goals of the last Write (before
// any: the present positions, and 0 in the other modes), switches the torque on,
// and reads all of that back. Where it fails, it leaves the torque off.
func (d *Device) Arm() error {
	if d.bus.Port.Lost() {
		if err := d.bus.Port.Reopen(); err != nil {
			d.bus.Faults.Count(err)
			return fmt.Errorf("dynamixel: arm: %w", err)
		}
	}
	d.disarm()
	if err := d.arm(); err != nil {
		_ = d.bus.SetAll(regTorqueEnable, 0)
		_ = d.bus.SetAll(regWatchdog, 0)
		return fmt.Errorf("dynamixel: arm: %w", err)
	}
	d.armed = true
	d.bus.Guard(d.Deadman())
	return nil
}

// disarm forgets that the servos are armed; it tells them nothing.
func (d *Device) disarm() {
	d.armed = false
	d.bus.Guard(0)
}

func (d *Device) arm() error {
	if _, err := d.bus.Gather(regHardwareError, 1); err != nil {
		return err
	}
	for i := range d.servos {
		if status := d.bus.Answer(i)[0]; status != 0 {
			d.bus.Faults.Device++
			return fmt.Errorf("%w: hardware error %#02x", d.servos[i].errAlert, status)
		}
	}
	if err := d.firstGoals(); err != nil {
		return err
	}
	// 0 ends a trip, which makes the goals writable again.
	if err := errors.Join(d.bus.SetAll(regWatchdog, 0), d.sendGoals(), d.bus.SetAll(regWatchdog, d.watchdog)); err != nil {
		return err
	}
	if _, err := d.bus.Gather(regWatchdog, goalsSize); err != nil {
		return err
	}
	if err := d.confirm(goalHeld, d.watchdog); err != nil {
		return err
	}
	if err := d.bus.SetAll(regTorqueEnable, 1); err != nil {
		return err
	}
	if _, err := d.bus.Gather(regTorqueEnable, 1); err != nil {
		return err
	}
	return d.confirm(firstByteIs, 1)
}

// firstGoals keeps the robot where it is when nobody has said otherwise.
func (d *Device) firstGoals() error {
	if d.goals {
		return nil
	}
	if _, err := d.bus.Gather(regPresent, presentSize); err != nil {
		return err
	}
	for i := range d.servos {
		s := &d.servos[i]
		s.goal = 0
		if s.mode.goal == regGoalPosition {
			s.goal = min(max(int32(binary.LittleEndian.Uint32(d.bus.Answer(i)[6:])), s.low), s.high)
		}
	}
	d.goals = true
	return nil
}

// Halt implements hal.Device. It returns the first servo's error that does not
// confirm; every other one has still been commanded, twice.
func (d *Device) Halt(failsafe []float64) error {
	d.disarm()
	err := d.setGoals(failsafe)
	if err != nil {
		failsafe = nil // the torque can still be switched off
	}
	for try := range 2 {
		problem := d.tryToHalt(failsafe != nil)
		if problem == nil {
			d.bus.Faults.Mended += uint64(try)
			return err
		}
		if try == 1 {
			return problem
		}
	}
	return err
}

func (d *Device) tryToHalt(goals bool) error {
	var err error
	if goals {
		err = d.sendGoals()
	}
	check, register, size := goalHeld, regWatchdog, goalsSize
	if d.config.HaltTorqueOff {
		err = d.bus.SetAll(regTorqueEnable, 0)
		check, register, size = firstByteIs, regTorqueEnable, 1
	}
	if err != nil {
		return err
	}
	if err := d.bus.GatherOnce(register, size); err != nil {
		return err
	}
	return d.confirm(check, 0)
}

// confirm compares what the servos hold with what was written.
func (d *Device) confirm(holds func(s *servo, answer []byte, value byte) bool, value byte) error {
	for i := range d.servos {
		if !holds(&d.servos[i], d.bus.Answer(i), value) {
			return d.bus.Fail(i, hal.ErrDevice)
		}
	}
	return nil
}

func firstByteIs(_ *servo, answer []byte, value byte) bool { return answer[0] == value }

// goalHeld looks at the block of watchdog and goals. A watchdog of 0 to compare
// with means any that has not tripped.
func goalHeld(s *servo, answer []byte, watchdog byte) bool {
	if answer[0] == watchdogTripped || (watchdog != 0 && answer[0] != watchdog) {
		return false
	}
	held := answer[s.mode.goal-regWatchdog:]
	if s.mode.size == 2 {
		return int16(binary.LittleEndian.Uint16(held)) == int16(s.goal)
	}
	return int32(binary.LittleEndian.Uint32(held)) == s.goal
}

// Reboot restarts a servo, which clears a hardware error and switches its torque
// off. It is an operator's act, and not for a tick; the servo needs about half a
// second before it answers again.
func (d *Device) Reboot(name string) error {
	for i := range d.servos {
		s := &d.servos[i]
		if s.Name != name {
			continue
		}
		d.disarm()
		if _, err := d.bus.Ask(s.id, AppendPacket(nil, Packet{ID: s.id, Instruction: RebootNow}), 0); err != nil {
			d.bus.Faults.Count(err)
			return fmt.Errorf("dynamixel: reboot %q (ID %d): %w", s.Name, s.ID, err)
		}
		return nil
	}
	return fmt.Errorf("dynamixel: reboot: no servo has this name (%q): give one of the configuration", name)
}
