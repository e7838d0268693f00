package terminal

import (
	"cmp"
	"strings"

	"github.com/gdamore/tcell/v2"
)

// ink is the meaning of a cell's colour. A terminal has a style for each.
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
	inkBelow // part of a bar below κ
	inkAbove
	inkMinus // a negative value
	inkUndone
	numInks
)

// The backgrounds of the arena, from dark to light, and that of the header.
const (
	numShades   = 6
	shadeHeader = numShades + 1
)

// inkStyles are the styles in 256 colours, in 16 colours and without colour.
var inkStyles = [numInks]struct {
	rich, basic tcell.Style
	mono        tcell.AttrMask
}{
	inkPlain:     {colour(252), ownColour, tcell.AttrNone},
	inkDim:       {colour(244), colour(8), tcell.AttrDim},
	inkBold:      {colour(231).Bold(true), ownColour.Bold(true), tcell.AttrBold},
	inkAccent:    {colour(80), colour(6), tcell.AttrBold},
	inkGood:      {colour(114), colour(2), tcell.AttrNone},
	inkBad:       {colour(203).Bold(true), colour(1), tcell.AttrBold},
	inkAsk:       {colour(221), colour(3), tcell.AttrBold},
	inkAskBanner: {banner(16, 221).Bold(true), banner(0, 3), tcell.AttrBold | tcell.AttrReverse},
	inkBadBanner: {banner(231, 160).Bold(true), banner(7, 1).Bold(true), tcell.AttrBold | tcell.AttrReverse},
	inkTrail0:    {colour(87), colour(14), tcell.AttrNone},
	inkTrail1:    {colour(44), colour(6), tcell.AttrNone},
	inkTrail2:    {colour(37), colour(4), tcell.AttrDim},
	inkTrail3:    {colour(30), colour(8), tcell.AttrDim},
	inkRover:     {colour(231).Bold(true), colour(15).Bold(true), tcell.AttrBold | tcell.AttrReverse},
	inkBelow:     {colour(24), colour(4), tcell.AttrDim},
	inkAbove:     {colour(31), colour(6), tcell.AttrNone},
	inkMinus:     {colour(140), colour(5), tcell.AttrDim},
	inkUndone: {
		colour(244).StrikeThrough(true), colour(8).StrikeThrough(true), tcell.AttrDim | tcell.AttrStrikeThrough,
	},
}

// ownColour is the terminal's own colour. The background of the cell stays.
var ownColour = tcell.StyleDefault.Background(tcell.ColorNone)

func colour(fg int) tcell.Style { return ownColour.Foreground(tcell.PaletteColor(fg)) }

func banner(fg, bg int) tcell.Style { return colour(fg).Background(tcell.PaletteColor(bg)) }

// palette holds the styles of a terminal.
type palette struct {
	inks   [numInks]tcell.Style
	shaded bool // the terminal has enough colours for shades of the background
}

// newPalette returns the styles for a number of colours, 0 for none.
func newPalette(colours int) *palette {
	p := &palette{shaded: colours >= 256}
	for i, style := range inkStyles {
		switch {
		case colours == 0:
			p.inks[i] = ownColour.Attributes(style.mono)
		case colours < 256:
			p.inks[i] = style.basic
		default:
			p.inks[i] = style.rich
		}
	}
	return p
}

// shade is a background of the arena or of the header.
func shade(level uint8) tcell.Style {
	c := tcell.NewRGBColor(34, 44, 58)
	if n := int32(level); level != shadeHeader {
		c = tcell.NewRGBColor(16+9*n, 18+7*n, 24+2*n)
	}
	return tcell.StyleDefault.Background(c)
}

// glyphs are the characters of lines, bars and arrows.
type glyphs struct {
	topLeft, topRight, bottomLeft, bottomRight, horizontal, vertical rune

	rule, fill, fillHalf, zero rune
	marks                      [3]rune // a label: bad, neutral, good
	arrows                     [8]rune // east first, counter-clockwise
	blocks                     [9]rune // empty to full
	kappa                      rune    // a level near the foot of a cell
	braille                    bool    // eight dots a cell
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

// chooseGlyphs follows the locale. The kernel's own console lacks most glyphs.
func chooseGlyphs(env func(string) string) *glyphs {
	locale := env("LC_ALL")
	for _, key := range []string{"LC_CTYPE", "LANG"} {
		locale = cmp.Or(locale, env(key))
	}
	locale = strings.ToLower(locale)
	if env("TERM") != "linux" && (strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")) {
		return &unicodeGlyphs
	}
	return &asciiGlyphs
}

const trueColour = 1 << 24

// countColours follows TERM, COLORTERM and https://no-color.org.
func countColours(env func(string) string) int {
	switch {
	case env("NO_COLOR") != "":
		return 0
	case env("COLORTERM") == "truecolor", env("COLORTERM") == "24bit":
		return trueColour
	case strings.Contains(env("TERM"), "256color"), env("COLORTERM") != "":
		return 256
	}
	return 16
}
