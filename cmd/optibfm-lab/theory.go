package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"optibfm/lab/theory"
)

func newTheoryCommand() *cobra.Command {
	cfg, dir := theory.DefaultConfig(), ""
	cmd := &cobra.Command{
		Use:   "theory",
		Short: "Check the regret bound and the confidence sets where their assumptions hold",
		Long: `Run the controller on small decision processes with exact features, policies and
successor features, and compare the results with the theory:

  - the confidence sets cover the true task,
  - regret grows at most with the square root of the number of episodes,
  - β′ covers rewards that are only approximately linear.

Negative controls must fail. No model and no simulator is needed. --out writes the
claims and the curves as CSV; "python -m lab.analysis" draws them.`,
		Example: `  optibfm-lab theory
  optibfm-lab theory --runs 100
  optibfm-lab theory --runs 1000 --seed 1 --out results`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Progress = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
			report, err := theory.Check(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if err := report.WriteTable(cmd.OutOrStdout()); err != nil {
				return err
			}
			if dir != "" {
				if err := report.WriteFiles(dir); err != nil {
					return err
				}
			}
			if n := report.Count(theory.Fails); n > 0 {
				return fmt.Errorf("theory: %d of %d claims do not hold", n, len(report.Claims))
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&cfg.Runs, "runs", cfg.Runs,
		"runs of each coverage experiment, at least 40; regret gets a twentieth, at least 20")
	cmd.Flags().Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of all random numbers")
	cmd.Flags().StringVar(&dir, "out", "", "`folder` for theory.csv and theory_curves.csv")
	return cmd
}
