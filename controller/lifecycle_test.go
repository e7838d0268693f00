package controller

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func TestLifecycle_Transitions(t *testing.T) {
	disarmed, armed := Lifecycle{}, Lifecycle{mode: Armed}
	starting, resting := Lifecycle{mode: Starting}, Lifecycle{mode: Resting}
	start := func(l *Lifecycle) error { return l.Arm(FaultNone, Starting) }
	started := func(l *Lifecycle) error { l.Started(); return nil }
	rest := func(l *Lifecycle) error { l.Rest(); return nil }
	stopped := Lifecycle{mode: Stopped, cause: FaultEStop}
	arm := func(present Fault) func(*Lifecycle) error {
		return func(l *Lifecycle) error { return l.Arm(present, Armed) }
	}
	disarm := func(l *Lifecycle) error { l.Disarm(); return nil }
	stop := func(cause Fault) func(*Lifecycle) error {
		return func(l *Lifecycle) error { l.Stop(cause); return nil }
	}
	reset := func(present Fault) func(*Lifecycle) error {
		return func(l *Lifecycle) error { return l.Reset(present) }
	}
	for _, c := range []struct {
		name    string
		from    Lifecycle
		event   func(*Lifecycle) error
		to      Lifecycle
		refusal error
	}{
		{"a disarmed robot is armed", disarmed, arm(FaultNone), armed, nil},
		{"arming is refused while a cause is present", disarmed, arm(FaultLimit), disarmed, ErrPresent},
		{"a disarmed robot is disarmed", disarmed, disarm, disarmed, nil},
		{"a disarmed robot is stopped", disarmed, stop(FaultEStop), stopped, nil},
		{"a disarmed robot has nothing to reset", disarmed, reset(FaultNone), disarmed, nil},
		{"a disarmed robot starts", disarmed, start, starting, nil},
		{"a starting robot follows the policy", starting, started, armed, nil},
		{"a starting robot is disarmed", starting, disarm, disarmed, nil},
		{"a starting robot is stopped", starting, stop(FaultEStop), stopped, nil},
		{"a starting robot rests", starting, rest, resting, nil},
		{"an armed robot does not start again", armed, start, armed, nil},
		{"an armed robot rests", armed, rest, resting, nil},
		{"a resting robot does not follow the policy", resting, started, resting, nil},
		{"a resting robot is disarmed", resting, disarm, disarmed, nil},
		{"a resting robot is stopped", resting, stop(FaultEStop), stopped, nil},
		{"a disarmed robot does not rest", disarmed, rest, disarmed, nil},
		{"a stopped robot does not start", stopped, start, stopped, ErrFaulted},
		{"a stopped robot does not rest", stopped, rest, stopped, nil},
		{"an armed robot is armed", armed, arm(FaultNone), armed, nil},
		{"an armed robot is disarmed", armed, disarm, disarmed, nil},
		{"an armed robot is stopped", armed, stop(FaultEStop), stopped, nil},
		{"a stop without a cause is an orderly one", armed, stop(FaultNone), disarmed, nil},
		{"a reset does not disarm", armed, reset(FaultNone), armed, nil},
		{"a stopped robot is not armed", stopped, arm(FaultNone), stopped, ErrFaulted},
		{"a stop latches against disarming", stopped, disarm, stopped, nil},
		{"the first cause stays", stopped, stop(FaultAct), stopped, nil},
		{"a stop latches against an orderly one", stopped, stop(FaultNone), stopped, nil},
		{"a reset disarms and does not arm", stopped, reset(FaultNone), disarmed, nil},
		{"a reset is refused while the cause is present", stopped, reset(FaultEStop), stopped, ErrPresent},
		{"a reset is refused while another cause is present", stopped, reset(FaultSense), stopped, ErrPresent},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.from
			if err := c.event(&l); !errors.Is(err, c.refusal) {
				t.Errorf("error %v, want %v", err, c.refusal)
			}
			if l != c.to {
				t.Errorf("%v (%v), want %v (%v)", l.Mode(), l.Cause(), c.to.Mode(), c.to.Cause())
			}
		})
	}
}

// FuzzLifecycle applies any sequence of operator acts and faults to an agent with
// a fake robot, and checks after each that only an armed robot moves.
func FuzzLifecycle(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{evTick, evArm, evTick, evTick, evPress, evTick, evArm,
		evRelease, evReset, evTick, evReset, evTick, evArm, evTick})
	f.Add([]byte{evTick, evArm, evSenseFails, evTick, evTick, evTick, evTick,
		evTick, evReset, evRepair, evReset, evTick, evArm, evTick})
	f.Add([]byte{evTick, evArm, evTick, evActFails, evTick, evHaltFails, evTick,
		evRepair, evTick, evReset, evArm, evTick, evDisarm, evTick})
	f.Add([]byte{evTick, evArm, evTilt, evTick, evReset, evTick, evRepair,
		evTick, evReset, evArm, evStop, evDisarm, evReset, evTick})
	f.Fuzz(func(t *testing.T, events []byte) {
		for _, motion := range []bool{false, true} {
			m := newMachine(t, motion)
			for _, e := range events[:min(len(events), 500)] {
				m.do(e % numEvents)
				m.check()
			}
		}
	})
}

func TestAgent_RandomEventsNeverMoveDisarmedRobot(t *testing.T) {
	armed := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := newMachine(t, seed%2 == 0)
		for range 200 {
			e := byte(random.IntN(int(2 * numEvents)))
			if e >= numEvents { // an event that lets the robot move
				e = [...]byte{evTick, evRepair, evRelease, evReset, evArm}[random.IntN(5)]
			}
			m.do(e)
			m.check()
		}
		armed += m.robot.Acts
	}
	if armed < 1000 {
		t.Errorf("only %d actions: too few for this test", armed)
	}
}

const (
	evTick byte = iota
	evArm
	evDisarm
	evStop
	evReset
	evPress
	evRelease
	evTilt
	evSenseFails
	evActFails
	evArmFails
	evHaltFails
	evDisarmFails
	evRepair
	numEvents
)

// machine is an agent with a small reference model.
type machine struct {
	t     *testing.T
	rig   *rig
	robot *stoppableRig
	// licensed: an operator armed the robot since the start, the last stop
	// and the last disarm.
	licensed bool
	acts     int
}

// newMachine returns a robot that with motion moves to a start pose and to a rest pose, in a few
// ticks.
func newMachine(t *testing.T, motion bool) *machine {
	safety := Safety{Limits: []StopLimit{{Channel: "o0", Min: -2, Max: 2}}}
	if motion {
		safety.Start = Motion{Pose: map[string]float64{"a0": 0.5}, RampS: 0.1, BlendS: 0.1, Tolerance: 1, FollowS: 1}
		safety.Rest = safety.Start
	}
	r, robot := newStoppableRig(t, safety)
	return &machine{t: t, rig: r, robot: robot}
}

func (m *machine) do(event byte) {
	agent, robot := m.rig.agent, m.robot
	switch event {
	case evTick:
		m.tick()
	case evArm:
		before := agent.Mode()
		err := agent.Arm(0)
		m.licensed = m.licensed || err == nil
		if err == nil && before == Stopped {
			m.t.Fatal("a stopped robot was armed")
		}
	case evDisarm:
		_ = agent.Disarm()
		m.licensed = false
	case evStop:
		_ = agent.Halt(FaultOperator)
		m.licensed = false
	case evReset:
		before := agent.Mode()
		if err := agent.Reset(); err == nil && before == Stopped && agent.Present() != FaultNone {
			m.t.Fatalf("reset with %v present", agent.Present())
		}
		if !before.Moves() && agent.Mode().Moves() {
			m.t.Fatal("a reset armed the robot")
		}
	case evPress:
		robot.Pressed = true
	case evRelease:
		robot.Pressed = false
	case evTilt:
		m.rig.observes0(3)
	case evSenseFails:
		robot.SenseErr = errOut
	case evActFails:
		robot.ActErr = errOut
	case evArmFails:
		robot.ArmErr = errOut
	case evHaltFails:
		robot.HaltErr = errOut
	case evDisarmFails:
		robot.DisarmErr = errOut
	case evRepair:
		robot.SenseErr, robot.ActErr, robot.ArmErr, robot.HaltErr, robot.DisarmErr = nil, nil, nil, nil, nil
		m.rig.observes0(0)
	}
}

func (m *machine) tick() {
	before := m.rig.agent.Mode()
	err := m.rig.step(0, 0)
	mode := m.rig.agent.Mode()
	if (err != nil) != (before != Stopped && mode == Stopped) {
		m.t.Fatalf("from %v to %v with the error %v", before, mode, err)
	}
	if mode == Stopped {
		m.licensed = false
	}
	if acted := m.robot.Acts > m.acts; acted && !before.Moves() {
		m.t.Fatalf("the robot acted while %v", before)
	}
	if m.robot.Pressed && mode != Stopped {
		m.t.Fatalf("the emergency stop is pressed and the robot is %v", mode)
	}
	if got := m.rig.tick.Flags.Has(FlagStopped); got != (mode == Stopped) {
		m.t.Fatalf("the tick's flags are %b while %v", m.rig.tick.Flags, mode)
	}
	ended := before == Starting && mode == Armed || before == Resting && mode == Disarmed
	if got := m.rig.tick.Mode(); got != mode && !(ended && got == before) {
		m.t.Fatalf("tick: %v, agent: %v", got, mode)
	}
	if m.rig.tick.Fault != m.rig.agent.Cause() {
		m.t.Fatalf("tick: %v, agent: %v", m.rig.tick.Fault, m.rig.agent.Cause())
	}
	m.acts = m.robot.Acts
}

// check holds after every event.
func (m *machine) check() {
	agent := m.rig.agent
	if mode := agent.Mode(); (mode == Armed || mode == Starting) && !m.licensed {
		m.t.Fatal("armed without an act of the operator since the start, the last stop or the last disarm")
	}
	if (agent.Mode() == Stopped) != (agent.Cause() != FaultNone) {
		m.t.Fatalf("%v, cause %v", agent.Mode(), agent.Cause())
	}
	if !agent.Mode().Moves() && !m.robot.Halted {
		m.t.Fatalf("the agent is %v and the robot is not halted", agent.Mode())
	}
	if m.robot.Acts != m.acts {
		m.t.Fatal("an action outside of a tick")
	}
}
