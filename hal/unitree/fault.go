package unitree

import (
	"fmt"

	"optibfm/hal"
)

// Fault is a reason to damp the motors, or not to begin to command them.
type Fault uint32

// The faults that a writer finds.
const (
	FaultNone        Fault = iota
	FaultSilent            // the control process is silent for deadman_ms
	FaultEnded             // the control process has ended
	FaultNoState           // no state arrives
	FaultChecksum          // states arrive with wrong checksums
	FaultFrozen            // states arrive whose tick does not advance
	FaultValues            // states have values that are not finite, or that no robot has
	FaultModeMachine       // another variant of the robot
	FaultMotor             // a motor is missing, loses packets or reports a fault
	FaultForeign           // another writer of rt/lowcmd
	FaultNoReader          // nothing reads rt/lowcmd
	FaultWrite             // the library cannot write
	FaultGoal              // an impossible goal, or a command that is not finite
	FaultTakeover          // the standby writer damps: the writer died, hung or failed
	FaultStandby           // the standby writer died, or is silent for standby_late_ms
	FaultRead              // the library cannot read
	FaultNotReady          // the standby writer has not found the robot yet
	FaultTwoRobots         // two publishers of rt/lowstate
	FaultStandbyLate       // the standby writer is silent for standby_ms: refuses arming
	faultCount
)

// kindError is an error of a kind, such as hal.ErrTimeout, for errors.Is. The kind's own text would
// repeat or contradict the cause.
type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// faultErrors holds the error of each fault. They are allocated once: a tick allocates nothing.
var faultErrors = [faultCount]error{
	FaultSilent: &kindError{"unitree: the writer damped the motors: the control process was silent for deadman_ms; " +
		"end other programs, or raise robot.unitree.deadman_ms", hal.ErrDevice},
	FaultEnded: &kindError{"unitree: the writer damped the motors: the control process ended", hal.ErrDevice},
	FaultNoState: &kindError{"unitree: the robot sends no state (rt/lowstate); check the cable, " +
		"robot.unitree.interface and robot.unitree.model, or run `optibfm doctor`", hal.ErrTimeout},
	FaultChecksum: &kindError{"unitree: the robot's states have wrong checksums; check robot.unitree.model, " +
		"or set robot.unitree.simulator_quirks for unitree_mujoco", hal.ErrChecksum},
	FaultFrozen: &kindError{"unitree: the tick of the robot's states stands still; restart the robot", hal.ErrStale},
	FaultValues: &kindError{"unitree: the robot's states have impossible values (not finite or out of range); " +
		"restart the robot", hal.ErrDevice},
	FaultModeMachine: &kindError{"unitree: mode_machine is not that of robot.unitree.mode_machine, or it changed; " +
		"check robot.unitree.model and robot.unitree.mode_machine", hal.ErrProtocol},
	FaultForeign: &kindError{"unitree: another program writes rt/lowcmd; end it (`optibfm doctor` tells how to " +
		"release the robot's own controller), or set robot.unitree.other_writers", hal.ErrProtocol},
	FaultNoReader: &kindError{"unitree: nothing reads rt/lowcmd; start the robot, or check robot.unitree.model",
		hal.ErrProtocol},
	FaultWrite: &kindError{"unitree: the writer cannot send commands", hal.ErrBus},
	FaultGoal:  &kindError{"unitree: the writer got an impossible goal", hal.ErrProtocol},
	FaultTakeover: &kindError{"unitree: the writer died, hung or failed, and the standby writer damps the motors; " +
		"restart optibfm", hal.ErrDevice},
	FaultStandby:  &kindError{"unitree: the standby writer died or hung; restart optibfm", hal.ErrDevice},
	FaultRead:     &kindError{"unitree: the writer cannot read states or commands", hal.ErrBus},
	FaultNotReady: &kindError{"unitree: the standby writer has not found the robot yet; arm again", hal.ErrTimeout},
	FaultStandbyLate: &kindError{"unitree: the standby writer was silent for standby_ms: the computer is too busy, " +
		"or was suspended; end other programs, then arm again", hal.ErrTimeout},
	FaultTwoRobots: &kindError{"unitree: two robots or programs send rt/lowstate on this interface, and " +
		"both robots obey these commands; give each robot its own network", hal.ErrProtocol},
}

// FaultError returns the error of a fault, nil for FaultNone. The error of FaultMotor does not name
// the motor.
func FaultError(f Fault) error {
	if f == FaultMotor {
		return errMotor
	}
	return newFaults(nil).errorOf(f, 0)
}

var errMotor = &kindError{"unitree: a motor is missing, loses packets or reports a fault; check its cable",
	hal.ErrDevice}

// faults converts the fault in a report to an error.
type faults struct {
	motor [MaxJoints]error
	other error
}

func newFaults(joints []Joint) *faults {
	f := &faults{other: &kindError{"unitree: the writer reports an unknown fault; install optibfm and " +
		"optibfm-unitree of one version", hal.ErrProtocol}}
	for i, j := range joints {
		f.motor[i] = &kindError{fmt.Sprintf("unitree: motor %s is missing, loses packets or reports a fault; "+
			"check its cable, and that the robot has this joint", j.Name), hal.ErrDevice}
	}
	return f
}

// errorOf returns the error of a fault, nil for FaultNone. The writer may be defective: both
// numbers may be invalid.
func (f *faults) errorOf(fault Fault, detail uint32) error {
	switch {
	case fault == FaultNone:
		return nil
	case fault == FaultMotor && detail < MaxJoints && f.motor[detail] != nil:
		return f.motor[detail]
	case fault < faultCount && faultErrors[fault] != nil:
		return faultErrors[fault]
	}
	return f.other
}
