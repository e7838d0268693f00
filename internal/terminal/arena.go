package terminal

import (
	"math"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/internal/registry"
	"optibfm/rewardsrc"
)

const (
	trailLength   = 128
	trailInterval = 30 * time.Millisecond // at most one point of the trail
	maxMarks      = 64
)

// arena shows the rover from above.
type arena struct {
	robot   registry.Arena
	scale   labelScale
	task    string // shaded by its reward; "" for none
	trail   [trailLength]trailPoint
	points  int // ever added
	start   int // the point at which the trail starts
	heading float64
	newest  time.Duration
	marks   []mark
	asked   *pose  // that the open request is about; nil: none
	credit  credit // of the newest label

	shades []uint8 // of the cells
	shadeW int
	shadeH int
}

type trailPoint struct {
	tick uint64
	at   point
}

// mark is the place that a label is about.
type mark struct {
	label uint64
	at    point
	side  int // labelScale.side
}

// pose is a place with a heading.
type pose struct {
	at      point
	heading float64
}

// credit is a stretch of the trail that a label is about.
type credit struct {
	from, to uint64        // ticks, inclusive
	until    time.Duration // when the mark disappears
	ink      ink
}

// creditTime is the time that a credited stretch stays marked.
const creditTime = 4 * time.Second

func (a *arena) poseOf(t *controller.Tick) pose {
	x, y, heading := a.robot.Pose(t.Obs)
	return pose{point{x/a.robot.Side() + 0.5, 0.5 - y/a.robot.Side()}, heading}
}

// ask shows the pose of t until the request about it is closed.
func (a *arena) ask(t *controller.Tick) {
	p := a.poseOf(t)
	a.asked = &p
}

// credited marks what a label is about. at is the time since the start of the run.
func (a *arena) credited(l *controller.AppliedLabel, at time.Duration) {
	a.credit = credit{l.From, l.To, at + creditTime, markInks[a.scale.side(l)+1]}
}

// add records the pose and the labels of a tick. at is the time since the start of the run.
func (a *arena) add(t *controller.Tick, at time.Duration) {
	if t.Flags.Has(controller.FlagEpisodeStart) {
		a.start, a.newest = a.points, at-trailInterval
	}
	if !t.Flags.Has(controller.FlagBadObs) && at-a.newest >= trailInterval {
		p := a.poseOf(t)
		a.heading, a.newest = p.heading, at
		a.trail[a.points%trailLength] = trailPoint{t.Index, p.at}
		a.points++
	}
	for i := range t.NumLabels {
		a.mark(&t.Labels[i])
	}
	if at >= a.credit.until {
		a.credit = credit{}
	}
}

// mark records the place of the rover at the tick that a label is about.
func (a *arena) mark(l *controller.AppliedLabel) {
	if l.Outcome != controller.Applied || l.Kind == rewardsrc.Keep {
		return
	}
	if l.Kind == rewardsrc.Undo {
		a.marks = slices.DeleteFunc(a.marks, func(m mark) bool { return m.label == l.Undoes })
		return
	}
	for i := max(0, a.points-trailLength); i < a.points; i++ {
		p := a.trail[i%trailLength]
		if p.tick < l.About {
			continue
		}
		if len(a.marks) == maxMarks {
			a.marks = slices.Delete(a.marks, 0, 1)
		}
		a.marks = append(a.marks, mark{l.ID, p.at, a.scale.side(l)})
		return
	}
}

// draw draws the arena in a box of w columns and h rows.
func (a *arena) draw(c *canvas, x, y, w, h int) {
	c.box(x, y, w, h)
	x, y, w, h = x+1, y+1, w-2, h-2
	a.drawTask(c, x, y, w, h)
	a.drawTrail(c, x, y, w, h)
	for _, m := range a.marks {
		i := m.side + 1
		c.set(x+scale(m.at.x, w), y+scale(m.at.y, h), markInks[i], c.glyphs.marks[i])
	}
	if a.points > 0 {
		pose{a.trail[(a.points-1)%trailLength].at, a.heading}.draw(c, x, y, w, h, inkRover)
	}
	if a.asked != nil {
		a.asked.draw(c, x, y, w, h, inkAskBanner)
	}
}

func (p pose) draw(c *canvas, x, y, w, h int, k ink) {
	octant := (int(math.Round(p.heading/(math.Pi/4))) + 8) % 8
	c.set(x+scale(p.at.x, w), y+scale(p.at.y, h), k, c.glyphs.arrows[max(octant, 0)])
}

// markInks are the inks of a bad, a neutral and a good label.
var markInks = [...]ink{inkBad, inkDim, inkGood}

// labelScale has the labels of the operator's good and bad button.
type labelScale struct{ good, bad float64 }

// side is 1 for a label above the middle of the scale, -1 for one below it, and 0 near it. The
// middle of a comparison and of a goal is 0.
func (s labelScale) side(l *controller.AppliedLabel) int {
	above, near := l.Value, (s.good-s.bad)/20
	if l.Kind != rewardsrc.Comparison && l.Kind != rewardsrc.Goal {
		above -= (s.good + s.bad) / 2
	}
	switch {
	case above > near:
		return 1
	case above < -near:
		return -1
	}
	return 0
}

// drawTask shades each place by the largest reward that the task gives there.
func (a *arena) drawTask(c *canvas, x, y, w, h int) {
	if a.task == "" {
		return
	}
	if w != a.shadeW || h != a.shadeH {
		a.shadeW, a.shadeH, a.shades = w, h, taskShades(a.robot, a.task, w, h)
	}
	for i, level := range a.shades {
		if level > 0 {
			c.shade(x+i%w, y+i/w, level)
		}
	}
}

// taskShades returns the shades of a task's rewards, nil if the reward hardly depends on the
// place.
func taskShades(robot registry.Arena, task string, w, h int) []uint8 {
	best := make([]float64, w*h)
	for i := range best {
		east := 2*(float64(i%w)+0.5)/float64(w) - 1
		north := 1 - 2*(float64(i/w)+0.5)/float64(h)
		best[i] = robot.BestReward(task, east, north)
	}
	low, high := slices.Min(best), slices.Max(best)
	if !(high-low > 0.2) {
		return nil
	}
	shades := make([]uint8, w*h)
	for i, r := range best {
		shades[i] = uint8(math.Round((r - low) / (high - low) * numShades))
	}
	return shades
}

// drawTrail draws the recent path of the rover. Older parts are fainter. What the newest label is
// about lies on top.
func (a *arena) drawTrail(c *canvas, x, y, w, h int) {
	first := max(a.start, a.points-trailLength, 0)
	inks := [...]ink{inkTrail3, inkTrail2, inkTrail1, inkTrail0}
	segment := func(i int) (from, to trailPoint) { return a.trail[max(i-1, first)%trailLength], a.trail[i%trailLength] }
	for i := first; i < a.points; i++ {
		from, to := segment(i)
		age := a.points - i // relative to the ring, so that a short trail is bright
		c.line(x, y, w, h, from.at, to.at, inks[(trailLength-age)*len(inks)/trailLength])
	}
	for i := first; i < a.points && a.credit.until > 0; i++ {
		if from, to := segment(i); to.tick >= a.credit.from && from.tick <= a.credit.to {
			c.line(x, y, w, h, from.at, to.at, a.credit.ink)
		}
	}
}
