package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"optibfm/controller"
)

// benchPrinter writes a report for a terminal of 80 columns.
type benchPrinter struct {
	out  io.Writer
	errs []error
}

func (p *benchPrinter) line(format string, a ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, a...), " ")
	if _, err := fmt.Fprintln(p.out, text); err != nil {
		p.errs = append(p.errs, err)
	}
}

// text writes a paragraph of at most 80 columns a line.
func (p *benchPrinter) text(words string) {
	line := ""
	for _, word := range strings.Fields(words) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > 80 {
			p.line("%s", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	p.line("%s", line)
}

// printHead says what will be measured, before it is.
func (b *benchmark) printHead(out io.Writer) {
	p, d, m := &benchPrinter{out: out}, b.model.Dims(), machineReport()
	p.text(fmt.Sprintf("%s: observation %d, action %d, d %d, ensemble of %d", b.model.title(), d.Obs, d.Action, d.Latent, d.Ensemble))
	p.text(fmt.Sprintf("%s, %d processors, %s", m.CPU, m.Processors, m.Go))
	rows := len(b.rows())
	if b.options.count > 0 {
		p.text(fmt.Sprintf("%d rows take turns, %d calls each", rows, b.options.count))
		return
	}
	p.text(fmt.Sprintf("%d rows take turns, %v each: about %v", rows, b.options.span, (time.Duration(rows) * b.options.span).Round(time.Second)))
}

const rowFormat = "%-28s%10s%10s%10s%10s%10s"

func (p *benchPrinter) table(title string, rows []rowReport) {
	p.line("")
	p.line(rowFormat, title, "p50", "p99", "max", "allocs", "calls")
	for _, r := range rows {
		p.line(rowFormat, r.Name, brief(r.P50), brief(r.P99), brief(r.Max), amount(r.Allocs), fmt.Sprint(r.Calls))
	}
}

func (p *benchPrinter) control(r benchReport) { p.table("CONTROL THREAD", r.Control) }

func (p *benchPrinter) search(r benchReport) {
	p.table(fmt.Sprintf("SEARCH, %d candidates", r.Searched), r.Search)
	p.text(r.Backend)
}

func (p *benchPrinter) steps(r benchReport) {
	const format = "%-24s%9s%9s%9s%10s%9s%10s"
	p.line("")
	p.line(format, "STEP, with a label", "p50", "p99", "max", "× policy", "paper's", "garbage")
	for _, s := range r.Steps {
		paper := "-"
		if s.Paper > 0 {
			paper = fmt.Sprintf("%.1f", s.Paper)
		}
		p.line(format, s.Name, brief(s.P50), brief(s.P99), brief(s.Max), fmt.Sprintf("%.1f", s.Ratio), paper, amount(s.Garbage)+" B")
	}
	p.text("A step is φ, a label into the belief, a new z, π; on one processor, but for TensorFlow. " +
		"The paper's ratios are of an RTX 4090, which evaluates all candidates at once: another machine.")
}

func (p *benchPrinter) stages(r benchReport) {
	if len(r.Stages) == 0 {
		return
	}
	const format = "%-8s%9s%9s%7s%9s%9s%8s%8s%8s%5s"
	p.line("")
	p.line(format, "NETWORKS", "dense", "done", "", "bytes", "GFLOP/s", "GB/s", "roof", "by", "%")
	for _, s := range r.Stages {
		p.line(format, s.Name, scaled(float64(s.DenseFLOPs), ""), scaled(s.FLOPs, ""), percent(s.FLOPs/float64(s.DenseFLOPs)), scaled(s.Bytes, ""),
			rate(s.GFLOPS), rate(s.GBS), rate(s.RoofGFLOPS), s.Bound, fmt.Sprintf("%.0f", 100*s.OfRoof))
	}
	limits := fmt.Sprintf("One core reaches %s GFLOP/s (%s) and reads", rate(r.Limits.GFLOPS), r.Machine.Instructions)
	for i, l := range r.Limits.Read {
		if i > 0 {
			limits += ","
		}
		limits += fmt.Sprintf(" %s at %s", l.Level, rate(l.GBS))
	}
	p.text(limits + " GB/s. All rates are those of the fastest call, between the other rows.")
	p.text("dense: FLOPs of all products, each candidate alone, every member. done: less what ReLU made 0, candidates share, or cannot win. " +
		"roof: the lesser of the peak and FLOPs a byte times the rate at which as many bytes as the weights are read; " +
		"LayerNorm and tanh take time, but no FLOPs here.")
}

func (p *benchPrinter) allowance(r benchReport) {
	const format = "%-14s%s"
	a := r.Allowance
	p.line("")
	p.line("WHAT A PERIOD OF %s ALLOWS HERE: %s", brief(a.PeriodNS), planned(r))
	p.line(format, "control tick", fmt.Sprintf("%s (p99), %.2g %% of the period; 50 %% of a period at %s",
		brief(a.TickShare*a.PeriodNS), 100*a.TickShare, scaled(a.MaxRateHz, "Hz")))
	p.line(format, "plan", fmt.Sprintf("%s (p99): z acts %s after its state", brief(a.PlanNS), tickCount(a.ZAgeMin)))
	p.line(format, "age of z", ages(a))
	if len(a.Room) > 0 {
		var parts []string
		for _, s := range a.Room {
			parts = append(parts, fmt.Sprintf("%s within %s", scaled(float64(s.Size), ""), periodCount(s.Periods)))
		}
		p.line(format, sized(a.What), strings.Join(parts, ", "))
	}
	p.text("Computing alone: `optibfm jitter` measures how late the machine wakes the loop." + extrapolated(r))
}

// sized is a heading that fits its column.
func sized(what string) string { return strings.TrimPrefix(what, "gradient ") }

// planned names the plan.
func planned(r benchReport) string {
	text := r.Strategy
	switch {
	case r.Size > 0 && r.Strategy == controller.UCBGradient:
		text += fmt.Sprintf(", %d steps", r.Size)
	case r.Size > 0:
		text += fmt.Sprintf(", %d candidates", r.Size)
	}
	switch r.Replan {
	case 0:
		return text + ", once an episode"
	case 1:
		return text + ", every tick"
	}
	return text + fmt.Sprintf(", every %d ticks", r.Replan)
}

func ages(a allowance) string {
	if a.ZAgeMax == 0 {
		return fmt.Sprintf("from %s on, for the whole episode", tickCount(a.ZAgeMin))
	}
	if a.ZAgeMin == a.ZAgeMax {
		return fmt.Sprintf("%s: %s", tickCount(a.ZAgeMin), brief(float64(a.ZAgeMin)*a.PeriodNS))
	}
	return fmt.Sprintf("%d to %s: %s to %s", a.ZAgeMin, tickCount(a.ZAgeMax), brief(float64(a.ZAgeMin)*a.PeriodNS), brief(float64(a.ZAgeMax)*a.PeriodNS))
}

func extrapolated(r benchReport) string {
	if len(r.Plans) < 2 {
		return ""
	}
	return fmt.Sprintf(" The %s are extrapolated from a plan with %d (p99 %s).", r.Allowance.What, r.SizeMore, brief(r.Plans[1].P99))
}

func tickCount(n uint64) string {
	if n == 1 {
		return "1 tick"
	}
	return fmt.Sprintf("%d ticks", n)
}

func periodCount(n int) string {
	if n == 1 {
		return "1 period"
	}
	return fmt.Sprint(n)
}

// brief writes a time in ns with three digits.
func brief(ns float64) string {
	switch {
	case ns < 999.5:
		return digits(ns) + " ns"
	case ns < 999.5e3:
		return digits(ns/1e3) + " µs"
	case ns < 999.5e6:
		return digits(ns/1e6) + " ms"
	}
	return digits(ns/1e9) + " s"
}

// scaled writes a number with three digits, and k, M or G before its unit.
func scaled(x float64, unit string) string {
	for _, prefix := range []string{"", "k", "M"} {
		if x < 999.5 {
			return strings.TrimRight(digits(x)+" "+prefix+unit, " ")
		}
		x /= 1000
	}
	return digits(x) + " G" + unit
}

func digits(x float64) string {
	switch {
	case x == float64(int64(x)):
		return fmt.Sprintf("%.0f", x)
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func rate(x float64) string    { return fmt.Sprintf("%.1f", x) }
func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// amount is a mean number of things: whole where it is.
func amount(x float64) string {
	if x < 0.05 {
		return "0"
	}
	return digits(x)
}
