package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// stoppableRig is a robot with an emergency stop that is not a simulator.
type stoppableRig struct{ *haltest.Stoppable }

// newStoppableRig returns a disarmed rig with such a robot.
func newStoppableRig(t testing.TB, safety Safety) (*rig, *stoppableRig) {
	t.Helper()
	r := newRig(t, nil)
	spec := haltest.Spec(rigObs, rigAction)
	spec.Action[0].Failsafe, spec.Action[0].Disarmed = 0.25, -7
	robot := &stoppableRig{haltest.NewStoppable(spec)}
	robot.Observe = r.robot.Observe
	r.robot = &haltest.Simulator{Robot: robot.Robot} // the rig sets its clock
	r.safety = safety
	r.build(robot)
	return r, robot
}

// observes0 sets the first channel to x and the others to noise.
func (r *rig) observes0(x float32) {
	r.robot.Observe = func(_ int, obs []float32) error {
		for i := range obs {
			obs[i] = float32(2*r.random.Float64() - 1)
		}
		obs[0] = x
		return nil
	}
}

func TestAgent_EmergencyStopLatchesUntilReleasedAndReset(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.steps(2)
	r.arm()
	r.steps(3)
	acts := robot.Acts
	robot.Pressed = true
	fault := r.fails(FaultEStop)
	if robot.Acts != acts || robot.Halts == 0 || robot.Output[0] != 0.25 || robot.Disarms != 0 {
		t.Errorf("acts %d, halts %d, output %v", robot.Acts-acts, robot.Halts, robot.Output)
	}
	if !errors.Is(fault, errStopPressed) || !r.tick.Flags.Has(FlagArmed|FlagStopped) || r.tick.Action[0] != 0.25 {
		t.Errorf("%v, flags %b, action %v", fault, r.tick.Flags, r.tick.Action)
	}
	r.steps(5) // a stopped robot senses and records
	if r.tick.Fault != FaultEStop || r.tick.Flags.Has(FlagArmed) {
		t.Errorf("fault %v, flags %b", r.tick.Fault, r.tick.Flags)
	}
	for name, act := range map[string]func() error{"reset": r.agent.Reset, "arm": func() error { return r.agent.Arm(0) }} {
		if err := act(); err == nil {
			t.Errorf("%s with the stop pressed", name)
		}
	}
	robot.Pressed = false
	r.steps(1)
	if r.agent.Mode() != Stopped {
		t.Fatal("releasing the button reset the stop")
	}
	if err := r.agent.Reset(); err != nil || r.agent.Mode() != Disarmed {
		t.Fatalf("reset: %v, %v", err, r.agent.Mode())
	}
	r.steps(3)
	if robot.Acts != acts {
		t.Fatal("the robot moved after a reset")
	}
	r.arm()
	r.steps(1)
	if robot.Acts != acts+1 {
		t.Error("not armed again")
	}
}

func TestAgent_EmergencyStopStopsDisarmedRobot(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	robot.Pressed = true
	r.fails(FaultEStop)
	robot.SenseErr = errOut // the input is read without a sample
	r.steps(20)
	if r.agent.Mode() != Stopped || r.agent.Present() != FaultEStop {
		t.Errorf("%v, present %v", r.agent.Mode(), r.agent.Present())
	}
}

func TestAgent_StopsBeyondLimit(t *testing.T) {
	for _, x := range []float32{0.51, -0.41, 1e30} {
		r, robot := newStoppableRig(t, Safety{Limits: []StopLimit{{Channel: "o0", Min: -0.4, Max: 0.5}}})
		for _, inside := range []float32{-0.4, 0, 0.5} {
			r.observes0(inside)
			r.steps(1)
		}
		r.arm()
		r.steps(1)
		acts := robot.Acts
		r.observes0(x)
		fault := r.fails(FaultLimit)
		if robot.Acts != acts || !strings.Contains(fault.Error(), "o0") {
			t.Errorf("%v: %d acts, %v", x, robot.Acts-acts, fault)
		}
		if err := r.agent.Reset(); !errors.Is(err, ErrPresent) {
			t.Errorf("reset beyond the limit: %v", err)
		}
		r.observes0(0)
		r.steps(1)
		errtest.Nil(t, r.agent.Reset())
	}
}

func TestAgent_NaNIsBadObservationNotLimit(t *testing.T) {
	r, _ := newStoppableRig(t, Safety{Limits: []StopLimit{{Channel: "o0", Min: -1, Max: 1}}})
	r.arm()
	r.observes0(float32(nan))
	r.steps(r.cfg.Guard.MaxBadTicks)
	r.fails(FaultObs)
}

func TestAgent_StopsOnStaleSample(t *testing.T) {
	const limit = 3 * testPeriod
	for name, age := range map[string]func(*rig, *stoppableRig){
		"sensing fails":          func(_ *rig, s *stoppableRig) { s.SenseErr = errOut },
		"the old sample returns": func(r *rig, _ *stoppableRig) { r.frozenClock = true },
	} {
		t.Run(name, func(t *testing.T) {
			r, robot := newStoppableRig(t, Safety{MaxSampleAge: limit})
			r.cfg.Guard.MaxBadTicks = 1000
			r.build(robot)
			r.steps(2)
			r.arm()
			r.steps(3)
			age(r, robot)
			r.steps(3)
			if fault := r.fails(FaultStaleSample); !errors.Is(fault, errStale) {
				t.Error(fault)
			}
		})
	}
}

func TestAgent_WaitsForItsFirstSample(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{MaxSampleAge: 3 * testPeriod})
	r.cfg.Guard.MaxBadTicks = 1000
	r.build(robot)
	robot.SenseErr = errOut
	r.steps(10)
	robot.SenseErr = nil
	r.steps(1)
	r.arm()
	r.steps(1)
}

func TestAgent_StopsOnFrozenSensor(t *testing.T) {
	for name, c := range map[string]struct {
		channels []string
		still    func(r *rig)
	}{
		"the whole observation": {nil, func(r *rig) {
			r.robot.Observe = func(_ int, obs []float32) error { copy(obs, []float32{1, 2, 3}); return nil }
		}},
		"one channel that is named": {[]string{"o1", "o0"}, func(r *rig) { r.observes0(0.5) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newStoppableRig(t, Safety{FrozenTicks: 4, FrozenChannels: c.channels})
			r.steps(10)
			r.arm()
			r.steps(10)
			c.still(r)
			r.steps(4) // the first of them is a change
			r.fails(FaultFrozen)
		})
	}
	r, _ := newStoppableRig(t, Safety{FrozenTicks: 4, FrozenChannels: []string{"o1"}})
	r.arm()
	r.observes0(0.5)
	r.steps(20) // o0 is not in FrozenChannels
}

func TestNewAgent_RefusesSafetyThatDoesNotFitRobot(t *testing.T) {
	for want, safety := range map[string]Safety{
		`channel "pitch"`: {Limits: []StopLimit{{Channel: "pitch", Min: -1, Max: 1}}},
		"min below max":   {Limits: []StopLimit{{Channel: "o0", Min: 1, Max: 1}}},
		"finite":          {Limits: []StopLimit{{Channel: "o0", Min: -inf, Max: 1}}},
		"give finite":     {Limits: []StopLimit{{Channel: "o0", Min: nan, Max: 1}}},
		"frozen_channels": {FrozenTicks: 1, FrozenChannels: []string{"yaw"}},
	} {
		r := newRig(t, nil)
		_, err := NewAgent(r.cfg, Parts{
			Robot: r.robot, Source: r.source, Model: r.model, Plans: r.plans, Safety: safety,
		})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAgent_DisarmSetsDisarmedOutput(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.arm()
	r.steps(2)
	if err := r.agent.Disarm(); err != nil || robot.Output[0] != -7 || robot.Disarms != 1 || robot.Halts != 0 {
		t.Fatalf("%v, output %v, %d disarms, %d halts", err, robot.Output, robot.Disarms, robot.Halts)
	}
	acts := robot.Acts
	r.steps(3)
	if r.tick.Fault != FaultNone || r.tick.Flags&(FlagArmed|FlagStopped) != 0 || robot.Acts != acts {
		t.Errorf("fault %v, flags %b, %d acts", r.tick.Fault, r.tick.Flags, robot.Acts-acts)
	}
	if err := r.agent.Disarm(); err != nil || robot.Disarms != 1 {
		t.Errorf("a second time: %v, %d disarms", err, robot.Disarms)
	}
	r.arm()
	r.steps(1)
}

func TestAgent_DisarmHaltsRobotWithoutDisarmedOutput(t *testing.T) {
	r := newRig(t, nil)
	r.steps(1)
	if err := r.agent.Disarm(); err != nil || r.robot.Halts != 1 || r.agent.Mode() != Disarmed {
		t.Errorf("%v, %d halts, %v", err, r.robot.Halts, r.agent.Mode())
	}
	r.arm()
}

func TestAgent_FailedDisarmStops(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.arm()
	robot.DisarmErr = errOut
	if err := r.agent.Disarm(); !errors.Is(err, errOut) {
		t.Error(err)
	}
	if r.agent.Mode() != Stopped || r.agent.Cause() != FaultAct || robot.Output[0] != 0.25 {
		t.Errorf("%v, %v, output %v", r.agent.Mode(), r.agent.Cause(), robot.Output)
	}
}

func TestAgent_FailedHaltOfDisarmStops(t *testing.T) {
	r := newRig(t, nil)
	r.robot.HaltErr = errOut
	errtest.Is(t, r.agent.Disarm(), errOut)
	if r.agent.Mode() != Stopped || r.agent.Cause() != FaultAct {
		t.Errorf("%v, %v", r.agent.Mode(), r.agent.Cause())
	}
}

func TestAgent_RateLimitStartsFromDisarmedOutput(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	spec := robot.Spec()
	spec.Action[0].MaxRate = 1 // 0.02 a period
	robot.Stoppable = haltest.NewStoppable(spec)
	r.robot.Robot = robot.Robot
	r.model.act = func(dst, _ []float32, _ []float64) error { dst[0] = 1; return nil }
	r.build(robot)
	r.arm()
	r.steps(1)
	if !near(robot.Output[0], -0.98) { // -7 is beyond its limit of -1
		t.Errorf("after the boot: %v", robot.Output)
	}
	fatal.If(t, r.agent.Disarm())
	r.arm()
	r.steps(1)
	if !near(robot.Output[0], -0.98) {
		t.Errorf("after a disarm: %v", robot.Output)
	}
}

func TestAgent_RetriesFailedHaltEachTick(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.arm()
	robot.HaltErr = errOut
	if err := r.agent.Halt(FaultOperator); !errors.Is(err, errOut) {
		t.Fatal(err)
	}
	r.steps(3)
	if robot.Halts != 4 {
		t.Errorf("%d halts", robot.Halts)
	}
	if err := r.agent.Reset(); !errors.Is(err, ErrPresent) {
		t.Errorf("reset of a robot that does not halt: %v", err)
	}
	robot.HaltErr = nil
	r.steps(5)
	if robot.Halts != 5 {
		t.Errorf("%d halts, the fifth succeeded", robot.Halts)
	}
}

func TestAgent_HaltsAgainWhenAPortIsLostAfterAStop(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.arm()
	fatal.If(t, r.agent.Halt(FaultOperator))
	robot.SenseErr = errors.Join(errOut, hal.ErrBus)
	r.steps(3)
	if robot.Halts != 1 {
		t.Errorf("%d halts: only a lost port needs another", robot.Halts)
	}
	robot.SenseErr = errors.Join(errOut, hal.ErrLost)
	r.steps(3) // the first of them detects it
	if robot.Halts != 3 {
		t.Errorf("%d halts", robot.Halts)
	}
	robot.SenseErr = nil
	r.steps(3)
	if robot.Halts != 4 {
		t.Errorf("%d halts of a robot that has returned", robot.Halts)
	}
	errtest.Nil(t, r.agent.Reset())
}

func TestAgent_RequiredDeadmanMustBeSet(t *testing.T) {
	for name, c := range map[string]struct {
		silence time.Duration
		as      func(*haltest.Robot) hal.Robot
		armed   bool
	}{
		"none set":            {0, func(r *haltest.Robot) hal.Robot { return r }, false},
		"one within a period": {testPeriod, func(r *haltest.Robot) hal.Robot { return r }, false},
		"set":                 {5 * testPeriod, func(r *haltest.Robot) hal.Robot { return r }, true},
		"a robot without any": {5 * testPeriod, func(r *haltest.Robot) hal.Robot { return bareRobot{r} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			robot := r.robot.Robot
			robot.Silence = c.silence
			r.safety = Safety{RequireDeadman: true}
			r.build(c.as(robot))
			halts := robot.Halts
			err := r.agent.Arm(0)
			if (err == nil) != c.armed || r.agent.Armed() != c.armed || robot.Halted == c.armed {
				t.Fatalf("%v, armed %v, halted %v", err, r.agent.Armed(), robot.Halted)
			}
			if !c.armed && (!errors.Is(err, errNoDeadman) || robot.Halts == halts) {
				t.Errorf("%v, %d halts", err, robot.Halts-halts)
			}
		})
	}
}

func TestAgent_ResetWaitsUntilCauseIsGone(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	r.arm()
	r.steps(1)
	robot.SenseErr = errOut
	r.steps(r.cfg.Guard.MaxBadTicks)
	r.fails(FaultSense)
	for range 10 {
		r.steps(1)
		if err := r.agent.Reset(); !errors.Is(err, ErrPresent) || !strings.Contains(err.Error(), FaultSense.String()) {
			t.Fatalf("reset: %v", err)
		}
	}
	robot.SenseErr = nil
	r.steps(1)
	fatal.If(t, r.agent.Reset())
	r.arm()
	r.steps(10)
}

func TestAgent_StoppedRobotLearnsAndPlans(t *testing.T) {
	r, _ := newStoppableRig(t, Safety{})
	r.arm()
	r.steps(3)
	fatal.If(t, r.agent.Halt(FaultOperator))
	r.steps(1)
	hash, planned := r.tick.Hash, r.tick.PlanConfirmed
	r.source.give(value(1, 2, 1))
	r.steps(2)
	if r.tick.Hash == hash || r.tick.PlanConfirmed != planned+2 {
		t.Errorf("hash %x, plan of tick %d after %d", r.tick.Hash, r.tick.PlanConfirmed, planned)
	}
}
