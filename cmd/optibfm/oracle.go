package main

import (
	"context"
	"errors"
	"fmt"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/simulate/oracle"
)

const (
	oracleLabels     = 50_000 // as in the paper
	baselineEpisodes = 10
)

// oracleZ infers the z of the rover's task from labelled observations, which
// is the best that the model can be told.
func (s *session) oracleZ() (z []float64, err error) {
	states, err := oracle.RoverStates(s.file.Robot.Rover, oracleLabels, s.file.Run.Seed+1)
	if err != nil {
		return nil, err
	}
	network, err := s.model.evaluator(s.file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeModels(network)) }()
	labelled, err := states.Label(network)
	if err != nil {
		return nil, err
	}
	return labelled.Infer(s.file.Controller.Lambda)
}

// followOracle turns the session into one that follows the oracle's z.
func (s *session) followOracle() error {
	if s.file.Robot.Driver != configs.DriverRover {
		return fmt.Errorf("run: --oracle: the robot is a %s: only the rover's reward is known for any observation: give a z with --strategy fixed --set controller.fixed_z=[...]", s.file.Robot.Driver)
	}
	z, err := s.oracleZ()
	if err != nil {
		return fmt.Errorf("run: oracle: %w", err)
	}
	s.file.Controller.Strategy, s.file.Controller.FixedZ = controller.Fixed, z
	s.file.Operator.Source = configs.SourceNone
	return s.settle()
}

// baselines measures what an oracle and random behaviour get in the session's
// task, in lockstep, from the same initial states; nil where ctx ends meanwhile.
func (s *session) baselines(ctx context.Context) (oracle, random *baseline, err error) {
	b := *s
	b.file.Run.Lockstep, b.file.Run.DurationS, b.file.Run.Episodes = true, 0, baselineEpisodes
	b.file.Operator.Source, b.file.Log.Enabled = configs.SourceNone, false
	b.file.Controller.Strategy, b.file.Controller.Replan = controller.Random, 0
	if random, err = b.average(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.followOracle(); err != nil {
		return nil, nil, err
	}
	if oracle, err = b.average(ctx); ctx.Err() != nil {
		return nil, nil, nil
	}
	return oracle, random, err
}

func (s *session) average(ctx context.Context) (*baseline, error) {
	result, err := runLockstep(ctx, s, quietDisplay{})
	if err != nil {
		return nil, err
	}
	return &baseline{Episodes: len(result.tally.returns), Mean: mean(result.tally.returns)}, nil
}
