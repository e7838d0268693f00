package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"optibfm/internal/plaintext"
)

// ink is how a cell is written; a palette says with which colour.
type ink uint8

const (
	inkPlain ink = iota
	inkDim
	inkBold
	inkAccent
	inkGood
	inkBad
	inkAsk
	inkAskBanner
	inkBadBanner
	inkTrail0 // the newest part of the trail
	inkTrail1
	inkTrail2
	inkTrail3
	inkRover
	inkBelow // of a bar: below the level at which the robot asks
	inkAbove
	inkMinus // a negative value, which is nothing bad
	numInks
)

// A cell's ground: 0 is the terminal's own, then shades from dark to light.
const (
	numShades  = 6
	groundHead = numShades + 1
	numGrounds = groundHead + 1
)

// palette holds the parameters of the SGR sequences, without the reset.
type palette struct {
	inks    [numInks]string
	grounds [numGrounds]string
}

// The palettes. Without colour, weight and reverse video remain.
var (
	monochrome = palette{
		inks: [numInks]string{
			inkDim: "2", inkBold: "1", inkAccent: "1", inkBad: "1", inkAsk: "1",
			inkAskBanner: "1;7", inkBadBanner: "1;7",
			inkTrail2: "2", inkTrail3: "2", inkRover: "1;7", inkBelow: "2", inkMinus: "2",
		},
	}
	colours16 = palette{
		inks: [numInks]string{
			inkDim: "90", inkBold: "1", inkAccent: "36", inkGood: "32", inkBad: "31", inkAsk: "33",
			inkAskBanner: "30;43", inkBadBanner: "1;37;41",
			inkTrail0: "96", inkTrail1: "36", inkTrail2: "34", inkTrail3: "90", inkRover: "1;97",
			inkBelow: "34", inkAbove: "36", inkMinus: "35",
		},
	}
	colours256 = palette{
		inks: [numInks]string{
			inkPlain: "38;5;252", inkDim: "38;5;244", inkBold: "1;38;5;231", inkAccent: "38;5;80", inkGood: "38;5;114", inkBad: "1;38;5;203", inkAsk: "38;5;221",
			inkAskBanner: "1;38;5;16;48;5;221", inkBadBanner: "1;38;5;231;48;5;160",
			inkTrail0: "38;5;87", inkTrail1: "38;5;44", inkTrail2: "38;5;37", inkTrail3: "38;5;30", inkRover: "1;38;5;231",
			inkBelow: "38;5;24", inkAbove: "38;5;31", inkMinus: "38;5;140",
		},
		grounds: [numGrounds]string{
			"", "48;5;233", "48;5;234", "48;5;235", "48;5;236", "48;5;237", "48;5;238", groundHead: "48;5;236",
		},
	}
)

// trueColours has finer grounds.
var trueColours = func() palette {
	p := colours256
	for i := range numShades {
		part := i + 1
		p.grounds[part] = fmt.Sprintf("48;2;%d;%d;%d", 16+9*part, 18+7*part, 24+2*part)
	}
	p.grounds[groundHead] = "48;2;34;44;58"
	return p
}()

// glyphs are what is drawn with.
type glyphs struct {
	topLeft, topRight, bottomLeft, bottomRight, across, down rune

	rule, fill, fillHalf, zero rune
	dots                       [3]rune // a place where a label was given: bad, neither, good
	arrows                     [8]rune // east first, counter-clockwise
	blocks                     [9]rune // empty to full
	kappa                      rune    // a level near the foot of a cell
	braille                    bool    // dots finer than cells
	replace                    func(string) string
}

var (
	unicodeGlyphs = glyphs{
		'╭', '╮', '╰', '╯', '─', '│',
		'─', '━', '╸', '┼', [3]rune{'•', '•', '•'},
		[8]rune{'→', '↗', '↑', '↖', '←', '↙', '↓', '↘'},
		[9]rune{' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'},
		'▁', true, nil,
	}
	asciiGlyphs = glyphs{
		'+', '+', '+', '+', '-', '|',
		'-', '=', '=', '+', [3]rune{'-', 'o', '+'},
		[8]rune{'>', '/', '^', '\\', '<', '/', 'v', '\\'},
		[9]rune{' ', '.', '.', ':', ':', '|', '|', '#', '#'},
		'_', false,
		strings.NewReplacer("κ", "kappa", "β", "beta", "σ", "sigma", "µ", "u", "·", "|", "…", "~", "×", "x").Replace,
	}
)

// cell is one character of the screen.
type cell struct {
	glyph  rune
	ink    ink
	ground uint8
}

// canvas is one frame.
type canvas struct {
	w, h   int
	cells  []cell
	bell   bool
	glyphs *glyphs
}

// reset gives the canvas a size and clears it.
func (c *canvas) reset(w, h int) {
	c.w, c.h, c.bell = w, h, false
	if cap(c.cells) < w*h {
		c.cells = make([]cell, w*h)
	}
	c.cells = c.cells[:w*h]
	for i := range c.cells {
		c.cells[i] = cell{glyph: ' '}
	}
}

// at is the cell in column x and row y, or nil outside.
func (c *canvas) at(x, y int) *cell {
	if x < 0 || y < 0 || x >= c.w || y >= c.h {
		return nil
	}
	return &c.cells[y*c.w+x]
}

// set draws a glyph of the program's own; the ground stays.
func (c *canvas) set(x, y int, k ink, glyph rune) {
	if p := c.at(x, y); p != nil {
		p.glyph, p.ink = glyph, k
	}
}

func (c *canvas) shade(x, y int, ground uint8) {
	if p := c.at(x, y); p != nil {
		p.ground = ground
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

// Text writes s, which may come from anywhere, and returns the column after it.
func (c *canvas) Text(x, y int, k ink, s string) int {
	return c.clip(x, y, c.w-x, k, s)
}

// clip writes at most n columns of s, the last an ellipsis where it is longer.
func (c *canvas) clip(x, y, n int, k ink, s string) int {
	s = c.clean(s)
	if room := max(n, 0); utf8.RuneCountInString(s) > room {
		runes := []rune(s)[:room]
		if room > 0 {
			runes[room-1] = []rune(c.clean("…"))[0]
		}
		s = string(runes)
	}
	for _, r := range s {
		c.set(x, y, k, r)
		x++
	}
	return x
}

// middle shortens s to n columns by taking some from its middle, for the ends
// of names tell them apart.
func (c *canvas) middle(n int, s string) string {
	runes := []rune(c.clean(s))
	if len(runes) <= n {
		return string(runes)
	}
	tail := n / 2
	return string(runes[:n-tail-1]) + c.clean("…") + string(runes[len(runes)-tail:])
}

// right writes s so that it ends before column end.
func (c *canvas) right(end, y int, k ink, s string) {
	c.Text(end-utf8.RuneCountInString(c.clean(s)), y, k, s)
}

// clean makes s harmless, every rune one column wide, and fit for the glyphs.
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

// encode appends what turns a terminal that shows old into one that shows c.
// Nil means that nothing is known of what it shows.
func (c *canvas) encode(b []byte, old *canvas, p *palette) []byte {
	const gap = 4 // unchanged cells that are cheaper to write than to skip
	for y := range c.h {
		row := c.cells[y*c.w : (y+1)*c.w]
		for x := 0; x < c.w; {
			if old != nil && row[x] == old.cells[y*c.w+x] {
				x++
				continue
			}
			end, same := x+1, 0
			for i := end; i < c.w && same <= gap; i++ {
				if old != nil && row[i] == old.cells[y*c.w+i] {
					same++
					continue
				}
				end, same = i+1, 0
			}
			b = moveTo(b, x, y)
			b = p.appendCells(b, row[x:end])
			x = end
		}
	}
	if c.bell {
		b = append(b, '\a')
	}
	return b
}

func moveTo(b []byte, x, y int) []byte {
	b = append(b, "\x1b["...)
	b = strconv.AppendInt(b, int64(y+1), 10)
	b = append(b, ';')
	b = strconv.AppendInt(b, int64(x+1), 10)
	return append(b, 'H')
}

func (p *palette) appendCells(b []byte, cells []cell) []byte {
	last := cell{ink: numInks}
	for _, c := range cells {
		if c.ink != last.ink || c.ground != last.ground {
			b = append(b, "\x1b[0"...)
			b = appendParameter(b, p.inks[c.ink])
			if c.ink != inkAskBanner && c.ink != inkBadBanner {
				b = appendParameter(b, p.grounds[c.ground])
			}
			b = append(b, 'm')
			last = c
		}
		b = utf8.AppendRune(b, c.glyph)
	}
	return append(b, "\x1b[0m"...)
}

func appendParameter(b []byte, s string) []byte {
	if s == "" {
		return b
	}
	return append(append(b, ';'), s...)
}

// String is the frame without its colours, a line a row, without blanks at the
// ends.
func (c *canvas) String() string {
	var b strings.Builder
	for y := range c.h {
		var line strings.Builder
		for _, p := range c.cells[y*c.w : (y+1)*c.w] {
			line.WriteRune(p.glyph)
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
