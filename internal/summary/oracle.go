package summary

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/stat"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/episodes/oracle"
	"optibfm/hal/collect"
	"optibfm/internal/lockstep"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
)

const (
	oracleLabels = 50_000 // as in the paper

	// The baselines have as many episodes as the run, within limits: few are noisy, many take long.
	minBaseline, maxBaseline = 10, 100
)

// rewarder is the section of a simulator with a known reward for any observation.
type rewarder interface {
	RewardOf(obs []float32) (float64, error)
}

// oracleZ infers the z of a simulator's task from labelled observations: the best z of this model.
func oracleZ(ctx context.Context, s *setup.Session, rewards rewarder) (z []float64, err error) {
	robot, err := setup.OpenDriver(ctx, s.File, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, setup.CloseRobot(robot)) }()
	simulator, ok := robot.(collect.Simulator)
	if !ok {
		return nil, errors.New("the robot cannot be reset")
	}
	states, err := oracle.Record(simulator, rewards.RewardOf, oracleLabels, s.File.Run.Seed+1)
	if err != nil {
		return nil, err
	}
	network, err := s.Model.Evaluator(s.File)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, setup.CloseModels(network)) }()
	labelled, err := states.Label(network)
	if err != nil {
		return nil, err
	}
	return labelled.Infer(s.File.Controller.Lambda)
}

// FollowOracle changes the session to the fixed z of the oracle. It is an error for a robot without
// a known reward.
func FollowOracle(ctx context.Context, s *setup.Session) error {
	rewards, ok := s.File.Robot.Chosen().(rewarder)
	if !ok {
		return fmt.Errorf("run: --oracle: this robot has no known reward for any observation (robot.driver: %s); "+
			"use --strategy fixed --set controller.fixed_z=[...]", s.File.Robot.Driver)
	}
	z, err := oracleZ(ctx, s, rewards)
	if err != nil {
		return fmt.Errorf("run: oracle: %w", err)
	}
	s.File.Controller.Strategy, s.File.Controller.FixedZ = controller.Fixed, z
	s.File.Controller.Explore = controller.ExploreConfig{}
	s.File.Operator.Source = configs.SourceNone
	return s.UpdateYAML()
}

// baselines measures an oracle and random behaviour in the task of the session, in lockstep. Each
// of their episodes begins in the state in which that of a run of so many episodes began: its seed
// is a function of the seed of the run and its number. Both are nil if ctx ends.
func baselines(ctx context.Context, s *setup.Session, episodes int) (oracle, random *baseline, err error) {
	b := *s
	b.File.Run.Lockstep, b.File.Run.DurationS = true, 0
	b.File.Run.Episodes = min(max(episodes, minBaseline), maxBaseline)
	b.File.Operator.Source, b.File.Log.Enabled = configs.SourceNone, false
	b.File.Controller.Strategy, b.File.Controller.Replan = controller.Random, 0
	b.File.Controller.Explore = controller.ExploreConfig{}
	if random, err = measure(ctx, &b); err != nil {
		return nil, nil, err
	}
	if err := FollowOracle(ctx, &b); err != nil {
		return nil, nil, err
	}
	if oracle, err = measure(ctx, &b); ctx.Err() != nil {
		return nil, nil, nil
	}
	return oracle, random, err
}

func measure(ctx context.Context, s *setup.Session) (*baseline, error) {
	result, err := lockstep.Run(ctx, s, terminal.QuietDisplay{})
	if err != nil {
		return nil, err
	}
	return &baseline{result.Tally.Returns, stat.Mean(result.Tally.Returns, nil)}, nil
}
