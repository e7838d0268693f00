package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"optibfm/configs"
	"optibfm/controller"
)

// draw draws a frame: a header, the robot at the left, a panel at the right, and the part for the
// operator at the foot.
func (s *screenDisplay) draw(c *canvas) {
	if c.w < screenWidth || c.h < screenHeight {
		s.drawSmall(c)
		return
	}
	const top, foot, gap = 2, 4, 2
	rows := c.h - top - foot
	left := min(2*(rows-2)+2, c.w/2-6) // the arena is square: cells are twice as high as wide
	s.drawHeader(c)
	if s.arena != nil {
		s.arena.draw(c, 0, top, left, min(rows, left/2+1))
	} else {
		s.channels.draw(c, 0, top, left, rows, s.stats.Last.Obs)
	}
	p := &panel{c, left + gap, top, c.w - left - gap}
	if s.details.Load() {
		s.drawDetails(p, rows)
	} else {
		s.drawWords(p)
	}
	s.drawFoot(c, c.h-foot)
}

// drawDetails draws the numbers. A person must not see a simulator's reward.
func (s *screenDisplay) drawDetails(p *panel, rows int) {
	fixed := 12 // rows without the plot
	if !s.person() {
		fixed = 15
		s.drawEpisode(p)
	}
	s.drawBelief(p, 3*min((rows-fixed)/3, 4))
	s.drawLabels(p)
	s.drawPlan(p)
	s.drawLoop(p)
}

// drawSmall is for a window that became too small.
func (s *screenDisplay) drawSmall(c *canvas) {
	t := &s.stats.Last
	c.text(0, 0, inkBold, s.title())
	s.drawRequest(c, 1)
	c.text(0, 2, inkPlain, fmt.Sprintf("labels %d  asked %d", t.Counted, s.stats.Asked))
	if !s.person() {
		c.text(0, 3, inkPlain, fmt.Sprintf("reward %+.2f  return %.1f", t.Reward, s.stats.Running))
	}
	c.text(0, 4, s.lastEvent.ink, s.lastEvent.text)
	if c.h > 6 {
		c.text(0, c.h-2, inkDim, fmt.Sprintf("enlarge the window to %d x %d", screenWidth, screenHeight))
	}
	c.repeat(0, c.h-1, c.w, inkPlain, ' ')
	keys := fewKeysOf(s.session.File)
	c.drawKeys(c.h-1, keys, min(4, len(keys)))
}

func (s *screenDisplay) title() string {
	if task := s.task(); task != "" {
		return s.spec.Name + " · " + task
	}
	return s.spec.Name
}

func (s *screenDisplay) drawHeader(c *canvas) {
	for x := range c.w {
		c.shade(x, 0, shadeHeader)
	}
	mode := "real time"
	if s.session.File.Run.Lockstep {
		mode = fmt.Sprintf("lockstep %.3g×", s.speed())
	}
	if s.session.File.Safety.Attended() {
		mode = s.stats.Last.Mode().String()
	}
	if s.session.File.Run.Shadow {
		mode = "SHADOW: no motion"
	}
	right := mode
	if s.details.Load() {
		right = fmt.Sprintf("%s · %.4g Hz · %s", s.strategy(), 1/s.spec.Period.Seconds(), mode)
	}
	c.clip(1, 0, c.w/2, inkBold, s.title())
	c.right(c.w-1, 0, inkPlain, right)
	s.drawProgress(c, 1)
}

func (s *screenDisplay) strategy() string {
	k := s.session.File.Controller
	switch k.Strategy {
	case controller.UCB, controller.UCBSphere, controller.UCBGradient:
		if k.Beta.Schedule != controller.Constant {
			return k.Strategy + " β " + k.Beta.Schedule
		}
		return fmt.Sprintf("%s β %.3g", k.Strategy, k.Beta.Value)
	case controller.Thompson:
		if k.Noise.Estimate {
			return k.Strategy
		}
		return fmt.Sprintf("%s σ %.3g", k.Strategy, k.Sigma)
	}
	return k.Strategy
}

// speed is simulated time over wall time.
func (s *screenDisplay) speed() float64 {
	wall := s.now().Sub(s.started)
	if wall <= 0 {
		return 1
	}
	return s.elapsed().Seconds() / wall.Seconds()
}

// limit is the duration of the whole run, 0 for no limit.
func (s *screenDisplay) limit() time.Duration {
	run := s.session.File.Run
	limit := time.Duration(run.DurationS * float64(time.Second))
	episodes := time.Duration(run.Episodes*(run.Steps(s.spec.Period)+1)) * s.spec.Period
	if run.EpisodeS > 0 && episodes > 0 && (limit == 0 || episodes < limit) {
		limit = episodes
	}
	return limit
}

func (s *screenDisplay) drawProgress(c *canvas, y int) {
	at, limit := s.elapsed(), s.limit()
	if limit == 0 {
		c.text(1, y, inkDim, clock(at)+", no time limit")
		return
	}
	right := clock(at) + " of " + clock(limit)
	c.progress(0, y, c.w-len(right)-2, float64(at)/float64(limit))
	c.right(c.w-1, y, inkDim, right)
}

func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	if seconds >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// panel is the next row of the panel at the right.
type panel struct {
	*canvas
	x, y, w int
}

// heading starts a section.
func (p *panel) heading(name, right string) {
	p.repeat(p.x, p.y, p.w, inkDim, p.glyphs.rule)
	p.text(p.x, p.y, inkBold, name+" ")
	if right != "" {
		p.right(p.x+p.w, p.y, inkPlain, " "+right)
	}
	p.y++
}

// row writes a name and returns the column of its value.
func (p *panel) row(name string) int {
	p.text(p.x, p.y, inkDim, name)
	return p.x + 9
}

// paragraph writes a text in as many rows as it needs. Its second and later rows are indented.
func (p *panel) paragraph(k ink, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.w:
			p.text(p.x, p.y, k, line)
			p.y++
			line = "  " + word
		default:
			line += " " + word
		}
	}
	p.text(p.x, p.y, k, line)
	p.y++
}

// pairs writes values, each after its name.
func (p *panel) pairs(x int, k ink, pairs ...any) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		x = p.text(x, p.y, inkDim, fmt.Sprint(pairs[i])+" ")
		x = p.text(x, p.y, k, fmt.Sprint(pairs[i+1])) + 2
	}
	return x
}

func (s *screenDisplay) drawEpisode(p *panel) {
	t, run := &s.stats.Last, s.session.File.Run
	name, right := "EPISODE", ""
	if steps := run.Steps(s.spec.Period); steps > 0 {
		name = fmt.Sprintf("EPISODE %d", t.Episode+1)
		if n := s.episodes(steps); n > 0 {
			name = fmt.Sprintf("EPISODE %d of %d", t.Episode+1, n)
		}
		right = fmt.Sprintf("%.1f of %.4g s", float64(t.Step)*s.spec.Period.Seconds(), run.EpisodeS)
	}
	p.heading(name, right)
	s.drawRewards(p)
}

// drawRewards shows the rewards of a simulator: the current one, and the sums of the episodes.
func (s *screenDisplay) drawRewards(p *panel) {
	t := &s.stats.Last
	x := p.row("reward")
	if t.Flags.Has(controller.FlagReward) {
		p.text(x, p.y, inkPlain, fmt.Sprintf("%+6.2f", t.Reward))
		p.balance(x+8, p.y, p.x+p.w-x-8, t.Reward/s.rewardScale, inkBad, inkGood)
	} else {
		p.text(x, p.y, inkDim, "not measured")
	}
	p.y++
	x = p.row("return")
	x = p.text(x, p.y, inkPlain, fmt.Sprintf("%6.1f", s.stats.Running)) + 2
	s.drawReturns(p, x)
	p.y++
}

// episodes is the number of episodes of the whole run.
func (s *screenDisplay) episodes(steps int) int {
	if n := s.session.File.Run.Episodes; n > 0 {
		return n
	}
	length := time.Duration(steps+1) * s.spec.Period
	return int((s.limit() + length - 1) / length)
}

// drawReturns shows the finished episodes: a bar each, then the newest numbers that fit.
func (s *screenDisplay) drawReturns(p *panel, x int) {
	returns := s.stats.Returns
	if len(returns) == 0 {
		return
	}
	x = p.text(x, p.y, inkDim, "earlier ")
	const maxBars = 8
	bars := returns[max(0, len(returns)-maxBars):]
	x = barcode(p.canvas, x, p.y, maxBars, bars, max(largest(bars), s.stats.Running)) + 1
	numbers := ""
	for i := len(returns) - 1; i >= 0; i-- {
		next := strings.TrimRight(fmt.Sprintf("%.1f %s", returns[i], numbers), " ")
		if x+len(next) > p.x+p.w {
			break
		}
		numbers = next
	}
	p.text(x, p.y, inkPlain, numbers)
}

func (s *screenDisplay) drawBelief(p *panel, rows int) {
	t, gate := &s.stats.Last, s.session.File.Controller.Gate
	gap := fmt.Sprintf("%.4f", t.DGap)
	if t.DGap != 0 && t.DGap < 1e-4 {
		gap = "<1e-4"
	}
	p.heading("WORTH OF A LABEL NOW", fmt.Sprintf("%.6s nats (D-gap)", gap))
	kappa := t.Kappa
	switch {
	case gate.Off:
		kappa = 0
		p.text(p.x, p.y, inkDim, "never asks")
	case t.Flags.Has(controller.FlagUnreachable):
		p.text(p.x, p.y, inkBad, "no operator")
	default:
		p.text(p.x, p.y, inkDim, fmt.Sprintf("asks from %.3g (κ)", t.Kappa))
	}
	p.right(p.x+p.w, p.y, inkDim, fmt.Sprintf("gained %.1f (log det V)", t.LogDet-s.firstLogDet))
	p.y++
	s.history.drawGap(p.canvas, p.x, p.y, p.w, rows, kappa)
	p.y += rows
}

func (s *screenDisplay) drawLabels(p *panel) {
	p.heading("LABELS", s.labelRate())
	s.drawRequests(p, p.pairs(p.x, inkPlain, "used", s.stats.Last.Counted))
}

// labelRate is the rate of labels in the last minute.
func (s *screenDisplay) labelRate() string {
	minutes := min(max(s.elapsed().Minutes(), 1.0/6), 1) // at least 10 s
	recent, _ := s.history.column(0, 1)
	return fmt.Sprintf("%.0f/min", float64(recent.labels)/minutes)
}

// drawRequests counts requests and what went wrong, from column x on.
func (s *screenDisplay) drawRequests(p *panel, x int) {
	y := s.stats
	x = p.pairs(x, inkPlain, "asked", y.Asked, "answered", y.Answered)
	for _, bad := range []struct {
		name string
		n    uint64
	}{{"refused", y.Refused}, {"expired", y.Expired}, {"undone", y.Undone}} {
		if bad.n > 0 && x+len(bad.name)+len(fmt.Sprint(bad.n)) < p.x+p.w {
			x = p.pairs(x, inkAsk, bad.name, bad.n)
		}
	}
	p.y++
}

func (s *screenDisplay) drawPlan(p *panel) {
	t := &s.stats.Last
	age := time.Duration(t.Index-t.PlanConfirmed) * s.spec.Period
	right := fmt.Sprintf("%.2f s old, %d plans", age.Seconds(), s.stats.Replans)
	if t.PlanScore != 0 {
		right += fmt.Sprintf(", score %.3g", t.PlanScore)
	}
	p.heading("PLAN (z)", right)
	x := p.row("z")
	barcode(p.canvas, x, p.y, p.x+p.w-x, t.Z, largest(t.Z))
	p.y++
	x = p.row("action")
	limit := 0.0
	for _, a := range s.spec.Action {
		limit = max(limit, a.Max, -a.Min)
	}
	barcode(p.canvas, x, p.y, p.x+p.w-x, t.Action, limit)
	p.y++
}

func (s *screenDisplay) drawLoop(p *panel) {
	y := s.stats
	if s.session.File.Run.Lockstep {
		p.heading("LOOP", fmt.Sprintf("%d ticks", y.Ticks))
		p.text(p.x, p.y, inkDim, "lockstep: simulated time has no jitter")
		p.y++
		return
	}
	p.heading("LOOP", fmt.Sprintf("skipped %d, dropped %d", y.Skipped, y.Dropped))
	for _, row := range []struct {
		name string
		us   [3]float64
	}{{"lateness", s.lateness}, {"tick", s.duration}} {
		x := p.row(row.name)
		for i, name := range []string{"p50", "p99", "max"} {
			x = p.pairs(x, inkPlain, name, fmt.Sprintf("%.0f", row.us[i]))
		}
		p.text(x-1, p.y, inkDim, "µs")
		p.y++
	}
	x := p.row("posture")
	if len(s.missing) > 0 {
		p.clip(x, p.y, p.x+p.w-x, inkAsk, "without "+strings.Join(s.missing, ", "))
	} else {
		p.text(x, p.y, inkGood, "all granted")
	}
	p.y++
}

// drawFoot draws what the operator needs, in four rows from y on.
func (s *screenDisplay) drawFoot(c *canvas, y int) {
	s.drawRequest(c, y)
	if s.lastLabel.text != "" {
		c.clip(1, y+1, c.w-12, s.lastLabel.ink, s.lastLabel.text)
		c.right(c.w-1, y+1, inkDim, ago(s.elapsed()-s.lastLabel.at))
	} else {
		c.text(1, y+1, inkDim, "no label yet")
	}
	s.drawEvent(c, y+2)
	keys, needed := keysOf(s.session.File)
	x := c.drawKeys(y+3, keys, needed)
	if s.arena != nil && s.arena.shades != nil && c.palette.shaded {
		c.text(x+1, y+3, inkDim, "light background: high reward")
	}
}

func ago(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s ago", max(d, 0).Seconds())
	}
	return clock(d) + " ago"
}

// drawEvent shows the last event, errors for ever and others for a while, or the task.
func (s *screenDisplay) drawEvent(c *canvas, y int) {
	m := s.lastEvent
	if m.text != "" && (m.ink == inkBad || s.elapsed()-m.at < 20*time.Second) {
		x := c.text(1, y, inkDim, clock(m.at)+" ")
		c.text(x, y, m.ink, m.text)
		return
	}
	if s.arena == nil {
		return
	}
	if description := s.arena.robot.DescribeTask(s.task()); description != "" {
		x := c.text(1, y, inkDim, "task: ")
		x = c.text(x, y, inkPlain, description)
		c.text(x, y, inkDim, " (hidden from the robot)")
	}
}

// drawRequest shows the reason why the robot does not move, whether a label is wanted, or why none
// is.
func (s *screenDisplay) drawRequest(c *canvas, y int) {
	t := &s.stats.Last
	command := s.session.Invoked.OperatorCommand
	switch {
	case t.Fault != controller.FaultNone && s.session.File.Safety.AfterStop == configs.AfterStopHold:
		c.banner(y, inkBadBanner, "STOPPED: "+t.Fault.String(), "fix the cause, then: ", command("reset"))
	case t.Fault != controller.FaultNone:
		c.banner(y, inkBadBanner, "HALTED: "+t.Fault.String(), "", "")
	case t.Mode() == controller.Starting:
		c.banner(y, inkAskBanner, "STARTING", "the robot moves to its start pose; to stop it: ", command("stop"))
	case t.Mode() == controller.Resting:
		c.banner(y, inkAskBanner, "RESTING", "the robot moves to its rest pose; to stop it: ", command("stop"))
	case t.Mode() == controller.Disarmed && s.session.File.Safety.Attended():
		c.banner(y, inkAskBanner, "DISARMED", "to enable motion: ", command("arm"))
	case s.waits():
		c.banner(y, inkAskBanner, startText(s.session.File.Operator), "", "This press is not a label.")
	case s.request != 0 && s.person():
		timeout := time.Duration(s.session.File.Controller.Gate.TimeoutS * float64(time.Second))
		left := max(s.asked+timeout-s.elapsed(), 0)
		c.banner(y, inkAskBanner, "LABEL WANTED   "+s.question(t), "", fmt.Sprintf("%.1f s left", left.Seconds()))
	case s.request != 0:
		c.text(1, y, inkAsk, "label requested from the simulated operator")
	case s.person() && t.Flags.Has(controller.FlagUnreachable):
		c.text(1, y, inkAsk, "no question while you are away; back? "+FirstInput(s.session.File.Operator))
	case s.session.File.Controller.Gate.Off:
		c.text(1, y, inkDim, "the label gate is off: the robot never asks")
	case t.Flags.Has(controller.FlagGateOpen):
		c.text(1, y, inkDim, "no label wanted yet: the rate limit of requests is reached")
	default:
		c.text(1, y, inkDim, "no label wanted: it would add too little information here")
	}
}

// question asks a person for a label.
func (s *screenDisplay) question(t *controller.Tick) string {
	since := (s.elapsed() - s.asked).Seconds()
	switch {
	case s.asksUntilPress():
		return "how good is it now?"
	case t.Flags.Has(controller.FlagHeld):
		return fmt.Sprintf("how good was it %.1f s ago? The robot waits", since)
	case s.arena != nil && s.arena.asked != nil:
		return fmt.Sprintf("how good was it %.1f s ago, at the yellow arrow?", since)
	}
	return fmt.Sprintf("how good was it %.1f s ago?", since)
}

// startText returns the way in which a person starts a robot that waits.
func startText(o configs.Operator) string {
	how := FirstInput(o)
	return strings.ToUpper(how[:1]) + how[1:] + " to start."
}

// FirstInput returns the input with which a person with a label device starts the robot.
func FirstInput(o configs.Operator) string {
	switch o.Source {
	case configs.SourceKeyboard:
		return "press any key"
	case configs.SourceConsole:
		return "enter +"
	case configs.SourceWeb:
		return "press any key or Good in the browser"
	}
	return "press a button of your device"
}

// KeepInput returns the input with which a person keeps a task that seems to have changed.
func KeepInput(o configs.Operator) string {
	switch o.Source {
	case configs.SourceKeyboard:
		return "press k"
	case configs.SourceConsole:
		return "enter k"
	case configs.SourceWeb:
		return "press Keep in the browser (k)"
	}
	if o.OnButtons() {
		return "press undo"
	}
	return "this operator cannot"
}

// banner fills row y. The right text is complete where possible, with its introduction where there
// is space for both.
func (c *canvas) banner(y int, k ink, text, introduction, right string) {
	c.repeat(0, y, c.w, k, ' ')
	x := c.text(1, y, k, text) + 2
	if room := c.w - 1 - x; utf8.RuneCountInString(introduction+right) <= room {
		right = introduction + right
	} else if utf8.RuneCountInString(right) > room {
		c.text(x, y, k, right)
		return
	}
	c.right(c.w-1, y, k, right)
}

// labelKeys are the keys of a person who labels at this terminal, the most important first.
var labelKeys = []string{
	"+ good", "- bad", "> better", "< worse", "g goal", "u undo", "? can't tell", "q quit", "0 neither", "1..9 graded",
}

// neededKeys is the number of labelKeys that every screen shows.
const neededKeys = 8

// keysOf returns the keys of this terminal, the most important first, and the number of them that
// every full screen shows. If a person labels at the terminal, it is raw.
func keysOf(f configs.File) (keys []string, needed int) {
	switch {
	case f.Operator.Source != configs.SourceKeyboard:
		return []string{"Ctrl-C ends the run"}, 1
	case f.Safety.Attended():
		return append([]string{"SPACE STOP"}, labelKeys...), neededKeys + 1
	}
	return labelKeys, neededKeys
}

// fewKeysOf returns the keys for little room, those that stop or end the run first.
func fewKeysOf(f configs.File) []string {
	keys, _ := keysOf(f)
	first := func(k string) bool { return k == "SPACE STOP" || k == "q quit" }
	return append(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !first(k) }),
		slices.DeleteFunc(slices.Clone(keys), first)...)
}

// drawKeys shows the keys that fit, at least those that are needed if the row is wide enough, and
// returns the column after them.
func (c *canvas) drawKeys(y int, keys []string, needed int) int {
	gap := 2
	if utf8.RuneCountInString(strings.Join(keys[:needed], "  ")) > c.w-2 {
		gap = 1
	}
	x := 1
	for _, k := range keys {
		if x+len(k) > c.w {
			break
		}
		name, meaning, _ := strings.Cut(k, " ")
		x = c.text(x, y, inkBold, name+" ")
		x = c.text(x, y, inkDim, meaning) + gap
	}
	return x
}
