package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Count is how many of the paper's claims, or of ours, have a verdict.
func (r *Report) Count(ours bool, v Verdict) int {
	n := 0
	for i := range r.Claims {
		if r.Claims[i].Ours == ours && r.Claims[i].Verdict == v {
			n++
		}
	}
	return n
}

// verdictsInOrder are those of claims, as they are listed.
var verdictsInOrder = []Verdict{Holds, HoldsInPart, DoesNotHold, CannotTell, NotRun}

// words say how many claims have a verdict.
func words(v Verdict, n int) string {
	switch {
	case v == CannotTell:
		return fmt.Sprintf("%d cannot be told", n)
	case v == NotRun && n == 1:
		return "1 was not run"
	case v == NotRun:
		return fmt.Sprintf("%d were not run", n)
	case n == 1:
		return "1 " + v.String()
	case v == Holds:
		return fmt.Sprintf("%d hold", n)
	case v == HoldsInPart:
		return fmt.Sprintf("%d hold in part", n)
	}
	return fmt.Sprintf("%d do not hold", n)
}

// Headline is the paper's claims, or ours, in one sentence.
func (r *Report) Headline(ours bool) string {
	var parts []string
	all := 0
	for _, v := range verdictsInOrder {
		n := r.Count(ours, v)
		all += n
		if n > 0 || v == Holds || v == DoesNotHold {
			parts = append(parts, words(v, n))
		}
	}
	whose := "the paper"
	if ours {
		whose = "ours"
	}
	return fmt.Sprintf("Of %d claims of %s %s", all, whose, strings.Join(parts, ", "))
}

// Together says how many verdicts stand where all claims are judged together.
func (r *Report) Together() string {
	decided, stands := 0, 0
	for i := range r.Claims {
		if r.Claims[i].Decided() {
			decided++
		}
		if r.Claims[i].Stands() {
			stands++
		}
	}
	return fmt.Sprintf("%d of the %d verdicts stand also where all claims are judged together, with a chance of 5 %% that any of those is wrong, given the settings, which were chosen by the same trials", stands, decided)
}

// Decisive is the finding that decided about a claim: the clearest where it does not
// hold, otherwise the narrowest, nil if there is none.
func (j *Judgement) Decisive() *Finding {
	wanted := []Verdict{j.Verdict}
	if j.Verdict == HoldsInPart {
		wanted = []Verdict{Holds, HoldsInPart}
	}
	var decisive *Finding
	for i := range j.Findings {
		f := &j.Findings[i]
		if !slices.Contains(wanted, f.Verdict) || !f.Confidence.Known() || f.beside {
			continue
		}
		if decisive == nil || f.before(decisive, j.Verdict) {
			decisive = f
		}
	}
	return decisive
}

// before says whether a finding rather than another of the same verdict decides about
// their claim.
func (f *Finding) before(other *Finding, v Verdict) bool {
	if v == DoesNotHold {
		return f.doubts.fails < other.doubts.fails
	}
	return f.narrowness() > other.narrowness()
}

// narrowness is how near a finding was to another verdict.
func (f *Finding) narrowness() float64 { return min(f.doubts.holds, f.doubts.fails) }

// Counted says of how many trials a finding is.
func (f *Finding) Counted() string {
	switch {
	case f.Trials == 0:
		return ""
	case f.Paired:
		return fmt.Sprintf("%d pairs", f.Trials/2)
	case f.Compared:
		return fmt.Sprintf("%d, not paired", f.Trials)
	}
	return fmt.Sprint(f.Trials)
}

// Measured is a finding's value with its interval.
func (f *Finding) Measured() string {
	if !f.Confidence.Known() {
		return number(f.Value)
	}
	return fmt.Sprintf("%s [%s, %s]", number(f.Value), number(f.Confidence.Low), number(f.Confidence.High))
}

// String is a finding in one line.
func (f *Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Env, f.What, f.Measured())
	if f.Wanted != "" {
		text += ", wanted " + f.Wanted
	}
	return text
}

// Outcome is a judgement's measurement or why there is none.
func (j *Judgement) Outcome() string {
	f := j.Decisive()
	switch {
	case f == nil:
		return j.Reason
	case j.Verdict == HoldsInPart:
		return strings.TrimPrefix(j.Extent()+"; ", "; ") + f.String() + "; " + j.Reason
	case j.Verdict == CannotTell:
		return f.String() + " (" + f.Reason + ")"
	}
	return f.String()
}

// WriteText writes the summary for a terminal.
func (r *Report) WriteText(out io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s rows, %s trials, models: %d\n\n", grouped(r.Origin.Rows), grouped(r.Origin.Trials), len(r.Origin.Models))
	r.writeComparisons(&text)
	r.writeClaims(&text, false)
	r.writeClaims(&text, true)
	fmt.Fprintf(&text, "%s (*)\n", r.Together())
	for _, notice := range r.Notices {
		fmt.Fprintf(&text, "\nnote: %s", notice)
	}
	if len(r.Notices) > 0 {
		text.WriteByte('\n')
	}
	_, err := out.Write(text.Bytes())
	return err
}

// writeClaims are the paper's claims, or ours.
func (r *Report) writeClaims(out io.Writer, ours bool) {
	fmt.Fprintln(out, r.Headline(ours))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var lacking []string
	for i := range r.Claims {
		j := &r.Claims[i]
		switch {
		case j.Ours != ours:
			continue
		case j.Verdict == NotRun:
			lacking = append(lacking, j.Name)
			continue
		}
		verdict := j.Verdict.String()
		if j.Stands() {
			verdict += " *"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", verdict, j.Name, j.Outcome())
	}
	if len(lacking) > 0 {
		fmt.Fprintf(table, "  %s\t%s\n", NotRun, strings.Join(lacking, ", "))
	}
	_ = table.Flush() // its writer is in memory
	fmt.Fprintln(out)
}

// writeComparisons are tables of the methods, over all tasks and episodes.
func (r *Report) writeComparisons(out io.Writer) {
	experiment := ""
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range r.Tasks {
		row := &r.Tasks[i]
		if row.Task != "" {
			continue
		}
		if row.Experiment != experiment {
			experiment = row.Experiment
			_ = table.Flush() // its writer is in memory
			fmt.Fprintf(out, "%s: return of an episode, and as a share of the oracle's\n", experiment)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", row.Env, row.Method, row.Params, row.Return.String(), row.share())
	}
	_ = table.Flush()
	if experiment != "" {
		fmt.Fprintln(out)
	}
}

// share is the return relative to the oracle's.
func (row *TaskRow) share() string {
	if row.Relative == nil {
		return "no oracle"
	}
	return row.Relative.String()
}

// String is the mean with its interval.
func (e *Estimate) String() string {
	if !e.Confidence.Known() {
		return number(e.Mean)
	}
	return fmt.Sprintf("%s [%s, %s]", number(e.Mean), number(e.Confidence.Low), number(e.Confidence.High))
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}
