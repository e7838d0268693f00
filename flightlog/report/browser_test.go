//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"optibfm/flightlog"
	"optibfm/internal/browsertest"
)

// drive runs a script in the page when the page is ready, and returns the JSON
// value of what it returns.
func drive(t *testing.T, page []byte, hash, size, script string, result any) {
	t.Helper()
	driver := `<script>setTimeout(() => {
		const drive = () => { ` + script + ` };
		document.body.dataset.driven = JSON.stringify(drive());
	}, 1000)</script></body>`
	page = bytes.Replace(browsertest.Unguarded(page), []byte("<head>"), []byte(`<head><script>window.requestAnimationFrame = (draw) => draw();</script>`), 1)
	page = bytes.Replace(page, []byte("</body>"), []byte(driver), 1)
	text := browsertest.Attribute(t, browsertest.DOM(t, page, hash, "--window-size="+size), "data-driven")
	if err := json.Unmarshal([]byte(text), result); err != nil {
		t.Fatalf("the page returned %q: %v", text, err)
	}
}

func TestInABrowserWithoutANetworkThePageDrawsAndAnswers(t *testing.T) {
	log := simulated().write(t)
	page, _ := pageOf(t, log)
	dom := browsertest.DOM(t, page, "t=5&kappa=0.5&lambda=2", "--window-size=1280,1000")
	if browsertest.Attribute(t, dom, "data-ready") != "yes" {
		t.Error("the script did not reach its end")
	}
	var got scriptAnswer
	must(t, json.Unmarshal([]byte(browsertest.Attribute(t, dom, "data-result")), &got))
	want, err := flightlog.WhatIf(open(t, log), flightlog.Params{Kappa: value(0.5), Lambda: value(2)})
	must(t, err)
	compareAnswers(t, 0, got, want)
}

func TestInABrowserThePageIsNotBlankInLightAndDark(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	for _, dark := range []bool{false, true} {
		picture := browsertest.Picture(t, page, "--window-size=1280,1400", browsertest.Theme(dark))
		colours := make(map[[4]uint32]int)
		for y := 300; y < 1400; y += 2 {
			for x := 60; x < 900; x += 2 {
				r, g, b, a := picture.At(x, y).RGBA()
				colours[[4]uint32{r, g, b, a}]++
			}
		}
		if len(colours) < 200 {
			t.Errorf("dark %v: the plots have %d colours", dark, len(colours))
		}
	}
}

func TestInABrowserKeysAndSlidersMoveWhatIsShown(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	var got struct {
		Now      []string
		Command  string
		Overflow bool
		Rows     int
	}
	script := `
		const press = (key) => {
			document.dispatchEvent(new KeyboardEvent("keydown", { key }));
			return document.getElementById("now").textContent;
		};
		const now = ["End", "Home", "ArrowRight", "n", "p", "PageDown"].map(press);
		const slider = document.getElementById("set-kappa");
		slider.value = "0.7";
		slider.dispatchEvent(new Event("change"));
		return {
			now, command: document.getElementById("command").textContent,
			overflow: document.documentElement.scrollWidth > window.innerWidth,
			rows: document.querySelectorAll("#readings div").length,
		};`
	for _, size := range []string{"1280,900", "800,1000"} {
		drive(t, page, "", size, script, &got)
		if got.Now[1] != "0.000 s, tick 0" || got.Now[2] == got.Now[1] || got.Now[0] == got.Now[1] || got.Now[3] == got.Now[2] {
			t.Errorf("%s: the cursor went to %q", size, got.Now)
		}
		if want := "optibfm replay run.mcap --kappa 0.7"; got.Command != want {
			t.Errorf("%s: the command is %q, want %q", size, got.Command, want)
		}
		if got.Overflow || got.Rows < 5 {
			t.Errorf("%s: wider than the window: %v; %d readings", size, got.Overflow, got.Rows)
		}
	}
}

// observer stands in for the browser's ResizeObserver, which a page without frames
// never hears of. resized calls the page.
const observer = `<script>window.ResizeObserver = class {
	constructor(call) { this.call = call; }
	observe(element) { window.resized = () => this.call([{ contentRect: element.getBoundingClientRect() }]); }
}</script>`

func TestPage_WithoutRoomDrawsNothingAndDrawsWhenItHasSome(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	script := `
		const inked = () => Array.from(document.querySelectorAll("figure canvas")).filter((canvas) => canvas.width > 0 &&
			canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0)).length;
		const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
		const crush = document.getElementById("crush"), drawn = [];
		for (const media of ["all", "not all", "all"]) { // whether the style holds
			crush.media = media;
			window.resized();
			drawn.push(inked());
			["End", "n", "+", "0"].forEach(press);
			drawn.push(inked());
		}
		return drawn;`
	for name, style := range map[string]string{
		"hidden":      "main { display: none }",
		"of no width": "#plots { width: 0; overflow: hidden }",
	} {
		head := `<style id="crush">` + style + `</style>` + observer + `</head>`
		crushed := bytes.Replace(page, []byte("</head>"), []byte(head), 1)
		var drawn []int // plots with ink, before and after keys: without room, with room, and without again
		drive(t, crushed, "", "1280,900", script, &drawn)
		if !slices.Equal(drawn, []int{0, 0, 7, 7, 0, 0}) {
			t.Errorf("%s: plots that are drawn: %v", name, drawn)
		}
	}
}

func TestInABrowserALabelSaysHowMuchItCountedWhereLabelsAreDoubted(t *testing.T) {
	var said []string
	script := `
		const said = [];
		for (let i = 0; i < 30; i++) {
			document.dispatchEvent(new KeyboardEvent("keydown", { key: "n" }));
			for (const row of document.querySelectorAll("#readings div")) {
				if (row.firstChild.textContent === "Label") said.push(row.lastChild.textContent);
			}
		}
		return said;`
	for _, robust := range []float64{0, 0.2} {
		s := simulated()
		s.cfg.Robust = robust
		page, _ := pageOf(t, s.write(t))
		drive(t, page, "", "1280,900", script, &said)
		all := strings.Join(said, "\n")
		full, doubted := strings.Count(all, ", counted 1.00)"), regexp.MustCompile(`, counted 0\.\d\d: it surprised the belief\)`).FindAllString(all, -1)
		if some := full >= 2 && len(doubted) >= 2; some != (robust > 0) || robust == 0 && strings.Contains(all, "counted") {
			t.Errorf("robust %g: %d in full, %d doubted:\n%s", robust, full, len(doubted), all)
		}
		if !bytes.Contains(page, []byte("surprised the belief and counted less than in full, the least 0.")) == (robust > 0) {
			t.Errorf("robust %g: the summary says otherwise", robust)
		}
	}
}

func TestInABrowserNamesFromTheLogStayText(t *testing.T) {
	page, _ := pageOf(t, hostile().write(t))
	dom := browsertest.DOM(t, page, "")
	if bytes.Contains(dom, []byte("data-pwned")) {
		t.Error("a name in the log ran as a script")
	}
	if want := "<h1>" + html.EscapeString(hostileName) + ": stand</h1>"; !bytes.Contains(dom, []byte(want)) {
		t.Errorf("the page lacks %s", want)
	}
	if browsertest.Attribute(t, dom, "data-ready") != "yes" {
		t.Error("the script did not reach its end")
	}
}
