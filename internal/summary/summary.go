package summary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"optibfm/internal/plaintext"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
)

// Summary is the result of a run and its JSON.
type Summary struct {
	Robot    string    `json:"robot"`
	Task     string    `json:"task"`
	Strategy string    `json:"strategy"`
	Seed     uint64    `json:"seed"`
	Episodes uint64    `json:"episodes"` // that ended
	Returns  []float64 `json:"returns"`  // of these episodes; the first and the newest of more than 10,000
	Oracle   *baseline `json:"-"`        // from the same starts; nil: not measured
	Random   *baseline `json:"-"`

	Ticks         uint64  `json:"ticks"`
	Skipped       uint64  `json:"skipped"`
	Waited        uint64  `json:"waited"` // periods that a simulated robot waited for the host; no ticks
	Dropped       uint64  `json:"dropped"`
	AverageReward float64 `json:"average_reward"` // per step

	Asked         uint64 `json:"asked"`
	Answered      uint64 `json:"answered"`
	Expired       uint64 `json:"expired"`
	Labels        uint64 `json:"labels"` // in the belief
	Undone        uint64 `json:"undone"`
	Refused       uint64 `json:"refused"`
	RefusedReason string `json:"refused_reason,omitempty"`

	MaxPlanAge uint64     `json:"max_plan_age_ticks"`
	Lateness   *quantiles `json:"lateness_us,omitempty"`
	Duration   *quantiles `json:"tick_us,omitempty"`
	Age        *quantiles `json:"sample_age_us,omitempty"` // of the newest sample at each tick
	Demoted    uint64     `json:"demoted"`                 // see rtloop.Live
	Posture    string     `json:"posture"`
	Fault      string     `json:"fault,omitempty"`
	Found      string     `json:"found,omitempty"` // details of the fault
	Log        string     `json:"log,omitempty"`
}

// quantiles are of a histogram, in microseconds.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// baseline is the result of another way to choose z in the same task.
type baseline struct {
	Returns []float64
	Mean    float64
}

func newQuantiles(at func(percent float64) float64) *quantiles {
	return &quantiles{at(50), at(99), at(99.9), at(100)}
}

func newSummary(s *setup.Session, o recorder.Outcome) Summary {
	y := o.Tally
	m := Summary{
		Robot: o.Robot, Task: s.Task(), Strategy: s.File.Controller.Strategy, Seed: s.File.Run.Seed,
		Episodes: y.Episodes, Returns: append([]float64{}, y.Returns...),
		Ticks: y.Ticks, Skipped: y.Skipped, Dropped: y.Dropped, AverageReward: y.AverageReward(),
		Asked: y.Asked, Answered: y.Answered, Expired: y.Expired,
		Labels: y.Last.Counted, Undone: y.Undone, Refused: y.Refused,
		MaxPlanAge: y.MaxAge, Posture: o.Posture, Fault: o.Fault, Found: o.Found, Waited: o.Waited, Log: o.LogPath,
		Demoted: o.Demoted,
	}
	if y.Refused > 0 {
		m.RefusedReason = y.FirstBad
	}
	if !s.File.Run.Lockstep {
		m.Lateness = newQuantiles(func(p float64) float64 { return recorder.Micros(y.Lateness, p) })
		m.Duration = newQuantiles(func(p float64) float64 { return recorder.Micros(y.Duration, p) })
	}
	if !s.File.SimulatedTime() && y.Age.TotalCount() > 0 {
		m.Age = newQuantiles(func(p float64) float64 { return recorder.Micros(y.Age, p) })
	}
	return m
}

// Print prints the result of a run. With asJSON it does not run the baselines.
func Print(ctx context.Context, out io.Writer, s *setup.Session, o recorder.Outcome, asJSON bool) error {
	m := newSummary(s, o)
	if asJSON {
		return json.NewEncoder(out).Encode(m)
	}
	taught := s.File.Operator.ByPerson()
	if taught { // the returns are of the simulator's own task, which the person need not teach
		m.Task, m.Returns = "", nil
	}
	if _, ok := s.File.Robot.Chosen().(rewarder); ok && len(m.Returns) > 0 && ctx.Err() == nil {
		fmt.Fprintln(out, "\nMeasuring an oracle and random behaviour in this task ...")
		var err error
		if m.Oracle, m.Random, err = baselines(ctx, s, len(m.Returns)); err != nil {
			return err
		}
	}
	m.Print(out)
	fmt.Fprint(out, suggestions(s, o), "\n")
	return nil
}

// suggestions lists commands for the user to run next, that fit what the run was. Each works as
// printed, but for NAME.
func suggestions(s *setup.Session, o recorder.Outcome) string {
	var b strings.Builder
	suggest := func(why, command string) { fmt.Fprintf(&b, "  %s:\n    %s\n", why, command) }
	if command := SaveCommand(s, o.Tally, o.LogPath); command != "" {
		suggest("Keep what the robot learnt", command)
	}
	if o.LogPath != "" {
		suggest("The record of this run, verified and explained", s.Invoked.Command("replay", shell.Operand(o.LogPath)))
	}
	if s.File.Operator.ByPerson() || o.Fault != "" {
		return plaintext.Wrap(b.String())
	}
	if s.Invoked.Keyboard != nil {
		suggest("You are the operator", s.Invoked.Command(s.Invoked.Keyboard...))
	}
	if s.Invoked.Task != nil {
		suggest("Another task ("+strings.Join(setup.OtherTasks(s.File), ", ")+")", s.Invoked.Command(s.Invoked.Task...))
	}
	return plaintext.Wrap(b.String())
}

// SaveCommand returns the command that saves what a person taught in a run, however it ended, or ""
// if there is nothing to save.
func SaveCommand(s *setup.Session, y *recorder.Statistics, logPath string) string {
	if !s.File.Operator.ByPerson() || y.Applied == 0 || y.Last.Counted == 0 || logPath == "" || s.Invoked.Save == nil {
		return ""
	}
	args := append([]string{}, s.Invoked.Save...)
	return s.Invoked.Command(append(args, "--from", shell.Operand(logPath))...)
}

// Print prints the summary as text.
func (m *Summary) Print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprint(out, plaintext.Wrap(fmt.Sprintf("  %-9s %s", name, fmt.Sprintf(format, args...))))
	}
	task := ""
	if m.Task != "" {
		task = "task " + m.Task + ", "
	}
	fmt.Fprintf(out, "\n%s, %sstrategy %s\n", m.Robot, task, m.Strategy)
	if len(m.Returns) > 0 {
		line("returns", "%s", plaintext.Numbers("%.1f", m.Returns))
	}
	if m.Oracle != nil {
		if shares := m.shares(); shares != nil {
			line("share", "%s of the oracle's, from the same start", plaintext.Numbers("%.2f", shares))
		}
		line("compare", "mean return %.1f; oracle %.1f, random %.1f", stat.Mean(m.Returns, nil), m.Oracle.Mean, m.Random.Mean)
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
	line("ticks", "%d, skipped %d, %srecords dropped %d, z at most %d ticks old",
		m.Ticks, m.Skipped, waited, m.Dropped, m.MaxPlanAge)
	if m.Lateness != nil {
		line("lateness", "p50 %.0f, p99 %.0f, max %.0f µs; a tick takes p50 %.0f, p99 %.0f µs",
			m.Lateness.P50, m.Lateness.P99, m.Lateness.Max, m.Duration.P50, m.Duration.P99)
		if m.Age != nil {
			line("samples", "p50 %.1f, p99 %.1f, max %.1f ms old at a tick", m.Age.P50/1000, m.Age.P99/1000, m.Age.Max/1000)
		}
		if m.Demoted > 0 {
			line("priority", "other threads of the control process lost it %d times: they computed, and ticks may have "+
				"been late", m.Demoted)
		}
		for i, grant := range strings.Split(m.Posture, "\n") {
			line([]string{"posture", ""}[min(i, 1)], "%s", grant)
		}
	}
	if m.Fault != "" {
		line("HALTED", "%s: %s", m.Fault, m.Found)
	}
	fmt.Fprintln(out)
}

// shares returns each return as a share of the oracle's in the same episode. It is nil where that
// is not known: the summary lacks returns, or one of the oracle's is not positive.
func (m *Summary) shares() []float64 {
	n := len(m.Returns)
	if m.Dropped > 0 || m.Episodes != uint64(n) || n > len(m.Oracle.Returns) || !(slices.Min(m.Oracle.Returns[:n]) > 0) {
		return nil
	}
	shares := make([]float64, n)
	for i, r := range m.Returns {
		shares[i] = r / m.Oracle.Returns[i]
	}
	return shares
}
