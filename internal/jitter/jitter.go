package jitter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"text/tabwriter"
	"time"

	"optibfm/rtloop"
)

// Options are the flags of `optibfm jitter`.
type Options struct {
	PeriodMS float64
	Seconds  float64 // total time of each candidate
	Slice    float64 // seconds of a turn
	Priority int     // SCHED_FIFO; 0: ordinary scheduler
	CPUs     []int   // allowed processors; none: all
	Hogs     int     // processes that each keep a processor busy
	JSON     bool

	// Config also measures the whole program under this configuration, and replaces PeriodMS,
	// Priority and CPUs. "": no program.
	Config string
	Set    []string // overrides of its keys, KEY=VALUE
}

// Result is the lateness of each candidate.
type Result struct {
	PeriodMS float64       `json:"period_ms"`
	Hogs     int           `json:"hogs"`
	Identity bool          `json:"identity"` // of the loop: ticks run + skipped = periods
	Loop     rtloop.Report `json:"loop"`
	Program  *ProgramRun   `json:"program,omitempty"`
}

// loop returns the configuration of the bare loop, and the program if one is measured.
func (o Options) loop() (cfg rtloop.Config, program *ProgramRun, err error) {
	cfg = rtloop.DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.CPUs = o.PeriodMS, o.Priority, o.CPUs
	if o.Config != "" {
		if program, cfg, err = newProgramRun(o.Config, o.Set); err != nil {
			return cfg, nil, err
		}
	}
	cfg.MaxMissed, cfg.WatchdogMS = rtloop.NoLimit, 0
	if err := cfg.Validate(); err != nil {
		return cfg, nil, err
	}
	if !(o.Seconds > 0 && o.Slice > 0) || o.Hogs < 0 || o.Hogs > 1000 {
		return cfg, nil, fmt.Errorf("jitter: invalid flags (--seconds %v, --slice %v, --hog %d); "+
			"use positive times and 0 to 1000 hogs", o.Seconds, o.Slice, o.Hogs)
	}
	if o.Config == "" && len(o.Set) > 0 {
		return cfg, nil, errors.New("jitter: --set without a configuration; add --config")
	}
	return cfg, program, nil
}

// Measure lets the loop and the program take turns until each has run for o.Seconds, or until ctx
// is done. Errors: invalid options, a configuration of a robot with actuators, or a failure of
// either.
func Measure(ctx context.Context, o Options) (Result, error) {
	cfg, program, err := o.loop()
	r := Result{PeriodMS: cfg.PeriodMS, Hogs: o.Hogs, Program: program}
	if err != nil {
		return r, err
	}
	stopHogs, err := startHogs(o.Hogs)
	if err != nil {
		return r, err
	}
	defer stopHogs()

	for left := o.Seconds; left > 0 && ctx.Err() == nil; left -= o.Slice {
		turn := time.Duration(min(left, o.Slice) * float64(time.Second))
		report, err := loopTurn(ctx, cfg, turn)
		if err != nil {
			return r, err
		}
		r.include(report)
		if program != nil && ctx.Err() == nil {
			if err := program.turn(ctx, turn); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// include adds a turn of the loop. Identity must hold for every turn.
func (r *Result) include(report rtloop.Report) {
	if r.Loop.Ticks == 0 {
		r.Loop, r.Identity = report, report.Identity()
		return
	}
	r.Loop.Add(report)
	r.Identity = r.Identity && report.Identity()
}

func loopTurn(ctx context.Context, cfg rtloop.Config, turn time.Duration) (rtloop.Report, error) {
	loop, _, err := rtloop.Prepare(cfg)
	if err != nil {
		return rtloop.Report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	return loop.Run(ctx, func(rtloop.Beat) error { return nil })
}

// startHogs starts shells that keep processors busy. The returned function ends them. A process
// takes processors from the loop, but not slots of its Go scheduler.
func startHogs(n int) (stop func(), err error) {
	// The death signal is sent when the thread that started the child ends.
	runtime.LockOSThread()
	var hogs []*exec.Cmd
	stop = func() {
		for _, hog := range hogs {
			_ = hog.Process.Kill()
			_ = hog.Wait()
		}
		runtime.UnlockOSThread()
	}
	for range n {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := hog.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("jitter: starting a hog: %w", err)
		}
		hogs = append(hogs, hog)
	}
	return stop, nil
}

// Print writes the result as a table or as JSON.
func (r Result) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	fmt.Fprintf(out, "period %v, %d busy processes\n%v\n\n", r.Loop.Period, r.Hogs, r.Loop.Granted)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "lateness\tp50\tp99\tp99.9\tmax\tticks\tmissed\t")
	l := r.Loop.Lateness
	row := func(name string, p50, p99, p999, most time.Duration, ticks, missed int64) {
		us := func(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", name, us(p50), us(p99), us(p999), us(most), ticks, missed)
	}
	row("loop", l.P50, l.P99, l.P999, l.Max, int64(r.Loop.Ticks), int64(r.Loop.Skipped))
	if p := r.Program; p != nil {
		row("program", p.P50, p.P99, p.P999, p.Max, p.Cycles, p.Missed)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	sign := "="
	if !r.Identity {
		sign = "≠"
	}
	if p := r.Program; p != nil {
		fmt.Fprintf(out, "the program made %d plans, applied %d labels and dropped %d records\n",
			p.Plans, p.Labels, p.Dropped)
	}
	_, err := fmt.Fprintf(out, "\n%d ticks run + %d skipped %s %d periods that began; %d garbage collections\n",
		r.Loop.Ticks, r.Loop.Skipped, sign, r.Loop.Periods, r.Loop.GCCycles)
	return err
}
