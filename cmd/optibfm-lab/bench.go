package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/hal/rover"
	"optibfm/lab/bench"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

func newBenchCommand() *cobra.Command {
	config, set, asJSON, serve, ticks := "rover", []string(nil), false, false, 1000
	cmd := &cobra.Command{
		Use: "bench", Args: cobra.NoArgs,
		Short: "Check that this computer runs a model at its rate, and what limits it",
		Long: `Time the control tick and the plan of a configuration on this computer, compare
them with the period and the interval between plans, and name the part that
takes the most time and what limits it. No robot is opened. The exit status is 1
where the tick or the plan does not fit.

Use an idle computer. "optibfm jitter" measures how late it wakes the loop.`,
		Example: `  optibfm-lab bench                            the built-in rover
  optibfm-lab bench --config myrobot.yaml
  optibfm-lab bench --config cheetah --set controller.candidates=512
  optibfm-lab bench --config cheetah --set model.backend=tensorflow`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := configs.Load(config, set...)
			if err != nil {
				return err
			}
			o := bench.Options{Controller: file.Controller, Period: file.Loop.Period(), Ticks: ticks}
			closeModels, err := openModels(file, &o)
			if err != nil {
				return err
			}
			if serve {
				return errors.Join(bench.ServeSteps(o, cmd.InOrStdin(), cmd.OutOrStdout()), closeModels())
			}
			report, err := bench.Run(cmd.Context(), o)
			return errors.Join(err, printReport(cmd.OutOrStdout(), report, asJSON), closeModels())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&config, "config", "c", config, "a configuration, by name or file")
	f.StringArrayVar(&set, "set", nil, "change a value of it: `KEY=VALUE`; repeatable")
	f.IntVar(&ticks, "ticks", ticks, "number of ticks to time")
	f.BoolVar(&asJSON, "json", false, "print JSON, times in nanoseconds")
	f.BoolVar(&serve, "serve", false, "answer the requests of bench_peers.py on standard input")
	return cmd
}

// printReport prints a report, if there is one.
func printReport(out io.Writer, r bench.Report, asJSON bool) error {
	if r.Model == "" {
		return nil
	}
	if !asJSON {
		_, err := io.WriteString(out, r.String())
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// openModels opens the model of a configuration for the control thread and for the planner.
func openModels(f configs.File, o *bench.Options) (closeModels func() error, err error) {
	var bundle *tflite.Bundle
	if f.Model.Bundle == configs.EmbeddedRover {
		bundle, err = tflite.Load(rover.Model())
	} else {
		bundle, err = tflite.LoadDir(f.Model.Bundle)
	}
	if errors.Is(err, tflite.ErrSavedModel) {
		return openSavedModel(f, o)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	flops := bundle.Architecture.FLOPs()
	// A weight is four bytes and takes part in one multiply-add, which is two operations.
	o.Weights = 2 * (flops.Phi + flops.Search(1, bundle.Dims().Ensemble))
	o.Name = bundle.Name
	if o.Control, err = bundle.NewNetwork(); err != nil {
		return nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	n := f.Controller.NumCandidates()
	if f.Model.Backend != configs.BackendTensorFlow || n == 0 {
		network, err := bundle.NewNetwork(tflite.Workers(runtime.GOMAXPROCS(0)))
		o.Planner = network
		return func() error { network.Close(); return nil }, err
	}
	planner, err := tensorflow.New(bundle, f.Model.TensorFlow, n)
	if err != nil {
		return nil, fmt.Errorf("bench: model.backend: %w", err)
	}
	o.Planner = planner
	return planner.Close, nil
}

// openSavedModel evaluates everything with TensorFlow: φ and π on the calling thread.
func openSavedModel(f configs.File, o *bench.Options) (closeModels func() error, err error) {
	saved, err := tflite.LoadSavedModel(f.Model.Bundle)
	if err != nil {
		return nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	here := f.Model.TensorFlow
	here.Device, here.IntraOpThreads, here.InterOpThreads = "/CPU:0", 1, -1
	control, err := tensorflow.LoadSavedModel(*saved, here, 1)
	if err != nil {
		return nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	planner, err := tensorflow.LoadSavedModel(*saved, f.Model.TensorFlow, max(f.Controller.NumCandidates(), 1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: model.tensorflow: %w", err), control.Close())
	}
	o.Name, o.Control, o.Planner = saved.Name, control, planner
	return func() error { return errors.Join(control.Close(), planner.Close()) }, nil
}
