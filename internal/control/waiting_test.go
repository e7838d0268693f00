package control

import (
	"math"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/internal/link"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// newWaiting is a rover at work whose host is silent after half a second and whose
// simulator waits for a second.
func newWaiting(t *testing.T, change func(*configs.File)) *twoEnds {
	t.Helper()
	e := newTwoEnds(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Run.HostTimeoutS, f.Run.SimulatorWaitS, f.Run.EpisodeS = 0.5, 1, 0
		if change != nil {
			change(f)
		}
	}))
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if !e.agent.Armed() {
		t.Fatal("the robot was not armed")
	}
	return e
}

// silentBeat is a beat that nothing of the host answers.
func (e *twoEnds) silentBeat() error {
	e.beats++
	return e.onBeat(rtloop.Beat{Index: e.beats - 1, Elapsed: 1, Deadline: rtloop.Now(), Wake: rtloop.Now()})
}

// plans is a host that beats and plans for the newest state.
func (e *twoEnds) plans(t *testing.T) {
	t.Helper()
	e.host.HostBeat.Add(1)
	state, fresh, err := e.host.NewestState()
	if err == nil && fresh {
		_, err = e.planner.Plan(state, e.plan)
	}
	if err == nil {
		err = e.host.Publish(e.plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lastTickMargin takes the records that there are and returns a copy of the newest.
func (e *twoEnds) lastTick(t *testing.T) (last controller.Tick) {
	t.Helper()
	last = *controller.NewTick(e.agent.Shape())
	for {
		tick, err := e.host.NextTick()
		if err != nil {
			t.Fatal(err)
		}
		if tick == nil {
			return last
		}
		last.CopyFrom(tick)
		e.host.ReleaseTick()
	}
}

func TestSimulator_WaitsForASlowHostAndItsTimeToo(t *testing.T) {
	for name, c := range map[string]struct {
		patience uint64 // in periods, until it would be stopped
		change   func(*configs.File)
		answer   func(*twoEnds)
	}{
		"silent": {10, nil, func(*twoEnds) {}},
		"planless": {5, func(f *configs.File) { f.Controller.MaxPlanAge = 5 }, func(e *twoEnds) {
			e.host.HostBeat.Add(1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWaiting(t, c.change)
			for range c.patience { // as if nothing were wrong
				c.answer(e)
				if err := e.silentBeat(); err != nil {
					t.Fatal(err)
				}
			}
			before := e.lastTick(t)
			for i := range 19 { // of 20 periods
				c.answer(e)
				if err := e.silentBeat(); err != nil {
					t.Fatalf("period %d: %v", i, err)
				}
			}
			if tick := e.lastTick(t); tick.Index != 0 {
				t.Errorf("tick %d ran while the robot waited", tick.Index)
			}
			if got := e.host.Waited.Load(); got != 19 {
				t.Errorf("it waited for %d periods, want 19", got)
			}
			for i := range uint64(4) { // the host works again
				e.plans(t)
				if err := e.silentBeat(); err != nil {
					t.Fatal(err)
				}
				if tick := e.lastTick(t); tick.Index != before.Index+i+1 || tick.Elapsed != 1 {
					t.Errorf("tick %d after %d periods follows tick %d", tick.Index, tick.Elapsed, before.Index+i)
				}
			}
			if !e.agent.Armed() {
				t.Error("it is not armed any more")
			}
		})
	}
}

func TestSimulator_IsStoppedWhenItHasWaited(t *testing.T) {
	for name, c := range map[string]struct {
		periods int
		change  func(*configs.File)
		answer  func(*twoEnds)
		want    controller.Fault
	}{
		"silent": {10 + 20 + 1, nil, func(*twoEnds) {}, controller.FaultHost},
		"planless": {5 + 20 + 1, func(f *configs.File) { f.Controller.MaxPlanAge = 5 }, func(e *twoEnds) {
			e.host.HostBeat.Add(1)
		}, controller.FaultStalePlan},
		"silent, and does not wait": {10 + 1, func(f *configs.File) {
			f.Run.SimulatorWaitS = 0
		}, func(*twoEnds) {}, controller.FaultHost},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWaiting(t, c.change)
			for i := range c.periods {
				c.answer(e)
				err := e.silentBeat()
				if last := i == c.periods-1; (err != nil) != last {
					t.Fatalf("period %d of %d: %v", i+1, c.periods, err)
				}
				if err != nil {
					wantFault(t, err, c.want)
				}
			}
		})
	}
}

func TestSimulator_DoesNotWaitForADeadHostOrAnOperatorsStop(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*twoEnds)
		want controller.Fault
	}{
		"dead":                {func(e *twoEnds) { e.hostGone.Store(true) }, controller.FaultHost},
		"stop":                {func(e *twoEnds) { e.mailbox.stopRequested.Store(true) }, controller.FaultOperator},
		"stop of the console": {func(e *twoEnds) { e.host.Stop.Store(link.StopRobot) }, controller.FaultOperator},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWaiting(t, nil)
			for range 15 {
				if err := e.silentBeat(); err != nil {
					t.Fatal(err)
				}
			}
			if e.waitedNow == 0 {
				t.Fatal("it does not wait")
			}
			c.stop(e)
			wantFault(t, e.silentBeat(), c.want)
		})
	}
}

// resettable is a robot that can be reset, or says that it cannot.
type resettable struct {
	*haltest.Simulator
	can bool
}

func (r resettable) CanReset() bool { return r.can }

func TestWaitsForHost_OnlySimulatorsWhoseTimeIsTheirOwn(t *testing.T) {
	simulator := haltest.NewSimulator(haltest.Spec(2, 1))
	for _, c := range []struct {
		name   string
		robot  hal.Robot
		driver string
		mode   string
		want   bool
	}{
		{"the rover", simulator, configs.DriverRover, "", true},
		{"a simulator behind the bridge", resettable{simulator, true}, configs.DriverBridge, bridge.Lockstep, true},
		{"one whose time passes by itself", resettable{simulator, true}, configs.DriverBridge, bridge.Free, false},
		{"a body behind the bridge", resettable{simulator, false}, configs.DriverBridge, bridge.Lockstep, false},
		{"a body behind the bridge in free mode", resettable{simulator, false}, configs.DriverBridge, bridge.Free, false},
		{"devices", haltest.New(haltest.Spec(2, 1)), configs.DriverComposite, "", false},
		{"devices that could be reset", simulator, configs.DriverComposite, "", false},
	} {
		f := configs.Default()
		f.Robot.Driver, f.Robot.Bridge.Mode = c.driver, c.mode
		if got := setup.CanWaitForHost(c.robot, f); got != c.want {
			t.Errorf("%s: waits %t, want %t", c.name, got, c.want)
		}
	}
	if r := newFaultRig(t, configs.AfterStopEnd); r.simulatorWait != 0 {
		t.Errorf("the robot of the fault tests waits for %d periods", r.simulatorWait)
	}
}

func TestRun_SimulatorWaitIsAtMostTwoSeconds(t *testing.T) {
	if f := configs.Default(); f.Run.SimulatorWaitS != 2 || f.Validate() != nil {
		t.Errorf("the default is %g s", f.Run.SimulatorWaitS)
	}
	f := configs.Default()
	for _, s := range []float64{-1, 2.1, math.NaN()} {
		f.Run.SimulatorWaitS = s
		if err := f.Validate(); err == nil {
			t.Errorf("%g s are accepted", s)
		}
	}
}
