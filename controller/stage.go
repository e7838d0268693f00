package controller

import "fmt"

// Stage is the present step of the control thread. Other threads read it to report where a tick
// hangs.
type Stage uint64

// The stages. OfRobot is true for those that call the robot's driver.
const (
	StageBetweenTicks Stage = iota
	StageReset              // of a simulator, at the start of an episode
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

// String returns the name of the stage: for a call of the driver, its method.
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
