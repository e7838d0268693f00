package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes in points.
const (
	textSize  = vg.Length(10)
	titleSize = vg.Length(11)
	lineWidth = vg.Length(1.6)
	fewPoints = 20 // up to which the points of lines are marked
)

// newPlot draws a panel, less its legend.
func newPlot(p *Panel, looks map[string]look) (*plot.Plot, error) {
	out := plot.New()
	out.BackgroundColor = nil
	style(out, p)
	out.Add(grid())
	var lines []plot.Plotter
	marked := !slices.ContainsFunc(p.Series, func(s Series) bool { return len(s.Points) > fewPoints })
	for i := range p.Series {
		look := looks[p.Series[i].Label]
		band, err := newBand(&p.Series[i], look)
		if err != nil {
			return nil, err
		}
		if band != nil {
			out.Add(band)
		}
		line, err := newLine(&p.Series[i], look, marked)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line...)
	}
	out.Add(lines...)
	setRange(out, p)
	guide, err := newGuide(out, p)
	if err != nil {
		return nil, err
	}
	out.Add(guide...)
	return out, nil
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func style(out *plot.Plot, p *Panel) {
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.Title, p.XLabel, p.YLabel
	for _, s := range []*text.Style{&out.Title.TextStyle, &out.X.Label.TextStyle, &out.Y.Label.TextStyle, &out.X.Tick.Label, &out.Y.Tick.Label} {
		s.Font, s.Color = sans(textSize), inkText.light
	}
	out.Title.TextStyle.Font, out.Title.Padding = sans(titleSize), 4
	for _, a := range []*plot.Axis{&out.X, &out.Y} {
		a.LineStyle.Color, a.Tick.LineStyle.Color = inkDim.light, inkDim.light
		a.Tick.Length, a.Padding = 3, 3
		a.Tick.Marker = plot.TickerFunc(niceTicks)
	}
	switch {
	case len(p.Ordinals) > 0:
		out.X.Tick.Marker = ordinalTicks(p.Ordinals)
	case p.LogX:
		out.X.Scale, out.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decadeTicks)
	default:
		out.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	}
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	g.Horizontal.Color = inkLine.light
	g.Horizontal.Width = 0.5
	return g
}

// setRange sets the axes' ranges. Where there is one x only it is widened.
func setRange(out *plot.Plot, p *Panel) {
	out.Y.Min, out.Y.Max = p.Range.Low, p.Range.High
	switch {
	case len(p.Ordinals) > 0:
		out.X.Min, out.X.Max = -0.25, float64(len(p.Ordinals))-0.75
	case out.X.Min < out.X.Max:
	case p.LogX:
		out.X.Min, out.X.Max = out.X.Min/2, out.X.Max*2
	default:
		out.X.Min, out.X.Max = out.X.Min-0.5, out.X.Max+0.5
	}
}

// newGuide is the dashed lines of what is known: the oracle's level and a
// target that changes.
func newGuide(out *plot.Plot, p *Panel) ([]plot.Plotter, error) {
	var curves []curve
	if p.Relative {
		curves = append(curves, curve{{out.X.Min, 1}, {out.X.Max, 1}})
	}
	if len(p.Guide) > 0 {
		curves = append(curves, p.Guide.until(out.X.Max))
	}
	var lines []plot.Plotter
	for _, c := range curves {
		line, err := plotter.NewLine(c)
		if err != nil {
			return nil, fmt.Errorf("guide of %q: %w", p.Title, err)
		}
		line.Color, line.Width, line.Dashes = inkDim.light, 1, []vg.Length{3, 3}
		lines = append(lines, line)
	}
	return lines, nil
}

// until is the curve up to an x, where it ends on its way to the next point.
func (c curve) until(x float64) curve {
	for i := 1; i < len(c); i++ {
		if c[i].x > x {
			share := (x - c[i-1].x) / (c[i].x - c[i-1].x)
			return append(c[:i:i], point{x, c[i-1].y + share*(c[i].y-c[i-1].y)})
		}
	}
	return c
}

// Len and XY make a curve what gonum/plot draws.
func (c curve) Len() int { return len(c) }

// XY returns a point.
func (c curve) XY(i int) (x, y float64) { return c[i].x, c[i].y }

// band is the range that is drawn about a point's mean.
func (e *Estimate) band() Interval {
	if e.BFMs > 1 {
		return e.Models
	}
	return e.Confidence
}

// newBand is the band of a line, nil where there is none. One point alone gets
// a bar.
func newBand(s *Series, l look) (plot.Plotter, error) {
	var low, high plotter.XYs
	for i := range s.Points {
		if band := s.Points[i].band(); band.Known() {
			low = append(low, plotter.XY{X: s.Points[i].X, Y: band.Low})
			high = append(high, plotter.XY{X: s.Points[i].X, Y: band.High})
		}
	}
	switch len(low) {
	case 0:
		return nil, nil
	case 1:
		bar, err := plotter.NewLine(append(low, high...))
		if err != nil {
			return nil, fmt.Errorf("bar of %q: %w", s.Label, err)
		}
		bar.Color, bar.Width = l.ink.light, lineWidth
		return bar, nil
	}
	for i := len(high) - 1; i >= 0; i-- {
		low = append(low, high[i])
	}
	area, err := plotter.NewPolygon(low)
	if err != nil {
		return nil, fmt.Errorf("band of %q: %w", s.Label, err)
	}
	area.Color, area.LineStyle.Width = faint(l.ink.light), 0
	return area, nil
}

func newLine(s *Series, l look, marked bool) ([]plot.Plotter, error) {
	points := make(plotter.XYs, len(s.Points))
	for i := range s.Points {
		points[i] = plotter.XY{X: s.Points[i].X, Y: s.Points[i].Mean}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, fmt.Errorf("line of %q: %w", s.Label, err)
	}
	line.LineStyle = l.line()
	if !marked && len(points) > 1 {
		return []plot.Plotter{line}, nil
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return nil, fmt.Errorf("points of %q: %w", s.Label, err)
	}
	marks.GlyphStyle = l.glyph()
	return []plot.Plotter{line, marks}, nil
}

func (l *look) line() draw.LineStyle {
	return draw.LineStyle{Color: l.ink.light, Width: lineWidth, Dashes: l.dashes}
}

func (l *look) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.ink.light, Radius: 2.6, Shape: l.shape}
}

// wantedTicks is one less than the most labels of an axis.
const wantedTicks = 6

// niceTicks are labels at multiples of 1, 2 or 5 times a power of ten.
func niceTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/wantedTicks)))
	for _, unit := range []float64{1, 2, 5, 10} {
		if (high-low)/(unit*step) <= wantedTicks {
			step *= unit
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i <= high/step+1e-9; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: short(i * step)})
	}
	return ticks
}

// wholeTicks are those at whole numbers, such as episodes.
func wholeTicks(low, high float64) []plot.Tick {
	return slices.DeleteFunc(niceTicks(low, high), func(t plot.Tick) bool { return math.Abs(t.Value-math.Round(t.Value)) > 1e-9 })
}

func short(v float64) string {
	if v == 0 {
		return "0" // also of -0
	}
	if math.Abs(v) >= 10_000 {
		return strconv.FormatFloat(v/1000, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// decadeTicks are labelled at powers of ten, and between them where there is
// room.
func decadeTicks(low, high float64) []plot.Tick {
	all := high/low < 150
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, unit := range []float64{1, 2, 5} {
			v := decade * unit
			if v < low || v > high {
				continue
			}
			tick := plot.Tick{Value: v}
			if all || unit == 1 {
				tick.Label = short(v)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func ordinalTicks(values []string) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(values))
	for i, value := range values {
		ticks[i] = plot.Tick{Value: float64(i), Label: value}
	}
	return ticks
}
