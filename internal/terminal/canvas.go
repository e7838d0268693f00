package terminal

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"optibfm/internal/plaintext"
)

// canvas draws one frame. Drawing outside it has no effect.
type canvas struct {
	cells   tcell.CellBuffer
	glyphs  *glyphs
	palette *palette
	w, h    int
}

// clear gives the canvas a size and clears it.
func (c *canvas) clear(w, h int) {
	c.w, c.h = w, h
	c.cells.Resize(w, h)
	c.cells.Fill(' ', tcell.StyleDefault)
}

// copyTo copies the frame to a screen, which finds the differences from the last one.
func (c *canvas) copyTo(screen tcell.Screen) {
	for y := range c.h {
		for x := range c.w {
			glyph, style, _ := c.cells.Get(x, y)
			screen.Put(x, y, glyph, style)
		}
	}
}

// set draws a glyph. The background stays, except under a banner.
func (c *canvas) set(x, y int, k ink, glyph rune) {
	c.cells.Put(x, y, string(glyph), c.palette.inks[k])
}

// shade clears a cell and sets its background.
func (c *canvas) shade(x, y int, level uint8) {
	if c.palette.shaded {
		c.cells.Put(x, y, " ", shade(level))
	}
}

// repeat draws a row of n glyphs and returns the column after it.
func (c *canvas) repeat(x, y, n int, k ink, glyph rune) int {
	for range n {
		c.set(x, y, k, glyph)
		x++
	}
	return x
}

// text writes a text of any origin and returns the column after it.
func (c *canvas) text(x, y int, k ink, s string) int { return c.clip(x, y, c.w-x, k, s) }

// clip writes at most n columns of s. The last is an ellipsis if s is longer.
func (c *canvas) clip(x, y, n int, k ink, s string) int {
	runes := []rune(c.clean(s))
	if n = max(n, 0); len(runes) > n {
		runes = runes[:n]
		copy(runes[max(n-1, 0):], []rune(c.clean("…")))
	}
	for _, r := range runes {
		c.set(x, y, k, r)
		x++
	}
	return x
}

// shorten removes the middle of s so that n columns remain: names often differ at their ends.
func (c *canvas) shorten(n int, s string) string {
	runes := []rune(c.clean(s))
	if len(runes) <= n {
		return string(runes)
	}
	tail := n / 2
	return string(runes[:n-tail-1]) + c.clean("…") + string(runes[len(runes)-tail:])
}

// right writes s so that it ends before column end.
func (c *canvas) right(end, y int, k ink, s string) {
	c.text(end-utf8.RuneCountInString(c.clean(s)), y, k, s)
}

// clean removes escape sequences, makes every rune one column wide, and limits s to ASCII where the
// glyphs are ASCII.
func (c *canvas) clean(s string) string {
	s = plaintext.Clean(s)
	if c.glyphs.replace == nil {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, c.glyphs.replace(s))
}

// bar draws a vertical bar of level rows. The lowest rows have their own colour, and so has the tip
// where a label was requested.
func (c *canvas) bar(x, y, rows int, level float64, lowest int, asked bool) {
	if math.IsNaN(level) {
		return
	}
	eighths := int(math.Round(min(max(level, 0), float64(rows)) * 8))
	for i := range rows {
		part := min(max(eighths-8*i, 0), 8)
		if part == 0 {
			return
		}
		k := inkBelow
		switch tip := eighths <= 8*(i+1); {
		case asked && tip:
			k = inkAsk
		case i >= lowest:
			k = inkAbove
		}
		c.set(x, y+rows-1-i, k, c.glyphs.blocks[part])
	}
}

// progress draws a horizontal bar of w columns, filled to part, in [0, 1].
func (c *canvas) progress(x, y, w int, part float64) {
	c.repeat(x, y, w, inkDim, c.glyphs.rule)
	halves := int(math.Round(min(max(part, 0), 1) * float64(2*w)))
	end := c.repeat(x, y, halves/2, inkAccent, c.glyphs.fill)
	if halves%2 == 1 {
		c.set(end, y, inkAccent, c.glyphs.fillHalf)
	}
}

// balance draws a bar of w columns from the middle to v, in [-1, 1].
func (c *canvas) balance(x, y, w int, v float64, minus, plus ink) {
	c.repeat(x, y, w, inkDim, c.glyphs.rule)
	middle := w / 2
	if !math.IsNaN(v) {
		n := int(math.Round(min(max(v, -1), 1) * float64(middle)))
		c.repeat(x+middle+n, y, max(-n, 0), minus, c.glyphs.fill)
		c.repeat(x+middle+1, y, min(max(n, 0), w-middle-1), plus, c.glyphs.fill)
	}
	c.set(x+middle, y, inkDim, c.glyphs.zero)
}

type float interface{ ~float32 | ~float64 }

// barcode draws one bar for each value and returns the column after it. The height is the size
// relative to limit, the colour is the sign. An ellipsis marks values beyond w columns.
func barcode[T float](c *canvas, x, y, w int, values []T, limit float64) int {
	for i, value := range values {
		if i == w-1 && len(values) > w {
			return c.text(x, y, inkDim, "…")
		}
		v := float64(value)
		k, part := inkAccent, 0
		if v < 0 {
			k = inkMinus
		}
		if limit > 0 && !math.IsNaN(v) {
			part = int(math.Round(min(math.Abs(v)/limit, 1) * 8))
		}
		if part == 0 {
			k, part = inkDim, 1
		}
		c.set(x, y, k, c.glyphs.blocks[part])
		x++
	}
	return x
}

// largest returns the largest finite absolute value.
func largest[T float](values []T) float64 {
	top := 0.0
	for _, v := range values {
		if a := math.Abs(float64(v)); a > top && !math.IsInf(a, 0) {
			top = a
		}
	}
	return top
}

// box draws a frame.
func (c *canvas) box(x, y, w, h int) {
	g := c.glyphs
	for i := 1; i < h-1; i++ {
		c.set(x, y+i, inkDim, g.vertical)
		c.set(x+w-1, y+i, inkDim, g.vertical)
	}
	for _, edge := range []struct {
		y           int
		left, right rune
	}{{y, g.topLeft, g.topRight}, {y + h - 1, g.bottomLeft, g.bottomRight}} {
		c.set(x, edge.y, inkDim, edge.left)
		c.repeat(x+1, edge.y, w-2, inkDim, g.horizontal)
		c.set(x+w-1, edge.y, inkDim, edge.right)
	}
}

// point is a position in a field, in [0, 1] from the west and from the north.
type point struct{ x, y float64 }

// line draws a straight line of dots in the field of w x h cells whose first cell is (x, y).
func (c *canvas) line(x, y, w, h int, from, to point, k ink) {
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

// dot sets a dot of the field whose first cell is (x, y).
func (c *canvas) dot(x, y, dotX, dotY int, k ink) {
	if !c.glyphs.braille {
		c.set(x+dotX, y+dotY, k, '.')
		return
	}
	const blank = 0x2800
	x, y = x+dotX/2, y+dotY/4
	cell, _, _ := c.cells.Get(x, y)
	glyph, _ := utf8.DecodeRuneInString(cell)
	if glyph < blank || glyph > blank+0xff {
		glyph = blank
	}
	c.set(x, y, k, glyph|brailleDots[dotY%4][dotX%2])
}

// scale maps [0, 1] to n cells. Values outside map to the nearest cell.
func scale(v float64, n int) int {
	if !(v > 0) {
		return 0
	}
	return int(min(v*float64(n), float64(n-1)))
}
