package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/lab/bench"
)

func newBenchCommand() *cobra.Command {
	config, set, asJSON, serve, ticks := "rover", []string(nil), false, false, 1000
	cmd := &cobra.Command{
		Use: "bench", Args: cobra.NoArgs,
		Short: "Check that this computer runs a model at its rate, and what limits it",
		Long: `Time the control tick and the plan of a configuration, compare them with the
period and the interval between plans, and name the slowest part and its limit.
The command opens no robot. The exit status is 1 if the tick or the plan is too
slow. Use an idle computer. "optibfm jitter" measures the wake-ups of the loop.`,
		Example: `  optibfm-lab bench                                          the built-in rover
  optibfm-lab bench --config myrobot.yaml
  optibfm-lab bench --config cheetah --set controller.candidates=512
  optibfm-lab bench --config cheetah --set model.backend=tensorflow`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := configs.Load(config, set...)
			if err != nil {
				return err
			}
			o, release, err := bench.Open(file, ticks)
			if err != nil {
				return err
			}
			if serve {
				return errors.Join(bench.ServeSteps(o, cmd.InOrStdin(), cmd.OutOrStdout()), release())
			}
			report, err := bench.Run(cmd.Context(), o)
			return errors.Join(err, printReport(cmd.OutOrStdout(), report, asJSON), release())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&config, "config", "c", config, "a `CONFIG`: a file, or a name (optibfm config list)")
	f.StringArrayVar(&set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	f.IntVar(&ticks, "ticks", ticks, "number of timed ticks")
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
