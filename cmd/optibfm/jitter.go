package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"optibfm/rtloop"
)

// jitterOptions are the flags of `optibfm jitter`.
type jitterOptions struct {
	periodMS float64
	seconds  float64
	slice    float64 // seconds of a turn
	fifo     int
	cpus     []int
	hogs     int
	alone    bool
	json     bool
}

func newJitterCommand() *cobra.Command {
	o := jitterOptions{periodMS: 1, seconds: 60, slice: 5, fifo: 80}
	cmd := &cobra.Command{
		Use: "jitter", Args: cobra.NoArgs,
		Short: "Measure how punctually this machine wakes the control loop, beside cyclictest",
		Long: `Measure how late the bare control loop wakes on this machine. Where cyclictest
(Debian: rt-tests) is installed, the two take turns of --slice seconds at the
same priority on the same processors, so that both see the same minute and
neither disturbs the other; --seconds is the time of each. cyclictest is kept
from changing the power management, which the loop does not do either.

"missed" is the ticks that the loop skipped; for cyclictest, the wake-ups that
came a period or more late. --hog starts processes that each keep one processor
busy.`,
		Example: `  optibfm jitter --period-ms 20 --seconds 60
  sudo optibfm jitter --period-ms 1 --fifo 80 --cpus 1 --hog 4 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			r, err := measureJitter(ctx, o)
			if err != nil {
				return err
			}
			return r.print(cmd.OutOrStdout(), o.json)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.periodMS, "period-ms", o.periodMS, "time from one tick to the next")
	f.Float64Var(&o.seconds, "seconds", o.seconds, "time for each of the two")
	f.Float64Var(&o.slice, "slice", o.slice, "seconds of a turn")
	f.IntVar(&o.fifo, "fifo", o.fifo, "SCHED_FIFO priority, 0 for the ordinary scheduler")
	f.IntSliceVar(&o.cpus, "cpus", nil, "processors that may be used; default: all")
	f.IntVar(&o.hogs, "hog", 0, "number of processes that keep processors busy")
	f.BoolVar(&o.alone, "alone", false, "leave cyclictest out")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// jitterResult is what was measured.
type jitterResult struct {
	PeriodMS   float64        `json:"period_ms"`
	Hogs       int            `json:"hogs"`
	Identity   bool           `json:"identity"` // ticks run + skipped = periods
	Loop       rtloop.Report  `json:"loop"`
	Cyclictest *cyclictestRun `json:"cyclictest,omitempty"`
	Note       string         `json:"note,omitempty"` // why there is no cyclictest
}

func (o jitterOptions) config() (rtloop.Config, error) {
	cfg := rtloop.DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.CPUs = o.periodMS, o.fifo, o.cpus
	cfg.MaxMissed, cfg.WatchdogMS = rtloop.NoLimit, 0
	if err := cfg.Validate(); err != nil {
		return cfg, err
	}
	if !(o.seconds > 0 && o.slice > 0) || o.hogs < 0 || o.hogs > 1000 {
		return cfg, fmt.Errorf("jitter: seconds %v, slice %v, hog %d: give positive times and 0 to 1000 hogs", o.seconds, o.slice, o.hogs)
	}
	return cfg, nil
}

// measureJitter lets the loop and cyclictest take turns until each had its
// time, or until ctx is done.
func measureJitter(ctx context.Context, o jitterOptions) (jitterResult, error) {
	r := jitterResult{PeriodMS: o.periodMS, Hogs: o.hogs}
	cfg, err := o.config()
	if err != nil {
		return r, err
	}
	cyclictest, err := exec.LookPath("cyclictest")
	switch {
	case o.alone:
		r.Note = "cyclictest was left out"
	case err != nil:
		r.Note = "cyclictest is not installed (Debian: rt-tests): the loop was measured alone"
	default:
		r.Cyclictest = newCyclictestRun()
	}
	stopHogs, err := startHogs(o.hogs)
	if err != nil {
		return r, err
	}
	defer stopHogs()

	for left := o.seconds; left > 0 && ctx.Err() == nil; left -= o.slice {
		turn := time.Duration(min(left, o.slice) * float64(time.Second))
		report, err := loopTurn(ctx, cfg, turn)
		if err != nil {
			return r, err
		}
		r.include(report)
		if r.Cyclictest == nil || ctx.Err() != nil {
			continue
		}
		if err := r.Cyclictest.turn(ctx, cyclictest, cfg, turn); err != nil {
			return r, err
		}
	}
	return r, nil
}

// include adds a turn of the loop. Each turn must account for its periods.
func (r *jitterResult) include(report rtloop.Report) {
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

// cyclictestRun is the sum of several runs of cyclictest.
type cyclictestRun struct {
	Cycles int64         `json:"cycles"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	P999   time.Duration `json:"p99_9_ns"`
	Max    time.Duration `json:"max_ns"`
	Missed int64         `json:"missed"` // wake-ups a period or more late

	counts map[int]int64 // by latency in µs; beyond the histogram: the maximum
}

func newCyclictestRun() *cyclictestRun { return &cyclictestRun{counts: map[int]int64{}} }

const cyclictestUpper = 200_000 // µs, of its histogram

// turn runs cyclictest once.
func (c *cyclictestRun) turn(ctx context.Context, program string, cfg rtloop.Config, turn time.Duration) error {
	dir, err := os.MkdirTemp("", "optibfm-jitter")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	result := filepath.Join(dir, "result.json")
	cmd := exec.CommandContext(ctx, program, cyclictestArguments(cfg, turn, result)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("jitter: cyclictest: %w (it said %q): mend that, or use --alone", err, strings.TrimSpace(string(said)))
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return fmt.Errorf("jitter: cyclictest left no result: %w: use --alone", err)
	}
	return c.add(text, cfg.Period())
}

func cyclictestArguments(cfg rtloop.Config, turn time.Duration, result string) []string {
	period := cfg.Period()
	args := []string{
		"--default-system", "--quiet", "--mlockall", "--threads=1",
		"--interval=" + strconv.FormatInt(max(period.Microseconds(), 1), 10),
		"--loops=" + strconv.FormatInt(max(int64(turn/period), 1), 10),
		"--histogram=" + strconv.Itoa(cyclictestUpper), "--histfile=" + os.DevNull, "--json=" + result,
	}
	if cfg.Priority > 0 {
		args = append(args, "--priority="+strconv.Itoa(cfg.Priority))
	}
	if len(cfg.CPUs) > 0 {
		args = append(args, "--affinity="+strings.Trim(strings.ReplaceAll(fmt.Sprint(cfg.CPUs), " ", ","), "[]"))
	}
	return args
}

// add includes the JSON of one run of cyclictest.
func (c *cyclictestRun) add(text []byte, period time.Duration) error {
	var file struct {
		Thread map[string]struct {
			Histogram map[string]int64 `json:"histogram"`
			Cycles    int64            `json:"cycles"`
			Max       int              `json:"max"`
		} `json:"thread"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("jitter: cyclictest's result: %w: use --alone", err)
	}
	thread, ok := file.Thread["0"]
	if !ok {
		return errors.New("jitter: cyclictest's result has no thread 0: use --alone")
	}
	beyond := thread.Cycles
	for latency, n := range thread.Histogram {
		us, err := strconv.Atoi(latency)
		if err != nil || us < 0 || n < 0 {
			return fmt.Errorf("jitter: cyclictest's result has latency %q, %d times: use --alone", latency, n)
		}
		c.counts[us] += n
		beyond -= n
	}
	if beyond > 0 {
		c.counts[thread.Max] += beyond
	}
	c.sumUp(period)
	return nil
}

func (c *cyclictestRun) sumUp(period time.Duration) {
	c.Cycles, c.Missed, c.Max = 0, 0, 0
	for us, n := range c.counts {
		c.Cycles += n
		latency := time.Duration(us) * time.Microsecond
		c.Max = max(c.Max, latency)
		if latency >= period {
			c.Missed += n
		}
	}
	c.P50, c.P99, c.P999 = c.percentile(0.5), c.percentile(0.99), c.percentile(0.999)
}

// percentile is the smallest latency that a fraction of the wake-ups kept.
func (c *cyclictestRun) percentile(fraction float64) time.Duration {
	seen := int64(0)
	for _, us := range slices.Sorted(maps.Keys(c.counts)) {
		seen += c.counts[us]
		if float64(seen) >= fraction*float64(c.Cycles) {
			return time.Duration(us) * time.Microsecond
		}
	}
	return c.Max
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

func (r jitterResult) print(out io.Writer, asJSON bool) error {
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
	_, err := fmt.Fprintf(out, "\n%d ticks run + %d skipped %s %d periods that began; %d garbage collections\n",
		r.Loop.Ticks, r.Loop.Skipped, sign, r.Loop.Periods, r.Loop.GCCycles)
	return err
}
