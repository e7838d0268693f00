package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"optibfm/controller"
)

// Report is the result of Run. Times in JSON are in nanoseconds.
type Report struct {
	Model      string        `json:"model"` // name and sizes
	Weights    int64         `json:"weights_bytes"`
	CPU        string        `json:"cpu"`
	Processors int           `json:"processors"`
	Go         string        `json:"go"`
	Strategy   string        `json:"strategy"`
	Candidates int           `json:"candidates"`
	Replan     uint64        `json:"replan_every_ticks"`
	Period     time.Duration `json:"period_ns"`
	Tick       Stage         `json:"control_tick"`
	Plan       Stage         `json:"plan"`
}

// Stage is the control tick or the plan.
type Stage struct {
	Line
	Available time.Duration `json:"available_ns"`
	Parts     []Line        `json:"parts"` // the longest first
	fix       string        // where the stage does not fit
}

// Line is a stage or a part of one.
type Line struct {
	Name    string        `json:"name"`
	Count   int           `json:"count"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
	Share   float64       `json:"share"` // of the stage's median
	Verdict string        `json:"verdict"`
	Margin  float64       `json:"margin"` // the stage's available time / p99

	// Of a network that counts its work.
	Bytes  float64 `json:"bytes,omitempty"` // of one evaluation
	GBS    float64 `json:"gb_per_s,omitempty"`
	Copy   float64 `json:"copy_gb_per_s,omitempty"`
	GFLOPS float64 `json:"gflop_per_s,omitempty"`
	Limit  string  `json:"limit,omitempty"` // Memory or Arithmetic
}

// The verdicts and the limits.
const (
	Fits       = "fits"
	Late       = "late at times"
	DoesNotFit = "does not fit"
	Memory     = "memory bandwidth"
	Arithmetic = "arithmetic"
)

func (b *benchmark) report() Report {
	d, c := b.Control.Dims(), b.Controller
	r := Report{
		Model: fmt.Sprintf("%s (obs %d, action %d, d %d, ensemble %d)",
			b.Name, d.Obs, d.Action, d.Latent, d.Ensemble),
		Weights: b.Weights, CPU: cpuName(), Processors: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Strategy: c.Strategy, Candidates: c.NumCandidates(), Replan: c.Replan, Period: b.Period,
	}
	r.Tick = newStage("control tick", &b.tick, b.Period, "lengthen loop.period_ms or use a smaller model")
	r.Plan = newStage("plan", &b.plan, planTime(c, b.Period),
		"lower controller.candidates, raise controller.replan_every_ticks or set model.backend: tensorflow")
	one, all := median(b.copyOne), median(b.copyAll)
	r.Tick.include("φ", &b.phi, one)
	r.Tick.include("π", &b.act, one)
	r.Tick.include("D-gap, update", &b.update, 0)
	r.Tick.include("other", &b.tickOther, 0)
	r.Plan.include("search", &b.search, all)
	r.Plan.include("other", &b.planOther, 0)
	return r
}

// planTime is the time from one plan to the next, at most until z is old enough to halt the robot.
func planTime(c controller.Config, period time.Duration) time.Duration {
	ticks := c.MaxPlanAge
	if c.Replan > 0 {
		ticks = min(ticks, c.Replan)
	}
	return time.Duration(min(ticks, uint64(math.MaxInt64/period))) * period
}

func newStage(name string, p *part, available time.Duration, fix string) Stage {
	s := Stage{Available: available, fix: fix}
	s.Line = s.line(name, p, 0)
	s.Share = 1
	return s
}

// include adds a part of the stage, if it was measured.
func (s *Stage) include(name string, p *part, copyRate float64) {
	if len(p.times) == 0 {
		return
	}
	s.Parts = append(s.Parts, s.line(name, p, copyRate))
	slices.SortStableFunc(s.Parts, func(a, b Line) int { return cmp.Compare(b.P50, a.P50) })
}

func (s *Stage) line(name string, p *part, copyRate float64) Line {
	sorted := slices.Sorted(slices.Values(p.times))
	n := len(sorted)
	l := Line{Name: name, Count: n, P50: sorted[n/2], P99: sorted[n*99/100], Max: sorted[n-1], Verdict: Fits}
	l.Share = float64(l.P50) / float64(max(s.P50, 1))
	l.Margin = float64(s.Available) / float64(max(l.P99, 1))
	switch {
	case l.P99 > s.Available:
		l.Verdict = DoesNotFit
	case l.Max > s.Available:
		l.Verdict = Late
	}
	if p.work.Bytes == 0 || copyRate == 0 {
		return l
	}
	l.Bytes, l.Copy = float64(p.work.Bytes)/float64(n), copyRate
	l.GBS = l.Bytes / float64(l.P50)
	l.GFLOPS = float64(p.work.FLOPs) / float64(n) / float64(l.P50)
	l.Limit = Arithmetic
	if l.GBS >= copyRate/2 {
		l.Limit = Memory
	}
	return l
}

func median(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }

func (s Stage) tooSlow() error {
	if s.Verdict != DoesNotFit {
		return nil
	}
	return fmt.Errorf("bench: %s: %w (p99 %v, available %v); %s", s.Name, ErrTooSlow, short(s.P99), s.Available, s.fix)
}

const lineFormat = "%-17s%9v%9v%9v%7s  %s\n"

// String is the report as text of at most 80 columns.
func (r Report) String() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s, %.3g MB\n%s, %d processors, %s\n", r.Model, float64(r.Weights)/1e6, r.CPU, r.Processors, r.Go)
	fmt.Fprintf(&w, "%s, %d candidates, period %v, replan %d ticks\n\n", r.Strategy, r.Candidates, r.Period, r.Replan)
	fmt.Fprintf(&w, lineFormat, "", "p50", "p99", "max", "share", "verdict")
	for _, s := range []Stage{r.Tick, r.Plan} {
		for i, l := range append([]Line{s.Line}, s.Parts...) {
			if i > 0 {
				l.Name = "  " + l.Name
			}
			if l.Verdict == Fits {
				l.Verdict = fmt.Sprintf("fits %v, margin %.4g", s.Available, l.Margin)
			}
			share := fmt.Sprintf("%.0f %%", 100*l.Share)
			fmt.Fprintf(&w, lineFormat, l.Name, short(l.P50), short(l.P99), short(l.Max), share, l.Verdict)
		}
	}
	r.Tick.explain(&w)
	r.Plan.explain(&w)
	return w.String()
}

// explain names the part that dominates and what limits it.
func (s Stage) explain(w io.Writer) {
	if len(s.Parts) == 0 {
		return
	}
	l := s.Parts[0]
	fmt.Fprintf(w, "\n%s: %s dominates (%.0f %%)", s.Name, l.Name, 100*l.Share)
	if l.Limit != "" {
		fmt.Fprintf(w, ", limited by %s:\n  %.3g GFLOP/s; %.3g MB at %.3g GB/s, where a copy reaches %.3g GB/s",
			l.Limit, l.GFLOPS, l.Bytes/1e6, l.GBS, l.Copy)
	}
	fmt.Fprintln(w)
}

// short rounds a time to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}

var cpuModel = regexp.MustCompile(`(?m)^(?:model name|Model)\s*:\s*(.+)$`)

// cpuName is Linux's name of the processor, or the architecture.
func cpuName() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // absent elsewhere
	if found := cpuModel.FindSubmatch(info); found != nil {
		return string(found[1])
	}
	return runtime.GOARCH
}
