package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// FileOptions select what RunFile runs.
type FileOptions struct {
	Out     string // results file; "" for results/EXPERIMENT.csv, with the profile and the shard
	Profile string // of the protocol
	Shard   string // i/n runs the i-th of n parts; "" for all trials
	Jobs    int    // trials at a time, at least 1
	List    bool   // list the trials instead
	Worlds  Worlds
	Version string // of the program, for the rows
}

// RunFile runs the experiment of a protocol file and writes its results. It continues
// results that an interrupted run left. It shows the progress and the output of the
// simulators on progress.
func RunFile(ctx context.Context, path string, o FileOptions, out, progress io.Writer) error {
	protocol, err := Load(path)
	if err != nil {
		return err
	}
	if protocol, err = protocol.Profile(o.Profile); err != nil {
		return err
	}
	if o.Jobs < 1 {
		return fmt.Errorf("eval: --jobs is out of range (%d); give at least 1", o.Jobs)
	}
	r := Runner{Protocol: protocol, Worlds: o.Worlds, Jobs: o.Jobs, Version: o.Version}
	if o.Shard != "" {
		if r.Shard, err = ParseShard(o.Shard); err != nil {
			return err
		}
	}
	if !o.List {
		return runTrials(ctx, o, r, out, progress)
	}
	for _, t := range r.Trials() {
		if _, err := fmt.Fprintf(out, "%s seed %d\n", t.ID(), t.Seed); err != nil {
			return err
		}
	}
	return nil
}

func runTrials(ctx context.Context, o FileOptions, r Runner, out, progress io.Writer) (err error) {
	hash, err := r.Hash()
	if err != nil {
		return err
	}
	path := o.resultsPath(r)
	results, err := OpenResults(path, hash)
	if err != nil {
		return err
	}
	if results.Dropped != "" {
		fmt.Fprintln(progress, results.Dropped)
	}
	if results.Version != "" && results.Version != o.Version {
		fmt.Fprintf(progress, "%s: version %s ran its trials, this is %s\n", path, results.Version, o.Version)
	}
	bar := newProgressBar(progress, o.Jobs)
	r.Progress, r.Worlds.Output = bar, bar
	err = r.Run(ctx, results)
	bar.end()
	if err == nil {
		err = results.Finish()
	} else {
		err = errors.Join(err, results.Close())
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %d of %d trials are in %s; run the same command to continue",
			bar.done, bar.trials, path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d trials: %s\n", bar.trials, path)
	return err
}

// resultsPath returns the results file.
func (o FileOptions) resultsPath(r Runner) string {
	if o.Out != "" {
		return o.Out
	}
	name := r.Protocol.Experiment
	if o.Profile != ProfileFull {
		name += "-" + o.Profile
	}
	if o.Shard != "" {
		name += fmt.Sprintf("-%dof%d", r.Shard.Index, r.Shard.Of)
	}
	return filepath.Join("results", name+".csv")
}
