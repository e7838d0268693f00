package theory

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the figure.
const (
	figureWidth  = 26 * vg.Centimeter
	figureHeight = 30 * vg.Centimeter
	figureDPI    = 110
)

// WriteSVG draws the report as six panels.
func (r Report) WriteSVG(w io.Writer) error {
	canvas := vgsvg.New(figureWidth, figureHeight)
	if err := r.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

// WritePNG draws the same.
func (r Report) WritePNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(figureDPI))
	if err := r.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func (r Report) draw(canvas draw.Canvas) error {
	const gap = vg.Centimeter / 2
	tiles := draw.Tiles{Rows: 3, Cols: 2, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap}
	for i, create := range []func() (*panel, error){
		r.widthPanel, r.misspecifiedPanel,
		func() (*panel, error) { return r.regretPanel(FamilyFork) },
		func() (*panel, error) { return r.regretPanel(FamilyRandom) },
		r.worstPanel, r.boundPanel,
	} {
		p, err := create()
		if err != nil {
			return fmt.Errorf("theory: figure: %w", err)
		}
		p.Draw(tiles.At(canvas, i%tiles.Cols, i/tiles.Cols))
	}
	return nil
}

// The colours, told apart also by those who see fewer (Okabe and Ito, 2008).
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x55, 0x55, 0x55, 0xff},
}

// panel is a plot that gives each line the next colour.
type panel struct {
	*plot.Plot
	lines int
	floor float64 // what is less is drawn here: a logarithmic axis has no 0
}

func newPanel(title, x, y string) *panel {
	p := &panel{Plot: plot.New(), floor: math.Inf(-1)}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 2 * vg.Millimeter
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant, style.Font.Size = "Sans", 10
	}
	p.Title.TextStyle.Font.Size = 12
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = vg.Millimeter/2, vg.Millimeter, -vg.Millimeter
	p.Legend.TextStyle.Font.Size = 9
	p.Add(plotter.NewGrid())
	return p
}

func (p *panel) logarithmic(x, y bool) {
	if x {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if y {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
}

// every gives a tick each step from 0 to most.
func every(step, most float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for x := 0.0; x <= most; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return ticks
}

// decades are the ticks of a logarithmic axis, none of them outside of it.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	labels := []string{"1", "10", "100", "1000", "10⁴", "10⁵", "10⁶"}
	var ticks []plot.Tick
	for exponent := int(math.Floor(math.Log10(low))); math.Pow10(exponent) <= high; exponent++ {
		for digit := 1; digit <= 9; digit++ {
			tick := plot.Tick{Value: float64(digit) * math.Pow10(exponent)}
			if tick.Value < low || tick.Value > high {
				continue
			}
			if digit == 1 && exponent >= 0 && exponent < len(labels) {
				tick.Label = labels[exponent]
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func (p *panel) line(name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line.Color, line.Width = colours[p.lines%len(colours)], vg.Points(1.6)
	p.lines++
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// guide is a thin dashed line for comparison.
func (p *panel) guide(name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line.Color, line.Dashes = color.Black, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	if name != "" {
		p.Legend.Add(name, line)
	}
	return nil
}

// curve draws a mean and the band around it.
func (p *panel) curve(c Curve) error {
	colour := colours[p.lines%len(colours)]
	colour.R, colour.G, colour.B, colour.A = colour.R/6, colour.G/6, colour.B/6, 0xff/6 // premultiplied
	var mean, outline plotter.XYs
	for i, y := range c.Y {
		mean = append(mean, plotter.XY{X: c.X[i], Y: max(y.Value, p.floor)})
		outline = append(outline, plotter.XY{X: c.X[i], Y: max(y.Low, p.floor)})
	}
	for i, y := range slices.Backward(c.Y) {
		outline = append(outline, plotter.XY{X: c.X[i], Y: max(y.High, p.floor)})
	}
	area, err := plotter.NewPolygon(outline)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	area.Color, area.LineStyle.Width = colour, 0
	p.Add(area)
	return p.line(c.Name, mean)
}

// curves draws those of a group whose name is wanted.
func (r Report) curves(p *panel, group string, wanted func(name string) bool) error {
	for _, c := range r.Curves {
		if c.Group != group || !wanted(c.Name) {
			continue
		}
		if err := p.curve(c); err != nil {
			return err
		}
	}
	return nil
}

// widthPanel shows how much of the width the runs have had need of.
func (r Report) widthPanel() (*panel, error) {
	p := newPanel("Confidence sets: how far away z* was", "greatest ‖z* - ẑ‖/β of a run (norm in V)", "share of runs up to here")
	for _, c := range r.Curves {
		if c.Group != "width" || !strings.HasSuffix(c.Name, fmt.Sprintf("δ = %g", delta)) {
			continue
		}
		if err := p.line(c.Name, means(c, 0)); err != nil {
			return nil, err
		}
	}
	// Shares end at 1; the legend is above.
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1.5
	p.Y.Tick.Marker = every(0.5, 1)
	p.X.Tick.Marker = every(0.5, p.X.Max)
	return p, p.guide("the edge of the set", plotter.XYs{{X: 1, Y: 0}, {X: 1, Y: 1}})
}

func (r Report) misspecifiedPanel() (*panel, error) {
	p := newPanel(fmt.Sprintf("Rewards off by ±%g", zeta), "labels", "share of runs with z* in every set so far")
	p.logarithmic(true, false)
	p.Legend.Top = false
	p.Y.Min = 0
	if err := r.curves(p, "misspecified", func(string) bool { return true }); err != nil {
		return nil, err
	}
	return p, p.guide("1 - δ", plotter.XYs{{X: p.X.Min, Y: 1 - delta}, {X: p.X.Max, Y: 1 - delta}})
}

// regretLabel is short: a long label at a logarithmic axis shrinks the plot.
const regretLabel = "regret"

// leastRegret is where logarithmic axes of regret begin.
const leastRegret = 0.3

// isBound tells the curves of bounds from those of regret.
func isBound(name string) bool { return strings.Contains(name, ": ") }

func (r Report) regretPanel(family Family) (*panel, error) {
	p := newPanel(fmt.Sprintf("Mean regret, %s", family), "episodes", regretLabel)
	p.logarithmic(true, true)
	for _, c := range r.Curves {
		if c.Group != string(family) || isBound(c.Name) {
			continue
		}
		if err := p.line(c.Name, means(c, leastRegret)); err != nil {
			return nil, err
		}
	}
	if err := p.guide("√n", root(p.X.Max, 2)); err != nil {
		return nil, err
	}
	p.Y.Max = 1e6 // the legend is above the curves
	return p, nil
}

// means are the points of a curve without its band, none lower than floor.
func means(c Curve, floor float64) plotter.XYs {
	var points plotter.XYs
	for i, y := range c.Y {
		points = append(points, plotter.XY{X: c.X[i], Y: max(y.Value, floor)})
	}
	return points
}

// root is the line of scale·√n.
func root(most, scale float64) plotter.XYs {
	return plotter.XYs{{X: 1, Y: scale}, {X: most, Y: scale * math.Sqrt(most)}}
}

func (r Report) worstPanel() (*panel, error) {
	p := newPanel("Mean regret on the worst task for each n, fork", "episodes", regretLabel)
	p.logarithmic(true, true)
	if err := r.curves(p, "worst task", func(string) bool { return true }); err != nil {
		return nil, err
	}
	err := p.guide("√n", root(p.X.Max, 2))
	p.Y.Min, p.Y.Max = 1, 300
	return p, err
}

func (r Report) boundPanel() (*panel, error) {
	p := newPanel("Regret and its bounds (mean, 90 % of runs), fork, ucb-EP", "episodes", regretLabel)
	p.logarithmic(true, true)
	p.floor = leastRegret
	err := r.curves(p, string(FamilyFork), func(name string) bool {
		return name == "ucb-EP" || strings.HasPrefix(name, "ucb-EP: ")
	})
	p.Y.Max = 1e6
	return p, err
}
