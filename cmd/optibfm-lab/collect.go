package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"optibfm/hal/collect"
	"optibfm/hal/rover"
	"optibfm/internal/npz"
)

func newCollectCommand() *cobra.Command {
	cfg := collect.DefaultConfig()
	var out string
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Record transitions of the rover under random actions, to train a model",
		Long: `Record transitions of the rover under random actions. The file is NumPy's .npz with
obs [n, 6], action [n, 2], next_obs [n, 6] (float32) and episode [n] (int64).
scripts/train_fb.py trains on it.`,
		Example: "  optibfm-lab collect --transitions 1000000 --out transitions.npz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return recordRover(cmd.OutOrStdout(), cfg, out)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Transitions, "transitions", cfg.Transitions, "number of transitions")
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of actions and initial states")
	flags.StringVar(&out, "out", "transitions.npz", "file to write")
	return cmd
}

func recordRover(w io.Writer, cfg collect.Config, path string) error {
	robot, err := rover.New(rover.DefaultConfig())
	if err != nil {
		return err
	}
	recorded, err := collect.Record(robot, cfg)
	if err != nil {
		return err
	}
	spec, n := robot.Spec(), recorded.Len()
	err = npz.WriteFile(path, map[string]npz.Array{
		"obs":      npz.Float32(recorded.Obs, n, len(spec.Obs)),
		"action":   npz.Float32(recorded.Action, n, len(spec.Action)),
		"next_obs": npz.Float32(recorded.NextObs, n, len(spec.Obs)),
		"episode":  npz.Int64(recorded.Episode, n),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d transitions in %d episodes: %s\n", n, recorded.Episode[n-1]+1, path)
	return err
}
