package summary

import (
	"context"
	"errors"
	"fmt"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/lockstep"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/simulate/oracle"
)

const (
	oracleLabels     = 50_000 // as in the paper
	baselineEpisodes = 10
)

// oracleZ infers the z of the rover's task from labelled observations, which
// is the best z of the model.
func oracleZ(s *setup.Session) (z []float64, err error) {
	states, err := oracle.RoverStates(s.File.Robot.Rover, oracleLabels, s.File.Run.Seed+1)
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

// FollowOracle turns the session into one that follows the oracle's z.
func FollowOracle(s *setup.Session) error {
	if s.File.Robot.Driver != configs.DriverRover {
		return fmt.Errorf("run: --oracle: the robot is a %s: only the rover's reward is known for any observation: give a z with --strategy fixed --set controller.fixed_z=[...]", s.File.Robot.Driver)
	}
	z, err := oracleZ(s)
	if err != nil {
		return fmt.Errorf("run: oracle: %w", err)
	}
	s.File.Controller.Strategy, s.File.Controller.FixedZ = controller.Fixed, z
	s.File.Operator.Source = configs.SourceNone
	return s.UpdateYAML()
}

// baselines measures what an oracle and random behaviour get in the session's
// task, in lockstep, from the same initial states; nil if ctx ends meanwhile.
func baselines(ctx context.Context, s *setup.Session) (oracle, random *baseline, err error) {
	b := *s
	b.File.Run.Lockstep, b.File.Run.DurationS, b.File.Run.Episodes = true, 0, baselineEpisodes
	b.File.Operator.Source, b.File.Log.Enabled = configs.SourceNone, false
	b.File.Controller.Strategy, b.File.Controller.Replan = controller.Random, 0
	if random, err = averageReturn(ctx, &b); err != nil {
		return nil, nil, err
	}
	if err := FollowOracle(&b); err != nil {
		return nil, nil, err
	}
	if oracle, err = averageReturn(ctx, &b); ctx.Err() != nil {
		return nil, nil, nil
	}
	return oracle, random, err
}

func averageReturn(ctx context.Context, s *setup.Session) (*baseline, error) {
	result, err := lockstep.Run(ctx, s, terminal.QuietDisplay{})
	if err != nil {
		return nil, err
	}
	return &baseline{Episodes: len(result.Tally.Returns), Mean: mean(result.Tally.Returns)}, nil
}
