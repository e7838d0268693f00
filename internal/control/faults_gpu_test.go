package control

import (
	"errors"
	"math"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/host"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

// losing makes searches fail, or without an error give what is no number.
func losing(err error) func(*faultRig) {
	return func(r *faultRig) {
		r.gpu.SetSearch(func() (int, float32, error) { return 0, float32(math.NaN()), err })
	}
}

// planOnLosable lets the host's own planning answer, on a device that can be lost.
func (r *faultRig) planOnLosable(s *setup.Session) {
	r.t.Helper()
	network, err := s.Model.Evaluator(s.File)
	if err != nil {
		r.t.Fatal(err)
	}
	r.gpu = &rigtest.FaultyModel{Model: network}
	if r.planner, err = controller.NewPlanner(s.File.Controller, r.gpu); err != nil {
		r.t.Fatal(err)
	}
	r.answer = &host.Planner{
		Link: r.host, Planner: r.planner, Plan: r.plan, Strategy: s.File.Controller.Strategy,
		Every: math.MaxUint64 / 2, Plans: make(chan flightlog.Plan), Snapshots: make(chan flightlog.Snapshot), Events: make(chan flightlog.Event, 8),
	}
}

func TestALostGPUIsToldOnceTheBeliefGoesOnAndItsReturnPlansAgain(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	losing(rigtest.ErrDeviceLost)(r)
	r.ticks(5 * rigPlanAge)
	if len(r.answer.Events) != 1 {
		t.Fatalf("it was told %d times", len(r.answer.Events))
	}
	if e := <-r.answer.Events; e.Level != flightlog.Error || !strings.Contains(e.Text, rigtest.ErrDeviceLost.Error()) {
		t.Errorf("it was told so: %+v", e)
	}
	if r.agent.Cause() != controller.FaultStalePlan || r.last.Index != r.beats-1 {
		t.Errorf("stopped by %v; the newest record is of tick %d of %d", r.agent.Cause(), r.last.Index, r.beats-1)
	}
	if err := r.say(commandReset); !errors.Is(err, controller.ErrPresent) {
		t.Errorf("a reset without a planner: %v", err)
	}
	r.heal()
	r.ticks(2)
	if err := errors.Join(r.say(commandReset), r.say(commandArm)); err != nil {
		t.Fatal(err)
	}
	acts := r.robot.Acts
	r.ticks(10)
	if r.robot.Acts != acts+10 {
		t.Errorf("%d acts in 10 ticks", r.robot.Acts-acts)
	}
}
