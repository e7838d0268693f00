package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/plaintext"
)

// summary is the head of the page.
type summary struct {
	Title   string
	Name    string
	Verdict notice
	Notices []notice // missing and damaged parts
	Rows    []row
}

// notice is a sentence with a grade: good, warn or bad.
type notice struct{ Grade, Text string }

// row is a name with paragraphs.
type row struct {
	Name string
	Text []string
}

// count formats a number for people.
func count(n uint64) string { return flightlog.Grouped(n) }

func newSummary(c *collected, b *believed, name string) summary {
	s := summary{Title: cmp.Or(c.meta.Robot.Name, "unknown"), Name: name, Verdict: verdict(c, b)}
	if task := c.meta.Extra["task"]; task != "" {
		s.Title += ": " + task
	}
	s.Notices = slices.Concat(fileNotices(c), beliefNotices(c, b), pictureNotices(c.pictures))
	s.Rows = append(runRows(c), timingRows(c)...)
	s.Rows = append(s.Rows, sourceRows(c)...)
	return s
}

func verdict(c *collected, b *believed) notice {
	r := &b.result
	verified, ticks := count(r.Verified), count(r.Summary.Ticks)
	switch {
	case b.failed != nil:
		return notice{"bad", "Not verified: " + b.failed.Error()}
	case r.First != nil:
		return notice{"bad", fmt.Sprintf("%s of %s ticks computed again: %s DIFFER. The first: %s",
			verified, ticks, count(r.Differing), r.First)}
	case len(r.Damage) > 0:
		return notice{"bad", fmt.Sprintf("Not verified: the log is DAMAGED. %s of the %s readable ticks agree",
			verified, ticks)}
	case c.ticks() == 0:
		return notice{"warn", "The log holds no ticks"}
	case !r.OK():
		return notice{"bad", "Not verified: no tick could be compared"}
	case r.Unverified > 0:
		return notice{"warn", fmt.Sprintf("%s of %s ticks computed again: every hash, norm and weight agrees. "+
			"%s could not be compared", verified, ticks, count(r.Unverified))}
	}
	return notice{"good", fmt.Sprintf("All %s ticks computed again: every hash, norm and weight agrees", verified)}
}

// maxNotices is the largest number of damaged parts and of gaps in the head of the page.
const maxNotices = 20

// fileNotices list missing and damaged parts of the file.
func fileNotices(c *collected) []notice {
	var found []notice
	warn := func(format string, args ...any) { found = append(found, notice{"warn", fmt.Sprintf(format, args...)}) }
	if cut := c.cut; cut != nil {
		text := fmt.Sprintf("The log was never closed: it ends at byte %s, %s bytes are lost",
			count(uint64(cut.Offset)), count(uint64(cut.Bytes)))
		if cut.HasTick {
			text += fmt.Sprintf("; the last tick is %d", cut.LastTick)
		}
		warn("%s", text)
	}
	for _, err := range c.damage[:min(maxNotices, len(c.damage))] {
		found = append(found, notice{"bad", "Log " + err.Error()})
	}
	if more := len(c.damage) - maxNotices; more > 0 {
		found = append(found, notice{"bad", fmt.Sprintf("%d more places are damaged", more)})
	}
	if c.cut != nil || len(c.damage) > 0 {
		warn("To copy the readable records: optibfm log recover FILE -o COPY")
	}
	if c.unlisted > 0 {
		warn("%d events are not listed below; optibfm log cat --topic /event prints them", c.unlisted)
	}
	return found
}

// beliefNotices list what the replay of the belief could not use.
func beliefNotices(c *collected, b *believed) []notice {
	var found []notice
	warn := func(format string, args ...any) { found = append(found, notice{"warn", fmt.Sprintf(format, args...)}) }
	if c.summary.Dropped > 0 {
		warn("%s periods have no record: the effect of labels about them is unknown", count(c.summary.Dropped))
	}
	gaps := b.result.Gaps
	for _, g := range gaps[:min(maxNotices, len(gaps))] {
		warn("Belief: %v", g)
	}
	if more := len(gaps) - maxNotices; more > 0 {
		warn("Belief: %d more gaps", more)
	}
	return found
}

func runRows(c *collected) []row {
	s, m := &c.summary, &c.meta
	rows := []row{
		{"Run", []string{fmt.Sprintf("%s, %s ticks of %v: %s skipped, %s without a record, %s armed",
			s.Duration.Round(100*time.Millisecond), count(s.Ticks), m.Robot.Period,
			count(s.Skipped), count(s.Dropped), count(s.Armed))}},
		{"Control", []string{fmt.Sprintf("%s, κ = %g nats, λ = %g, ρ = %g, β = %v, d = %d", m.Control.Strategy,
			m.Control.Gate.Kappa, m.Control.Lambda, m.Control.Rho, m.Control.Beta, m.Shape.Latent)}},
		{"Requests", []string{fmt.Sprintf("%s asked, %s answered, %s expired",
			count(s.Asked), count(s.Answered), count(s.Expired))}},
		{"Labels", []string{s.LabelsText()}},
	}
	if m.Control.Strategy == "" {
		rows[1].Text = []string{"unknown: the log is damaged"}
	}
	if m.Control.Hypotheses && m.Control.Basis != nil { // those of each moment would take minutes
		rows[1].Text = append(rows[1].Text, "hypotheses: ẑ at the end weighs them; "+
			"curves and bars are of the Gaussian belief without them")
	}
	if len(s.Episodes) > 0 {
		returns := make([]float64, len(s.Episodes))
		for i, e := range s.Episodes {
			returns[i] = e.Return
		}
		text := fmt.Sprintf("%d, returns %s", len(returns), plaintext.Numbers("%.1f", returns))
		rows = append(rows, row{"Episodes", []string{text}})
	}
	rows = append(rows, row{"Faults", []string{s.FaultsText()}})
	if s.End != "" {
		rows = append(rows, row{"Ended by", []string{s.End}})
	}
	return rows
}

func timingRows(c *collected) []row {
	s := &c.summary
	var rows []row
	if !c.meta.Clock.Simulated {
		rows = append(rows, row{"Lateness", []string{s.Late.String()}},
			row{"A tick takes", []string{s.Busy.String()}})
	}
	if plans := slices.Sorted(slices.Values(c.plans)); len(plans) > 0 && plans[len(plans)-1] > 0 {
		at := func(q float64) float64 { return plans[int(q*float64(len(plans)-1))] }
		rows = append(rows, row{"A plan takes", []string{fmt.Sprintf("p50 %.2f, p99 %.2f, max %.2f ms (%s plans)",
			at(0.5), at(0.99), at(1), count(uint64(len(plans))))}})
	}
	return rows
}

func sourceRows(c *collected) []row {
	m := &c.meta
	model := cmp.Or(m.ModelHash[:min(16, len(m.ModelHash))], "unknown")
	rows := []row{
		{"Started", []string{time.Unix(0, m.Clock.WallNS).UTC().Format("2006-01-02 15:04:05 UTC")}},
		{"Program", []string{cmp.Or(m.Program, "unknown") + ", model " + model}},
		{"Posture", strings.Split(cmp.Or(m.Posture, "unknown"), "\n")},
	}
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if key != "task" { // the title shows it
			rows = append(rows, row{key, []string{m.Extra[key]}})
		}
	}
	return rows
}
