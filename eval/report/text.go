package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Count is how many claims have a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Claims {
		if r.Claims[i].Verdict == v {
			n++
		}
	}
	return n
}

// words say how many claims have a verdict.
func (r *Report) words(v Verdict) string {
	n := r.Count(v)
	switch {
	case v == CannotTell:
		return fmt.Sprintf("%d cannot be told", n)
	case n == 1:
		return "1 " + v.String()
	case v == Holds:
		return fmt.Sprintf("%d hold", n)
	}
	return fmt.Sprintf("%d do not hold", n)
}

// Headline is the claims in one sentence.
func (r *Report) Headline() string {
	return fmt.Sprintf("Of %d claims %s, %s, %s", len(r.Claims), r.words(Holds), r.words(DoesNotHold), r.words(CannotTell))
}

// Decisive is the finding that decided about a claim most narrowly, nil if
// there is none.
func (j *Judgement) Decisive() *Finding {
	var decisive *Finding
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.Verdict == j.Verdict && f.Confidence.Known() && (decisive == nil || f.margin < decisive.margin) {
			decisive = f
		}
	}
	return decisive
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
	return fmt.Sprintf("%s: %s: %s, wanted %s", f.Env, f.What, f.Measured(), f.Wanted)
}

// Outcome is a judgement's measurement or why there is none.
func (j *Judgement) Outcome() string {
	if f := j.Decisive(); f != nil {
		return f.String()
	}
	return j.Reason
}

// WriteText writes the summary for a terminal.
func (r *Report) WriteText(out io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s rows, %s trials, models: %d\n\n", grouped(r.Origin.Rows), grouped(r.Origin.Trials), len(r.Origin.Models))
	r.writeComparisons(&text)
	fmt.Fprintf(&text, "%s\n", r.Headline())
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for i := range r.Claims {
		j := &r.Claims[i]
		fmt.Fprintf(table, "  %s\t%s\t%s\n", j.Verdict, j.Name, j.Outcome())
	}
	_ = table.Flush() // into memory
	for _, notice := range r.Notices {
		fmt.Fprintf(&text, "\nnote: %s", notice)
	}
	if len(r.Notices) > 0 {
		text.WriteByte('\n')
	}
	_, err := out.Write(text.Bytes())
	return err
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
