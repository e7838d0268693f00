package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"optibfm/lab/theory"
)

// newTheoryCommand checks the theory where its assumptions hold.
func newTheoryCommand() *cobra.Command {
	cfg, dir := theory.DefaultConfig(), ""
	cmd := &cobra.Command{
		Use:   "theory",
		Short: "Check the regret bound and the confidence sets where their assumptions hold",
		Long: `theory runs the program's own decisions on small decision processes whose features,
policies and successor features are exact, and holds what the theory promises
against what happens: that the confidence sets cover the true task, that regret
grows no faster than the square root of the number of episodes, and that β′
covers where rewards are only nearly linear. Controls that must fail are run
as well. It needs no model and no simulator.

--out writes the claims and the curves as CSV; "python -m lab.analysis" draws them.`,
		Example: `  optibfm-lab theory
  optibfm-lab theory --runs 100
  optibfm-lab theory --runs 1000 --seed 1 --out results`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			cfg.Progress = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
			report, err := theory.Check(ctx, cfg)
			if err != nil {
				return err
			}
			if err := report.WriteTable(cmd.OutOrStdout()); err != nil {
				return err
			}
			if err := writeTheory(dir, report); err != nil {
				return err
			}
			if n := report.Count(theory.Fails); n > 0 {
				return fmt.Errorf("theory: %d of %d claims do not hold", n, len(report.Claims))
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&cfg.Runs, "runs", cfg.Runs, "runs of each coverage experiment, at least 40; regret has a twentieth, at least 20")
	cmd.Flags().Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of everything")
	cmd.Flags().StringVar(&dir, "out", "", "`folder` for theory.csv and theory_curves.csv")
	return cmd
}

// writeTheory writes the report's files to dir, nothing if dir is empty.
func writeTheory(dir string, report theory.Report) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("theory: %w", err)
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"theory.csv", report.WriteClaims},
		{"theory_curves.csv", report.WriteCurves},
	} {
		if err := writeTo(filepath.Join(dir, file.name), file.write); err != nil {
			return fmt.Errorf("theory: %w", err)
		}
	}
	return nil
}

func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	return errors.Join(write(buffered), buffered.Flush(), file.Close())
}
