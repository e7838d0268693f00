package main

import (
	"io"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/lab/bench"
)

func newBackendCommand() *cobra.Command {
	config, set, header, o := "rover", []string(nil), true, bench.DefaultBackendOptions()
	cmd := &cobra.Command{
		Use: "backend", Args: cobra.NoArgs,
		Short: "Time the planner's backend, and compare TensorFlow with the native networks",
		Long: `Print a Markdown table with the time of plans for several numbers of candidates and
their ratio to the time of the policy π. With model.backend=tensorflow the table also
counts the searches whose best candidate differs from that of the native search, and
gives the largest relative difference of the scores. Use an idle computer.

--random draws the weights of a model of the size of Meta Motivo S-1 (s1) or BFM-Zero
(bfmzero). scripts/gpu_check.sh runs this command for several models and backends.`,
		Example: `  optibfm-lab backend --set model.bundle=models/walker
  optibfm-lab backend --random s1 --set model.backend=tensorflow`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := configs.Load(config, append([]string{"controller.strategy=ucb"}, set...)...)
			if err != nil {
				return err
			}
			if header {
				if _, err := io.WriteString(cmd.OutOrStdout(), bench.BackendHeader); err != nil {
					return err
				}
			}
			return bench.TimeBackend(cmd.Context(), cmd.OutOrStdout(), file, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&config, "config", "c", config, "a `CONFIG`: a file, or a name (optibfm config list)")
	f.StringArrayVar(&set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	f.StringVar(&o.Random, "random", "", "replace model.bundle by random weights of this size: s1 or bfmzero")
	f.IntSliceVar(&o.Candidates, "candidates", o.Candidates, "candidates of a plan, a row each; --searches uses the first")
	f.IntVar(&o.Searches, "searches", o.Searches, "number of searches to compare; 0: none")
	f.DurationVar(&o.Limit, "limit", o.Limit, "time limit for the plans of one row")
	f.BoolVar(&header, "header", header, "print the head of the table")
	return cmd
}
