package controller

import (
	"slices"
	"testing"

	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
)

// stagedRobot notes the agent's stage in each call of the driver.
type stagedRobot struct {
	*haltest.Robot
	agent **Agent
	found []Stage
}

func (s *stagedRobot) note() { s.found = append(s.found, Stage((*s.agent).stage.Load())) }

func (s *stagedRobot) Sense(obs []float32) (int64, error) { s.note(); return s.Robot.Sense(obs) }
func (s *stagedRobot) Act(a []float32) error              { s.note(); return s.Robot.Act(a) }
func (s *stagedRobot) Arm() error                         { s.note(); return s.Robot.Arm() }
func (s *stagedRobot) Halt() error                        { s.note(); return s.Robot.Halt() }
func (s *stagedRobot) Disarm() error                      { s.note(); return nil }

func TestAgent_StageNamesTheCallInProgress(t *testing.T) {
	r := newRig(t, nil)
	robot := &stagedRobot{Robot: r.robot.Robot, agent: &r.agent}
	r.model.phi = func(dst []float64, obs []float32) error {
		robot.note()
		return newStub(rigObs, rigAction, rigLatent).Phi(dst, obs)
	}
	r.model.act = func(dst, _ []float32, _ []float64) error { robot.note(); clear(dst); return nil }
	r.build(robot)
	r.arm()
	r.steps(1)
	fatal.If(t, r.agent.Disarm())
	fatal.If(t, r.agent.Halt(FaultNone))
	want := []Stage{StageArm, StageSense, StageFeatures, StagePolicy, StageAct, StageDisarm, StageHalt}
	if !slices.Equal(robot.found, want) {
		t.Errorf("the stages were %v, want %v", robot.found, want)
	}
}
