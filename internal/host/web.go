package host

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/ipc"
	"optibfm/internal/journal"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/terminal"
	"optibfm/internal/version"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// viewEvery is the time between two views.
const viewEvery = 200 * time.Millisecond

// openWeb starts the web console.
func (h *Process) openWeb() error {
	belief, err := newBeliefWatch(h.Session.File.Controller, h.Session.Shape().Latent)
	if err != nil {
		return err
	}
	operator := h.Session.File.Operator
	options := web.Options{
		About: h.aboutRun(), Period: h.Config.Spec.Period, Mode: webMode(operator.LabelMode), Stop: h.stopFromWeb(),
		Report: h.reportFromWeb,
	}
	if options.Authority, err = setup.AuthorityFile(h.Session.File.Run); err != nil {
		h.reportFromWeb(web.Warn, fmt.Sprintf("%v; devices must trust another root certificate in each run", err))
	}
	if h.pictures != nil {
		options.Pictures = h.pictures
	}
	if h.pictures != nil && !h.recordsPictures() { // the recorder reports a dead source, too
		time.AfterFunc(2*time.Second, func() { h.tryPictures(h.pictures) }) // a simulator starts first
	}
	if options.Tasks, err = h.openTasks(belief); err != nil {
		return err
	}
	if h.web, err = web.Open(operator.Web, options); err != nil {
		return err
	}
	h.Planner.watch = belief
	view := &webView{server: h.web, belief: belief, announce: h.announcer(), ending: h.ending,
		attend: &h.attend}
	h.Display = terminal.Displays{h.Display, view}
	return nil
}

// tryPictures opens the source of pictures once and reports the reason why it has none. Without it
// the source is closed until a browser watches.
func (h *Process) tryPictures(from web.Pictures) {
	defer from.Watch()()
	problem := ""
	for failed := 0; failed < 3; { // seconds: a renderer that starts slowly fails at first
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := from.Next(ctx, 0)
		cancel()
		if err == nil {
			return
		}
		if problem, failed = from.Problem(), failed+1; problem == "" {
			failed = 0
		}
	}
	recorder.Offer(h.Planner.Events, flightlog.Event{
		At: rtloop.Now(), Level: flightlog.Warn, Text: "the console has no pictures: " + problem,
	})
}

// webMode returns the page's mode for operator.label_mode.
func webMode(labelMode string) web.Mode {
	switch labelMode {
	case configs.ModePerRequest:
		return web.PerRequest
	case configs.ModeContinuous:
		return web.Continuous
	}
	return web.Sparse
}

func (h *Process) haltWeb() error {
	if h.web == nil {
		return nil
	}
	return h.web.Halt()
}

func (h *Process) aboutRun() web.About {
	file, period := h.Session.File, h.Config.Spec.Period
	task, credit := h.Session.Task(), file.Controller.Credit
	if file.Operator.ByPerson() {
		task = ""
	}
	return web.About{
		Robot: h.Config.Spec.Name, Task: task,
		Credit: web.Credit{
			DelayMS: web.Number(1000 * credit.DelayS), WidthMS: web.Number(1000 * credit.WidthS),
			ClipMS:     web.Number(milliseconds(int64(controller.Clip))),
			UntilPress: credit.Answers == controller.UntilPress && file.Controller.Gate.Pause != controller.PauseHold,
		},
		Strategy: file.Controller.Strategy, Program: version.String(),
		PeriodMS: web.Number(milliseconds(int64(period))),
		MaxAgeMS: web.Number(milliseconds(int64(file.Controller.MaxPlanAge) * int64(period))),
		Missing:  h.Config.Missing, Record: file.Log.Enabled, Source: file.Operator.Source,
		RecordView:  h.recordsPictures(),
		Suggestions: file.Operator.Suggestions,
		StopEndsRun: file.Safety.AfterStop == configs.AfterStopEnd,
	}
}

func milliseconds(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

// stopFromWeb returns the action of STOP. The control process reads the word in its next tick and
// latches a stop, which the console cannot undo; safety.after_stop decides whether the run ends.
// The log gets the first press, and the first after each reset.
func (h *Process) stopFromWeb() func(by string, first bool) {
	return func(by string, first bool) {
		h.Link.Stop.CompareAndSwap(ipc.StopNone, ipc.StopRobot)
		if !first {
			return
		}
		recorder.Offer(h.Planner.Events, flightlog.Event{
			At: rtloop.Now(), Level: flightlog.Warn, Text: "STOP was pressed in the web console, on " + by,
		})
	}
}

// reportFromWeb records and shows a report of the console.
func (h *Process) reportFromWeb(level web.Level, text string) {
	e := flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: text}
	if level != web.Info {
		e.Level = flightlog.Warn
	}
	recorder.Offer(h.Planner.Events, e)
}

// ending returns the reason why the run ended, for the browsers.
func (h *Process) ending() web.Ending {
	e := web.Ending{Failed: true, Keep: summary.SaveCommand(h.Session, h.Recorder.Statistics, h.logPath)}
	switch {
	case h.fault() != controller.FaultNone:
		e.Why = "the robot was halted: " + h.halted.String()
	case h.orphaned:
		e.Why = strings.TrimPrefix(errOrphaned.Error(), "host: ")
	case h.Link.Ended.Load() == 0:
		e.Why = "the host process failed; the robot is halted by the control process or its own deadman"
	default:
		e.Why, e.Failed = "it ended as planned, the robot is halted", false
	}
	return e
}

// announcer returns a function that shows a pairing: the address alone on a full screen, otherwise
// its text, on standard error if standard output is for machines. A terminal also gets the QR code.
func (h *Process) announcer() func(web.Pairing) {
	show := h.Config.Show
	if terminal.TakesScreen(show) {
		terminal := h.Display
		return func(p web.Pairing) {
			terminal.Event(flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: "console: " + p.URL})
		}
	}
	out, file := io.Writer(h.lines), os.Stdout
	if show == terminal.ShowJSON || show == terminal.ShowNone {
		file = os.Stderr
		out = terminal.NewLineWriter(file)
	}
	person := term.IsTerminal(int(file.Fd()))
	return func(p web.Pairing) {
		text, out := p.Text(), out
		switch {
		case person && p.Local:
		case person && show == terminal.ShowLines:
			text = "\n" + p.ColouredQR() + "\n" + text
		case person:
			text = "\n" + p.QR() + "\n" + text
		case p.Exposed && show == terminal.ShowJournal:
			out = journal.NewWriter(out, journal.Warning)
		}
		_, _ = io.WriteString(out, text) // a line writer fails only after its end
	}
}

// webView is the display in browsers.
type webView struct {
	server   *web.Server
	belief   *beliefWatch
	announce func(web.Pairing)
	ending   func() web.Ending // of the run
	attend   *attendance

	tally     *recorder.Statistics
	period    time.Duration
	silent    bool   // the robot never asks
	person    bool   // labels
	pose      []int  // channels of x, y, cosine and sine of the heading; nil: the robot has none
	announced uint64 // number of the pairing on display

	outcomes []controller.AppliedLabel // of the present tick
	progress terminal.Progress
	labels   perMinute
	late     int64   // the worst wake-up since the last view, ns
	expected float64 // return of the episode by the belief's own estimate
	shownAt  int64
	fault    controller.Fault // of the last view
	timed    int64            // time of the quantiles, which are expensive
	quantile [3]web.Number    // lateness p99 and maximum, duration p99, ms
}

func (v *webView) Begin(s *setup.Session, spec hal.Spec, _ []string, y *recorder.Statistics) {
	v.tally, v.period, v.silent = y, spec.Period, s.File.Controller.Gate.Off
	v.person = s.File.Operator.ByPerson()
	v.pose = poseChannels(spec)
	v.progress = terminal.NewProgress(s)
	v.announcePairing()
}

// poseChannels returns the channels of the position in an arena, or nil.
func poseChannels(spec hal.Spec) (found []int) {
	for _, name := range []string{"x", "y", "heading_cos", "heading_sin"} {
		i := slices.IndexFunc(spec.Obs, func(c hal.Channel) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		found = append(found, i)
	}
	return found
}

func (v *webView) poseOf(t *controller.Tick) *[4]web.Number {
	if v.pose == nil || t.Flags.Has(controller.FlagBadObs) {
		return nil
	}
	var pose [4]web.Number
	for i, channel := range v.pose {
		pose[i] = web.Number(t.Obs[channel])
	}
	return &pose
}

func (v *webView) announcePairing() {
	if p := v.server.Pairing(); p.Number != v.announced {
		v.announced = p.Number
		v.announce(p)
	}
}

func (v *webView) Tick(t *controller.Tick) {
	v.late = max(v.late, t.Wake-t.Deadline)
	v.progress.Tick(t)
	estimate := v.belief.expects(t.Phi)
	if t.Step == 0 {
		v.expected = 0
	}
	if t.Flags.Has(controller.FlagArmed) && !math.IsNaN(estimate) {
		v.expected += estimate
	}
	if t.Wake-v.shownAt < int64(viewEvery) && t.Fault == v.fault && len(v.outcomes) == 0 {
		return
	}
	v.shownAt, v.fault = t.Wake, t.Fault
	v.server.Show(v.of(t, estimate))
	for i := range v.outcomes { // after the view: no page shows a label as counted beside a count without it
		v.settle(&v.outcomes[i])
	}
	v.outcomes = v.outcomes[:0]
	v.late = 0
	v.announcePairing()
}

// Outcome notes what a tick did with a label. Tick shows it.
func (v *webView) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	v.outcomes = append(v.outcomes, *l)
	if l.Outcome == controller.Applied && l.Kind.Teaches() {
		v.labels.Add(v.second(t))
	}
}

func (v *webView) settle(l *controller.AppliedLabel) {
	counted := l.Outcome == controller.Applied || l.Outcome == controller.ClosedRequest
	v.server.Settle(l.ID, counted, l.Outcome.String())
	if l.Outcome == controller.Applied && l.Kind == rewardsrc.Undo {
		v.server.Undone(l.Undoes)
	}
}

func (v *webView) second(t *controller.Tick) uint64 {
	return t.Index * uint64(v.period) / uint64(time.Second)
}

func (v *webView) of(t *controller.Tick, estimate float64) web.View {
	y := v.tally
	if t.Wake-v.timed >= int64(time.Second) {
		v.timed = t.Wake
		for i, q := range [...]struct {
			of      *hdrhistogram.Histogram
			percent float64
		}{{y.Lateness, 99}, {y.Lateness, 100}, {y.Duration, 99}} {
			v.quantile[i] = web.Number(recorder.Micros(q.of, q.percent) / 1000)
		}
	}
	nan := web.Number(math.NaN())
	known, part := v.progress.Known(t)
	view := web.View{
		Tick: t.Index, ElapsedS: web.Number(float64(t.Index) * v.period.Seconds()),
		Mode: t.Mode().String(), Waiting: v.attend.starts(),
		Pose: v.poseOf(t), Learnt: t.Flags.Has(controller.FlagLearnt),
		Keepable: t.Flags.Has(controller.FlagKeepable), Known: known, KnownPart: web.Number(part),
		DGap: web.Number(t.DGap), Kappa: web.Number(t.Kappa),
		Estimate: web.Number(estimate), Uncertainty: web.Number(math.Sqrt(t.NormSq)),
		Information: nan, BeliefNorm: nan, Reward: nan, Return: web.Number(v.expected),
		Follows: v.progress.Follows(), Labels: t.Counted,
		PerMinute: v.labels.rate(v.second(t)),
		Undone:    y.Undone, Refused: y.Refused, Asked: y.Asked, Answered: y.Answered, Expired: y.Expired,
		LateMS:    web.Number(milliseconds(v.late)),
		LateP99MS: v.quantile[0], LateMaxMS: v.quantile[1], BusyP99MS: v.quantile[2],
		Skipped: y.Skipped, Dropped: y.Dropped, BadObs: y.BadObs, Limited: y.Limited,
		HasZ:   !t.Flags.Has(controller.FlagFallbackZ),
		ZAgeMS: web.Number(milliseconds(int64(t.Index-t.PlanConfirmed) * int64(v.period))),
	}
	if b := v.belief.newest.Load(); b != nil {
		view.Information, view.BeliefNorm = web.Number(t.LogDet-b.prior), web.Number(b.norm)
	}
	if t.Flags.Has(controller.FlagReward) && !v.person {
		view.Reward, view.Return = web.Number(t.Reward), web.Number(y.Running)
	}
	if v.silent {
		view.Kappa = web.Number(math.NaN())
	}
	if t.Fault != controller.FaultNone {
		view.Fault = t.Fault.String()
	}
	return view
}

func (v *webView) Label(rewardsrc.Label, error) {} // the source acknowledges to the page
func (v *webView) Notice(keyboard.Notice)       {}
func (v *webView) ToggleDetails()               {} // the page has its own

func (v *webView) Event(e flightlog.Event) {
	v.progress.Event(e)
	level := web.Info
	switch e.Level {
	case flightlog.Warn:
		level = web.Warn
	case flightlog.Error:
		level = web.Error
	}
	v.server.Note(level, e.Text)
}

func (v *webView) End() { v.server.End(v.ending()) }

// perMinute counts labels in the last 60 seconds of the run.
type perMinute struct {
	counts [60]uint64
	last   uint64 // second
}

func (p *perMinute) Add(second uint64) {
	p.forget(second)
	p.counts[second%60]++
}

// forget clears the seconds since the last label.
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

// rate returns the labels in the last minute. A run of less than a minute is extrapolated.
func (p *perMinute) rate(second uint64) web.Number {
	p.forget(second)
	total := uint64(0)
	for _, n := range p.counts {
		total += n
	}
	return web.Number(float64(total) * 60 / float64(min(second+1, 60)))
}

// beliefWatch has the numbers of the belief that the live view shows. The planner's goroutine
// updates it.
type beliefWatch struct {
	cfg    controller.Config
	dim    int // of the features
	newest atomic.Pointer[believed]

	mu      sync.Mutex
	belief  *posterior.Belief
	noise   controller.NoiseState
	until   uint64 // the first tick that belief does not include
	takenAt int64
}

// believed is a summary of a belief.
type believed struct {
	mean  []float64 // ẑ
	zero  float64   // of the operator
	norm  float64   // ‖ẑ‖
	prior float64   // log det V of the prior alone
}

func newBeliefWatch(cfg controller.Config, dim int) (*beliefWatch, error) {
	belief, err := cfg.NewBelief(dim)
	if err != nil {
		return nil, fmt.Errorf("host: live view: %w", err)
	}
	return &beliefWatch{cfg: cfg, dim: dim, belief: belief}, nil
}

// take updates the summary every viewEvery. The planner reports a damaged belief.
func (w *beliefWatch) take(s *controller.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.At-w.takenAt < int64(viewEvery) || w.belief.Restore(s.Belief) != nil {
		return
	}
	w.takenAt, w.noise, w.until = s.At, s.Noise, s.Next
	b := &believed{
		mean: make([]float64, w.belief.TaskDim()), zero: w.cfg.Zero(w.belief), prior: w.belief.LogDetPrior(),
	}
	w.cfg.Mean(b.mean, w.belief)
	for _, x := range b.mean {
		b.norm += x * x
	}
	b.norm = math.Sqrt(b.norm)
	w.newest.Store(b)
}

// expects returns the label that the belief expects at φ, NaN before the first belief.
func (w *beliefWatch) expects(phi []float64) float64 {
	b := w.newest.Load()
	if b == nil || len(phi) != len(b.mean) {
		return math.NaN()
	}
	return w.cfg.Expected(phi, b.mean, b.zero)
}
