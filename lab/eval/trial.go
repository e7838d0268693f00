package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"optibfm/controller"
	"optibfm/rewardsrc"
	"optibfm/simulate"
	"optibfm/tflite"
)

// trialRun is a trial at work.
type trialRun struct {
	trial   Trial
	run     Run
	library *library
	robot   *meter
	network tflite.Evaluator
	config  controller.Config
	plans   controller.Plans
	source  rewardsrc.Source

	inferred []float64 // z of collected
}

// runTrial runs a trial with an opened robot, which it leaves halted, and returns
// its rows. base is what all of them have in common.
func runTrial(ctx context.Context, t Trial, run Run, lib *library, robot Simulator, base Row) (rows []Row, err error) {
	r := &trialRun{trial: t, run: run, library: lib, robot: newMeter(robot)}
	defer func() { err = errors.Join(err, robot.Halt()) }()
	bundle, err := lib.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	if err := controller.CheckChannels(robot.Spec(), bundle.Observation, bundle.Action); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Model.Bundle, err)
	}
	if r.network, err = bundle.NewNetwork(); err != nil {
		return nil, err
	}
	if err := r.bend(); err != nil {
		return nil, err
	}
	if t.Method == Collected {
		if r.inferred, err = r.collect(ctx, bundle); err != nil {
			return nil, err
		}
	}
	stepper, err := r.stepper(bundle, uint32(run.Episodes), t.Seed)
	if err != nil {
		return nil, err
	}
	scores := &scores{run: run, base: base, discount: bundle.Gamma}
	if err := r.step(ctx, stepper, scores); err != nil {
		return nil, err
	}
	return scores.rows, nil
}

// stepper makes an armed agent and what steps it through its episodes.
func (r *trialRun) stepper(bundle *tflite.Bundle, episodes uint32, seed uint64) (*simulate.Stepper, error) {
	agent, err := r.build(bundle)
	if err != nil {
		return nil, err
	}
	return &simulate.Stepper{
		Agent: agent, Period: r.robot.Spec().Period,
		Episodes: simulate.Episodes{Robot: r.robot, Steps: uint32(r.run.EpisodeSteps), Limit: episodes, Seed: seed},
	}, agent.Arm()
}

// collect infers z from as many labels as are wanted, of what another method sees
// first or of a record. The first of n labels are those of any larger n.
func (r *trialRun) collect(ctx context.Context, bundle *tflite.Bundle) ([]float64, error) {
	seen, err := r.see(ctx, bundle)
	if err != nil {
		return nil, err
	}
	return seen.Infer(r.trial.settings.Lambda[0])
}

func (r *trialRun) see(ctx context.Context, bundle *tflite.Bundle) (seen Labelled, err error) {
	if r.trial.collectedByRND() {
		return r.library.collectedByRND(r.trial, r.trial.settings.Labels[0])
	}
	by := *r
	by.trial.Method = r.trial.settings.By[0]
	stepper, err := by.stepper(bundle, 0, scramble(r.trial.Seed))
	if err != nil {
		return seen, err
	}
	tick := controller.NewTick(stepper.Agent.Shape())
	for range r.trial.settings.Labels[0] {
		_, err := stepper.Step(tick)
		if err := errors.Join(ctx.Err(), err, r.robot.err); err != nil {
			return seen, err
		}
		seen.Phi = append(seen.Phi, tick.Phi...)
		seen.Reward = append(seen.Reward, tick.Reward)
	}
	return seen, r.robot.Halt()
}

// scramble gives the collecting episodes other initial states than those that are
// measured.
func scramble(seed uint64) uint64 { return seed ^ collectStream }

// step runs all ticks.
func (r *trialRun) step(ctx context.Context, stepper *simulate.Stepper, scores *scores) error {
	tick := controller.NewTick(stepper.Agent.Shape())
	runtime.LockOSThread() // whose processor time is measured
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
		scores.tick(tick)
	}
	scores.finish(stepper.Index(), (processorTime() - started - r.robot.elapsed).Seconds())
	return nil
}
