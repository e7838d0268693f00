package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"optibfm/hal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// Parts are the parts that an agent uses. The agent owns none of them, but it arms
// and halts the robot.
type Parts struct {
	Robot  hal.Robot
	Source rewardsrc.Source
	Model  tflite.Model // evaluated for φ and π only; not shared with a planner
	Plans  Plans
	Safety Safety // further conditions that stop the robot
	Hold   string // how the robot stands still while it asks (Holds); required for GateConfig.Pause hold
	// Assembler makes the model's observations; nil if they are the robot's readings.
	Assembler *Assembler
	// Stage receives the agent's Stage if it is not nil. Other threads may read it.
	Stage *atomic.Uint64
	// Stuck is set by another thread before it halts the robot, because a tick did not end. The agent
	// then no longer calls Act. It may be nil.
	Stuck *atomic.Pointer[FaultError]
}

// Agent is the half of the controller that runs in every tick, on the control
// thread. Step allocates nothing, blocks only in calls of the robot, and is a
// function of what the parts return.
type Agent struct {
	robot    hal.Robot
	source   rewardsrc.Source
	watcher  rewardsrc.Watcher   // the source, or nil if it does not watch rewards
	operator rewardsrc.Reachable // the source, or nil if its device cannot go away
	rewarder hal.Rewarder        // the robot, or nil if it is not a simulator
	resets   bool                // the robot can be reset: an episode starts from its failsafe output
	disarmer hal.Disarmer        // the robot, or nil if its disarmed output is the failsafe one
	limper   hal.Limper          // the robot, or nil if it cannot go limp
	guarded  hal.DeadmanTimer    // the robot, or nil if it has no deadman
	model    tflite.Model
	plans    Plans
	stage    *atomic.Uint64
	stuck    *atomic.Pointer[FaultError]

	assembler *Assembler
	readings  []float32 // of the robot; without an assembler the observation of tick

	shape       Shape
	tick        *Tick // the tick in progress, in private memory
	learner     *Learner
	gate        *Gate
	proficiency *Proficiency

	changed     bool   // the task, in the tick before
	switched    bool   // SwitchTask was called since the tick before
	switches    uint64 // replaced beliefs
	stopHistory *StopHistory
	guard       *guard
	hold        string // how the robot stands still while a request is open; empty: it does not
	explorer    *explorer
	stops       stopMonitor
	safety      Safety
	maxPlanAge  uint64

	positions   *positions
	start, rest *mover // nil: none
	begins      bool   // the next sample is where motion begins

	lifecycle  Lifecycle
	present    Fault       // found in the last tick
	tripped    *FaultError // the stop of the tick in progress
	haltFailed bool        // the last Halt of the robot failed, or a port was lost since: Step repeats it

	wasArmed    bool   // in the tick before
	armedAt     uint64 // the first armed tick
	sensedAt    int64  // time of the last sample
	hasPlan     bool
	planTick    uint64    // of the last plan taken
	unreachable bool      // the operator, in the tick before
	fallback    []float64 // replaces a z without a direction
	command     []float32 // scratch: the policy's action that gives a command
	labels      [MaxLabels]rewardsrc.Label
}

// FaultError is returned by a Step that stopped the robot.
type FaultError struct {
	Fault Fault
	Tick  uint64
	Err   error // the cause
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("controller: tick %d: robot halted: %s: %v", e.Tick, e.Fault, e.Err)
}

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Err }

// NewAgent makes an agent. It starts disarmed.
func NewAgent(cfg Config, parts Parts) (*Agent, error) {
	spec, dims := parts.Robot.Spec(), parts.Model.Dims()
	observed := len(spec.Obs)
	if parts.Assembler != nil {
		observed = len(parts.Assembler.Spec().Obs)
	}
	if err := checkSpec(spec, observed, dims); err != nil {
		return nil, err
	}
	learner, err := NewLearner(cfg, dims.Latent, spec.Period)
	if err != nil {
		return nil, err
	}
	hold, err := holdFor(cfg.Gate, parts.Hold)
	if err != nil {
		return nil, err
	}
	stops, err := newStopMonitor(parts.Safety, parts.Robot)
	if err != nil {
		return nil, err
	}
	_, isDisarmer := parts.Robot.(hal.Disarmer)
	start, startErr := newMover("safety.start", parts.Safety.Start, spec)
	rest, restErr := newMover("safety.rest", parts.Safety.Rest, spec)
	if err := errors.Join(startErr, restErr); err != nil {
		return nil, err
	}
	explorer, err := newExplorer(cfg.Explore, dims.Latent, spec.Period)
	if err != nil {
		return nil, err
	}
	shape := cfg.Shape(dims)
	a := &Agent{
		robot: parts.Robot, source: parts.Source, model: parts.Model, plans: parts.Plans, stage: parts.Stage,
		stuck:       parts.Stuck,
		shape:       shape,
		tick:        NewTick(shape),
		learner:     learner,
		gate:        NewGate(cfg.Gate, learner.LabelWeight(), spec.Period),
		proficiency: NewProficiency(cfg.Gate, spec.Period),
		stopHistory: NewStopHistory(cfg.Credit),
		guard:       newGuard(cfg.Guard, spec, isDisarmer),
		hold:        hold,
		explorer:    explorer,
		stops:       stops,
		safety:      parts.Safety,
		maxPlanAge:  cfg.MaxPlanAge,
		positions:   newPositions(parts.Robot), start: start, rest: rest,
		fallback: make([]float64, dims.Latent),
		command:  make([]float32, len(spec.Action)),
	}
	if a.assembler, a.readings = parts.Assembler, a.tick.Obs; a.assembler != nil {
		a.readings = make([]float32, len(spec.Obs))
	}
	if a.stage == nil {
		a.stage = new(atomic.Uint64)
	}
	if a.stuck == nil {
		a.stuck = new(atomic.Pointer[FaultError])
	}
	a.bindOptional(parts)
	randomDirection(a.fallback, rand.New(rand.NewPCG(cfg.Seed, fallbackStream)))
	return a, nil
}

// holdFor returns the output with which the robot holds still while a request is open; "" if it
// does not.
func holdFor(gate GateConfig, hold string) (string, error) {
	if gate.Pause != PauseHold {
		return "", nil
	}
	if !slices.Contains(Holds(), hold) {
		return "", fmt.Errorf("%w: gate.pause: the robot cannot stand still (%q); use one of %s, or no pause",
			ErrConfig, hold, strings.Join(Holds(), ", "))
	}
	return hold, nil
}

// bindOptional finds the optional interfaces of the source and of the robot.
func (a *Agent) bindOptional(parts Parts) {
	a.watcher, _ = parts.Source.(rewardsrc.Watcher)
	a.operator, _ = parts.Source.(rewardsrc.Reachable)
	a.rewarder, _ = parts.Robot.(hal.Rewarder)
	_, a.resets = parts.Robot.(hal.Resetter)
	a.disarmer, _ = parts.Robot.(hal.Disarmer)
	a.limper, _ = parts.Robot.(hal.Limper)
	a.guarded, _ = parts.Robot.(hal.DeadmanTimer)
}

// fallbackStream differs from the streams of the planner, which are scattered
// tick numbers.
const fallbackStream = ^uint64(0)

// Shape returns the sizes of the agent's ticks.
func (a *Agent) Shape() Shape { return a.shape }

// Learner returns the agent's learner, for a warm start and for snapshots.
func (a *Agent) Learner() *Learner { return a.learner }

// Armed reports whether actions go to the actuators.
func (a *Agent) Armed() bool { return a.lifecycle.Mode() == Armed }

// Mode reports whether the robot may move.
func (a *Agent) Mode() Mode { return a.lifecycle.Mode() }

// Cause returns the first cause of the latched stop, or FaultNone.
func (a *Agent) Cause() Fault { return a.lifecycle.Cause() }

// Present returns the fault that the last tick found. While it is not
// FaultNone, Arm and Reset fail.
func (a *Agent) Present() Fault { return a.present }

// Arm lets actions go to the actuators from the next tick on: to Safety.Start.Pose
// first, if there is one. It is an operator's explicit act. It fails with
// ErrFaulted while a stop is latched, with ErrPresent while a cause for a stop
// is present, and with ErrPosition if motion could not begin where the robot
// is. If the robot cannot be armed, or lacks a required deadman, it goes limp
// where it can, and Arm halts it again. Arm does not change an armed or starting
// robot. now is the time on the clock of the samples, ns.
func (a *Agent) Arm(now int64) error {
	switch a.Mode() {
	case Armed, Starting: // its actuators are not where Halt leaves them
		return nil
	case Resting:
		return fmt.Errorf("controller: arm: %w", errResting)
	}
	next, mode := a.lifecycle, Armed
	if a.start != nil {
		mode = Starting
	}
	if err := errors.Join(next.Arm(a.present, mode), a.checkPositions(now)); err != nil {
		return fmt.Errorf("controller: arm: %w", err)
	}
	if err := a.armRobot(); err != nil {
		if a.limper != nil { // Halt would move a joint that has torque already
			err = errors.Join(err, a.limper.Limp())
		}
		return fmt.Errorf("controller: arm: %w", errors.Join(err, a.haltRobot()))
	}
	a.lifecycle = next
	a.beginMotion()
	a.begins = true // again at the next sample: an actuator may sag when it takes its load
	return nil
}

// checkPositions returns an error unless the robot can begin where it is.
func (a *Agent) checkPositions(now int64) error {
	if a.sensedAt != 0 {
		a.positions.update(a.readings)
	}
	if a.safety.Simulated {
		return nil
	}
	if err := a.safety.CheckStart(a.positions.channels); err != nil {
		return err
	}
	if a.sensedAt == 0 && a.positions.measured() {
		return fmt.Errorf("%w: no sample yet", ErrPosition)
	}
	return a.positions.check(time.Duration(now-a.sensedAt), a.safety.MaxPositionAge, a.robot.Spec().Period)
}

// beginMotion sets the last command, and the start of a motion to a pose, to where the actuators
// are.
func (a *Agent) beginMotion() {
	a.guard.begin(a.positions.now)
	if m := a.mover(); m != nil {
		m.begin(a.guard.last)
	}
}

func (a *Agent) setStage(s Stage) { a.stage.Store(uint64(s)) }

func (a *Agent) armRobot() error {
	a.setStage(StageArm)
	if err := a.robot.Arm(); err != nil {
		return err
	}
	if a.safety.RequireDeadman && a.Deadman() <= a.robot.Spec().Period {
		return errNoDeadman
	}
	return nil
}

// Deadman returns the time for which the robot moves without a command before its own
// deadman stops it. It is 0 if there is none, or if the time is unknown
// until the robot is armed.
func (a *Agent) Deadman() time.Duration {
	if a.guarded == nil {
		return 0
	}
	return a.guarded.Deadman()
}

// Disarm is an orderly stop. With Safety.Rest.Pose the robot moves there first and
// then goes limp; a second call ends that motion at once. Otherwise the actuators
// go to their disarmed output, or to their failsafe output if the robot has no
// disarmed one. Nothing latches. Disarm stops a robot that cannot be disarmed
// (FaultAct). An error is the robot's; the agent sends no further actions in
// any case.
func (a *Agent) Disarm() error {
	mode := a.Mode()
	if !mode.Moves() {
		return nil
	}
	if a.rest != nil && mode != Resting {
		a.lifecycle.Rest()
		a.rest.begin(a.guard.last)
		return nil
	}
	if a.disarmer == nil {
		err := a.Halt(FaultNone)
		if err != nil {
			a.lifecycle.Stop(FaultAct)
		}
		return err
	}
	return a.disarm(a.disarmer.Disarm)
}

// goLimp ends the motion to the rest pose.
func (a *Agent) goLimp() error {
	if a.limper == nil {
		return a.Disarm()
	}
	return a.disarm(a.limper.Limp)
}

func (a *Agent) disarm(command func() error) error {
	a.setStage(StageDisarm)
	if err := command(); err != nil {
		return errors.Join(err, a.Halt(FaultAct))
	}
	a.lifecycle.Disarm()
	a.guard.rest()
	a.begins = false
	return nil
}

// Halt brings the actuators to their failsafe output and latches the stop. The
// first cause remains the reported one. With FaultNone nothing latches: that
// is the end of a run. An error is the robot's; the agent sends no further
// actions in any case, and each Step repeats the Halt until it succeeds.
func (a *Agent) Halt(fault Fault) error {
	a.lifecycle.Stop(fault)
	return a.haltRobot()
}

// Reset clears a latched stop. It is an operator's explicit act. It fails with
// ErrPresent while a cause for a stop is present. The robot is then disarmed: a
// reset is not a restart.
func (a *Agent) Reset() error {
	if err := a.lifecycle.Reset(a.present); err != nil {
		return fmt.Errorf("controller: reset: %w", err)
	}
	return nil
}

// SwitchTask replaces the belief by that of another task, as Learner.SwitchTask does, before the
// next tick. It is an operator's explicit act. It fails, and changes nothing, while a stop is
// latched: the operator first looks for its cause. The limits of Config.Explore hold for the next z
// as for any other.
func (a *Agent) SwitchTask(state []float64, noise NoiseState) error {
	if a.lifecycle.Mode() == Stopped {
		return fmt.Errorf("controller: switch: %w (%s)", ErrFaulted, a.Cause())
	}
	if err := a.learner.SwitchTask(state, noise); err != nil {
		return fmt.Errorf("controller: switch: %w", err)
	}
	if a.learner.Belief().Weight() == 0 {
		a.explorer.hold()
	}
	a.restartTask()
	a.changed = false
	a.switched = true
	return nil
}

// retryHalt repeats a Halt that failed. While it fails, the robot can be
// neither reset nor armed.
func (a *Agent) retryHalt() {
	a.setStage(StageHalt)
	if a.haltFailed = a.robot.Halt() != nil; a.haltFailed {
		a.notePresent(FaultAct)
	}
}

func (a *Agent) haltRobot() error {
	a.guard.restart()
	a.begins = false
	a.setStage(StageHalt)
	err := a.robot.Halt()
	a.haltFailed = err != nil
	return err
}
