package report

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ink is a colour of the figures: how it is drawn in files and on a light page,
// how on a dark one, and the class by which the page tells them apart.
type ink struct {
	class       string
	light, dark color.NRGBA
}

// rgb is a colour from 0xrrggbb.
func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 255}
}

func css(c color.NRGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

func faint(c color.NRGBA) color.NRGBA {
	c.A = 46
	return c
}

var (
	inkText = ink{"ink", rgb(0x1b1f24), rgb(0xe8ebee)}
	inkLine = ink{"rule", rgb(0xd5dae1), rgb(0x363d46)}
	inkDim  = ink{"dim", rgb(0x59636f), rgb(0x9aa5b2)}
	paper   = rgb(0xffffff)
)

// methodInks are colours that colour-blind people can tell apart, after Okabe
// and Ito (2008), lighter where the page is dark. The first belong to the
// methods in their order.
var methodInks = []ink{
	{"m0", rgb(0x0072b2), rgb(0x4aa8e0)}, // blue
	{"m1", rgb(0xd55e00), rgb(0xff8b3d)}, // vermillion
	{"m2", rgb(0x56b4e9), rgb(0x9ad4f7)}, // sky
	{"m3", rgb(0xe69f00), rgb(0xf7d774)}, // orange
	{"m4", rgb(0x009e73), rgb(0x2fc79a)}, // green
	{"m5", rgb(0x8a6d1f), rgb(0xc8ab5c)}, // ochre
	{"m6", rgb(0xcc79a7), rgb(0xe49ac4)}, // purple
	{"m7", rgb(0x7d7d7d), rgb(0x8c8c8c)}, // grey
	{"m8", rgb(0x2b2b2b), rgb(0xdcdcdc)}, // black
}

// levelInks are for values in order: each is lighter than the one before, so
// that they are told apart without colours too. Where the page is dark the
// order of lightness is turned.
var levelInks = []ink{
	{"l0", rgb(0x3b0f70), rgb(0xfcd27a)},
	{"l1", rgb(0x6b2b91), rgb(0xf9a15f)},
	{"l2", rgb(0xa8327d), rgb(0xf0705d)},
	{"l3", rgb(0xd8456c), rgb(0xd3528a)},
	{"l4", rgb(0xf07f4f), rgb(0xa65cb0)},
	{"l5", rgb(0xe8b13a), rgb(0x7a6bd0)},
}

// inks are all of them.
func inks() []ink {
	all := []ink{inkText, inkLine, inkDim}
	all = append(all, methodInks...)
	return append(all, levelInks...)
}

// look is how a line is drawn.
type look struct {
	ink    ink
	dashes []vg.Length
	shape  draw.GlyphDrawer
}

var (
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	}
	dashes = [][]vg.Length{nil, {5, 2}, {2, 2}, {6, 2, 2, 2}}
)

// looks gives each line of a figure, by label, its look: a method has the same
// colour in every figure; where lines differ by a number, its size decides.
func looks(f *Figure) map[string]look {
	found := make(map[string]look)
	for i := range f.Panels {
		for _, s := range f.Panels[i].Series {
			if _, there := found[s.Label]; !there {
				found[s.Label] = lookOf(&s, len(found))
			}
		}
	}
	return found
}

// lookOf is the look of the n-th line of a figure.
func lookOf(s *Series, n int) look {
	l := look{shape: shapes[n%len(shapes)]}
	switch {
	case s.Kind == "" && s.Levels > 1:
		l.ink = levelInks[scaled(s.Level, s.Levels, len(levelInks))]
		if s.Levels > len(levelInks) {
			l.dashes = dashes[n%len(dashes)]
		}
	case s.Kind == "" || s.Kind == s.Method:
		l.ink, l.dashes = methodInk(s.Method, n), dashes[s.Level%len(dashes)]
	default:
		l.ink = methodInk(s.Kind, n)
	}
	return l
}

// methodInk is a method's colour, or the n-th where the name is no method's.
func methodInk(name string, n int) ink {
	if rank := methodRank(name); rank < len(methodOrder) {
		return methodInks[rank]
	}
	return methodInks[n%len(methodInks)]
}

// scaled spreads the levels over n colours.
func scaled(level, levels, n int) int {
	if levels <= 1 {
		return 0
	}
	return int(math.Round(float64(level) * float64(n-1) / float64(levels-1)))
}

// classOf is the class of a colour as a drawing has it, "" if it is none of
// ours. Where a colour is drawn faintly it may come back one shade darker.
func classOf(drawn string) string {
	var r, g, b int
	if _, err := fmt.Sscanf(drawn, "#%02X%02X%02X", &r, &g, &b); err != nil {
		return ""
	}
	near := func(have int, want uint8) bool { return have == int(want) || have+1 == int(want) }
	for _, i := range inks() {
		if near(r, i.light.R) && near(g, i.light.G) && near(b, i.light.B) {
			return i.class
		}
	}
	return ""
}

// inkStyle is the style sheet's part about the inks.
func inkStyle() string {
	var light, dark, classes strings.Builder
	for _, i := range inks() {
		fmt.Fprintf(&light, " --%s: %s;", i.class, css(i.light))
		fmt.Fprintf(&dark, " --%s: %s;", i.class, css(i.dark))
		fmt.Fprintf(&classes, ".s-%[1]s { stroke: var(--%[1]s); } .f-%[1]s { fill: var(--%[1]s); }\n", i.class)
	}
	return fmt.Sprintf(":root {%s }\n@media (prefers-color-scheme: dark) { :root {%s } }\n%s", light.String(), dark.String(), classes.String())
}
