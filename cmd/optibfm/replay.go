package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/plaintext"
)

// errReplayDiffers makes the command's exit status 1.
var errReplayDiffers = errors.New("replay: what was computed again differs from the log: the program, the CPU's arithmetic or the log is not what it was")

// replayFlags are the what-if parameters of the command line.
type replayFlags struct {
	kappa, lambda, rho, beta float64
	labelsPerMinute          float64
	json                     bool
	html                     string
}

// newReplayCommand makes `optibfm replay`: compute the belief of a run again.
func newReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Verify a log by computing the belief again, and ask what if",
		Long: `Compute the belief again from the logged features and labels, with the code that
ran on the robot, and compare every tick. If one differs, the exit status is 1.
A log that is not damaged and agrees is marked (FILE.replayed): where disk space
is short, a run removes such logs first.

` + damageHelp + `

With --kappa, --labels-per-minute, --lambda, --rho or --beta, print also what the
run would have asked and learnt with other parameters, in the states that the
robot saw. The states that it would have reached instead are not simulated. A
request is answered by the logged label about that tick, or else by the
simulator's reward, or expires.`,
		Example: `  optibfm replay runs/20260101-120000-rover.mcap
  optibfm replay run.mcap --kappa 0.1   # how many labels would that have asked?
  optibfm replay run.mcap --html report.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := f.params(cmd.Flags().Changed)
			return withLog(args[0], func(r *flightlog.Reader) error {
				if f.html != "" {
					return writeReport(cmd.OutOrStdout(), f.html, args[0], r)
				}
				return replayLog(cmd.OutOrStdout(), args[0], r, params, f.json)
			})
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&f.kappa, "kappa", 0, "what if: D-gap from which on a label is asked for, nats")
	flags.Float64Var(&f.labelsPerMinute, "labels-per-minute", 0, "what if: labels that the operator can give; kappa follows")
	flags.Float64Var(&f.lambda, "lambda", 0, "what if: the prior, V = λI")
	flags.Float64Var(&f.rho, "rho", 0, "what if: forgetting, in (0, 1]")
	flags.Float64Var(&f.beta, "beta", 0, "what if: weight of the uncertainty bonus")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.html, "html", "", "write a page for a browser to this file")
	for _, other := range []string{"kappa", "lambda", "rho", "beta", "json"} {
		cmd.MarkFlagsMutuallyExclusive("html", other) // the page computes a grid
	}
	return cmd
}

// params returns the parameters that were given, nil where none was.
func (f *replayFlags) params(given func(name string) bool) *flightlog.Params {
	var p flightlog.Params
	any := false
	for name, flag := range map[string]struct {
		dst   **float64
		value *float64
	}{
		"kappa": {&p.Kappa, &f.kappa}, "lambda": {&p.Lambda, &f.lambda},
		"rho": {&p.Rho, &f.rho}, "beta": {&p.Beta, &f.beta},
		"labels-per-minute": {&p.LabelsPerMinute, &f.labelsPerMinute},
	} {
		if given(name) {
			*flag.dst, any = flag.value, true
		}
	}
	if !any {
		return nil
	}
	return &p
}

func replayLog(out io.Writer, path string, r *flightlog.Reader, params *flightlog.Params, asJSON bool) error {
	result, err := flightlog.Verify(r)
	if err != nil {
		return err
	}
	var answer *flightlog.Answer
	if params != nil {
		a, err := flightlog.WhatIf(r, *params)
		if err != nil {
			return err
		}
		answer = &a
	}
	if asJSON {
		err = printReplayJSON(out, path, result, answer)
	} else {
		printReplay(out, path, r, result, answer)
	}
	err = errors.Join(err, replayError(path, result))
	if _, recovered := r.Metadata().Extra[flightlog.KeyRecovered]; err == nil && !recovered {
		_ = flightlog.MarkReplayed(path) // a folder that cannot be written to is no log.dir
	}
	return err
}

// replayError is what is wrong with a log that was replayed; nil for one that is as it
// was recorded.
func replayError(path string, r flightlog.Result) error {
	err := damageError("replay", path, r.Damage)
	if r.First != nil {
		err = errors.Join(errReplayDiffers, err)
	}
	return err
}

func printReplay(out io.Writer, path string, r *flightlog.Reader, result flightlog.Result, answer *flightlog.Answer) {
	fmt.Fprintf(out, "%s, %s\n", path, plaintext.Bytes(r.Size()))
	row(out, "state", "%s", stateText(result.Cut, result.Damage))
	if from, recovered := r.Metadata().Extra[flightlog.KeyRecovered]; recovered {
		row(out, "recovered", "%s", from)
	}
	row(out, "verified", "%s", verdictText(result))
	for _, g := range result.Gaps {
		row(out, "", "%s", gapText(g))
	}
	if result.Z != nil {
		row(out, "belief", "norm of z %.4f after the last tick", result.ZNorm)
	} else {
		row(out, "belief", "not known after the last tick")
	}
	fmt.Fprintln(out)
	printRunSummary(out, result.Summary)
	if answer != nil {
		fmt.Fprintln(out)
		printAnswer(out, r.Metadata().Control, answer)
		if len(result.Damage) > 0 {
			row(out, "note", "the log is damaged: this is approximate")
		}
	}
	printRecovery(out, path, result.Cut, result.Damage)
}

func verdictText(r flightlog.Result) string {
	all := fmt.Sprintf("%s of %s ticks", flightlog.Grouped(r.Verified), flightlog.Grouped(r.Summary.Ticks))
	switch {
	case r.First != nil:
		return fmt.Sprintf("%s: %s DIFFER; the first: %s", all, flightlog.Grouped(r.Differing), r.First)
	case len(r.Damage) > 0:
		return "NO: the log is damaged; " + all + " that can be read agree"
	}
	return all + ": every hash, norm and weight agrees"
}

func gapText(g flightlog.Gap) string {
	text := fmt.Sprintf("not from tick %d on: %s", g.Tick, g.Reason)
	if g.Missing > 0 {
		text += fmt.Sprintf(" (%d periods)", g.Missing)
	}
	if !g.Ended {
		return text + "; no snapshot follows"
	}
	return text + fmt.Sprintf("; resumed at tick %d", g.Resumed)
}

func printAnswer(out io.Writer, was controller.Config, a *flightlog.Answer) {
	fmt.Fprintf(out, "What if %s\n", changesText(was, a.Config))
	if a.Asked > 0 || a.Config.Gate != was.Gate {
		row(out, "requests", "%s (the run: %s)", flightlog.Grouped(a.Asked), flightlog.Grouped(a.LoggedAsked))
		row(out, "answered", "%s by a logged label, %s by the simulator's reward", flightlog.Grouped(a.ByLabel), flightlog.Grouped(a.ByReward))
		row(out, "not", "%s without an answer in the log, %s \"can't tell\"", flightlog.Grouped(a.Unanswered), flightlog.Grouped(a.CantTell))
	}
	row(out, "labels", "%s entered the belief; %s presses came unasked", flightlog.Grouped(a.Labels), flightlog.Grouped(a.Unasked))
	row(out, "z", "norm %.4f (the run: %s), cosine %s", a.ZNorm, numberText(a.LoggedNorm), numberText(a.Cosine))
	if !math.IsNaN(a.MeanBonus) {
		row(out, "bonus", "%.4f, the mean of beta times the norm of phi in V⁻¹", a.MeanBonus)
	}
	if a.Missing > 0 {
		row(out, "note", "%s periods are not in the log: this is approximate", flightlog.Grouped(a.Missing))
	}
}

func changesText(was, is controller.Config) string {
	var parts []string
	note := func(name string, was, is float64) {
		if was != is {
			parts = append(parts, fmt.Sprintf("%s = %g (was %g)", name, is, was))
		}
	}
	note("kappa", was.Gate.Kappa, is.Gate.Kappa)
	note("labels_per_minute", was.Gate.LabelsPerMinute, is.Gate.LabelsPerMinute)
	note("lambda", was.Lambda, is.Lambda)
	note("rho", was.Rho, is.Rho)
	if was.Beta != is.Beta {
		parts = append(parts, fmt.Sprintf("beta = %g (was %s)", is.Beta.Value, betaText(was.Beta)))
	}
	if len(parts) == 0 {
		return "nothing had changed"
	}
	return strings.Join(parts, ", ")
}

func betaText(b controller.Beta) string {
	if b.Schedule == controller.Constant {
		return fmt.Sprintf("%g", b.Value)
	}
	return "by the schedule " + b.Schedule
}

func numberText(x float64) string {
	if math.IsNaN(x) {
		return "not defined"
	}
	return fmt.Sprintf("%.4f", x)
}

// replayReport is the command's JSON.
type replayReport struct {
	File       string             `json:"file"`
	OK         bool               `json:"ok"`
	Ticks      uint64             `json:"ticks"`
	Verified   uint64             `json:"verified"`
	Differing  uint64             `json:"differing"`
	First      *replayDifference  `json:"first_difference,omitempty"`
	Unverified uint64             `json:"unverified"`
	Gaps       []string           `json:"gaps,omitempty"`
	Damage     []string           `json:"damage,omitempty"`
	Cut        string             `json:"cut,omitempty"`
	Skipped    uint64             `json:"skipped"`
	Dropped    uint64             `json:"dropped"`
	DurationS  float64            `json:"duration_s"`
	Asked      uint64             `json:"asked"`
	Answered   uint64             `json:"answered"`
	Expired    uint64             `json:"expired"`
	Labels     map[string]uint64  `json:"labels"`
	Undone     uint64             `json:"undone"`
	Doubted    uint64             `json:"doubted,omitempty"`
	Least      float64            `json:"least_trust,omitempty"` // of its weight, that a doubted label was given
	Returns    []float64          `json:"returns,omitempty"`
	Late       *replayPercentiles `json:"late_us,omitempty"`
	Busy       *replayPercentiles `json:"busy_us,omitempty"`
	Faults     map[string]uint64  `json:"faults,omitempty"`
	Z          []float64          `json:"z,omitempty"`
	ZNorm      *float64           `json:"z_norm"` // null where the belief is not known
	WhatIf     *replayAnswer      `json:"what_if,omitempty"`
}

type replayDifference struct {
	Tick     uint64 `json:"tick"`
	Field    string `json:"field"`
	Logged   string `json:"logged"`
	Computed string `json:"computed"`
}

type replayPercentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

type replayAnswer struct {
	Kappa      float64   `json:"kappa"`
	PerMinute  float64   `json:"labels_per_minute,omitempty"`
	Lambda     float64   `json:"lambda"`
	Rho        float64   `json:"rho"`
	Beta       *float64  `json:"beta,omitempty"`
	Asked      uint64    `json:"asked"`
	ByLabel    uint64    `json:"answered_by_label"`
	ByReward   uint64    `json:"answered_by_reward"`
	CantTell   uint64    `json:"cant_tell"`
	Unanswered uint64    `json:"unanswered"`
	Unasked    uint64    `json:"unasked_presses"`
	Labels     uint64    `json:"labels"`
	Missing    uint64    `json:"missing_periods"`
	Z          []float64 `json:"z"`
	ZNorm      float64   `json:"z_norm"`
	Cosine     *float64  `json:"cosine,omitempty"`
	MeanBonus  *float64  `json:"mean_bonus,omitempty"`
}

func printReplayJSON(out io.Writer, path string, r flightlog.Result, answer *flightlog.Answer) error {
	s := r.Summary
	report := replayReport{
		File: path, OK: r.OK(), Ticks: s.Ticks, Verified: r.Verified, Differing: r.Differing, Unverified: r.Unverified,
		Skipped: s.Skipped, Dropped: s.Dropped, DurationS: s.Duration.Seconds(),
		Asked: s.Asked, Answered: s.Answered, Expired: s.Expired, Undone: s.Undone, Doubted: s.Doubted, Least: s.Least,
		Labels: make(map[string]uint64), Faults: make(map[string]uint64), Z: r.Z, ZNorm: finiteOrNil(r.ZNorm),
	}
	if d := r.First; d != nil {
		report.First = &replayDifference{d.Tick, d.Field, d.Logged, d.Computed}
	}
	for _, g := range r.Gaps {
		report.Gaps = append(report.Gaps, gapText(g))
	}
	for _, err := range r.Damage {
		report.Damage = append(report.Damage, err.Error())
	}
	if r.Cut != nil {
		report.Cut = stateText(r.Cut, nil)
	}
	for o, n := range s.Labels {
		report.Labels[o.String()] = n
	}
	for f, n := range s.Faults {
		report.Faults[f.String()] = n
	}
	for _, e := range s.Episodes {
		report.Returns = append(report.Returns, e.Return)
	}
	if s.Late.Max > 0 {
		report.Late, report.Busy = inMicroseconds(s.Late), inMicroseconds(s.Busy)
	}
	if answer != nil {
		report.WhatIf = answerJSON(answer)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func inMicroseconds(p flightlog.Percentiles) *replayPercentiles {
	return &replayPercentiles{
		float64(p.P50) / 1e3, float64(p.P99) / 1e3, float64(p.P999) / 1e3, float64(p.Max) / 1e3,
	}
}

func answerJSON(a *flightlog.Answer) *replayAnswer {
	report := &replayAnswer{
		Kappa: a.Config.Gate.Kappa, PerMinute: a.Config.Gate.LabelsPerMinute, Lambda: a.Config.Lambda, Rho: a.Config.Rho,
		Asked: a.Asked, ByLabel: a.ByLabel, ByReward: a.ByReward, CantTell: a.CantTell, Unanswered: a.Unanswered,
		Unasked: a.Unasked, Labels: a.Labels, Missing: a.Missing,
		Z: a.Z, ZNorm: a.ZNorm, Cosine: finiteOrNil(a.Cosine), MeanBonus: finiteOrNil(a.MeanBonus),
	}
	if a.Config.Beta.Schedule == controller.Constant {
		report.Beta = &a.Config.Beta.Value
	}
	return report
}

// finiteOrNil leaves out what JSON cannot say.
func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
