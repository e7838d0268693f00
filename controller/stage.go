package controller

import "fmt"

// Stage is what the control thread is doing. Other threads and processes read it to
// report where a tick hangs, so its numbers are part of LayoutVersion.
type Stage uint64

// The stages. Those of the robot are calls of its driver.
const (
	StageBetweenTicks Stage = iota
	StageReset              // the simulator's, at the start of an episode
	StageSense
	StageFeatures // of the model
	StageLabels
	StagePlan // exchange of state and plan with the planner
	StagePolicy
	StageAct
	StageArm
	StageDisarm
	StageHalt
	StageRecord
	numStages
)

var stageNames = [numStages]string{
	"between two ticks", "Reset", "Sense", "the model's features", "the labels", "the exchange with the planner",
	"the model's policy", "Act", "Arm", "Disarm", "Halt", "the record of the tick",
}

// String names the stage, by the driver's method where it is one.
func (s Stage) String() string {
	if s < numStages {
		return stageNames[s]
	}
	return fmt.Sprintf("Stage(%d)", uint64(s))
}

// OfRobot reports whether the stage is a call of the robot's driver.
func (s Stage) OfRobot() bool {
	switch s {
	case StageReset, StageSense, StageAct, StageArm, StageDisarm, StageHalt:
		return true
	}
	return false
}
