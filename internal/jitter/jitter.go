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
	Seconds  float64
	Slice    float64 // seconds of a turn
	Fifo     int
	Cpus     []int
	Hogs     int
	Alone    bool
	JSON     bool

	Config string // of the whole program, which takes turns with them; "": leave it out
	Set    []string
}

// Result is what was measured.
type Result struct {
	PeriodMS   float64        `json:"period_ms"`
	Hogs       int            `json:"hogs"`
	Identity   bool           `json:"identity"` // ticks run + skipped = periods
	Loop       rtloop.Report  `json:"loop"`
	Cyclictest *CyclictestRun `json:"cyclictest,omitempty"`
	Program    *programRun    `json:"program,omitempty"`
	Note       string         `json:"note,omitempty"` // why there is no cyclictest
}

// loop is the configuration of the bare loop, and the program that takes turns
// with it, if any.
func (o Options) loop() (cfg rtloop.Config, program *programRun, err error) {
	cfg = rtloop.DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.CPUs = o.PeriodMS, o.Fifo, o.Cpus
	if o.Config != "" {
		if program, cfg, err = NewProgramRun(o.Config, o.Set); err != nil {
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

// Measure lets the loop, cyclictest and the program take turns until each had its
// time, or until ctx is done.
func Measure(ctx context.Context, o Options) (Result, error) {
	cfg, program, err := o.loop()
	r := Result{PeriodMS: cfg.PeriodMS, Hogs: o.Hogs, Program: program}
	if err != nil {
		return r, err
	}
	cyclictest, err := exec.LookPath("cyclictest")
	switch {
	case o.Alone:
		r.Note = "cyclictest omitted (--alone)"
	case err != nil:
		r.Note = "cyclictest is not installed (Debian: rt-tests)"
	default:
		r.Cyclictest = newCyclictestRun()
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
		if r.Cyclictest != nil && ctx.Err() == nil {
			if err := r.Cyclictest.turn(ctx, cyclictest, cfg, turn); err != nil {
				return r, err
			}
		}
		if program != nil && ctx.Err() == nil {
			if err := program.turn(ctx, cfg, turn); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// include adds a turn of the loop. Each turn must account for its periods.
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

// startHogs starts processes that keep processors busy, and returns what ends
// them. They are shells: another process cannot take scheduler slots from the
// loop, but it can take processors.
func startHogs(n int) (stop func(), err error) {
	// A child with a death signal dies with the thread that started it.
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
	if c := r.Cyclictest; c != nil {
		row("cyclictest", c.P50, c.P99, c.P999, c.Max, c.Cycles, c.Missed)
	}
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
	if r.Note != "" {
		fmt.Fprintln(out, r.Note)
	}
	if p := r.Program; p != nil {
		fmt.Fprintf(out, "the program made %d plans, applied %d labels and dropped %d records\n", p.Plans, p.Labels, p.Dropped)
	}
	_, err := fmt.Fprintf(out, "\n%d ticks run + %d skipped %s %d periods that began; %d garbage collections\n",
		r.Loop.Ticks, r.Loop.Skipped, sign, r.Loop.Periods, r.Loop.GCCycles)
	return err
}
