package report

import (
	"fmt"
	"image/color"
	"math"
	"testing"
)

// linear is a colour as amounts of light.
func linear(c color.NRGBA) [3]float64 {
	var out [3]float64
	for i, v := range []uint8{c.R, c.G, c.B} {
		s := float64(v) / 255
		out[i] = math.Pow((s+0.055)/1.055, 2.4)
		if s <= 0.04045 {
			out[i] = s / 12.92
		}
	}
	return out
}

func luminance(c color.NRGBA) float64 {
	l := linear(c)
	return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
}

// contrast is that of the Web Content Accessibility Guidelines.
func contrast(a, b color.NRGBA) float64 {
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}

// What light becomes for those who lack a kind of cone: Machado et al. (2009),
// full severity.
var deficiencies = map[string][3][3]float64{
	"full sight":   {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab is a colour in CIELAB, as somebody sees it.
func labOf(c color.NRGBA, deficiency [3][3]float64) [3]float64 {
	light := linear(c)
	var seen [3]float64
	for i, row := range deficiency {
		for j, weight := range row {
			seen[i] += weight * light[j]
		}
		seen[i] = min(1, max(0, seen[i]))
	}
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505)
	y := f(0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2])
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distanceOf(a, b [3]float64) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

func TestColourBlindPeopleTellLinesApart(t *testing.T) {
	sets := map[string][]ink{
		"main comparison": {methodInks[0], methodInks[1], methodInks[6], methodInks[7]},
		"steps, episodes": {methodInks[0], methodInks[1], methodInks[2], methodInks[3]},
		"compute":         {methodInks[0], methodInks[4], methodInks[5]},
		"levels":          levelInks,
	}
	for set, inks := range sets {
		for name, deficiency := range deficiencies {
			for mode, of := range map[string]func(ink) color.NRGBA{"light": func(i ink) color.NRGBA { return i.light }, "dark": func(i ink) color.NRGBA { return i.dark }} {
				for i := range inks {
					for j := range i {
						if d := distanceOf(labOf(of(inks[i]), deficiency), labOf(of(inks[j]), deficiency)); d < 11 {
							t.Errorf("%s, %s, %s: %s and %s differ by %.1f only", set, name, mode, inks[i].class, inks[j].class, d)
						}
					}
				}
			}
		}
	}
}

func TestLinesStandOutFromThePage(t *testing.T) {
	dark := rgb(0x1d2126)
	for _, i := range append(append([]ink{inkText, inkDim}, methodInks...), levelInks...) {
		if c := contrast(i.light, paper); c < 1.9 {
			t.Errorf("%s has a contrast of %.2f on a light page", i.class, c)
		}
		if c := contrast(i.dark, dark); c < 3 {
			t.Errorf("%s has a contrast of %.2f on a dark page", i.class, c)
		}
	}
}

func TestAColourIsKnownByItsDrawingAlsoWhereItIsFaint(t *testing.T) {
	for _, i := range inks() {
		for _, drawn := range []color.Color{i.light, faint(i.light)} {
			r, g, b, alpha := drawn.RGBA() // as the drawing library has it, with amounts of light times alpha
			share := 255 / float64(alpha)
			text := fmt.Sprintf("#%02X%02X%02X", int(float64(r)*share), int(float64(g)*share), int(float64(b)*share))
			if got := classOf(text); got != i.class {
				t.Errorf("%s is %q, want %s", text, got, i.class)
			}
		}
	}
	if got := classOf("none"); got != "" {
		t.Errorf("no colour is %q", got)
	}
}
