package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// Parts are what an agent works with. The agent owns none of them, but it
// arms and halts the robot.
type Parts struct {
	Robot  hal.Robot
	Source rewardsrc.Source
	Model  tflite.Model // evaluated for φ and π only; the agent's own instance
	Plans  Plans
	Safety Safety // what stops the robot besides its faults
	// Stage, if not nil, is where the agent stores its Stage, for those who
	// watch the control thread. It may lie in shared memory.
	Stage *atomic.Uint64
}

// Agent is the half of the controller that runs in every tick, on the control
// thread. Its Step allocates nothing, blocks on nothing but the robot, and is
// a function of what its parts return.
type Agent struct {
	robot    hal.Robot
	source   rewardsrc.Source
	watcher  rewardsrc.Watcher   // the source, where it watches rewards; else nil
	operator rewardsrc.Reachable // the source, where its device can go away; else nil
	rewarder hal.Rewarder        // the robot, where it is a simulator; else nil
	resets   bool                // the robot can be reset: an episode starts at rest
	disarmer hal.Disarmer        // the robot, where its disarmed output is not the failsafe one; else nil
	guarded  hal.Guarded         // the robot, where it may have a deadman; else nil
	model    tflite.Model
	plans    Plans
	stage    *atomic.Uint64

	shape      Shape
	tick       *Tick // the tick at work, in memory that nobody else can write to
	learner    *Learner
	gate       *Gate
	guard      *guard
	stops      stops
	deadman    bool // is required
	maxPlanAge uint64

	life     Lifecycle
	present  Fault       // what would stop the robot, by the last tick
	tripped  *FaultError // the stop of the tick at work
	restless bool        // the robot did not take the last Halt: it is told again

	wasArmed bool   // in the tick before
	armedAt  uint64 // the first armed tick
	sensedAt int64  // time of the last sample
	hasPlan  bool
	planTick uint64    // of the last plan taken
	alone    bool      // the operator could not be reached in the tick before
	fallback []float64 // the direction that stands in for a z without one
	labels   [MaxLabels]rewardsrc.Label
}

// FaultError is returned by Step when it stopped the robot.
type FaultError struct {
	Fault Fault
	Tick  uint64
	Err   error // what was found
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("controller: tick %d: robot halted: %s: %v", e.Tick, e.Fault, e.Err)
}

// Unwrap returns what was found.
func (e *FaultError) Unwrap() error { return e.Err }

// NewAgent makes an agent. It starts disarmed.
func NewAgent(cfg Config, parts Parts) (*Agent, error) {
	spec, dims := parts.Robot.Spec(), parts.Model.Dims()
	if err := checkSpec(spec, dims.Obs, dims.Action); err != nil {
		return nil, err
	}
	learner, err := NewLearner(cfg, dims.Latent, spec.Period)
	if err != nil {
		return nil, err
	}
	stops, err := newStops(parts.Safety, parts.Robot)
	if err != nil {
		return nil, err
	}
	shape := Shape{Obs: dims.Obs, Action: dims.Action, Latent: dims.Latent}
	a := &Agent{
		robot: parts.Robot, source: parts.Source, model: parts.Model, plans: parts.Plans, stage: parts.Stage,
		shape:      shape,
		tick:       NewTick(shape),
		learner:    learner,
		gate:       NewGate(cfg.Gate, learner.LabelWeight(), spec.Period),
		guard:      newGuard(cfg.Guard, spec),
		stops:      stops,
		deadman:    parts.Safety.RequireDeadman,
		maxPlanAge: cfg.MaxPlanAge,
		fallback:   make([]float64, dims.Latent),
	}
	if a.stage == nil {
		a.stage = new(atomic.Uint64)
	}
	a.watcher, _ = parts.Source.(rewardsrc.Watcher)
	a.operator, _ = parts.Source.(rewardsrc.Reachable)
	a.rewarder, _ = parts.Robot.(hal.Rewarder)
	_, a.resets = parts.Robot.(hal.Resetter)
	a.disarmer, _ = parts.Robot.(hal.Disarmer)
	a.guarded, _ = parts.Robot.(hal.Guarded)
	direction(a.fallback, rand.New(rand.NewPCG(cfg.Seed, fallbackStream)))
	return a, nil
}

// fallbackStream keeps the fallback direction apart from the planner's draws,
// whose streams are scattered tick numbers.
const fallbackStream = ^uint64(0)

// Shape returns the sizes of the agent's ticks.
func (a *Agent) Shape() Shape { return a.shape }

// Learner returns the agent's learner, for a warm start and for snapshots.
func (a *Agent) Learner() *Learner { return a.learner }

// Armed reports whether actions go to the actuators.
func (a *Agent) Armed() bool { return a.life.Mode() == Armed }

// Mode is whether the robot may move.
func (a *Agent) Mode() Mode { return a.life.Mode() }

// Cause is why the robot is stopped: the first cause, latched; else FaultNone.
func (a *Agent) Cause() Fault { return a.life.Cause() }

// Present is what the last tick found that stops the robot, or would stop one
// that moves: it keeps Arm and Reset from succeeding.
func (a *Agent) Present() Fault { return a.present }

// Arm lets actions go to the actuators from the next tick on. It is an
// operator's explicit act. It is refused with ErrFaulted while a stop is
// latched, and with ErrPresent while there is something that would stop the
// robot. One that refuses, or that has not set a deadman which is required, is
// halted again. An armed robot stays as it is.
func (a *Agent) Arm() error {
	if a.Armed() { // its actuators are not where a halted robot's are
		return nil
	}
	next := a.life
	if err := next.Arm(a.present); err != nil {
		return fmt.Errorf("controller: arm: %w", err)
	}
	if err := a.armRobot(); err != nil {
		return fmt.Errorf("controller: arm: %w", errors.Join(err, a.haltRobot()))
	}
	a.life = next
	return nil
}

// enter stores the stage.
func (a *Agent) enter(s Stage) { a.stage.Store(uint64(s)) }

func (a *Agent) armRobot() error {
	a.enter(StageArm)
	if err := a.robot.Arm(); err != nil {
		return err
	}
	if a.deadman && a.Deadman() <= a.robot.Spec().Period {
		return errNoDeadman
	}
	return nil
}

// Deadman is the time after which the robot stops by itself when it hears
// nothing; 0 where it does not, or it is not known before it is armed.
func (a *Agent) Deadman() time.Duration {
	if a.guarded == nil {
		return 0
	}
	return a.guarded.Deadman()
}

// Disarm is an orderly stop: the actuators go to their disarmed output, where
// the robot has one, else to their failsafe output, and the robot can be armed
// again. A robot that cannot be disarmed is stopped (FaultAct). One that is not
// armed stays as it is. An error is the robot's; the agent is disarmed
// nevertheless.
func (a *Agent) Disarm() error {
	if !a.Armed() {
		return nil
	}
	if a.disarmer == nil {
		return a.Halt(FaultNone)
	}
	a.enter(StageDisarm)
	if err := a.disarmer.Disarm(); err != nil {
		return errors.Join(err, a.Halt(FaultAct))
	}
	a.life.Disarm()
	a.guard.restartDisarmed()
	return nil
}

// Halt brings the actuators to their failsafe output and latches the stop; the
// first cause stays the reported one. With FaultNone nothing is latched: that
// is the end of a run. An error is the robot's; no action reaches it
// nevertheless, and each Step tells it again until it obeys.
func (a *Agent) Halt(fault Fault) error {
	a.life.Stop(fault)
	return a.haltRobot()
}

// Reset clears a latched stop. It is an operator's explicit act, and refused
// with ErrPresent while there is still something to stop for. The robot is then
// disarmed: a reset is no restart.
func (a *Agent) Reset() error {
	if err := a.life.Reset(a.present); err != nil {
		return fmt.Errorf("controller: reset: %w", err)
	}
	return nil
}

// haltAgain tells the robot again; one that does not obey is neither reset nor
// armed.
func (a *Agent) haltAgain() {
	a.enter(StageHalt)
	if a.restless = a.robot.Halt() != nil; a.restless {
		a.note(FaultAct)
	}
}

func (a *Agent) haltRobot() error {
	a.guard.restart()
	a.enter(StageHalt)
	err := a.robot.Halt()
	a.restless = err != nil
	return err
}

// Step runs one tick:
//
//	sense -> guard in -> forget -> φ, D-gap -> ask -> labels -> update ->
//	offer the state, take z -> act π -> guard out -> actuate
//
// Labels are polled after the ask, so that an oracle that answers at once is
// asked, answers, and teaches within the same tick, as in the paper; a press
// that came since the last tick is applied in this one all the same.
//
// The caller has filled t's Index, which counts up, Elapsed, Deadline, Wake,
// Episode, Step and the episode flags; Done and the recording are the caller's
// too. Step fills the rest. An error is a *FaultError: this tick has stopped the
// robot. A caller may go on: a stopped robot senses, learns and plans, and what
// is wrong with it is no error any more.
//
// t is read once at the start and written once at the end.
func (a *Agent) Step(t *Tick) error {
	work := a.tick
	*work.Header = Header{
		Index: t.Index, Elapsed: t.Elapsed, Deadline: t.Deadline, Wake: t.Wake, Done: t.Done,
		Episode: t.Episode, Step: t.Step,
		Flags: t.Flags & (FlagEpisodeStart | FlagEpisodeEnd)}
	clear(work.Z)
	a.present, a.tripped = FaultNone, nil
	a.noteArmed(work)
	a.guard.repeat(work.Action)
	if a.restless && !a.Armed() {
		a.haltAgain()
	}
	a.run(work)
	a.noteStopped(work)
	work.Request = a.gate.OpenRequest()
	t.CopyFrom(work)
	if a.tripped != nil {
		return a.tripped
	}
	return nil
}

func (a *Agent) noteArmed(t *Tick) {
	armed := a.Armed()
	if armed {
		t.Flags |= FlagArmed
		if !a.wasArmed {
			a.armedAt = t.Index
		}
	}
	a.wasArmed = armed
}

// note notes the first thing that is wrong in a tick.
func (a *Agent) note(fault Fault) {
	if a.present == FaultNone {
		a.present = fault
	}
}

// trip stops the robot, at once. Nothing of a stopped robot stops it again.
func (a *Agent) trip(t *Tick, fault Fault, cause error) {
	a.note(fault)
	if a.life.Mode() == Stopped {
		return
	}
	a.tripped = &FaultError{Fault: fault, Tick: t.Index, Err: cause}
	if err := a.Halt(fault); err != nil {
		a.tripped.Err = errors.Join(cause, err)
	}
}

// noteStopped records a latched stop. In the tick of the stop the actuators
// have gone to their failsafe output.
func (a *Agent) noteStopped(t *Tick) {
	if a.life.Mode() == Stopped {
		t.Flags |= FlagStopped
	}
	t.Fault = a.life.Cause()
	if a.tripped != nil {
		a.guard.repeat(t.Action)
	}
}

func (a *Agent) run(t *Tick) {
	if a.resets && t.Flags.Has(FlagEpisodeStart) {
		a.guard.restart()
		a.guard.repeat(t.Action)
	}
	fault, cause := a.perceive(t)
	if stop, why := a.stops.check(t, fault == FaultNone); stop != FaultNone {
		a.trip(t, stop, why)
	}
	if t.Flags.Has(FlagArmed) {
		a.learner.Advance(t.Elapsed)
	}
	a.expire(t)
	a.reach(t)
	if fault == FaultNone {
		fault, cause = a.appraise(t)
	}
	a.listen(t)
	if t.LogDet = a.learner.belief.LogDet(); !finite(t.LogDet) {
		t.Hash = a.learner.belief.Hash()
		a.trip(t, FaultBelief, errBelief)
		return
	}
	if err := a.offer(t, fault == FaultNone); err != nil {
		a.trip(t, FaultHost, err)
		return
	}
	if planFault, err := a.follow(t); planFault != FaultNone {
		a.trip(t, planFault, err)
		return
	}
	if fault == FaultNone && !t.Flags.Has(FlagEpisodeEnd) {
		fault, cause = a.decide(t)
	}
	if fault != FaultNone {
		a.note(fault)
	}
	if a.guard.tooMany(fault != FaultNone) {
		a.trip(t, fault, cause)
		return
	}
	a.actuate(t)
}

var (
	errImplausible = errors.New("an observation is not finite or outside its plausible range: check the sensors and the channel's limits")
	errPhi         = errors.New("the features are not finite or too large: check the bundle with `optibfm model check`")
	errAction      = errors.New("the policy's action is not finite: check the bundle with `optibfm model check`")
	errPlan        = errors.New("the plan is not finite or from the future: the host process is broken")
	errNoPlan      = errors.New("the planner is silent or too slow: see its events in the log, or raise max_plan_age_ticks")
	errBelief      = errors.New("log det V is not finite")
)

// perceive senses. With a fault the observation must not be used.
func (a *Agent) perceive(t *Tick) (Fault, error) {
	a.enter(StageSense)
	at, err := a.robot.Sense(t.Obs)
	if err == nil {
		a.sensedAt = at
	}
	t.SenseAt = a.sensedAt
	if a.rewarder != nil && err == nil {
		if r, ok := a.rewarder.Reward(); ok && finite(r) {
			t.Reward = r
			t.Flags |= FlagReward
		}
	}
	if a.watcher != nil {
		a.watcher.Watch(t.Index, t.SenseAt, t.Reward, t.Flags.Has(FlagReward))
	}
	if err != nil {
		clear(t.Obs)
		return a.unusable(t, FaultSense), err
	}
	if !a.guard.admits(t.Obs) {
		return a.unusable(t, FaultObs), errImplausible
	}
	return FaultNone, nil
}

// unusable marks a tick that has no features.
func (a *Agent) unusable(t *Tick, fault Fault) Fault {
	t.Flags |= FlagBadObs
	clear(t.Phi)
	return fault
}

// expire ends a request whose time is over, also while nothing can be sensed.
func (a *Agent) expire(t *Tick) {
	if closed, ok := a.gate.Expire(t.Index); ok {
		t.Flags |= FlagRequestClosed
		a.source.Ask(closed)
	}
}

// reach finds out whether there is anybody to ask, and lets the gate's time
// pass if so. Where a device came back, nobody waits for the pauses that its
// absence made.
func (a *Agent) reach(t *Tick) {
	alone := a.operator != nil && !a.operator.Reachable()
	if alone {
		t.Flags |= FlagUnreachable
	} else if a.alone {
		a.gate.Resume()
	}
	a.alone = alone
	if t.Flags.Has(FlagArmed) && !alone {
		a.gate.Pass(t.Elapsed)
	}
	t.Kappa = a.gate.Kappa()
}

// appraise computes φ and the D-gap, and asks where the gate lets it. Whether the
// robot was armed when the tick began decides, here as in reach: that is what the
// log says, and what replay goes by.
func (a *Agent) appraise(t *Tick) (Fault, error) {
	a.enter(StageFeatures)
	if err := a.model.Phi(t.Phi, t.Obs); err != nil {
		return a.unusable(t, FaultModel), err
	}
	normSq := a.learner.belief.NormSq(t.Phi)
	if !finite(normSq) { // so is one of φ's numbers, or it is absurdly large
		return a.unusable(t, FaultModel), errPhi
	}
	t.NormSq = normSq
	t.DGap = posterior.DGap(normSq, a.learner.perUnit)
	a.learner.Observe(t.Index, t.SenseAt, t.Phi)
	if !a.gate.Passes(normSq) {
		return FaultNone, nil
	}
	t.Flags |= FlagGateOpen
	if !t.Flags.Has(FlagArmed) || a.alone {
		return FaultNone, nil
	}
	if request, ok := a.gate.Ask(t.Index, t.SenseAt, t.DGap); ok {
		t.Flags |= FlagAsked
		a.source.Ask(request)
	}
	return FaultNone, nil
}

// listen applies the labels that have come.
func (a *Agent) listen(t *Tick) {
	a.enter(StageLabels)
	n := a.source.Poll(a.labels[:])
	for _, label := range a.labels[:n] {
		t.Labels[t.NumLabels] = a.apply(t, label)
		t.NumLabels++
	}
}

func (a *Agent) apply(t *Tick, label rewardsrc.Label) AppliedLabel {
	if label.Request == 0 || label.Kind == rewardsrc.Undo {
		return a.learner.Apply(label, 0)
	}
	asked, outcome := a.gate.Find(label.Request)
	if outcome != Applied {
		refused := describe(label)
		refused.Outcome = outcome
		return refused
	}
	result := a.learner.Apply(label, asked)
	if result.Outcome != Applied && result.Outcome != ClosedRequest {
		return result
	}
	if closed, ok := a.gate.Answer(label.Request); ok {
		t.Flags |= FlagRequestClosed
		a.source.Ask(closed)
	}
	return result
}

// offer hands the state to the planner.
func (a *Agent) offer(t *Tick, usable bool) error {
	a.enter(StagePlan)
	s := a.plans.State()
	s.Next, s.At, s.Episode = t.Index+1, t.SenseAt, t.Episode
	s.Valid = 0
	if usable && !t.Flags.Has(FlagEpisodeEnd) {
		s.Valid = 1
		copy(s.Obs, t.Obs)
	}
	a.learner.belief.State(s.Belief)
	t.Hash = a.learner.belief.Hash()
	s.Hash = t.Hash
	return a.plans.Offer()
}

// follow takes the newest z. The host process is not trusted: everything is
// checked after it was copied.
func (a *Agent) follow(t *Tick) (Fault, error) {
	p := a.plans.Latest()
	if p == nil {
		return a.withoutPlan(t)
	}
	t.PlanTick, t.PlanConfirmed, t.PlanScore = p.Tick, p.Confirmed, p.Score
	copy(t.Z, p.Z)
	length := norm(t.Z)
	if !finite(length) || !finite(t.PlanScore) || t.PlanTick > t.PlanConfirmed || t.PlanConfirmed > t.Index {
		return FaultHost, errPlan
	}
	if !a.hasPlan || t.PlanTick != a.planTick {
		t.Flags |= FlagReplanned
	}
	a.hasPlan, a.planTick = true, t.PlanTick
	if length < tinyNorm {
		a.fallBack(t)
	}
	return a.checkAge(t, t.PlanConfirmed)
}

func (a *Agent) withoutPlan(t *Tick) (Fault, error) {
	a.fallBack(t)
	if !a.Armed() {
		return FaultNone, nil
	}
	return a.checkAge(t, a.armedAt)
}

func (a *Agent) fallBack(t *Tick) {
	t.Flags |= FlagFallbackZ
	copy(t.Z, a.fallback)
}

// checkAge bounds the age of z. A robot that stands still needs no plan, and
// one that is armed without any gets as much time as a plan has; but a plan
// that aged while it stood still does not let it be armed.
func (a *Agent) checkAge(t *Tick, since uint64) (Fault, error) {
	if t.Index-since <= a.maxPlanAge {
		return FaultNone, nil
	}
	a.note(FaultStalePlan)
	if !a.Armed() {
		return FaultNone, nil
	}
	return FaultStalePlan, errNoPlan
}

// decide evaluates the policy and limits its action.
func (a *Agent) decide(t *Tick) (Fault, error) {
	a.enter(StagePolicy)
	if err := a.model.Act(t.Action, t.Obs, t.Z); err != nil {
		t.Flags |= FlagBadAction
		a.guard.repeat(t.Action) // the model may have written half of it
		return FaultModel, err
	}
	limited, ok := a.guard.limit(t.Action)
	if !ok {
		t.Flags |= FlagBadAction
		return FaultModel, errAction
	}
	if limited {
		t.Flags |= FlagLimited
	}
	return FaultNone, nil
}

func (a *Agent) actuate(t *Tick) {
	if !a.Armed() || t.Flags.Has(FlagEpisodeEnd) {
		return
	}
	a.enter(StageAct)
	if err := a.robot.Act(t.Action); err != nil {
		a.trip(t, FaultAct, err)
		return
	}
	a.guard.sent(t.Action)
}
