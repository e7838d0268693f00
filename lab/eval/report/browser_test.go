//go:build linux

package report

import (
	"bytes"
	"strings"
	"testing"

	"optibfm/internal/browsertest"
)

func TestInABrowserTheLinesHaveTheirColoursInLightAndDark(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	page := pageOf(t, newReport(t, l.rows))
	for _, dark := range []bool{false, true} {
		picture := browsertest.Picture(t, page, "--window-size=900,3600", browsertest.Theme(dark))
		found := make(map[[3]uint32]bool)
		for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
			for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
				r, g, b, _ := picture.At(x, y).RGBA()
				found[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
			}
		}
		for _, method := range []string{ucb, thompson, lola, random} {
			want := methodInk(method, 0).light
			if dark {
				want = methodInk(method, 0).dark
			}
			if !found[[3]uint32{uint32(want.R), uint32(want.G), uint32(want.B)}] {
				t.Errorf("dark %v: %s is not drawn in %s", dark, method, css(want))
			}
		}
	}
}

func TestInABrowserThePageIsNoWiderThanAPhone(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	page := browsertest.Unguarded(pageOf(t, newReport(t, l.rows)))
	measure := `<script>document.body.dataset.width = document.documentElement.scrollWidth + " of " + window.innerWidth;</script></body>`
	page = bytes.Replace(page, []byte("</body>"), []byte(measure), 1)
	page = bytes.ReplaceAll(page, []byte("<details>"), []byte("<details open>"))
	// A headless window is no narrower than 500 points: the page stands in a frame.
	frame := []byte(`<body style="margin:0"><iframe id="phone" width="390" height="800" srcdoc="` +
		strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(string(page)) + `"></iframe>
		<script>onload = () => { document.body.dataset.seen = document.getElementById("phone").contentDocument.body.dataset.width; };</script></body>`)
	if got := browsertest.Attribute(t, browsertest.DOM(t, frame, ""), "data-seen"); got != "390 of 390" {
		t.Errorf("the page is %s wide", got)
	}
}
