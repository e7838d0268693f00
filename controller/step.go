package controller

import (
	"errors"

	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// Step runs one tick; the package documentation lists its stages.
//
// The caller sets t's Index, which increases, Elapsed, Deadline, Wake, Episode,
// Step and the episode flags; it also sets Done and records the tick. Step
// sets the rest. An error is a *FaultError: this tick stopped the robot. The
// caller may continue: a stopped robot senses and plans, and learns from labels
// about moments before the stop. Faults of a stopped robot are not errors.
//
// Step reads t once at the start and writes it once at the end.
func (a *Agent) Step(t *Tick) error {
	work := a.tick
	*work.Header = Header{
		Index: t.Index, Elapsed: t.Elapsed, Deadline: t.Deadline, Wake: t.Wake, Done: t.Done,
		Episode: t.Episode, Step: t.Step,
		Flags: t.Flags & (FlagEpisodeStart | FlagEpisodeEnd)}
	clear(work.Z)
	a.present, a.tripped = FaultNone, nil
	a.recordArmed(work)
	a.recordSwitch(work)
	a.guard.repeat(work.Action)
	if a.haltFailed && !a.Mode().Moves() {
		a.retryHalt()
	}
	a.run(work)
	a.recordStop(work)
	a.judge(work)
	work.Request = a.gate.OpenRequest()
	t.CopyFrom(work)
	if a.tripped != nil {
		return a.tripped
	}
	return nil
}

func (a *Agent) recordArmed(t *Tick) {
	armed := a.Armed()
	switch {
	case armed:
		t.Flags |= FlagArmed
		if !a.wasArmed {
			a.armedAt = t.Index
		}
	case a.Mode() == Starting:
		t.Flags |= FlagStarting
	case a.Mode() == Resting:
		t.Flags |= FlagResting
	}
	a.wasArmed = armed
}

// recordSwitch records a switch of the task and closes the request about the task before.
func (a *Agent) recordSwitch(t *Tick) {
	if !a.switched {
		return
	}
	a.switched = false
	t.Flags |= FlagSwitched
	if closed, ok := a.gate.Forget(); ok {
		t.Flags |= FlagRequestClosed
		a.source.Ask(closed)
	}
}

// notePresent keeps the first fault of a tick.
func (a *Agent) notePresent(fault Fault) {
	if a.present == FaultNone {
		a.present = fault
	}
}

// trip stops the robot at once, unless it is stopped already.
func (a *Agent) trip(t *Tick, fault Fault, cause error) {
	a.notePresent(fault)
	if a.lifecycle.Mode() == Stopped {
		return
	}
	a.tripped = &FaultError{Fault: fault, Tick: t.Index, Err: cause}
	if err := a.Halt(fault); err != nil {
		a.tripped.Err = errors.Join(cause, err)
	}
}

// recordStop records a latched stop. In the tick of the stop the actuators
// went to their failsafe output.
func (a *Agent) recordStop(t *Tick) {
	if a.lifecycle.Mode() == Stopped {
		t.Flags |= FlagStopped
	}
	t.Fault = a.lifecycle.Cause()
	if a.tripped != nil {
		a.guard.repeat(t.Action)
	}
}

func (a *Agent) run(t *Tick) {
	if a.resets && t.Flags.Has(FlagEpisodeStart) {
		a.beginEpisode(t)
	}
	fault, cause := a.sense(t)
	if a.begins && fault == FaultNone {
		a.begins = false
		a.positions.update(a.readings)
		a.beginMotion()
		a.guard.repeat(t.Action)
	}
	a.stopHistory.Note(t.Index, t.SenseAt, a.lifecycle.Mode() == Stopped || t.Excluded())
	if stop, why := a.stops.check(t, a.readings, fault == FaultNone); stop != FaultNone {
		a.trip(t, stop, why)
	}
	a.relearn(t)
	if t.Flags.Has(FlagArmed) {
		a.learner.Advance(t.Elapsed)
	}
	a.expireRequest(t)
	a.holdForRequest(t)
	a.checkOperator(t)
	if fault == FaultNone {
		fault, cause = a.evaluate(t)
	}
	a.applyLabels(t)
	t.Revised = a.learner.Settle(t.Index)
	a.noteLearner(t)
	if t.LogDet = a.learner.belief.LogDet(); !finite(t.LogDet) {
		t.Hash = a.learner.belief.Hash()
		a.trip(t, FaultBelief, errBelief)
		return
	}
	if err := a.offerState(t, fault == FaultNone); err != nil {
		a.trip(t, FaultHost, err)
		return
	}
	if planFault, err := a.takePlan(t); planFault != FaultNone {
		clear(t.Z)
		a.trip(t, planFault, err)
		return
	}
	a.explorer.limit(t)
	if err := a.checkFollows(fault == FaultNone); err != nil {
		a.trip(t, FaultFollow, err)
		return
	}
	if fault == FaultNone && !t.Flags.Has(FlagEpisodeEnd) {
		fault, cause = a.chooseAction(t)
	}
	if fault != FaultNone {
		a.notePresent(fault)
	}
	if a.guard.tooMany(fault != FaultNone) {
		a.trip(t, fault, cause)
		return
	}
	a.actuate(t)
}

// beginEpisode forgets the motion before the reset of a simulator.
func (a *Agent) beginEpisode(t *Tick) {
	a.guard.restart()
	a.guard.repeat(t.Action)
	a.begins = true
	a.explorer.restart()
	if a.assembler != nil {
		a.assembler.Reset()
	}
}

// relearn begins the task again if the previous tick found that it has changed.
func (a *Agent) relearn(t *Tick) {
	if !a.changed {
		return
	}
	a.learner.Relearn(t.Index)
	a.changed = false
	a.restartTask()
}

// holdForRequest holds the robot while a request is open, if the configuration asks for it.
func (a *Agent) holdForRequest(t *Tick) {
	if a.hold != "" && t.Flags.Has(FlagArmed) && a.gate.OpenRequest() != 0 {
		t.Flags |= FlagHeld
	}
}

// noteLearner copies the learner's statistics into the Tick.
func (a *Agent) noteLearner(t *Tick) {
	t.Sigma, t.Zero, t.Predicted = a.learner.Sigma(), a.learner.Zero(), a.learner.Predicted()
	t.Reaction = a.learner.Reaction()
	t.Evidence = a.learner.Evidence()
	t.Counted = a.learner.Noise().Labels
}

// The causes of faults are allocated once: a tick allocates nothing.
var (
	errImplausible = errors.New("an observation is not finite or outside its plausible range; " +
		"check the sensors and the channel's limits")
	errPhi    = errors.New("the features are not finite or too large; check the bundle with `optibfm model check`")
	errAction = errors.New("the policy's action is not finite; check the bundle with `optibfm model check`")
	errPlan   = errors.New("the plan is not finite or from the future; the host process is broken")
	errNoPlan = errors.New("the planner is silent or too slow; " +
		"see its events in the log, or raise max_plan_age_ticks")
	errBelief = errors.New("log det V is not finite")
)

// sense reads the robot. After a fault the observation must not be used.
func (a *Agent) sense(t *Tick) (Fault, error) {
	a.setStage(StageSense)
	at, err := a.robot.Sense(a.readings)
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
		if a.lifecycle.Mode() == Stopped && errors.Is(err, hal.ErrLost) {
			a.haltFailed = true // Halt opens the port again, and halts what returns
		}
		clear(a.readings)
		clear(t.Obs)
		return a.discardObservation(t, FaultSense), err
	}
	if !a.guard.admits(a.readings) {
		if a.assembler != nil {
			clear(t.Obs) // it is that of the tick before
		}
		return a.discardObservation(t, FaultObs), errImplausible
	}
	if a.assembler != nil {
		a.assembler.Assemble(t.Obs, a.readings)
	}
	return FaultNone, nil
}

// discardObservation marks a tick that has no features.
func (a *Agent) discardObservation(t *Tick, fault Fault) Fault {
	t.Flags |= FlagBadObs
	clear(t.Phi)
	return fault
}

// expireRequest closes a request at its timeout, with or without an observation.
func (a *Agent) expireRequest(t *Tick) {
	if closed, ok := a.gate.Expire(t.Index); ok {
		t.Flags |= FlagRequestClosed
		a.source.Ask(closed)
	}
}

// checkOperator records whether the operator can be reached, and advances the
// gate if so. The return of an operator ends the pauses that the absence
// caused.
func (a *Agent) checkOperator(t *Tick) {
	unreachable := a.operator != nil && !a.operator.Reachable()
	if unreachable {
		t.Flags |= FlagUnreachable
	} else if a.unreachable {
		a.gate.Resume()
	}
	a.unreachable = unreachable
	if t.Flags.Has(FlagArmed) && !unreachable {
		a.gate.Advance(t.Elapsed)
	}
	t.Kappa = a.gate.Kappa()
}

// evaluate computes φ and the D-gap, and asks for a label if the gate opens. It
// uses the mode at the start of the tick, as checkOperator does: the log holds
// that mode, and replay uses it.
func (a *Agent) evaluate(t *Tick) (Fault, error) {
	a.setStage(StageFeatures)
	if err := a.model.Phi(t.Phi, t.Obs); err != nil {
		return a.discardObservation(t, FaultModel), err
	}
	normSq := a.learner.Gain(t.Phi, t.Obs)
	if !finite(normSq) { // an element of φ is not finite or far too large
		return a.discardObservation(t, FaultModel), errPhi
	}
	t.NormSq = normSq
	t.DGap = posterior.DGap(normSq, a.learner.labelWeight)
	if t.Teaches() { // a label is about what the robot did, not about its wait
		a.learner.observe(t.Index, t.SenseAt)
	}
	if !a.gate.Passes(normSq) {
		return FaultNone, nil
	}
	t.Flags |= FlagGateOpen
	if !t.Flags.Has(FlagArmed) || a.unreachable || a.contented() {
		return FaultNone, nil
	}
	if request, ok := a.gate.Ask(t.Index, t.SenseAt, t.DGap); ok {
		t.Flags |= FlagAsked
		if !a.gate.Heard() {
			t.Flags |= FlagUncounted
		}
		a.source.Ask(request)
	}
	return FaultNone, nil
}

// restartTask lets the planner begin with another belief of the same run.
func (a *Agent) restartTask() {
	a.proficiency.Resume(false)
	a.switches++
}

// contented reports whether the task is learnt and the newest label does not contradict it.
func (a *Agent) contented() bool {
	return a.proficiency.Learnt() && a.learner.Predicted().Last == 1
}

func (a *Agent) applyLabels(t *Tick) {
	a.setStage(StageLabels)
	n := a.source.Poll(a.labels[:])
	for _, label := range a.labels[:n] {
		t.Labels[t.NumLabels] = a.applyLabel(t, label)
		t.NumLabels++
	}
}

func (a *Agent) applyLabel(t *Tick, label rewardsrc.Label) AppliedLabel {
	if !a.stopHistory.Admits(label) {
		return refuse(label, RobotStopped)
	}
	if label.Request == 0 || label.Kind == rewardsrc.Undo || label.Kind == rewardsrc.Keep {
		if a.comparesAcrossStop(label, label.Tick) {
			return refuse(label, RobotStopped)
		}
		result := a.learner.Apply(label, 0)
		if result.Outcome == Applied {
			a.gate.Hear()
			if label.Kind == rewardsrc.Keep {
				a.restartTask()
			}
		}
		return result
	}
	asked, outcome := a.gate.Find(label.Request)
	if outcome != Applied {
		return refuse(label, outcome)
	}
	if a.comparesAcrossStop(label, asked) {
		return refuse(label, RobotStopped)
	}
	label.At = min(label.At, a.stopHistory.RunUntil(asked)) // states after a stop do not count
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

// comparesAcrossStop reports whether a label compares a tick with one before the end of the last
// stop.
func (a *Agent) comparesAcrossStop(label rewardsrc.Label, tick uint64) bool {
	earlier := tick - min(tick, a.learner.compared)
	return label.Kind == rewardsrc.Comparison && tick != rewardsrc.NoTick &&
		a.stopHistory.RunUntil(tick) != a.stopHistory.RunUntil(earlier)
}

func refuse(label rewardsrc.Label, why Outcome) AppliedLabel {
	refused := newAppliedLabel(label)
	refused.Outcome = why
	return refused
}

// offerState sends the state and the belief to the planner.
func (a *Agent) offerState(t *Tick, usable bool) error {
	a.setStage(StagePlan)
	s := a.plans.State()
	s.Next, s.At, s.Episode = t.Index+1, t.SenseAt, t.Episode
	s.Valid = 0
	if usable && !t.Flags.Has(FlagEpisodeEnd) {
		s.Valid = 1
		copy(s.Obs, t.Obs)
	}
	a.learner.WriteBelief(s)
	s.Switches = a.switches
	t.Hash = s.Hash
	s.Learnt = 0
	if a.proficiency.Learnt() {
		s.Learnt = 1
	}
	return a.plans.Offer()
}

// takePlan copies the newest plan and then checks the copy: the agent does not
// trust the host process.
func (a *Agent) takePlan(t *Tick) (Fault, error) {
	p := a.plans.Latest()
	if p == nil {
		return a.withoutPlan(t)
	}
	t.PlanTick, t.PlanConfirmed, t.PlanScore, t.Known = p.Tick, p.Confirmed, p.Score, p.Known
	copy(t.Z, p.Z)
	length := norm(t.Z)
	if !finite(length) || !finite(t.PlanScore) || !t.Known.valid() ||
		t.PlanTick > t.PlanConfirmed || t.PlanConfirmed > t.Index {
		return FaultHost, errPlan
	}
	if !a.hasPlan || t.PlanTick != a.planTick {
		t.Flags |= FlagReplanned
	}
	a.hasPlan, a.planTick = true, t.PlanTick
	if length < tinyNorm {
		a.useFallback(t)
	}
	return a.checkAge(t, t.PlanConfirmed)
}

// judge decides whether the task is learnt, and whether it has changed. The tick of a stop decides
// nothing.
func (a *Agent) judge(t *Tick) {
	if t.Flags.Has(FlagArmed) && !t.Flags.Has(FlagStopped) {
		a.proficiency.Advance(t)
		if a.learner.Changed() {
			a.changed = true
			t.Flags |= FlagChanged
		}
	}
	if a.learner.Keepable() {
		t.Flags |= FlagKeepable
	}
	if a.proficiency.Learnt() {
		t.Flags |= FlagLearnt
	}
}

func (a *Agent) withoutPlan(t *Tick) (Fault, error) {
	a.useFallback(t)
	if !a.Armed() {
		return FaultNone, nil
	}
	return a.checkAge(t, a.armedAt)
}

func (a *Agent) useFallback(t *Tick) {
	t.Flags |= FlagFallbackZ
	copy(t.Z, a.fallback)
}

// checkAge bounds the age of z. A robot that is not armed needs no plan, but a
// plan that is too old prevents arming. A robot armed without a plan has the
// same time to receive one.
func (a *Agent) checkAge(t *Tick, since uint64) (Fault, error) {
	if t.Index-since <= a.maxPlanAge {
		return FaultNone, nil
	}
	a.notePresent(FaultStalePlan)
	if !a.Armed() {
		return FaultNone, nil
	}
	return FaultStalePlan, errNoPlan
}

// mover returns the motion to a pose in progress, nil for none.
func (a *Agent) mover() *mover {
	switch a.Mode() {
	case Starting:
		return a.start
	case Resting:
		return a.rest
	}
	return nil
}

// checkFollows returns an error if an actuator does not follow the motion to a pose.
func (a *Agent) checkFollows(usable bool) error {
	m := a.mover()
	if m == nil || !usable {
		return nil
	}
	a.positions.update(a.readings)
	return m.follows(a.guard.last, a.positions.now)
}

// chooseAction evaluates the policy, unless the robot is held or moves to a pose, and limits the
// action.
func (a *Agent) chooseAction(t *Tick) (Fault, error) {
	a.setStage(StagePolicy)
	if t.Flags.Has(FlagHeld) {
		if a.guard.hold(t.Action, a.hold) {
			t.Flags |= FlagLimited
		}
		return FaultNone, nil
	}
	m := a.mover()
	if m != nil && (m == a.rest || !m.held()) {
		a.moveToPose(t, m)
		return FaultNone, nil
	}
	if err := a.model.Act(t.Action, t.Obs, t.Z); err != nil {
		t.Flags |= FlagBadAction
		a.guard.repeat(t.Action) // the model may have written a part of it
		return FaultModel, err
	}
	if a.assembler != nil {
		a.assembler.NoteAction(t.Action)
	}
	limited, ok := a.limit(t.Action, m)
	if !ok {
		t.Flags |= FlagBadAction
		return FaultModel, errAction
	}
	if limited {
		t.Flags |= FlagLimited
	}
	return FaultNone, nil
}

// limit converts the policy's action to the robot's units, blends it with the start pose and limits
// it.
func (a *Agent) limit(action []float32, start *mover) (limited, ok bool) {
	if start == nil {
		return a.guard.limit(action)
	}
	if !a.guard.convert(action) {
		return false, false
	}
	return start.blendStep(a.guard, action), true
}

// moveToPose chooses the next command of a motion to a pose. The policy's history has the action
// that gives it.
func (a *Agent) moveToPose(t *Tick, m *mover) {
	if m.step(a.guard, t.Action) {
		t.Flags |= FlagLimited
	}
	if a.assembler != nil {
		a.guard.policyAction(a.command, t.Action)
		a.assembler.NoteAction(a.command)
	}
}

func (a *Agent) actuate(t *Tick) {
	if !a.Mode().Moves() || t.Flags.Has(FlagEpisodeEnd) {
		return
	}
	if stuck := a.stuck.Load(); stuck != nil {
		a.trip(t, stuck.Fault, stuck.Err)
		return
	}
	a.setStage(StageAct)
	if err := a.robot.Act(t.Action); err != nil {
		a.trip(t, FaultAct, err)
		return
	}
	a.guard.sent(t.Action)
	a.endMotion(t)
}

// endMotion hands over to the policy after the motion to the start pose, and disarms after that to
// the rest pose.
func (a *Agent) endMotion(t *Tick) {
	switch m := a.mover(); {
	case m == nil:
	case m == a.start:
		if m.over {
			a.lifecycle.Started()
		}
	case m.held():
		if err := a.goLimp(); err != nil {
			a.notePresent(FaultAct)
			a.tripped = &FaultError{Fault: FaultAct, Tick: t.Index, Err: err}
		}
	}
}
