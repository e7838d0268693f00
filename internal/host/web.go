package host

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/link"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/internal/version"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// viewEvery is the time between two views: what people see as moving.
const viewEvery = 200 * time.Millisecond

// openWeb starts the console for browsers and shows the run there too.
func (h *Process) openWeb() error {
	belief, err := newBeliefWatch(h.Session.File.Controller, h.Session.Shape().Latent)
	if err != nil {
		return err
	}
	h.web, err = web.Open(h.Session.File.Operator.Web, web.Options{
		About: h.aboutRun(), Period: h.Config.Spec.Period, Mode: webMode(h.Session.File.Operator.LabelMode), Stop: h.stopFromWeb(),
	})
	if err != nil {
		return err
	}
	h.Planner.watch = belief
	h.Display = terminal.Displays{h.Display, &webView{server: h.web, belief: belief, announce: h.announcer(), why: h.whyEnded}}
	return nil
}

// webMode is what operator.label_mode means to a page.
func webMode(labelMode string) web.Mode {
	switch labelMode {
	case configs.ModePerRequest:
		return web.PerRequest
	case configs.ModeContinuous:
		return web.Continuous
	}
	return web.Sparse // whether something is asked is the robot's
}

func (h *Process) haltWeb() error {
	if h.web == nil {
		return nil
	}
	return h.web.Halt()
}

func (h *Process) aboutRun() web.About {
	file, period := h.Session.File, h.Config.Spec.Period
	return web.About{
		Robot: h.Config.Spec.Name, Task: h.Session.Task(), Strategy: file.Controller.Strategy, Program: version.String(),
		PeriodMS: web.Number(milliseconds(int64(period))),
		MaxAgeMS: web.Number(milliseconds(int64(file.Controller.MaxPlanAge) * int64(period))),
		Missing:  h.Config.Missing, Record: file.Log.Enabled, Source: file.Operator.Source,
		StopEndsRun: file.Safety.AfterStop == configs.AfterStopEnd,
	}
}

func milliseconds(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

// stopFromWeb returns what STOP does: the control process sees the word in its
// next tick and latches a stop, which nothing in the console can undo; by
// safety.after_stop that ends the run. The first press is recorded, and the first
// after each time that the robot was released from its stop.
func (h *Process) stopFromWeb() func(by string, first bool) {
	return func(by string, first bool) {
		h.Link.Stop.CompareAndSwap(link.StopNone, link.StopRobot)
		if !first {
			return
		}
		record.Offer(h.Planner.Events, flightlog.Event{
			At: rtloop.Now(), Level: flightlog.Warn, Text: "STOP was pressed in the web console, on " + by,
		})
	}
}

// whyEnded tells the browsers why the run is over.
func (h *Process) whyEnded() string {
	switch {
	case h.fault() != controller.FaultNone:
		return "the robot was halted: " + h.halted.String()
	case h.Link.Ended.Load() == 0:
		return "the host process failed; the robot is halted by the control process or its own deadman"
	}
	return "it ended as planned, the robot is halted"
}

// announcer returns what shows a pairing: the whole code where lines are
// shown, the address alone on a full screen, and standard error where standard
// output is for machines.
func (h *Process) announcer() func(web.Pairing) {
	if terminal.TakesScreen(h.Config.Show) {
		terminal := h.Display
		return func(p web.Pairing) {
			terminal.Event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: "console: " + p.URL})
		}
	}
	var out io.Writer = h.lines
	if h.Config.Show != terminal.ShowLines && h.Config.Show != terminal.ShowAuto {
		out = terminal.NewLineWriter(os.Stderr)
	}
	coloured := h.Config.Show == terminal.ShowLines && term.IsTerminal(int(os.Stdout.Fd()))
	return func(p web.Pairing) { _, _ = io.WriteString(out, p.Text(coloured)) } // a line writer never fails before its end
}

// webView is the display in browsers.
type webView struct {
	server   *web.Server
	belief   *beliefWatch
	announce func(web.Pairing)
	why      func() string // the run is over

	tally     *record.Statistics
	period    time.Duration
	never     bool   // asks for labels
	announced uint64 // the number of the pairing that was shown

	labels   perMinute
	robust   bool    // labels may get less than their full weight
	share    float64 // of its weight that the last label got; 0: no label yet, or not robust
	late     int64   // the worst wake-up since the last view, ns
	expected float64 // return of the episode by the belief's own estimate
	shownAt  int64
	fault    controller.Fault // of the last view
	timed    int64            // when the quantiles were taken: they are dear
	quantile [3]web.Number
}

func (v *webView) Begin(s *setup.Session, spec hal.Spec, _ []string, y *record.Statistics) {
	v.tally, v.period, v.never = y, spec.Period, s.File.Controller.Gate.Off
	v.robust = s.File.Controller.Robust != 0
	v.announcePairing()
}

func (v *webView) announcePairing() {
	if p := v.server.Pairing(); p.Number != v.announced {
		v.announced = p.Number
		v.announce(p)
	}
}

func (v *webView) Tick(t *controller.Tick) {
	v.late = max(v.late, t.Wake-t.Deadline)
	estimate := v.belief.expects(t.Phi)
	if t.Step == 0 {
		v.expected = 0
	}
	if t.Flags.Has(controller.FlagArmed) && !math.IsNaN(estimate) {
		v.expected += estimate
	}
	if t.Wake-v.shownAt < int64(viewEvery) && t.Fault == v.fault {
		return
	}
	v.shownAt, v.fault = t.Wake, t.Fault
	v.server.Show(v.of(t, estimate))
	v.late = 0
	v.announcePairing()
}

// Outcome shows what a tick did with a label.
func (v *webView) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	counted := l.Outcome == controller.Applied || l.Outcome == controller.ClosedRequest
	share := 0.0
	if v.robust && l.Share > 0 {
		share, v.share = l.Share, l.Share
	}
	v.server.Settle(l.ID, counted, l.Outcome.String(), share)
	if l.Outcome == controller.Applied && l.Kind == rewardsrc.Value {
		v.labels.Add(v.second(t))
	}
}

func (v *webView) second(t *controller.Tick) uint64 {
	return t.Index * uint64(v.period) / uint64(time.Second)
}

func (v *webView) of(t *controller.Tick, estimate float64) web.View {
	y := v.tally
	if t.Wake-v.timed >= int64(time.Second) {
		v.timed = t.Wake
		v.quantile = [3]web.Number{
			web.Number(record.Micros(y.Lateness, 99) / 1000), web.Number(record.Micros(y.Lateness, 100) / 1000), web.Number(record.Micros(y.Duration, 99) / 1000),
		}
	}
	view := web.View{
		Tick: t.Index, ElapsedS: web.Number(float64(t.Index) * v.period.Seconds()), Armed: t.Flags.Has(controller.FlagArmed),
		DGap: web.Number(t.DGap), Kappa: web.Number(t.Kappa), Estimate: web.Number(estimate), Uncertainty: web.Number(math.Sqrt(t.NormSq)),
		Information: web.Number(math.NaN()), BeliefNorm: web.Number(math.NaN()),
		Reward: web.Number(math.NaN()), Return: web.Number(v.expected),
		Labels: y.Applied, LastTrust: web.Number(v.share), PerMinute: v.labels.rate(v.second(t)), Undone: y.Undone, Refused: y.Refused,
		Asked: y.Asked, Answered: y.Answered, Expired: y.Expired,
		LateMS: web.Number(milliseconds(v.late)), LateP99MS: v.quantile[0], LateMaxMS: v.quantile[1], BusyP99MS: v.quantile[2],
		Skipped: y.Skipped, Dropped: y.Dropped, BadObs: y.BadObs, Limited: y.Limited,
		HasZ:   !t.Flags.Has(controller.FlagFallbackZ),
		ZAgeMS: web.Number(milliseconds(int64(t.Index-t.PlanConfirmed) * int64(v.period))),
	}
	if b := v.belief.newest.Load(); b != nil {
		view.Information, view.BeliefNorm = web.Number(t.LogDet-b.prior), web.Number(b.norm)
	}
	if t.Flags.Has(controller.FlagReward) {
		view.Reward, view.Return = web.Number(t.Reward), web.Number(y.Running)
	}
	if v.never {
		view.Kappa = web.Number(math.NaN())
	}
	if t.Fault != controller.FaultNone {
		view.Fault = t.Fault.String()
	}
	return view
}

func (v *webView) Label(rewardsrc.Label, error) {} // the server was told by the desk
func (v *webView) Notice(keyboard.Notice)       {}

func (v *webView) Event(e flightlog.Event) {
	level := web.Info
	switch e.Level {
	case flightlog.Warn:
		level = web.Warn
	case flightlog.Error:
		level = web.Error
	}
	v.server.Note(level, e.Text)
}

func (v *webView) End() { v.server.End(v.why()) }

// perMinute counts what happened in the last 60 seconds of the run.
type perMinute struct {
	counts [60]uint64
	last   uint64 // second
}

func (p *perMinute) Add(second uint64) {
	p.forget(second)
	p.counts[second%60]++
}

// forget clears the seconds that went by without anything.
func (p *perMinute) forget(second uint64) {
	if second >= p.last+60 {
		p.counts = [60]uint64{}
	} else {
		for s := p.last + 1; s <= second; s++ {
			p.counts[s%60] = 0
		}
	}
	p.last = max(p.last, second)
}

// rate is that of the last minute, or of what there was of it.
func (p *perMinute) rate(second uint64) web.Number {
	p.forget(second)
	total := uint64(0)
	for _, n := range p.counts {
		total += n
	}
	return web.Number(float64(total) * 60 / float64(min(second+1, 60)))
}

// beliefWatch keeps what the live view shows of the belief. The planner's
// goroutine takes it from the states that it works on.
type beliefWatch struct {
	belief  *posterior.Belief
	takenAt int64
	newest  atomic.Pointer[believed]
}

// believed is a belief in brief.
type believed struct {
	mean  []float64 // ẑ
	norm  float64   // ‖ẑ‖
	prior float64   // log det V of the prior alone
}

func newBeliefWatch(cfg controller.Config, dim int) (*beliefWatch, error) {
	var options []posterior.Option
	if cfg.ExactRestore {
		options = append(options, posterior.WithExactRestore())
	}
	belief, err := posterior.New(dim, cfg.Lambda, cfg.Rho, options...)
	if err != nil {
		return nil, fmt.Errorf("host: live view: %w", err)
	}
	return &beliefWatch{belief: belief}, nil
}

// take looks at a state's belief, if the last look is long enough ago. One that
// is damaged is the planner's to report.
func (w *beliefWatch) take(s *controller.State) {
	if s.At-w.takenAt < int64(viewEvery) || w.belief.Restore(s.Belief) != nil {
		return
	}
	w.takenAt = s.At
	b := &believed{mean: make([]float64, w.belief.Dim()), prior: w.belief.LogDetPrior()}
	w.belief.Mean(b.mean)
	for _, x := range b.mean {
		b.norm += x * x
	}
	b.norm = math.Sqrt(b.norm)
	w.newest.Store(b)
}

// expects is the reward φᵀẑ that the belief expects of a state, NaN before
// there is a belief.
func (w *beliefWatch) expects(phi []float64) float64 {
	b := w.newest.Load()
	if b == nil || len(phi) != len(b.mean) {
		return math.NaN()
	}
	sum := 0.0
	for i, x := range phi {
		sum += x * b.mean[i]
	}
	return sum
}
