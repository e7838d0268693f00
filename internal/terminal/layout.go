package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal/rover"
)

// draw draws a frame: a header, the robot at the left, what it believes at the
// right, and what the operator needs at the foot.
func (s *screen) draw(c *canvas) {
	if c.w < screenWidth || c.h < screenHeight {
		s.drawSmall(c)
		return
	}
	const top, foot, gap = 2, 4, 2
	rows := c.h - top - foot
	left := min(2*(rows-2)+2, c.w/2-6) // the arena is square: cells are twice as high as wide
	height := min(rows, left/2+1)
	s.drawHeader(c)
	if s.arena != nil {
		s.arena.draw(c, 0, top, left, height)
	} else {
		s.channels.draw(c, 0, top, left, rows, s.tally.Last.Obs)
	}
	s.drawPanel(c, left+gap, top, c.w-left-gap, rows)
	s.drawFoot(c, c.h-foot)
}

// drawSmall is for a window that became too small.
func (s *screen) drawSmall(c *canvas) {
	t := &s.tally.Last
	c.Text(0, 0, inkBold, s.Title())
	s.drawRequest(c, 1)
	c.Text(0, 2, inkPlain, fmt.Sprintf("labels %d  asked %d  D-gap %.3g", s.tally.Applied, s.tally.Asked, t.DGap))
	c.Text(0, 3, inkPlain, fmt.Sprintf("reward %+.2f  return %.1f", t.Reward, s.tally.Running))
	c.Text(0, 4, s.happened.ink, s.happened.text)
	c.Text(0, c.h-1, inkDim, fmt.Sprintf("make the window %d x %d", screenWidth, screenHeight))
}

func (s *screen) Title() string {
	if task := s.session.Task(); task != "" {
		return s.spec.Name + " · " + task
	}
	return s.spec.Name
}

func (s *screen) drawHeader(c *canvas) {
	for x := range c.w {
		c.shade(x, 0, groundHead)
	}
	mode := "real time"
	if s.session.File.Run.Lockstep {
		mode = fmt.Sprintf("lockstep %.3g×", s.speed())
	}
	if s.session.File.Safety.Attended() {
		mode = s.tally.Last.Mode().String()
	}
	if s.session.File.Run.Shadow {
		mode = "SHADOW: it does not move"
	}
	right := fmt.Sprintf("%s · %.4g Hz · %s", s.strategy(), 1/s.spec.Period.Seconds(), mode)
	c.clip(1, 0, c.w/2, inkBold, s.Title())
	c.right(c.w-1, 0, inkPlain, right)
	s.drawProgress(c, 1)
}

// about says what the task is.
func (s *screen) about() string {
	if s.session.File.Robot.Driver != configs.DriverRover {
		return ""
	}
	for _, t := range rover.Tasks() {
		if t.Name == s.session.Task() {
			return t.Description
		}
	}
	return ""
}

func (s *screen) strategy() string {
	k := s.session.File.Controller
	switch k.Strategy {
	case controller.UCB, controller.UCBSphere, controller.UCBGradient:
		if k.Beta.Schedule != controller.Constant {
			return k.Strategy + " β " + k.Beta.Schedule
		}
		return fmt.Sprintf("%s β %.3g", k.Strategy, k.Beta.Value)
	case controller.Thompson:
		return fmt.Sprintf("%s σ %.3g", k.Strategy, k.Sigma)
	}
	return k.Strategy
}

// speed is how much faster than the robot's clock lockstep is.
func (s *screen) speed() float64 {
	wall := s.now().Sub(s.started)
	if wall <= 0 {
		return 1
	}
	return s.elapsed().Seconds() / wall.Seconds()
}

// total is how long the run will last, 0 where nobody knows.
func (s *screen) total() time.Duration {
	run := s.session.File.Run
	total := time.Duration(run.DurationS * float64(time.Second))
	episodes := time.Duration(run.Episodes*(run.Steps(s.spec.Period)+1)) * s.spec.Period
	if run.EpisodeS > 0 && episodes > 0 && (total == 0 || episodes < total) {
		total = episodes
	}
	return total
}

func (s *screen) drawProgress(c *canvas, y int) {
	at, total := s.elapsed(), s.total()
	if total == 0 {
		c.Text(1, y, inkDim, clock(at)+", without a set end")
		return
	}
	right := clock(at) + " of " + clock(total)
	c.progress(0, y, c.w-len(right)-2, float64(at)/float64(total))
	c.right(c.w-1, y, inkDim, right)
}

func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	if seconds >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// section is where the panel at the right is being written.
type section struct {
	*canvas
	x, y, w int
}

// Title starts a section.
func (p *section) Title(name, right string) {
	p.repeat(p.x, p.y, p.w, inkDim, p.glyphs.rule)
	p.Text(p.x, p.y, inkBold, name+" ")
	if right != "" {
		p.right(p.x+p.w, p.y, inkPlain, " "+right)
	}
	p.y++
}

// row writes a name and returns the column of what follows it.
func (p *section) row(name string) int {
	p.Text(p.x, p.y, inkDim, name)
	return p.x + 9
}

// pairs writes values, each after its name.
func (p *section) pairs(x int, k ink, pairs ...any) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		x = p.Text(x, p.y, inkDim, fmt.Sprint(pairs[i])+" ")
		x = p.Text(x, p.y, k, fmt.Sprint(pairs[i+1])) + 2
	}
	return x
}

func (s *screen) drawPanel(c *canvas, x, y, w, rows int) {
	const fixed = 15 // rows without the plot
	p := &section{c, x, y, w}
	s.drawEpisode(p)
	s.drawBelief(p, 3*min((rows-fixed)/3, 4))
	s.drawLabels(p)
	s.drawPlan(p)
	s.drawLoop(p)
}

func (s *screen) drawEpisode(p *section) {
	t, run := &s.tally.Last, s.session.File.Run
	name, right := "EPISODE", ""
	if steps := run.Steps(s.spec.Period); steps > 0 {
		name = fmt.Sprintf("EPISODE %d", t.Episode+1)
		if n := s.episodes(steps); n > 0 {
			name = fmt.Sprintf("EPISODE %d of %d", t.Episode+1, n)
		}
		right = fmt.Sprintf("%.1f of %.4g s", float64(t.Step)*s.spec.Period.Seconds(), run.EpisodeS)
	}
	p.Title(name, right)
	x := p.row("reward")
	if t.Flags.Has(controller.FlagReward) {
		p.Text(x, p.y, inkPlain, fmt.Sprintf("%+6.2f", t.Reward))
		p.balance(x+8, p.y, p.x+p.w-x-8, t.Reward/s.reward, inkBad, inkGood)
	} else {
		p.Text(x, p.y, inkDim, "none: nobody measures it")
	}
	p.y++
	x = p.row("return")
	x = p.Text(x, p.y, inkPlain, fmt.Sprintf("%6.1f", s.tally.Running)) + 2
	s.drawReturns(p, x)
	p.y++
}

// episodes is how many the run will have.
func (s *screen) episodes(steps int) int {
	run := s.session.File.Run
	if run.Episodes > 0 {
		return run.Episodes
	}
	length := time.Duration(steps+1) * s.spec.Period
	return int((s.total() + length - 1) / length)
}

// drawReturns shows the finished episodes: a bar each, then as many numbers as
// fit, the newest last.
func (s *screen) drawReturns(p *section, x int) {
	returns := s.tally.Returns
	if len(returns) == 0 {
		return
	}
	x = p.Text(x, p.y, inkDim, "earlier ")
	const most = 8
	bars := returns[max(0, len(returns)-most):]
	x = barcode(p.canvas, x, p.y, most, bars, max(largest(bars), s.tally.Running)) + 1
	numbers := ""
	for i := len(returns) - 1; i >= 0; i-- {
		next := fmt.Sprintf("%.1f", returns[i])
		if numbers != "" {
			next += " " + numbers
		}
		if x+len(next) > p.x+p.w {
			break
		}
		numbers = next
	}
	p.Text(x, p.y, inkPlain, numbers)
}

func (s *screen) drawBelief(p *section, rows int) {
	t, gate := &s.tally.Last, s.session.File.Controller.Gate
	p.Title("BELIEF", fmt.Sprintf("log det V %.2f", t.LogDet))
	x := p.row("D-gap")
	k := inkPlain
	if t.Flags.Has(controller.FlagGateOpen) {
		k = inkAsk
	}
	x = p.Text(x, p.y, k, fmt.Sprintf("%-6s", nats(t.DGap)))
	x = p.Text(x, p.y, inkDim, " nats")
	switch {
	case gate.Off:
		p.Text(x, p.y, inkDim, "; never asks")
	case t.Flags.Has(controller.FlagUnreachable):
		p.Text(x, p.y, inkBad, "; asks nobody: no operator")
	default:
		p.Text(x, p.y, inkDim, fmt.Sprintf("; asks from κ %.3g", t.Kappa))
	}
	p.y++
	kappa := t.Kappa
	if gate.Off {
		kappa = 0
	}
	p.plotGap(p.x, p.y, p.w, rows, &s.history, kappa)
	p.y += rows
}

// nats writes a D-gap in five columns at most.
func nats(v float64) string {
	if v != 0 && v < 1e-4 {
		return "<1e-4"
	}
	return fmt.Sprintf("%.4f", v)[:min(6, len(fmt.Sprintf("%.4f", v)))]
}

func (s *screen) drawLabels(p *section) {
	y := s.tally
	minutes := min(max(s.elapsed().Minutes(), 1.0/6), 1) // not from less than 10 s
	p.Title("LABELS", fmt.Sprintf("%.0f a minute", float64(s.history.labels())/minutes))
	x := p.pairs(p.x, inkPlain, "used", y.Applied, "asked", y.Asked, "answered", y.Answered)
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

func (s *screen) drawPlan(p *section) {
	t := &s.tally.Last
	age := time.Duration(t.Index-t.PlanConfirmed) * s.spec.Period
	right := fmt.Sprintf("z %.2f s old, %d plans", age.Seconds(), s.tally.Replans)
	if t.PlanScore != 0 {
		right += fmt.Sprintf(", score %.3g", t.PlanScore)
	}
	p.Title("PLAN", right)
	x := p.row("z")
	barcode(p.canvas, x, p.y, p.x+p.w-x, t.Z, largest(t.Z))
	p.y++
	x = p.row("action")
	barcode(p.canvas, x, p.y, p.x+p.w-x, t.Action, s.actionLimit())
	p.y++
}

func (s *screen) actionLimit() float64 {
	top := 0.0
	for _, a := range s.spec.Action {
		top = max(top, a.Max, -a.Min)
	}
	return top
}

func (s *screen) drawLoop(p *section) {
	y := s.tally
	if s.session.File.Run.Lockstep {
		p.Title("LOOP", fmt.Sprintf("%d ticks", y.Ticks))
		p.Text(p.x, p.y, inkDim, "lockstep: simulated time has no jitter")
		p.y++
		return
	}
	p.Title("LOOP", fmt.Sprintf("skipped %d, dropped %d", y.Skipped, y.Dropped))
	for _, row := range []struct {
		name string
		us   [3]float64
	}{{"lateness", s.lateness}, {"tick", s.duration}} {
		x := p.row(row.name)
		x = p.pairs(x, inkPlain, "p50", fmt.Sprintf("%.0f", row.us[0]), "p99", fmt.Sprintf("%.0f", row.us[1]), "max", fmt.Sprintf("%.0f", row.us[2]))
		p.Text(x-1, p.y, inkDim, "µs")
		p.y++
	}
	x := p.row("posture")
	if len(s.missing) > 0 {
		p.clip(x, p.y, p.x+p.w-x, inkAsk, "without "+strings.Join(s.missing, ", "))
	} else {
		p.Text(x, p.y, inkGood, "all granted")
	}
	p.y++
}

// drawFoot draws what the operator needs, in four rows from y on.
func (s *screen) drawFoot(c *canvas, y int) {
	s.drawRequest(c, y)
	if s.saved.text != "" {
		c.clip(1, y+1, c.w-12, s.saved.ink, s.saved.text)
		c.right(c.w-1, y+1, inkDim, ago(s.elapsed()-s.saved.at))
	} else {
		c.Text(1, y+1, inkDim, "no label yet")
	}
	s.drawEvent(c, y+2)
	s.drawKeys(c, y+3)
}

// drawEvent shows the last event, an error for ever and others for a while, or
// what the task is.
func (s *screen) drawEvent(c *canvas, y int) {
	m := s.happened
	if m.text != "" && (m.ink == inkBad || s.elapsed()-m.at < 20*time.Second) {
		x := c.Text(1, y, inkDim, clock(m.at)+" ")
		c.Text(x, y, m.ink, m.text)
		return
	}
	if about := s.about(); about != "" {
		x := c.Text(1, y, inkDim, "task: ")
		x = c.Text(x, y, inkPlain, about)
		if !s.human() {
			c.Text(x, y, inkDim, " (the robot is not told)")
		}
	}
}

func ago(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s ago", max(d, 0).Seconds())
	}
	return clock(d) + " ago"
}

// drawRequest says whether a label is wanted, or that the robot was halted.
func (s *screen) drawRequest(c *canvas, y int) {
	banner := func(k ink, text, why, right string) {
		c.repeat(0, y, c.w, k, ' ')
		x := c.Text(1, y, k, text) + 2
		if room := c.w - 1 - x; utf8.RuneCountInString(why+right) <= room {
			right = why + right
		} else if utf8.RuneCountInString(right) > room {
			c.Text(x, y, k, right)
			return
		}
		c.right(c.w-1, y, k, right)
	}
	t := &s.tally.Last
	left := max(s.closes-s.elapsed(), 0)
	switch {
	case t.Fault != controller.FaultNone && s.session.File.Safety.AfterStop == configs.AfterStopHold:
		banner(inkBadBanner, "STOPPED: "+t.Fault.String(), "fix the cause, then: ", s.session.Invoked.OperatorCommand("reset"))
	case t.Fault != controller.FaultNone:
		banner(inkBadBanner, "HALTED: "+t.Fault.String(), "", "")
	case t.Mode() == controller.Disarmed && s.session.File.Safety.Attended():
		banner(inkAskBanner, "DISARMED", "to let it move: ", s.session.Invoked.OperatorCommand("arm"))
	case s.request != 0 && s.human():
		banner(inkAskBanner, "LABEL WANTED   how good is it now?", "", fmt.Sprintf("%.1f s left", left.Seconds()))
	case s.request != 0:
		c.Text(1, y, inkAsk, "asked for a label: the simulated operator thinks")
	default:
		c.Text(1, y, inkDim, s.quiet())
	}
}

// quiet says why no label is wanted.
func (s *screen) quiet() string {
	t := &s.tally.Last
	switch gate := s.session.File.Controller.Gate; {
	case gate.Off:
		return "the robot does not ask: labels come by themselves"
	case t.Flags.Has(controller.FlagGateOpen):
		return "no label wanted yet: the robot has asked enough for now"
	}
	return "no label wanted: it would teach too little here"
}

func (s *screen) drawKeys(c *canvas, y int) {
	if !s.person() {
		x := key(c, 1, y, "Ctrl-C", "ends the run")
		if s.arena != nil && s.arena.shades != nil && s.terminal.palette.grounds[numShades] != "" {
			c.Text(x, y, inkDim, "light ground: where the task pays most")
		}
		return
	}
	x := 1
	keys := "+ good,0 neither,- bad,1..9 graded,? can't tell,u undo,q quit"
	if s.session.File.Safety.Attended() {
		x = key(c, x, y, "SPACE", "STOP")
		keys = "+ good,0 neither,- bad,? can't tell,u undo,q quit"
	}
	for _, k := range strings.Split(keys, ",") {
		name, means, _ := strings.Cut(k, " ")
		x = key(c, x, y, name, means)
	}
}

func key(c *canvas, x, y int, name, means string) int {
	x = c.Text(x, y, inkBold, name+" ")
	return c.Text(x, y, inkDim, means) + 3
}
