package review

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/plaintext"
)

// Columns of a report.
const (
	width  = 80
	indent = 13 // where the text of a row begins
)

// row prints a name and a text, with line breaks between words.
func row(out io.Writer, name, format string, args ...any) {
	line := fmt.Sprintf("  %-*s", indent-3, name)
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(out, line)
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	fmt.Fprintln(out, line)
}

// stateText describes how much of a log is readable.
func stateText(cut *flightlog.Cut, damage []error) string {
	var parts []string
	if cut != nil {
		text := fmt.Sprintf("never closed: it ends at byte %d", cut.Offset)
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
		return "complete"
	}
	return strings.Join(parts, "; ")
}

// printRecovery prints the command that copies an incomplete log.
func printRecovery(out io.Writer, path string, cut *flightlog.Cut, damage []error) {
	if cut != nil || len(damage) > 0 {
		fmt.Fprintf(out, "\nTo copy the readable part: %s\n", recoverCommand(path))
	}
}

// printSummary prints the events and the timing of a run.
func printSummary(out io.Writer, s flightlog.Summary) {
	n := flightlog.Grouped
	ticks := fmt.Sprintf("%s in %.1f s: %s skipped, %s dropped, %s armed",
		n(s.Ticks), s.Duration.Seconds(), n(s.Skipped), n(s.Dropped), n(s.Armed))
	if s.Moving > 0 {
		ticks += fmt.Sprintf(", %s starting or resting", n(s.Moving))
	}
	row(out, "ticks", "%s", ticks)
	row(out, "requests", "%s asked, %s answered, %s expired", n(s.Asked), n(s.Answered), n(s.Expired))
	row(out, "labels", "%s", s.LabelsText())
	if len(s.Changed) > 0 {
		row(out, "changes", "the task seemed to change %d times: after ticks %v; kept in ticks %v",
			len(s.Changed), s.Changed, s.Kept)
	}
	if s.Evidence.SkillError > 0 {
		row(out, "predicts", "%s, at the end", s.Evidence.Judgement(s.Known))
	}
	printEpisodes(out, s.Episodes)
	if s.Late.Max > 0 {
		row(out, "late", "%s", s.Late)
		row(out, "busy", "%s", s.Busy)
	}
	row(out, "faults", "%s", s.FaultsText())
	if s.End != "" {
		row(out, "ended by", "%s", plaintext.Clean(s.End))
	}
}

func printEpisodes(out io.Writer, episodes []flightlog.Episode) {
	if len(episodes) == 0 {
		return
	}
	const shown = 10
	row(out, "episodes", "%d; return, steps, labels:", len(episodes))
	for _, e := range episodes[:min(shown, len(episodes))] {
		fmt.Fprintf(out, "%*s%4d %12.2f %7d %7d\n", indent, "", e.Number, e.Return, e.Steps, e.Labels)
	}
	if more := len(episodes) - shown; more > 0 {
		fmt.Fprintf(out, "%*s... and %d more\n", indent, "", more)
	}
}

// printReplay prints the result of a replay and the answer to a what-if question, if there is one.
func printReplay(
	out io.Writer, path string, r *flightlog.Reader, result flightlog.Result, answer *flightlog.Answer, marked string,
) {
	fmt.Fprintf(out, "%s, %s\n", path, plaintext.Bytes(r.Size()))
	row(out, "state", "%s", stateText(result.Cut, result.Damage))
	if from, recovered := r.Metadata().Extra[flightlog.KeyRecovered]; recovered {
		row(out, "recovered", "%s", from)
	}
	row(out, "verified", "%s", verdictText(result))
	for _, g := range result.Gaps {
		row(out, "", "%v", g)
	}
	row(out, "marked", "%s", marked)
	if result.Z != nil {
		row(out, "belief", "norm of z %.4f after the last tick", result.ZNorm)
	} else {
		row(out, "belief", "unknown after the last tick")
	}
	fmt.Fprintln(out)
	printSummary(out, result.Summary)
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
	case r.Lacks != nil:
		return fmt.Sprintf("NO: %v; %s ticks can be read", r.Lacks, flightlog.Grouped(r.Summary.Ticks))
	case len(r.Damage) > 0:
		return "NO: the log is damaged; " + all + " that can be read agree"
	}
	if !r.OK() {
		return "NO: no tick could be compared"
	}
	return all + ": every hash, norm and weight agrees"
}

func printAnswer(out io.Writer, was controller.Config, a *flightlog.Answer) {
	n := flightlog.Grouped
	fmt.Fprintf(out, "What if %s\n", changesText(was, a.Config))
	if a.Asked > 0 || a.Config.Gate != was.Gate {
		row(out, "requests", "%s (the run: %s)", n(a.Asked), n(a.LoggedAsked))
		row(out, "answered", "%s by a logged label, %s by the simulator's reward", n(a.ByLabel), n(a.ByReward))
		row(out, "not", "%s without an answer in the log, %s \"can't tell\"", n(a.Unanswered), n(a.CantTell))
	}
	row(out, "labels", "%s entered the belief; %s presses were unrequested", n(a.Labels), n(a.Unasked))
	row(out, "z", "norm %.4f (the run: %s), cosine %s", a.ZNorm, numberText(a.LoggedNorm), numberText(a.Cosine))
	if !math.IsNaN(a.MeanBonus) {
		row(out, "bonus", "%.4f, the mean of beta times the norm of phi in V⁻¹", a.MeanBonus)
	}
	if a.Missing > 0 {
		row(out, "note", "%s periods are not in the log: this is approximate", n(a.Missing))
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
		parts = append(parts, fmt.Sprintf("beta = %g (was %v)", is.Beta.Value, was.Beta))
	}
	if len(parts) == 0 {
		return "nothing had changed"
	}
	return strings.Join(parts, ", ")
}

func numberText(x float64) string {
	if math.IsNaN(x) {
		return "not defined"
	}
	return fmt.Sprintf("%.4f", x)
}
