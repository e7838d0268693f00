package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"optibfm/flightlog"
	"optibfm/internal/plaintext"
	"optibfm/internal/shell"
)

// newLogCommand makes `optibfm log`: what can be done with a log without
// computing anything again.
func newLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into the log of a run, and copy what can be read of a damaged one",
		Long: `A log is an MCAP file with protobuf messages and their definitions, the format of
Foxglove, PlotJuggler and the mcap command. "optibfm replay" verifies it.

` + damageHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogInfo(), newLogRecover(), newLogCat(), newLogRelease())
	return cmd
}

func newLogInfo() *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE",
		Short: "Print what a log holds, and whether it is whole",
		Long:  "Print what a log holds, and whether it is whole.\n\n" + damageHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withLog(args[0], func(r *flightlog.Reader) error {
				damage, err := printLogInfo(cmd.OutOrStdout(), args[0], r)
				return errors.Join(err, damageError("log info", args[0], damage))
			})
		},
	}
}

func newLogRecover() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "recover FILE",
		Short: "Copy what can be read of a log to a new one, indexed and compressed",
		Long: `Copy what can be read of a log, bit for bit, to a new one with indexes, a summary
and zstd compression. The input stays as it is, and no file is overwritten.`,
		Example: "  optibfm log recover runs/cut.mcap -o runs/whole.mcap",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				out = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + "-recovered.mcap"
			}
			saved, err := flightlog.Recover(args[0], out)
			if err != nil {
				return err
			}
			printRecovered(cmd.OutOrStdout(), out, saved)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default: FILE with -recovered)")
	return cmd
}

func newLogCat() *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:     "cat FILE",
		Short:   "Print the messages of a log as JSON, one a line",
		Example: "  optibfm log cat run.mcap --topic /label",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if topic != "" && !slices.Contains(flightlog.Topics(), topic) {
				return fmt.Errorf("--topic: found %s: use one of %s", topic, strings.Join(flightlog.Topics(), ", "))
			}
			return withLog(args[0], func(r *flightlog.Reader) error {
				damage, err := printMessages(cmd.OutOrStdout(), cmd.ErrOrStderr(), r, topic)
				return errors.Join(err, damageError("log cat", args[0], damage))
			})
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "only this topic, such as /label")
	return cmd
}

// damageHelp is what every command says that reads logs.
const damageHelp = `A log whose run was killed is cut off at its end, which is normal. A log that
was changed since it was written, by a failing disk for example, is damaged:
what can be read is still shown, but the exit status is 3.`

// exitDamaged is the exit status for a damaged log. Of other errors it is 1.
const exitDamaged = 3

func printMessages(out, warnings io.Writer, r *flightlog.Reader, topic string) (damage []error, err error) {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for record, err := range r.Records() {
		if errors.Is(err, flightlog.ErrDamaged) {
			fmt.Fprintln(warnings, "log cat:", err)
			damage = append(damage, err)
			continue
		}
		if err != nil {
			return damage, err
		}
		if topic != "" && record.Topic != topic {
			continue
		}
		if err := encoder.Encode(record); err != nil {
			return damage, err
		}
	}
	return damage, buffered.Flush()
}

// Columns of a report.
const (
	reportWidth  = 80
	reportIndent = 13 // where the text of a row begins
)

// row prints one entry of a report: a name, then what there is to say, broken
// into lines between words.
func row(out io.Writer, name, format string, args ...any) {
	line := fmt.Sprintf("  %-*s", reportIndent-3, name)
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > reportWidth {
			fmt.Fprintln(out, line)
			line = strings.Repeat(" ", reportIndent-1)
		}
		line += " " + word
	}
	fmt.Fprintln(out, line)
}

func printLogInfo(out io.Writer, path string, r *flightlog.Reader) (damage []error, err error) {
	s, damage, err := flightlog.Summarise(r)
	if err != nil {
		return damage, err
	}
	m := r.Metadata()
	fmt.Fprintf(out, "%s, %s\n", path, plaintext.Bytes(r.Size()))
	row(out, "state", "%s", stateText(r.Cut(), damage))
	row(out, "program", "%s, model %s", orUnknown(m.Program), plaintext.ShortHash(m.ModelHash))
	row(out, "robot", "%s: %d observations, %d actions, d = %d, period %v", orUnknown(m.Robot.Name),
		m.Shape.Obs, m.Shape.Action, m.Shape.Latent, m.Robot.Period)
	row(out, "control", "%s, kappa %g, lambda %g, rho %g", m.Control.Strategy, m.Control.Gate.Kappa, m.Control.Lambda, m.Control.Rho)
	row(out, "posture", "%s", orUnknown(m.Posture))
	row(out, "started", "%s", time.Unix(0, m.Clock.WallNS).UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		row(out, key, "%s", m.Extra[key])
	}
	fmt.Fprintln(out)
	printRunSummary(out, s)
	printRecovery(out, path, r.Cut(), damage)
	return damage, nil
}

// printRecovery prints the command that makes a whole log of one that is not.
func printRecovery(out io.Writer, path string, cut *flightlog.Cut, damage []error) {
	if cut != nil || len(damage) > 0 {
		fmt.Fprintf(out, "\nTo copy what can be read: optibfm log recover %s\n", shell.Quote(path))
	}
}

// stateText says in words how much of a log is there.
func stateText(cut *flightlog.Cut, damage []error) string {
	var parts []string
	if cut != nil {
		text := fmt.Sprintf("never closed: %s at byte %d", cut.Reason, cut.Offset)
		if cut.Bytes > 0 {
			text += fmt.Sprintf(", %s lost", plaintext.Bytes(cut.Bytes))
		}
		if cut.HasTick {
			text += fmt.Sprintf("; the last tick is %d", cut.LastTick)
		}
		parts = append(parts, text)
	}
	if len(damage) > 0 {
		parts = append(parts, damageText(damage))
	}
	if len(parts) == 0 {
		return "whole"
	}
	return strings.Join(parts, "; ")
}

// printRunSummary prints what happened in a run.
func printRunSummary(out io.Writer, s flightlog.Summary) {
	row(out, "ticks", "%s in %.1f s: %s skipped, %s dropped, %s armed", flightlog.Grouped(s.Ticks), s.Duration.Seconds(),
		flightlog.Grouped(s.Skipped), flightlog.Grouped(s.Dropped), flightlog.Grouped(s.Armed))
	row(out, "requests", "%s asked, %s answered, %s expired", flightlog.Grouped(s.Asked), flightlog.Grouped(s.Answered), flightlog.Grouped(s.Expired))
	row(out, "labels", "%s", s.LabelsText())
	if n := len(s.Episodes); n > 0 {
		printEpisodes(out, s.Episodes)
	}
	if s.Late.Max > 0 {
		row(out, "late", "%s", percentilesText(s.Late))
		row(out, "busy", "%s", percentilesText(s.Busy))
	}
	row(out, "faults", "%s", faultsText(s))
}

func printEpisodes(out io.Writer, episodes []flightlog.Episode) {
	const shown = 10
	row(out, "episodes", "%d; return, steps, labels:", len(episodes))
	for _, e := range episodes[:min(shown, len(episodes))] {
		fmt.Fprintf(out, "%*s%4d %12.2f %7d %7d\n", reportIndent, "", e.Number, e.Return, e.Steps, e.Labels)
	}
	if more := len(episodes) - shown; more > 0 {
		fmt.Fprintf(out, "%*s... and %d more\n", reportIndent, "", more)
	}
}

func faultsText(s flightlog.Summary) string {
	text := s.Stops()
	if s.Warnings+s.Errors > 0 {
		text += fmt.Sprintf("; %d warnings and %d errors on /event", s.Warnings, s.Errors)
	}
	return text
}

func percentilesText(p flightlog.Percentiles) string {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return fmt.Sprintf("p50 %.0f, p99 %.0f, p99.9 %.0f, max %.0f µs", us(p.P50), us(p.P99), us(p.P999), us(p.Max))
}

func printRecovered(out io.Writer, path string, saved flightlog.Recovered) {
	fmt.Fprintf(out, "%s, %s from %s\n", path, plaintext.Bytes(saved.To), plaintext.Bytes(saved.From))
	row(out, "input", "%s", stateText(saved.Cut, saved.Damage))
	for _, topic := range flightlog.Topics() {
		if n := saved.Messages[topic]; n > 0 {
			row(out, topic, "%s", flightlog.Grouped(n))
		}
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
