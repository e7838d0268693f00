package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/episodes/oracle"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// trialRun is the state of one running trial.
type trialRun struct {
	trial   Trial
	run     Run
	library *library
	robot   *meter
	network tflite.Evaluator
	observe *controller.Assembler // nil: the model reads the robot's readings
	config  controller.Config
	plans   controller.Plans
	source  rewardsrc.Source

	inferred  []float64  // z of collected
	diagnosis *diagnosis // nil: none
}

// runTrial runs a trial on an open robot, halts the robot and returns the trial's rows. base has
// the fields that all rows share.
func runTrial(
	ctx context.Context, t Trial, run Run, lib *library, robot Simulator, base Row,
) (rows []Row, err error) {
	r := &trialRun{trial: t, run: run, library: lib, robot: newMeter(robot)}
	defer func() { err = errors.Join(err, robot.Halt()) }()
	bundle, err := lib.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	observed := robot.Spec()
	if r.observe, err = newAssembler(t.Env, bundle, observed); err != nil {
		return nil, err
	}
	if r.observe != nil {
		observed = r.observe.Spec()
	}
	if err := controller.CheckChannels(observed, bundle.Observation, bundle.Action); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Model.Bundle, err)
	}
	if r.network, err = bundle.NewNetwork(); err != nil {
		return nil, err
	}
	if err := r.modifyReward(bundle); err != nil {
		return nil, err
	}
	if r.observe != nil && (r.robot.reward != nil || t.Method == LoLA) {
		return nil, fmt.Errorf("eval: %s: lola, nonlinearity and rewards of a protocol read the robot's readings, "+
			"but the model reads groups; use the simulator's rewards", t.Model.Bundle)
	}
	if t.Method == Collected {
		if r.inferred, err = r.collect(ctx, bundle); err != nil {
			return nil, err
		}
	}
	stepper, err := r.newStepper(bundle, uint32(run.Episodes), t.Seed)
	if err != nil {
		return nil, err
	}
	scores := &scores{run: run, base: base, discount: bundle.Gamma, diagnosis: r.diagnosis}
	if err := r.stepAll(ctx, stepper, scores); err != nil {
		return nil, err
	}
	return scores.rows, nil
}

// newStepper arms an agent and returns a stepper for its episodes.
func (r *trialRun) newStepper(bundle *tflite.Bundle, limit uint32, seed uint64) (*episodes.Stepper, error) {
	r.robot.episode = -1
	agent, err := r.buildAgent(bundle)
	if err != nil {
		return nil, err
	}
	return &episodes.Stepper{
		Agent: agent, Period: r.robot.Spec().Period,
		Episodes: episodes.Episodes{
			Robot: r.robot, Steps: uint32(r.run.EpisodeSteps), Limit: limit, Seed: seed,
		},
	}, agent.Arm(0)
}

// collect infers z from the labels of a record or of another method that runs first. The first n
// labels are the same for any larger number.
func (r *trialRun) collect(ctx context.Context, bundle *tflite.Bundle) ([]float64, error) {
	labels, err := r.collectLabels(ctx, bundle)
	if err != nil {
		return nil, err
	}
	return labels.Infer(r.trial.settings.Ridge[0])
}

func (r *trialRun) collectLabels(ctx context.Context, bundle *tflite.Bundle) (labels oracle.Labelled, err error) {
	if r.trial.collectedByRND() {
		return r.library.drawLabelled(r.trial, r.library.rndStates, r.trial.settings.Labels[0])
	}
	collector := *r
	collector.trial.Method = r.trial.settings.By[0]
	stepper, err := collector.newStepper(bundle, 0, r.trial.Seed^collectStream) // other initial states than those measured
	if err != nil {
		return labels, err
	}
	tick := controller.NewTick(stepper.Agent.Shape())
	for range r.trial.settings.Labels[0] {
		_, err := stepper.Step(tick)
		if err := errors.Join(ctx.Err(), err, r.robot.err); err != nil {
			return labels, err
		}
		labels.Phi = append(labels.Phi, tick.Phi...)
		labels.Reward = append(labels.Reward, tick.Reward)
	}
	return labels, r.robot.Halt()
}

// stepAll runs all ticks.
func (r *trialRun) stepAll(ctx context.Context, stepper *episodes.Stepper, scores *scores) error {
	tick := controller.NewTick(stepper.Agent.Shape())
	runtime.LockOSThread() // processorTime is that of a thread
	defer runtime.UnlockOSThread()
	r.robot.elapsed = 0
	started := processorTime()
	for !scores.exhausted() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ran, err := stepper.Step(tick)
		if err := errors.Join(err, r.robot.err); err != nil {
			return err
		}
		if !ran {
			break
		}
		scores.addTick(tick)
	}
	scores.finish(stepper.Index(), (processorTime() - started - r.robot.elapsed).Seconds())
	return nil
}
