package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/simulate"
	"optibfm/tflite"
)

// lockstep runs the agent and the planner in one goroutine, the planner inside
// the tick, on simulated time: a run is a function of the configuration, the
// model and the seed.
type lockstep struct {
	session *session
	display display
	models  []tflite.Model // to be released
	network tflite.Evaluator
	stepper simulate.Stepper
	plans   *controller.Lockstep
	desk    *desk
	source  *lockstepSource
	log     *flightlog.Writer
	logPath string
	tally   *tally
	tick    *controller.Tick
	belief  []float64 // scratch for snapshots
}

// runLockstep runs a session to its end and returns what happened.
func runLockstep(ctx context.Context, s *session, show display) (outcome, error) {
	r, err := newLockstep(s, show)
	if err != nil {
		return outcome{}, err
	}
	return r.play(ctx)
}

// newLockstep loads the models of a run. play releases them.
func newLockstep(s *session, show display) (*lockstep, error) {
	shape := s.shape()
	r := &lockstep{session: s, display: show, tally: newTally(shape), tick: controller.NewTick(shape),
		belief: make([]float64, posterior.StateLen(shape.Latent))}
	if err := errors.Join(r.openPlanner(), r.openNetwork()); err != nil {
		return nil, errors.Join(err, closeModels(r.models...))
	}
	return r, nil
}

// play opens the robot and runs until the session is over or ctx ends.
func (r *lockstep) play(ctx context.Context) (result outcome, err error) {
	defer func() { err = errors.Join(err, closeModels(r.models...)) }()
	s := r.session
	robot, err := openRobot(ctx, s, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, closeRobot(robot)) }()
	defer cutOff(ctx, robot)()
	spec := robot.Spec()
	r.stepper = simulate.Stepper{Episodes: newEpisodes(robot, s.file.Run), Period: spec.Period}
	if r.log, r.logPath, err = s.createLog(spec, "lockstep: simulated time", true); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.closeLog()) }()
	for _, text := range s.roomMade {
		if err := r.log.WriteEvent(flightlog.Event{Level: flightlog.Info, Text: text}); err != nil {
			return result, err
		}
	}
	if err := r.openDesk(); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.source.Halt()) }()
	agent, err := controller.NewAgent(s.file.Controller, controller.Parts{
		Robot: robot, Source: r.source, Model: r.network, Plans: r.plans, Safety: s.file.Rules(true),
	})
	if err != nil {
		return result, err
	}
	if err := s.warm.teach(ctx, agent.Learner()); err != nil {
		return result, err
	}
	r.stepper.Agent = agent
	r.display.begin(s, spec, nil, r.tally)
	defer r.display.end()
	err = r.run(ctx)
	result = outcome{tally: r.tally, robot: spec.Name, logPath: r.logPath, posture: "lockstep"}
	var fault *controller.FaultError
	if errors.As(err, &fault) {
		result.fault = fault.Fault.String()
	}
	return result, err
}

// lastStep is how long a step may take after the run was interrupted.
const lastStep = 300 * time.Millisecond

// cutOff watches a robot whose driver may wait for its simulator: lastStep after the
// end of ctx it cuts the connection, upon which the simulator halts. The returned
// function ends the watch.
func cutOff(ctx context.Context, robot hal.Robot) (end func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(lastStep):
			if b, ok := robot.(hal.Backstop); ok {
				b.HaltBeside()
			}
		}
	})
	return func() {
		stop()
		close(over)
	}
}

func (r *lockstep) openPlanner() error {
	searcher, _, err := r.session.model.searcher(r.session.file, 1)
	if err != nil {
		return err
	}
	r.models = append(r.models, searcher)
	planner, err := controller.NewPlanner(r.session.file.Controller, searcher)
	if err != nil {
		return err
	}
	r.plans = controller.NewLockstep(planner)
	return nil
}

func (r *lockstep) openNetwork() (err error) {
	if r.network, err = r.session.model.evaluator(r.session.file); err != nil {
		return err
	}
	r.models = append(r.models, r.network)
	return nil
}

func (r *lockstep) openDesk() error {
	o := r.session.file.Operator
	var source rewardsrc.Source = silent{}
	switch o.Source {
	case configs.SourceScripted:
		var err error
		if source, err = openScripted(o); err != nil {
			return err
		}
	case configs.SourceNone:
	default:
		return fmt.Errorf("operator.source: found %s: in lockstep time does not wait for a person: use %s or %s, or run in real time", o.Source, configs.SourceScripted, configs.SourceNone)
	}
	r.desk = newDesk(r.session.file, source, r.tally, nil)
	r.desk.log, r.desk.notify, r.desk.tell = r.log, r.display.label, r.tell
	r.source = newLockstepSource(r.desk) // which has the clock
	return nil
}

// tell records and shows an event.
func (r *lockstep) tell(e flightlog.Event) {
	r.display.event(e)
	if r.log == nil {
		return
	}
	if err := r.log.WriteEvent(e); err != nil && r.source.err == nil {
		r.source.err = err
	}
}

// run ticks until the episodes, the time or the caller's patience is over.
func (r *lockstep) run(ctx context.Context) error {
	if err := r.snapshot(0); err != nil {
		return err
	}
	if err := r.stepper.Agent.Arm(); err != nil {
		return err
	}
	limit := periods(r.session.file.Run.DurationS, r.stepper.Period)
	every := max(1, periods(r.session.file.Log.SnapshotS, r.stepper.Period))
	for ctx.Err() == nil && (limit == 0 || r.stepper.Index() < limit) {
		if more, err := r.step(); !more || err != nil {
			return err
		}
		if next := r.stepper.Index(); next%every == 0 {
			if err := r.snapshot(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// step runs a tick, if there is one more.
func (r *lockstep) step() (more bool, err error) {
	t := r.tick
	ran, err := r.stepper.Step(t)
	if !ran {
		return false, err
	}
	r.desk.noteTick(t)
	r.tally.add(t)
	r.display.tick(t)
	return true, errors.Join(err, r.record(t), r.source.err)
}

func (r *lockstep) record(t *controller.Tick) error {
	if r.log == nil {
		return nil
	}
	if r.plans.Fresh() {
		if err := r.log.WritePlan(logged(r.plans.Latest(), t.Deadline, r.session.file.Controller.Strategy)); err != nil {
			return err
		}
	}
	return r.log.WriteTick(t)
}

func (r *lockstep) snapshot(next uint64) error {
	if r.log == nil {
		return nil
	}
	belief := r.stepper.Agent.Learner().Belief()
	belief.State(r.belief)
	return r.log.WriteSnapshot(next, r.belief, belief.Hash())
}

func (r *lockstep) closeLog() error {
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}

// periods converts seconds to whole periods.
func periods(seconds float64, period time.Duration) uint64 {
	return uint64(seconds*float64(time.Second)/float64(period) + 0.5)
}

// newEpisodes divides a run as configured. Only a simulator has episodes.
func newEpisodes(robot hal.Robot, run configs.Run) simulate.Episodes {
	steps := run.Steps(robot.Spec().Period)
	if steps == 0 {
		return simulate.Episodes{}
	}
	return simulate.Episodes{
		Robot: simulate.Resetter(robot), Steps: uint32(min(steps, math.MaxUint32-1)), Limit: uint32(run.Episodes), Seed: run.Seed,
	}
}
