package control

import (
	"math"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
)

// newWaiting returns a moving rover whose host is silent after 10 periods and that waits for 20.
func newWaiting(t *testing.T, change func(*configs.File)) *testRun {
	t.Helper()
	r := newRun(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Run.HostTimeoutS, f.Run.SimulatorWaitS, f.Run.EpisodeS = 0.5, 1, 0
		if change != nil {
			change(f)
		}
	}), nil)
	r.ticks(5)
	if !r.agent.Armed() {
		t.Fatal("the robot was not armed")
	}
	return r
}

// publishPlan is a beat of the host with a plan for the newest state.
func (r *testRun) publishPlan() {
	r.t.Helper()
	r.host.HostBeat.Add(1)
	state, fresh, err := r.host.NewestState()
	if err == nil && fresh {
		_, err = r.planner.Plan(state, r.plan)
	}
	fatal.If(r.t, err)
	fatal.If(r.t, r.host.Publish(r.plan))
}

// slowHosts are the ways in which a host keeps the robot waiting.
var slowHosts = map[string]struct {
	limit  int // periods until the wait
	change func(*configs.File)
	beat   func(*testRun)
	want   controller.Fault // after the wait
}{
	"silent": {10, nil, func(*testRun) {}, controller.FaultHost},
	"planless": {5, func(f *configs.File) { f.Controller.MaxPlanAge = 5 }, func(r *testRun) {
		r.host.HostBeat.Add(1)
	}, controller.FaultStalePlan},
}

const waitPeriods = 20

func TestSimulator_WaitsForASlowHost(t *testing.T) {
	for name, c := range slowHosts {
		t.Run(name, func(t *testing.T) {
			r := newWaiting(t, c.change)
			beats := func(n int) {
				for range n {
					c.beat(r)
					fatal.If(t, r.silentBeat())
				}
			}
			newest := func() controller.Tick {
				last := *controller.NewTick(r.agent.Shape())
				r.takeRecords(&last)
				return last
			}
			beats(c.limit)
			before := newest()
			beats(waitPeriods - 1)
			if tick := newest(); tick.Index != 0 {
				t.Errorf("tick %d ran while the robot waited", tick.Index)
			}
			if got := r.host.Waited.Load(); got != waitPeriods-1 {
				t.Errorf("it waited for %d periods, want %d", got, waitPeriods-1)
			}
			for i := range uint64(4) { // the host recovers
				r.publishPlan()
				fatal.If(t, r.silentBeat())
				if tick := newest(); tick.Index != before.Index+i+1 || tick.Elapsed != 1 {
					t.Errorf("tick %d after %d periods follows tick %d", tick.Index, tick.Elapsed, before.Index+i)
				}
			}
			if !r.agent.Armed() {
				t.Error("not armed after the wait")
			}
		})
	}
}

func TestSimulator_StopsAfterTheWait(t *testing.T) {
	for name, c := range slowHosts {
		for _, wait := range []int{waitPeriods, 0} {
			r := newWaiting(t, func(f *configs.File) {
				if c.change != nil {
					c.change(f)
				}
				f.Run.SimulatorWaitS *= float64(wait) / waitPeriods
			})
			periods := c.limit + wait + 1
			for i := range periods {
				c.beat(r)
				err := r.silentBeat()
				if last := i == periods-1; (err != nil) != last {
					t.Fatalf("%s: period %d of %d: %v", name, i+1, periods, err)
				}
				if err != nil {
					wantFault(t, err, c.want)
				}
			}
		}
	}
}

func TestSimulator_StopsDuringTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*testRun)
		want controller.Fault
	}{
		"dead host":        {func(r *testRun) { r.hostGone.Store(true) }, controller.FaultHost},
		"stop command":     {func(r *testRun) { r.mailbox.stopRequested.Store(true) }, controller.FaultOperator},
		"stop at the host": {func(r *testRun) { r.host.Stop.Store(ipc.StopRobot) }, controller.FaultOperator},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWaiting(t, nil)
			for range 15 {
				fatal.If(t, r.silentBeat())
			}
			if r.waitedNow == 0 {
				t.Fatal("it does not wait")
			}
			c.stop(r)
			wantFault(t, r.silentBeat(), c.want)
		})
	}
}

func TestSimulatorWait_HasLimitsAndIsOnlyForSimulators(t *testing.T) {
	f := configs.Default()
	for _, s := range []float64{-1, 3601, math.NaN()} {
		f.Run.SimulatorWaitS = s
		errtest.NotNil(t, f.Validate(), s, " s are accepted")
	}
	if r := newFaultRun(t, configs.AfterStopEnd); r.simulatorWait != 0 {
		t.Errorf("a robot that is not a simulator waits for %d periods", r.simulatorWait)
	}
}
