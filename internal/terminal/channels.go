package terminal

import (
	"cmp"
	"fmt"
	"math"

	"optibfm/controller"
	"optibfm/hal"
)

// channels shows the observation of any robot, a bar for each channel.
type channels struct {
	spec  []hal.Channel
	reach []float64 // the largest absolute values so far
}

func newChannels(spec []hal.Channel) *channels {
	return &channels{spec: spec, reach: make([]float64, len(spec))}
}

func (a *channels) add(t *controller.Tick) {
	if t.Flags.Has(controller.FlagBadObs) {
		return
	}
	for i, v := range t.Obs {
		a.reach[i] = max(a.reach[i], math.Abs(float64(v)))
	}
}

// draw draws the channels in a box of w columns and h rows, side by side if there are many.
func (a *channels) draw(c *canvas, x, y, w, h int, obs []float32) {
	c.box(x, y, w, h)
	c.text(x+2, y, inkDim, " observation ")
	x, y, w, h = x+2, y+1, w-4, h-2
	columns := 1
	if len(a.spec) > h {
		columns = 2
	}
	width, shown := (w-columns+1)/columns, min(len(a.spec), columns*h)
	if shown < len(a.spec) {
		shown--
		c.text(x+(columns-1)*(width+1), y+h-1, inkDim, fmt.Sprintf("and %d more", len(a.spec)-shown))
	}
	for i := range shown {
		a.drawChannel(c, x+i/h*(width+1), y+i%h, width, i, float64(obs[i]))
	}
}

// drawChannel draws one channel in w columns: its name, a bar, and its value if there is space.
func (a *channels) drawChannel(c *canvas, x, y, w, i int, v float64) {
	const nameWidth, valueWidth = 10, 8
	end := x + w
	if w > 2*nameWidth+valueWidth {
		c.right(end, y, inkPlain, fmt.Sprintf("%+.2f", v))
		end -= valueWidth
	}
	name := min(nameWidth, 3*w/5)
	c.text(x, y, inkDim, c.shorten(name, a.spec[i].Name))
	x += name + 1
	limit := max(math.Abs(a.spec[i].Min), math.Abs(a.spec[i].Max))
	limit = cmp.Or(limit, a.reach[i])
	if limit > 0 {
		v /= limit
	}
	c.balance(x, y, end-x, v, inkMinus, inkAccent)
}
