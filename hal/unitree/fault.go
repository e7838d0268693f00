package unitree

import (
	"fmt"

	"optibfm/hal"
)

// Fault is why a writer damps the motors, or does not begin to command them.
type Fault uint32

// The faults that a writer finds.
const (
	FaultNone        Fault = iota
	FaultSilent            // the control process is silent for the deadman's time
	FaultEnded             // the control process has ended
	FaultNoState           // no state arrives
	FaultChecksum          // states arrive with wrong checksums
	FaultFrozen            // states arrive whose tick does not advance
	FaultValues            // states have values that are not finite, or that no robot has
	FaultModeMachine       // another variant of the robot
	FaultMotor             // a motor is missing, lost or reports a fault
	FaultForeign           // another writer of rt/lowcmd
	FaultNoReader          // nothing reads rt/lowcmd
	FaultWrite             // the library cannot write
	FaultGoal              // an impossible goal
	FaultTakeover          // the standby writer damps
	FaultStandby           // the standby writer died or is silent
	FaultRead              // the library cannot read
	FaultNotReady          // the standby writer has not found the robot yet
	FaultTwoRobots         // two publishers of rt/lowstate
	FaultStandbyLate       // the standby writer is silent for a moment
	faultCount
)

// errorsOf are allocated in advance: an error in a tick allocates nothing.
var errorsOf = [faultCount]error{
	FaultSilent: fmt.Errorf("unitree: the writer damped the motors: %w: the control process was silent for deadman_ms",
		hal.ErrDevice),
	FaultEnded: fmt.Errorf("unitree: the writer damped the motors: %w: the control process ended", hal.ErrDevice),
	FaultNoState: fmt.Errorf("unitree: %w: the robot sends no state (rt/lowstate); check cable, interface and model, "+
		"and see `optibfm doctor`", hal.ErrTimeout),
	FaultChecksum: fmt.Errorf("unitree: %w: the robot's states have wrong checksums; check unitree.model "+
		"(a simulator: simulator_quirks)", hal.ErrChecksum),
	FaultFrozen: fmt.Errorf("unitree: %w: the tick of the robot's states stands still; restart the robot "+
		"(a simulator: simulator_quirks)", hal.ErrStale),
	FaultValues: fmt.Errorf("unitree: %w: the robot's states have values that are not finite or impossible; "+
		"restart the robot", hal.ErrDevice),
	FaultModeMachine: fmt.Errorf("unitree: %w: mode_machine is not that of the configuration, or changed; "+
		"check model and unitree.mode_machine", hal.ErrProtocol),
	FaultForeign: fmt.Errorf("unitree: %w: another program writes rt/lowcmd; end it, release the robot's controller "+
		"(optibfm-unitree release), and see unitree.other_writers", hal.ErrProtocol),
	FaultNoReader: fmt.Errorf("unitree: %w: nothing reads rt/lowcmd; check unitree.model, and that the robot has started",
		hal.ErrProtocol),
	FaultWrite: fmt.Errorf("unitree: %w: the writer cannot send commands", hal.ErrBus),
	FaultGoal:  fmt.Errorf("unitree: %w: the writer got an impossible goal", hal.ErrProtocol),
	FaultTakeover: fmt.Errorf("unitree: %w: the writer died or hung, and the standby writer damps; start again",
		hal.ErrDevice),
	FaultStandby: fmt.Errorf("unitree: %w: the standby writer died or hung; start again", hal.ErrDevice),
	FaultRead:    fmt.Errorf("unitree: %w: the writer cannot read states or commands", hal.ErrBus),
	FaultNotReady: fmt.Errorf("unitree: %w: the standby writer has not found the robot yet; arm again",
		hal.ErrTimeout),
	FaultStandbyLate: fmt.Errorf("unitree: %w: the standby writer is late (standby_ms): the computer is too busy, or its "+
		"clock stopped; arm again, and end other programs", hal.ErrTimeout),
	FaultTwoRobots: fmt.Errorf("unitree: %w: two robots, or programs, send rt/lowstate on this interface; "+
		"give each robot another network: both obey these commands", hal.ErrProtocol),
}

// FaultError returns the error of a fault, nil for none. That of FaultMotor does not name the
// motor.
func FaultError(f Fault) error {
	if f == FaultMotor {
		return errMotor
	}
	return newFaults(nil).of(f, 0)
}

var errMotor = fmt.Errorf("unitree: %w: a motor loses packets or reports a fault", hal.ErrDevice)

// faults makes errors from what a writer reports.
type faults struct {
	motor [MaxJoints]error
	other error
}

func newFaults(joints []Joint) *faults {
	f := &faults{other: fmt.Errorf("unitree: %w: the writer reports an unknown fault", hal.ErrProtocol)}
	for i, j := range joints {
		f.motor[i] = fmt.Errorf("unitree: %w: motor %s is missing, loses packets or reports a fault; check its cable, "+
			"and that the robot has this joint", hal.ErrDevice, j.Name)
	}
	return f
}

// of returns the error of a fault, nil for none. It trusts no number of the other process.
func (f *faults) of(fault Fault, detail uint32) error {
	switch {
	case fault == FaultNone:
		return nil
	case fault == FaultMotor && detail < MaxJoints && f.motor[detail] != nil:
		return f.motor[detail]
	case fault < faultCount && errorsOf[fault] != nil:
		return errorsOf[fault]
	}
	return f.other
}
