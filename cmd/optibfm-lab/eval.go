package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"optibfm/internal/version"
	"optibfm/lab/eval"
)

// errNoCommit keeps rows without a commit out of results.
var errNoCommit = errors.New("eval: this program does not know its commit, which each row names; " +
	"build it in the repository: go build -buildvcs=true -o . ./cmd/optibfm-lab")

func newEvalCommand() *cobra.Command {
	o := eval.FileOptions{Version: version.String()}
	cmd := &cobra.Command{
		Use:   "eval PROTOCOL",
		Short: "Run an experiment: environments x tasks x methods x settings x trials",
		Long: `Run every trial of a protocol file, several at a time. The results are a CSV file
with one number per row and what reproduces it. To continue an interrupted run,
give the same command again. docs/protocols.md describes protocols, docs/experiments.md
results and their analysis.`,
		Example: `  optibfm-lab eval lab/experiments/main.yaml --profile quick
  optibfm-lab eval lab/experiments/main.yaml --out main.csv --jobs 8
  optibfm-lab eval lab/experiments/main.yaml --out main-3.csv --shard 3/16`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Version == version.Development && o.Profile != eval.ProfileQuick && !o.List {
				return errNoCommit
			}
			return eval.RunFile(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Out, "out", "", "results `FILE` (default results/EXPERIMENT.csv, or EXPERIMENT-PROFILE.csv)")
	fl.StringVar(&o.Profile, "profile", eval.ProfileFull,
		"`NAME`: full, the whole experiment; quick, a test of minutes; or a profile of the protocol")
	fl.StringVar(&o.Shard, "shard", "", "run the `i/n`-th part of the trials")
	fl.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "trials at a time")
	fl.BoolVar(&o.List, "list", false, "list the trials without running them")
	fl.StringVar(&o.Worlds.Python, "python", "",
		"Python `interpreter` with dm_control, or ogbench for antmaze (default python3)")
	fl.StringVar(&o.Worlds.Bridge, "bridge", "",
		"`script` that serves the robots (default scripts/dmc_bridge.py, or maze_bridge.py for antmaze)")
	cmd.AddCommand(newEvalMergeCommand(), newEvalKeepCommand())
	return cmd
}

func newEvalKeepCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keep PROTOCOL...",
		Short: "Save the oracles of all labelled states",
		Long: `Infer z of every task and model of the protocols from all of the model's labelled
states and save it beside them, as states.json. Experiments then need the states only
to draw some of them, and a part is enough (scripts/label_states.py --part).`,
		Example: "  optibfm-lab eval keep lab/experiments/main.yaml lab/experiments/heldout.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				protocol, err := eval.Load(path)
				if err != nil {
					return err
				}
				written, err := eval.Keep(protocol)
				for _, file := range written {
					fmt.Fprintln(cmd.OutOrStdout(), file)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newEvalMergeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "merge OUT IN...",
		Short:   "Merge the results of several runs into one file",
		Example: "  optibfm-lab eval merge main.csv main-*.csv",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := eval.MergeFiles(args[0], args[1:])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d rows of %d files: %s\n", rows, len(args)-1, args[0])
			return err
		},
	}
}
