package terminal

import (
	"fmt"
	"math"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/rewardsrc"
)

const (
	trailLen   = 128
	trailEvery = 30 * time.Millisecond // at most one point of the trail
	maxMarks   = 64
)

// arena is the rover's world as it is drawn.
type arena struct {
	side    float64 // m
	task    string  // shaded by its reward; "" for none
	trail   [trailLen]place
	points  int // ever added
	broken  int // the point at which the trail starts
	heading float64
	newest  time.Duration
	marks   []mark

	shades []uint8 // of the cells
	shadeW int
	shadeH int
}

// place is a point of the trail, in [0, 1] from the west and from the north.
type place struct {
	tick uint64
	x, y float64
}

// mark is a place that a label was about.
type mark struct {
	label uint64
	x, y  float64
	value float64
}

// Add takes the pose of a tick.
func (a *arena) Add(t *controller.Tick, at time.Duration) {
	if t.Flags.Has(controller.FlagEpisodeStart) {
		a.broken, a.newest = a.points, at-trailEvery
	}
	if !t.Flags.Has(controller.FlagBadObs) && at-a.newest >= trailEvery {
		pose := rover.PoseFromObs(t.Obs, a.side)
		a.heading, a.newest = pose.Heading, at
		a.trail[a.points%trailLen] = place{t.Index, pose.X/a.side + 0.5, 0.5 - pose.Y/a.side}
		a.points++
	}
	for i := range t.NumLabels {
		a.mark(&t.Labels[i])
	}
}

// mark remembers where the rover was at the moment that a label is about.
func (a *arena) mark(l *controller.AppliedLabel) {
	if l.Outcome != controller.Applied {
		return
	}
	if l.Kind == rewardsrc.Undo {
		a.marks = slices.DeleteFunc(a.marks, func(m mark) bool { return m.label == l.Undoes })
		return
	}
	for i := max(0, a.points-trailLen); i < a.points; i++ {
		p := a.trail[i%trailLen]
		if p.tick < l.About {
			continue
		}
		if len(a.marks) == maxMarks {
			a.marks = slices.Delete(a.marks, 0, 1)
		}
		a.marks = append(a.marks, mark{l.ID, p.x, p.y, l.Value})
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
		c.set(x+scale(m.x, w), y+scale(m.y, h), valueInk(m.value), c.glyphs.dots[sign(m.value)+1])
	}
	if a.points == 0 {
		return
	}
	p := a.trail[(a.points-1)%trailLen]
	octant := (int(math.Round(a.heading/(math.Pi/4))) + 8) % 8
	c.set(x+scale(p.x, w), y+scale(p.y, h), inkRover, c.glyphs.arrows[max(octant, 0)])
}

// scale maps [0, 1] to n cells; what is beyond sticks to the edge.
func scale(v float64, n int) int {
	if !(v > 0) {
		return 0
	}
	return int(min(v*float64(n), float64(n-1)))
}

func valueInk(v float64) ink { return [...]ink{inkBad, inkDim, inkGood}[sign(v)+1] }

// sign of a label: what is nearly nothing is neither good nor bad.
func sign(v float64) int {
	switch {
	case v > 0.1:
		return 1
	case v < -0.1:
		return -1
	}
	return 0
}

// drawTask shades each place by the most that the task pays there.
func (a *arena) drawTask(c *canvas, x, y, w, h int) {
	if a.task == "" {
		return
	}
	if w != a.shadeW || h != a.shadeH {
		a.shadeW, a.shadeH, a.shades = w, h, shadesOf(a.task, w, h)
	}
	for i, level := range a.shades {
		if level == 0 {
			continue
		}
		c.shade(x+i%w, y+i/w, level)
	}
}

// shadesOf returns the shades of a task's rewards, nil where they do not
// depend on the place.
func shadesOf(task string, w, h int) []uint8 {
	best := make([]float64, w*h)
	low, high := math.Inf(1), math.Inf(-1)
	for i := range best {
		east := 2*(float64(i%w)+0.5)/float64(w) - 1
		north := 1 - 2*(float64(i/w)+0.5)/float64(h)
		best[i] = bestReward(task, east, north)
		low, high = min(low, best[i]), max(high, best[i])
	}
	if !(high-low > 0.2) {
		return nil
	}
	shades := make([]uint8, w*h)
	for i, r := range best {
		shades[i] = uint8(math.Round((r - low) / (high - low) * numShades))
	}
	return shades
}

// bestReward is the most that a task pays at a place, over headings and speeds.
func bestReward(task string, x, y float64) float64 {
	best := math.Inf(-1)
	for heading := 0.0; heading < 2*math.Pi; heading += math.Pi / 4 {
		for _, speed := range []float32{0, 1} {
			obs := []float32{float32(x), float32(y), float32(math.Cos(heading)), float32(math.Sin(heading)), speed, 0}
			r, err := rover.Reward(task, obs)
			if err != nil {
				return 0
			}
			best = max(best, r)
		}
	}
	return best
}

// drawTrail draws where the rover was, the older the fainter.
func (a *arena) drawTrail(c *canvas, x, y, w, h int) {
	first := max(a.broken, a.points-trailLen, 0)
	inks := [...]ink{inkTrail3, inkTrail2, inkTrail1, inkTrail0}
	for i := first; i < a.points; i++ {
		from, to := a.trail[max(i-1, first)%trailLen], a.trail[i%trailLen]
		// The age is in points that the ring holds, so that a short
		// trail is a bright one.
		k := inks[(trailLen-(a.points-i))*len(inks)/trailLen]
		c.line(x, y, w, h, from, to, k)
	}
}

// line draws a straight line in dots.
func (c *canvas) line(x, y, w, h int, from, to place, k ink) {
	dotsX, dotsY := w*2, h*4
	if !c.glyphs.braille {
		dotsX, dotsY = w, h
	}
	x0, y0 := scale(from.x, dotsX), scale(from.y, dotsY)
	x1, y1 := scale(to.x, dotsX), scale(to.y, dotsY)
	steps := max(x1-x0, x0-x1, y1-y0, y0-y1, 1)
	for i := 0; i <= steps; i++ {
		c.dot(x, y, x0+(x1-x0)*i/steps, y0+(y1-y0)*i/steps, k)
	}
}

// brailleDots are the bits of a braille cell, by row and column.
var brailleDots = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// dot sets a dot of a field whose first cell is (x, y).
func (c *canvas) dot(x, y, dotX, dotY int, k ink) {
	if !c.glyphs.braille {
		c.set(x+dotX, y+dotY, k, '.')
		return
	}
	const blank = 0x2800
	p := c.at(x+dotX/2, y+dotY/4)
	if p == nil {
		return
	}
	if p.glyph < blank || p.glyph > blank+0xff {
		p.glyph = blank
	}
	p.glyph |= brailleDots[dotY%4][dotX%2]
	p.ink = k
}

// box draws a frame.
func (c *canvas) box(x, y, w, h int) {
	g := c.glyphs
	for i := 1; i < h-1; i++ {
		c.set(x, y+i, inkDim, g.down)
		c.set(x+w-1, y+i, inkDim, g.down)
	}
	for _, edge := range []struct {
		y           int
		left, right rune
	}{{y, g.topLeft, g.topRight}, {y + h - 1, g.bottomLeft, g.bottomRight}} {
		c.set(x, edge.y, inkDim, edge.left)
		c.repeat(x+1, edge.y, w-2, inkDim, g.across)
		c.set(x+w-1, edge.y, inkDim, edge.right)
	}
}

// channels are the observation of a robot of which nothing else is known.
type channels struct {
	spec  []hal.Channel
	reach []float64 // the largest absolute values so far
}

func newChannels(spec []hal.Channel) *channels {
	return &channels{spec: spec, reach: make([]float64, len(spec))}
}

// Add takes the observation of a tick.
func (a *channels) Add(t *controller.Tick) {
	if t.Flags.Has(controller.FlagBadObs) {
		return
	}
	for i, v := range t.Obs {
		a.reach[i] = max(a.reach[i], math.Abs(float64(v)))
	}
}

// draw draws a bar a channel in a box of w columns and h rows, in two columns
// where there are many.
func (a *channels) draw(c *canvas, x, y, w, h int, obs []float32) {
	c.box(x, y, w, h)
	c.Text(x+2, y, inkDim, " observation ")
	x, y, w, h = x+2, y+1, w-4, h-2
	columns := 1
	if len(a.spec) > h {
		columns = 2
	}
	width, shown := (w-columns+1)/columns, min(len(a.spec), columns*h)
	if shown < len(a.spec) {
		shown--
		c.Text(x+(columns-1)*(width+1), y+h-1, inkDim, fmt.Sprintf("and %d more", len(a.spec)-shown))
	}
	for i := range shown {
		a.channel(c, x+i/h*(width+1), y+i%h, width, i, float64(obs[i]))
	}
}

// channel draws one channel in w columns: its name, a bar, and in a wide column
// its value.
func (a *channels) channel(c *canvas, x, y, w, i int, v float64) {
	const nameWidth, valueWidth = 10, 8
	end := x + w
	if w > 2*nameWidth+valueWidth {
		c.right(end, y, inkPlain, fmt.Sprintf("%+.2f", v))
		end -= valueWidth
	}
	name := min(nameWidth, 3*w/5)
	c.Text(x, y, inkDim, c.middle(name, a.spec[i].Name))
	x += name + 1
	limit := max(math.Abs(a.spec[i].Min), math.Abs(a.spec[i].Max))
	if limit == 0 {
		limit = a.reach[i]
	}
	if limit > 0 {
		v /= limit
	}
	c.balance(x, y, end-x, v, inkMinus, inkAccent)
}
