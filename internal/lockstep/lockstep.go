package lockstep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// Runner is a run in simulated time.
type Runner struct {
	session *setup.Session
	display terminal.Display
	models  []tflite.Model // Play closes them
	network tflite.Evaluator
	stepper episodes.Stepper
	plans   *controller.Lockstep
	intake  *recorder.LabelIntake
	source  *recorder.LockstepSource
	record  *recorder.Recorder
	logPath string
	tick    *controller.Tick
	belief  []float64 // scratch for snapshots
}

// Run runs a session to its end.
func Run(ctx context.Context, s *setup.Session, show terminal.Display) (recorder.Outcome, error) {
	r, err := New(s, show)
	if err != nil {
		return recorder.Outcome{}, err
	}
	return r.Play(ctx)
}

// New loads the models of a run. Play closes them.
func New(s *setup.Session, show terminal.Display) (*Runner, error) {
	shape := s.Shape()
	r := &Runner{
		session: s, display: show, tick: controller.NewTick(shape),
		belief: make([]float64, shape.StateLen()),
		record: &recorder.Recorder{Statistics: recorder.NewStatistics(shape), Display: show},
	}
	if err := errors.Join(r.openPlanner(), r.openNetwork()); err != nil {
		return nil, errors.Join(err, setup.CloseModels(r.models...))
	}
	return r, nil
}

// Play opens the robot and runs until the session is over or ctx ends.
func (r *Runner) Play(ctx context.Context) (result recorder.Outcome, err error) {
	defer func() { err = errors.Join(err, setup.CloseModels(r.models...)) }()
	s := r.session
	robot, err := setup.OpenRobot(ctx, s, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, setup.CloseRobot(robot)) }()
	defer cutOff(ctx, robot)()
	assembler, err := setup.NewAssembler(s.File, robot.Spec(), s.Model)
	if err != nil {
		return result, err
	}
	spec := setup.Observed(robot.Spec(), assembler)
	r.stepper = episodes.Stepper{Episodes: setup.NewEpisodes(robot, s.File.Run), Period: spec.Period}
	if r.record.Log, r.logPath, err = s.CreateLog(spec, "lockstep: simulated time", true); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.closeLog()) }()
	for _, text := range s.LogNotices {
		r.record.LogEvent(flightlog.Event{Level: flightlog.Info, Text: text})
	}
	if err := r.openIntake(); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.source.Halt()) }()
	agent, err := controller.NewAgent(s.File.Controller, controller.Parts{
		Robot: robot, Source: r.source, Model: r.network, Plans: r.plans, Safety: s.File.Rules(true),
		Hold:      s.File.Robot.HoldWith(),
		Assembler: assembler,
	})
	if err != nil {
		return result, err
	}
	started, err := setup.StartBelief(ctx, agent.Learner(), s)
	if err != nil {
		return result, err
	}
	if started != "" {
		r.record.LogEvent(flightlog.Event{Level: flightlog.Info, Text: started})
	}
	r.stepper.Agent = agent
	r.display.Begin(s, spec, nil, r.record.Statistics)
	for _, text := range s.LogNotices {
		r.display.Event(flightlog.Event{Level: flightlog.Info, Text: text})
	}
	defer r.display.End()
	err = r.run(ctx)
	result = recorder.Outcome{Tally: r.record.Statistics, Robot: spec.Name, LogPath: r.logPath, Posture: "lockstep"}
	var fault *controller.FaultError
	if errors.As(err, &fault) {
		result.Fault, result.Found = fault.Fault.String(), fault.Err.Error()
	}
	return result, err
}

// lastStep is the longest duration of a step after an interrupt.
const lastStep = 300 * time.Millisecond

// cutOff watches a robot with a driver that may wait for its simulator. lastStep after the end of
// ctx it cuts the connection, and the simulator halts. The returned function ends the watch.
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

func (r *Runner) openPlanner() error {
	searcher, _, err := r.session.Model.Searcher(r.session.File, 1)
	if err != nil {
		return err
	}
	r.models = append(r.models, searcher)
	planner, err := controller.NewPlanner(r.session.File.Controller, searcher)
	if err != nil {
		return err
	}
	r.plans = controller.NewLockstep(planner)
	return nil
}

func (r *Runner) openNetwork() (err error) {
	if r.network, err = r.session.Model.Evaluator(r.session.File); err != nil {
		return err
	}
	r.models = append(r.models, r.network)
	return nil
}

func (r *Runner) openIntake() error {
	o := r.session.File.Operator
	var source rewardsrc.Source = setup.NoOperator{}
	switch o.Source {
	case configs.SourceScripted:
		var err error
		if source, err = setup.OpenScripted(o); err != nil {
			return err
		}
	case configs.SourceNone:
	default:
		return fmt.Errorf("operator.source: found %s: simulated time does not wait for a person; "+
			"use %s or %s, or run in real time", o.Source, configs.SourceScripted, configs.SourceNone)
	}
	r.intake = recorder.NewLabelIntake(r.session.File, source, r.record, nil)
	r.source = recorder.NewLockstepSource(r.intake) // sets the clock
	return nil
}

// run ticks until the last episode, the time limit or the end of ctx.
func (r *Runner) run(ctx context.Context) error {
	r.snapshot(0)
	if err := r.stepper.Agent.Arm(0); err != nil {
		return err
	}
	limit := setup.Periods(r.session.File.Run.DurationS, r.stepper.Period)
	every := max(1, setup.Periods(r.session.File.Log.SnapshotS, r.stepper.Period))
	for ctx.Err() == nil && (limit == 0 || r.stepper.Index() < limit) {
		if more, err := r.step(); !more || err != nil {
			return err
		}
		if next := r.stepper.Index(); next%every == 0 {
			r.snapshot(next)
		}
	}
	return nil
}

// step runs a tick. more is false after the last one.
func (r *Runner) step() (more bool, err error) {
	t := r.tick
	ran, err := r.stepper.Step(t)
	if !ran {
		return false, err
	}
	r.intake.NoteTick(t)
	if r.plans.Fresh() {
		r.record.Plan(recorder.PlanEntry(r.plans.Latest(), t.Deadline, r.session.File.Controller.Strategy))
	}
	r.record.Tick(t)
	return true, errors.Join(err, r.record.Err)
}

// snapshot records the belief before a tick.
func (r *Runner) snapshot(next uint64) {
	learner := r.stepper.Agent.Learner()
	learner.Belief().State(r.belief)
	r.record.Snapshot(flightlog.Snapshot{
		Next: next, State: r.belief, Hash: learner.Belief().Hash(), Noise: learner.Noise(),
	})
}

func (r *Runner) closeLog() error {
	if r.record.Log == nil {
		return nil
	}
	return r.record.Log.Close()
}
