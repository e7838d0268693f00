package main

import (
	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/lab/recording"
)

func newCollectCommand() *cobra.Command {
	cfg := recording.Config{Transitions: 1_000_000, Amplitude: 1, Out: "transitions.npz"}
	name, set := "rover", []string(nil)
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Record transitions of a robot under random actions, to train a model",
		Long: `Record transitions of a robot under random actions. The file is NumPy's .npz with
obs [n, O], action [n, A] in [-1, 1], next_obs [n, O] (float32) and episode [n];
scripts/train_fb.py trains on it.

A simulator with its own time (the rover, mode: lockstep of a bridge) runs as fast
as it can, in short episodes. Any other robot runs in real time with smooth
actions, under the guards and limits of its configuration. A real robot moves
only after you type arm. Ctrl-C halts it and writes the recording.`,
		Example: `  optibfm-lab collect --transitions 200000
  optibfm-lab collect --config myrobot.yaml --transitions 60000 --amplitude 0.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := configs.Load(name, set...)
			if err != nil {
				return err
			}
			return recording.Run(cmd.Context(), file, cfg, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&name, "config", "c", name, "the robot's `CONFIG`: a file, or a name (optibfm config list)")
	flags.StringArrayVar(&set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	flags.IntVar(&cfg.Transitions, "transitions", cfg.Transitions, "number of transitions")
	flags.Float64Var(&cfg.Amplitude, "amplitude", cfg.Amplitude,
		"largest distance from the failsafe output, as a share of the limits' range, up to 1")
	flags.Float64Var(&cfg.Rhythms, "rhythms", cfg.Rhythms,
		"share of a simulator's episodes in which all channels swing with one period, as walking legs do, 0 to 1")
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of actions and initial states")
	flags.StringVar(&cfg.States, "states", cfg.States,
		"also write a simulator's observations with their rewards, for optibfm infer and eval: a file that must not exist")
	flags.StringVar(&cfg.Out, "out", cfg.Out, "file to write, which must not exist")
	return cmd
}
