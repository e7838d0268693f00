package report

import (
	"bytes"
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A figure as a file has two panels a row and is 600 points wide, so that it
// can be read where it is shown 600 pixels wide.
const (
	panelWidth   = vg.Length(300)
	panelHeight  = vg.Length(215)
	titleHeight  = vg.Length(24)
	legendHeight = vg.Length(16)
	legendThumb  = vg.Length(24) // of the line beside a label
	legendGap    = vg.Length(14)
	perRow       = 2
	dotsPerInch  = 144
)

// canvas is what both formats are drawn on.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// encoded are a figure's files, by the ending of their names.
func (f *Figure) encoded() (map[string][]byte, error) {
	rows := (len(f.Panels) + perRow - 1) / perRow
	entries := f.legend()
	width := panelWidth * vg.Length(min(perRow, len(f.Panels)))
	lines := legendLines(entries, width)
	height := titleHeight + legendHeight*vg.Length(len(lines)) + panelHeight*vg.Length(rows)
	svg := vgsvg.NewWith(vgsvg.UseWH(width, height))
	img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch), vgimg.UseBackgroundColor(paper))
	files := make(map[string][]byte)
	for ending, c := range map[string]canvas{"svg": svg, "png": vgimg.PngCanvas{Canvas: img}} {
		if err := f.drawOn(draw.NewCanvas(c, width, height), lines, rows); err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if _, err := c.WriteTo(&out); err != nil {
			return nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		files[ending] = out.Bytes()
	}
	return files, nil
}

// drawOn draws the title, the legend and the panels.
func (f *Figure) drawOn(c draw.Canvas, legend [][]entry, rows int) error {
	c.SetColor(paper)
	c.Fill(c.Rectangle.Path())
	title := textStyle(13)
	title.XAlign, title.YAlign = draw.XCenter, draw.YTop
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y - 5}, f.Title)
	top := titleHeight
	for _, line := range legend {
		drawLegend(c, line, c.Max.Y-top-legendHeight/2)
		top += legendHeight
	}
	columns := min(perRow, len(f.Panels))
	plots := make([][]*plot.Plot, rows)
	looks := looks(f)
	for row := range plots {
		plots[row] = make([]*plot.Plot, columns)
		for column := range plots[row] {
			i := row*columns + column
			if i >= len(f.Panels) {
				continue
			}
			p, err := newPlot(&f.Panels[i], looks)
			if err != nil {
				return fmt.Errorf("figure %s: %w", f.Name, err)
			}
			plots[row][column] = p
		}
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 6, PadY: 6, PadLeft: 4, PadRight: 8, PadBottom: 4, PadTop: 4}
	for row, canvases := range plot.Align(plots, tiles, draw.Crop(c, 0, 0, 0, -top)) {
		for column, at := range canvases {
			if plots[row][column] != nil {
				plots[row][column].Draw(at)
			}
		}
	}
	return nil
}

// entry is a line of the legend.
type entry struct {
	label string
	look  look
}

// legend names every line, then what is dashed.
func (f *Figure) legend() []entry {
	looks := looks(f)
	var entries []entry
	seen := make(map[string]bool)
	add := func(label string, l look) {
		if !seen[label] {
			seen[label] = true
			entries = append(entries, entry{label, l})
		}
	}
	for i := range f.Panels {
		for _, s := range f.Panels[i].Series {
			add(s.Label, looks[s.Label])
		}
	}
	dashed := look{ink: inkDim, dashes: []vg.Length{3, 3}}
	for i := range f.Panels {
		if f.Panels[i].Relative {
			add("oracle's return", dashed)
		}
		if len(f.Panels[i].Guide) > 0 {
			add(f.Panels[i].GuideLabel, dashed)
		}
	}
	return entries
}

func textStyle(size vg.Length) text.Style {
	return text.Style{Color: inkText.light, Font: sans(size), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
}

func (e *entry) width() vg.Length {
	style := textStyle(textSize)
	return legendThumb + 4 + style.Width(e.label) + legendGap
}

// legendLines breaks a legend into lines of a width.
func legendLines(entries []entry, width vg.Length) [][]entry {
	var lines [][]entry
	used := width
	for _, e := range entries {
		if w := e.width(); used+w > width-2*legendGap {
			lines, used = append(lines, nil), 0
		}
		used += e.width()
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
	}
	return lines
}

func drawLegend(c draw.Canvas, line []entry, y vg.Length) {
	total := vg.Length(0)
	for i := range line {
		total += line[i].width()
	}
	x := c.Center().X - total/2
	for i := range line {
		e := &line[i]
		drawMark(c, &e.look, x, y)
		c.FillText(textStyle(textSize), vg.Point{X: x + legendThumb + 4, Y: y}, e.label)
		x += e.width()
	}
}

// drawMark draws a sample of a line.
func drawMark(c draw.Canvas, l *look, x, y vg.Length) {
	c.StrokeLine2(l.line(), x, y, x+legendThumb, y)
	if l.shape != nil {
		c.DrawGlyph(l.glyph(), vg.Point{X: x + legendThumb/2, Y: y})
	}
}
