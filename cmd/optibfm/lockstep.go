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
func runLockstep(ctx context.Context, s *session, show display) (result outcome, err error) {
	robot, err := openRobot(ctx, s.file, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, closeRobot(robot)) }()
	spec := robot.Spec()
	shape := s.shape()
	r := &lockstep{session: s, display: show, tally: newTally(shape), tick: controller.NewTick(shape),
		belief: make([]float64, posterior.StateLen(shape.Latent))}
	r.stepper = simulate.Stepper{Episodes: newEpisodes(robot, s.file.Run), Period: spec.Period}
	defer func() { err = errors.Join(err, closeModels(r.models...)) }()
	if err := r.openPlanner(); err != nil {
		return result, err
	}
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
	network, err := s.model.evaluator(s.file)
	if err != nil {
		return result, err
	}
	r.models = append(r.models, network)
	agent, err := controller.NewAgent(s.file.Controller, controller.Parts{Robot: robot, Source: r.source, Model: network, Plans: r.plans, Safety: s.file.Rules(true)})
	if err != nil {
		return result, err
	}
	if err := warmStart(agent.Learner(), s.file.Model); err != nil {
		return result, err
	}
	r.stepper.Agent = agent
	show.begin(s, spec, nil, r.tally)
	defer show.end()
	err = r.run(ctx)
	result = outcome{tally: r.tally, robot: spec.Name, logPath: r.logPath, posture: "lockstep"}
	var fault *controller.FaultError
	if errors.As(err, &fault) {
		result.fault, result.found = fault.Fault.String(), fault.Err.Error()
	}
	return result, err
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
	r.desk = &desk{
		source: source, log: r.log, tally: r.tally, notify: r.display.label,
		answersOnly: o.LabelMode == configs.ModePerRequest,
	}
	r.source = newLockstepSource(r.desk)
	return nil
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
