package main

import (
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/tflite"
)

// errDeviceLost is what TensorFlow says of a GPU that fell off its bus.
var errDeviceLost = errors.New("tensorflow: search: INTERNAL: failed to synchronize the device: CUDA_ERROR_LAUNCH_FAILED")

// losable is a model whose searches run on a device that can be lost. What the
// control thread evaluates is another one, which has no such device.
type losable struct {
	tflite.Model
	lost atomic.Pointer[lostSearch] // nil: it works
}

// lostSearch is a search on what is lost.
type lostSearch func() (best int, score float32, err error)

func (m *losable) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	if lost := m.lost.Load(); lost != nil {
		return (*lost)()
	}
	return m.Model.Search(obs, candidates, belief)
}

func (m *losable) lose(search lostSearch) { m.lost.Store(&search) }

// losing makes searches fail, or without an error give what is no number.
func losing(err error) func(*faultRig) {
	return func(r *faultRig) {
		r.gpu.lose(func() (int, float32, error) { return 0, float32(math.NaN()), err })
	}
}

// planOnLosable lets the host's own planning answer, on a device that can be lost.
func (r *faultRig) planOnLosable(s *session) {
	r.t.Helper()
	network, err := s.model.evaluator(s.file)
	if err != nil {
		r.t.Fatal(err)
	}
	r.gpu = &losable{Model: network}
	if r.planner, err = controller.NewPlanner(s.file.Controller, r.gpu); err != nil {
		r.t.Fatal(err)
	}
	r.answer = &planning{
		link: r.host, planner: r.planner, plan: r.plan, strategy: s.file.Controller.Strategy,
		every: math.MaxUint64 / 2, plans: make(chan flightlog.Plan), snapshots: make(chan flightlog.Snapshot), events: make(chan flightlog.Event, 8),
	}
}

func TestALostGPUIsToldOnceTheBeliefGoesOnAndItsReturnPlansAgain(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	losing(errDeviceLost)(r)
	r.ticks(5 * rigPlanAge)
	if len(r.answer.events) != 1 {
		t.Fatalf("it was told %d times", len(r.answer.events))
	}
	if e := <-r.answer.events; e.Level != flightlog.Error || !strings.Contains(e.Text, errDeviceLost.Error()) {
		t.Errorf("it was told so: %+v", e)
	}
	if r.agent.Cause() != controller.FaultStalePlan || r.last.Index != r.beats-1 {
		t.Errorf("stopped by %v; the newest record is of tick %d of %d", r.agent.Cause(), r.last.Index, r.beats-1)
	}
	if err := r.say(actReset); !errors.Is(err, controller.ErrPresent) {
		t.Errorf("a reset without a planner: %v", err)
	}
	r.heal()
	r.ticks(2)
	if err := errors.Join(r.say(actReset), r.say(actArm)); err != nil {
		t.Fatal(err)
	}
	acts := r.robot.Acts
	r.ticks(10)
	if r.robot.Acts != acts+10 {
		t.Errorf("%d acts in 10 ticks", r.robot.Acts-acts)
	}
}

// loseGPU lets a host search with a device that is lost as soon as now is closed.
func loseGPU(h *host, now <-chan struct{}, search lostSearch) {
	network, _, err := h.session.model.searcher(h.session.file, 1)
	if err != nil {
		panic(err)
	}
	gpu := &losable{Model: network}
	if h.planning.planner, err = controller.NewPlanner(h.session.file.Controller, gpu); err != nil {
		panic(err)
	}
	go func() {
		<-now
		gpu.lose(search)
	}()
}

// TestALostGPUHaltsTheRobotOfARealRunWhoseLogIsFinished loses the device in the
// host process, by an error of every search and by one that never returns, and
// the run ends in order nevertheless.
func TestALostGPUHaltsTheRobotOfARealRunWhoseLogIsFinished(t *testing.T) {
	for _, spoil := range []string{"GPU fails", "GPU hangs"} {
		t.Run(spoil, func(t *testing.T) {
			r := runAttended(t, spoil, "controller.max_plan_age_ticks=25")
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
				t.Errorf("it acted %d times", n)
			}
			if err := r.end(); err != nil {
				t.Errorf("%v:\n%s", err, r.output)
			}
			told := map[string]string{"GPU fails": errDeviceLost.Error(), "GPU hangs": errSearchLeft.Error()}[spoil]
			if !strings.Contains(r.output.String(), told) {
				t.Errorf("nobody was told %q:\n%s", told, r.output)
			}
			checkStopIsLogged(t, r, controller.FaultStalePlan, stop.Found)
			if cut := onlyLog(t, r.cmd).Cut(); cut != nil {
				t.Errorf("the log was not finished: %+v", cut)
			}
		})
	}
}
