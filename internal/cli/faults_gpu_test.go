package cli

import (
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/host"
	"optibfm/internal/rigtest"
)

// loseGPU gives a host a search device that is lost when now is closed.
func loseGPU(h *host.Process, now <-chan struct{}, search rigtest.SearchFunc) {
	network, _, err := h.Session.Model.Searcher(h.Session.File, 1)
	if err != nil {
		panic(err)
	}
	gpu := &rigtest.FaultyModel{Model: network}
	if h.Planner.Planner, err = controller.NewPlanner(h.Session.File.Controller, gpu); err != nil {
		panic(err)
	}
	go func() {
		<-now
		gpu.SetSearch(search)
	}()
}

// TestRun_HaltsOnALostGPUAndClosesItsLog loses the device of the host process: its
// searches fail or do not return.
func TestRun_HaltsOnALostGPUAndClosesItsLog(t *testing.T) {
	for spoil, want := range map[string]string{
		"GPU fails": rigtest.ErrDeviceLost.Error(), "GPU hangs": host.ErrSearchLeft.Error(),
	} {
		t.Run(spoil, func(t *testing.T) {
			r := runAttended(t, spoil, "controller.strategy=ucb", "controller.max_plan_age_ticks=25")
			r.arm()
			lost := time.Now()
			r.spoilNow()
			t.Logf("halted after %v, z may be 0.5 s old", r.robot.waitHalted(t, lost))
			stop := r.awaitStop()
			if stop.Cause != controller.FaultStalePlan.String() {
				t.Errorf("the cause is %q", stop.Cause)
			}
			acts := r.robot.acts.Load()
			for _, word := range []string{"reset", "arm"} {
				if c, err := r.say(word); err != nil || c.Error == "" || c.State != "stopped" {
					t.Errorf("%s without a planner: %+v, %v", word, c, err)
				}
			}
			if n := r.robot.acts.Load() - acts; n != 0 {
				t.Errorf("the robot acted %d times", n)
			}
			errtest.Nil(t, r.End(), r.output)
			rigtest.Contains(t, r.output.String(), want)
			checkStopIsLogged(t, r, controller.FaultStalePlan, stop.Found)
			checkClosed(t, r.cmd)
		})
	}
}
