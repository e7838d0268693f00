package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"optibfm/configs"
)

// outcome is what a run leaves behind.
type outcome struct {
	robot   string // its name
	tally   *tally
	logPath string
	posture string
	fault   string // why the robot was halted, "" if it was not
	found   string // what was found then
	waited  uint64 // ticks for which a simulated robot stood still
}

// summary is what is printed at the end, and its JSON.
type summary struct {
	Robot    string    `json:"robot"`
	Task     string    `json:"task"`
	Strategy string    `json:"strategy"`
	Seed     uint64    `json:"seed"`
	Episodes uint64    `json:"episodes"` // that ended
	Returns  []float64 `json:"returns"`  // theirs; of more than 10,000 the first ones and the newest
	Oracle   *baseline `json:"oracle,omitempty"`
	Random   *baseline `json:"random,omitempty"`

	Ticks         uint64  `json:"ticks"`
	Skipped       uint64  `json:"skipped"`
	Waited        uint64  `json:"waited"` // for the host, by a simulated robot; no ticks
	Dropped       uint64  `json:"dropped"`
	AverageReward float64 `json:"average_reward"` // of the steps taken

	Asked         uint64 `json:"asked"`
	Answered      uint64 `json:"answered"`
	Expired       uint64 `json:"expired"`
	Labels        uint64 `json:"labels"` // that entered the belief
	Undone        uint64 `json:"undone"`
	Refused       uint64 `json:"refused"`
	RefusedReason string `json:"refused_reason,omitempty"`

	MaxPlanAge uint64     `json:"max_plan_age_ticks"`
	Lateness   *quantiles `json:"lateness_us,omitempty"`
	Duration   *quantiles `json:"tick_us,omitempty"`
	Posture    string     `json:"posture"`
	Fault      string     `json:"fault,omitempty"`
	Found      string     `json:"found,omitempty"` // with the fault
	Log        string     `json:"log,omitempty"`
}

// quantiles are of a histogram, in microseconds.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// baseline is what another way of choosing z gets in the same task.
type baseline struct {
	Episodes int     `json:"episodes"`
	Mean     float64 `json:"mean"`
}

func newSummary(s *session, o outcome) summary {
	y := o.tally
	m := summary{
		Robot: o.robot, Task: s.task(), Strategy: s.file.Controller.Strategy, Seed: s.file.Run.Seed,
		Episodes: y.episodes, Returns: append([]float64{}, y.returns...), Ticks: y.ticks, Skipped: y.skipped, Dropped: y.dropped, AverageReward: y.averageReward(),
		Asked: y.asked, Answered: y.answered, Expired: y.expired,
		Labels: y.applied, Undone: y.undone, Refused: y.refused,
		MaxPlanAge: y.maxAge, Posture: o.posture, Fault: o.fault, Found: o.found, Waited: o.waited, Log: o.logPath,
	}
	if y.refused > 0 {
		m.RefusedReason = y.firstBad
	}
	if !s.file.Run.Lockstep {
		m.Lateness = &quantiles{micros(y.lateness, 50), micros(y.lateness, 99), micros(y.lateness, 99.9), micros(y.lateness, 100)}
		m.Duration = &quantiles{micros(y.duration, 50), micros(y.duration, 99), micros(y.duration, 99.9), micros(y.duration, 100)}
	}
	return m
}

// summarise prints how a run went. With asJSON there are no baselines: they
// are runs of their own.
func summarise(ctx context.Context, out io.Writer, s *session, o outcome, asJSON bool) error {
	m := newSummary(s, o)
	if asJSON {
		return json.NewEncoder(out).Encode(m)
	}
	if s.file.Robot.Driver == configs.DriverRover && len(m.Returns) > 0 && ctx.Err() == nil {
		fmt.Fprintln(out, "\nMeasuring what an oracle and random behaviour get in this task ...")
		var err error
		if m.Oracle, m.Random, err = baselines(ctx, s); err != nil {
			return err
		}
	}
	m.print(out)
	fmt.Fprint(out, suggestions(s, o.logPath), "\n")
	return nil
}

// suggestions are commands that a person may want to run next. Each works as printed.
func suggestions(s *session, logPath string) string {
	var b strings.Builder
	suggest := func(why, command string) { fmt.Fprintf(&b, "  %s:\n    %s\n", why, command) }
	if logPath != "" {
		suggest("The record of this run, verified and explained", s.invoked.command("replay", logPath))
	}
	if s.invoked.Keyboard != nil {
		suggest("You are the operator", s.invoked.command(s.invoked.Keyboard...))
	}
	if s.invoked.Task != nil {
		suggest("Another task ("+strings.Join(otherTasks(s.file), ", ")+")", s.invoked.command(s.invoked.Task...))
	}
	return wrap(b.String())
}

func (m *summary) print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprint(out, wrap(fmt.Sprintf("  %-9s %s", name, fmt.Sprintf(format, args...))))
	}
	task := ""
	if m.Task != "" {
		task = "task " + m.Task + ", "
	}
	fmt.Fprintf(out, "\n%s, %sstrategy %s\n", m.Robot, task, m.Strategy)
	if len(m.Returns) > 0 {
		line("returns", "%s", joinReturns(m.Returns))
	}
	if m.Oracle != nil {
		last := m.Returns[len(m.Returns)-1]
		line("compare", "last episode %.1f%s; oracle %.1f, random %.1f",
			last, shareOf(last, m.Oracle.Mean), m.Oracle.Mean, m.Random.Mean)
	}
	line("labels", "%d used; asked %d, answered %d, expired %d; undone %d, refused %d",
		m.Labels, m.Asked, m.Answered, m.Expired, m.Undone, m.Refused)
	if m.Refused > 0 {
		line("", "refused: %s", m.RefusedReason)
	}
	waited := ""
	if m.Waited > 0 {
		waited = fmt.Sprintf("waited %d for the host, ", m.Waited)
	}
	line("ticks", "%d, skipped %d, %srecords dropped %d, z at most %d ticks old", m.Ticks, m.Skipped, waited, m.Dropped, m.MaxPlanAge)
	if m.Lateness != nil {
		line("lateness", "p50 %.0f, p99 %.0f, max %.0f µs; a tick takes p50 %.0f, p99 %.0f µs",
			m.Lateness.P50, m.Lateness.P99, m.Lateness.Max, m.Duration.P50, m.Duration.P99)
		for i, grant := range strings.Split(m.Posture, "\n") {
			line([]string{"posture", ""}[min(i, 1)], "%s", grant)
		}
	}
	if m.Fault != "" {
		line("HALTED", "%s: %s", m.Fault, m.Found)
	}
	fmt.Fprintln(out)
}

// shareOf says how much of the oracle's return was reached, where that has a
// meaning.
func shareOf(last, oracle float64) string {
	if !(oracle > 0) {
		return ""
	}
	return fmt.Sprintf(", %.0f %% of the oracle's", 100*last/oracle)
}

// wrap breaks the lines of a text at 80 columns, where it has spaces, and
// indents what follows like the first line and two more. A command, which is
// indented by four, stays whole: it is to be copied.
func wrap(text string) string {
	const width = 80
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
		for utf8.RuneCountInString(line) > width && len(indent) < 6 {
			cut := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
			if cut <= len(indent) { // a word longer than a line, such as a path
				next := strings.IndexByte(line[len(indent):], ' ')
				if next < 0 {
					break
				}
				cut = len(indent) + next
			}
			b.WriteString(line[:cut] + "\n")
			line = indent + strings.TrimLeft(line[cut:], " ")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// joinReturns lists the returns, the middle left out where there are many.
func joinReturns(r []float64) string {
	const edge = 5
	var b strings.Builder
	for i, x := range r {
		if len(r) > 2*edge && i == edge {
			b.WriteString("... ")
		}
		if len(r) > 2*edge && i >= edge && i < len(r)-edge {
			continue
		}
		fmt.Fprintf(&b, "%.1f ", x)
	}
	return strings.TrimSpace(b.String())
}

func mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
