package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/version"
	"optibfm/lab/eval"
)

// evalFlags are the flags of eval.
type evalFlags struct {
	out     string
	profile string
	shard   string
	jobs    int
	list    bool
	worlds  eval.Worlds
}

func newEvalCommand() *cobra.Command {
	f := evalFlags{}
	cmd := &cobra.Command{
		Use:   "eval PROTOCOL",
		Short: "Run an experiment: environments x tasks x methods x settings x trials",
		Long: `Run an experiment: every trial that a protocol file asks for, several at a time.

The results are a CSV file of rows of one number each, with what reproduces it. A
run that was interrupted or killed goes on where it was when the same command is
given again. docs/experiments.md describes protocols, results and their analysis.`,
		Example: `  optibfm-lab eval lab/experiments/main.yaml --profile quick
  optibfm-lab eval lab/experiments/main.yaml --out main.csv --jobs 8
  optibfm-lab eval lab/experiments/main.yaml --out main-3.csv --shard 3/16
  optibfm-lab eval merge main.csv main-*.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal does not wait
			return runEval(ctx, f, args[0], cmd.OutOrStdout(), os.Stderr)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "results `FILE` (default results/EXPERIMENT.csv, or EXPERIMENT-PROFILE.csv)")
	fl.StringVar(&f.profile, "profile", eval.ProfileFull, "`NAME`: full, all of the experiment; quick, what shows in minutes that it works; or a profile of the protocol")
	fl.StringVar(&f.shard, "shard", "", "run the `i/n`-th part of the trials")
	fl.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "trials at a time")
	fl.BoolVar(&f.list, "list", false, "list the trials and do nothing")
	fl.StringVar(&f.worlds.Python, "python", "", "Python `interpreter` with dm_control, or ogbench for antmaze (default python3)")
	fl.StringVar(&f.worlds.Bridge, "bridge", "", "`script` that serves the robots (default scripts/dmc_bridge.py, or maze_bridge.py for antmaze)")
	cmd.AddCommand(newEvalMergeCommand())
	return cmd
}

// runEval runs a protocol file.
func runEval(ctx context.Context, f evalFlags, path string, out, progress io.Writer) error {
	protocol, err := eval.Load(path)
	if err != nil {
		return err
	}
	if protocol, err = protocol.Profile(f.profile); err != nil {
		return err
	}
	if f.jobs < 1 {
		return fmt.Errorf("eval: --jobs: found %d: give at least 1", f.jobs)
	}
	r := eval.Runner{Protocol: protocol, Worlds: f.worlds, Jobs: f.jobs, Version: version.String()}
	if f.shard != "" {
		if r.Shard, err = eval.ParseShard(f.shard); err != nil {
			return err
		}
	}
	if f.list {
		return listTrials(out, r)
	}
	return runTrials(ctx, f, r, out, progress)
}

func listTrials(out io.Writer, r eval.Runner) error {
	for _, t := range r.Trials() {
		if _, err := fmt.Fprintf(out, "%s seed %d\n", t.ID(), t.Seed); err != nil {
			return err
		}
	}
	return nil
}

func runTrials(ctx context.Context, f evalFlags, r eval.Runner, out, progress io.Writer) (err error) {
	hash, err := r.Protocol.Hash()
	if err != nil {
		return err
	}
	path := f.resultsPath(r)
	results, err := eval.OpenResults(path, hash)
	if err != nil {
		return err
	}
	if results.Dropped != "" {
		fmt.Fprintln(progress, results.Dropped)
	}
	if results.Version != "" && results.Version != version.String() {
		fmt.Fprintf(progress, "%s: its trials are of version %s, this is %s\n", path, results.Version, version.String())
	}
	bar := newEvalBar(progress, f.jobs)
	r.Progress, r.Worlds.Output = bar, bar
	err = r.Run(ctx, results)
	bar.End()
	err = errors.Join(err, closeResults(results, err == nil))
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %d of %d trials are in %s: give the same command to go on", bar.done, bar.trials, path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d trials: %s\n", bar.trials, path)
	return err
}

func closeResults(results *eval.Results, whole bool) error {
	if whole {
		return results.Finish()
	}
	return results.Close()
}

// resultsPath is where the results go.
func (f evalFlags) resultsPath(r eval.Runner) string {
	if f.out != "" {
		return f.out
	}
	name := r.Protocol.Experiment
	if f.profile != eval.ProfileFull {
		name += "-" + f.profile
	}
	if f.shard != "" {
		name += fmt.Sprintf("-%dof%d", r.Shard.Index, r.Shard.Of)
	}
	return filepath.Join("results", name+".csv")
}

func newEvalMergeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "merge OUT IN...",
		Short:   "Put the results of several runs together",
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
