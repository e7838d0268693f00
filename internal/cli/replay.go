package cli

import (
	"github.com/spf13/cobra"

	"optibfm/flightlog"
	"optibfm/internal/cli/review"
	"optibfm/internal/cli/tasks"
)

// whatIfFlags are the parameters of a what-if question.
type whatIfFlags struct{ kappa, lambda, rho, beta, labelsPerMinute float64 }

func newReplayCommand() *cobra.Command {
	var o review.Options
	var f whatIfFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Verify a log by computing the belief again, and answer what-if questions",
		Long: `Compute the belief again from the logged features and labels, with the robot's
code, and compare every tick. The exit status is 1 if a tick differs, or if none
can be compared. A log that is undamaged, agrees and has no labels of a person
is marked (FILE.replayed): a run may delete it for space.

` + damageHelp + `

With --kappa, --labels-per-minute, --lambda, --rho or --beta, print also what the
run would have asked and learned with other parameters, in the logged states: the
robot's motion is not simulated. The logged label about a tick answers a request,
or else the simulator's reward; otherwise the request expires.

With --html, write a page for a browser. It also lets you label the log afterwards:
see "optibfm log label".`,
		Example: `  optibfm replay run.mcap
  optibfm replay run.mcap --kappa 0.1   # how many labels would that have needed?
  optibfm replay run.mcap --html report.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.WhatIf, o.Label = f.params(cmd.Flags().Changed), tasks.ForPage
			return review.Replay(cmd.OutOrStdout(), args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&f.kappa, "kappa", 0, "what if: smallest D-gap of a request, nats")
	flags.Float64Var(&f.labelsPerMinute, "labels-per-minute", 0,
		"what if: labels that the operator can give; kappa adapts")
	flags.Float64Var(&f.lambda, "lambda", 0, "what if: prior precision, V = λI")
	flags.Float64Var(&f.rho, "rho", 0, "what if: forgetting, in (0, 1]")
	flags.Float64Var(&f.beta, "beta", 0, "what if: weight of the uncertainty bonus")
	flags.BoolVar(&o.JSON, "json", false, "print JSON")
	flags.StringVar(&o.Page, "html", "", "write a page for a browser to this file")
	for _, other := range []string{"kappa", "lambda", "rho", "beta", "json"} {
		cmd.MarkFlagsMutuallyExclusive("html", other) // the page computes a grid
	}
	return cmd
}

// params returns the given parameters, nil if none is given.
func (f *whatIfFlags) params(given func(name string) bool) *flightlog.Params {
	var p flightlog.Params
	for name, flag := range map[string]struct {
		dst   **float64
		value *float64
	}{
		"kappa": {&p.Kappa, &f.kappa}, "lambda": {&p.Lambda, &f.lambda},
		"rho": {&p.Rho, &f.rho}, "beta": {&p.Beta, &f.beta},
		"labels-per-minute": {&p.LabelsPerMinute, &f.labelsPerMinute},
	} {
		if given(name) {
			*flag.dst = flag.value
		}
	}
	if p == (flightlog.Params{}) {
		return nil
	}
	return &p
}
