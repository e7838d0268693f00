//go:build linux

package report

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"slices"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/browsertest"
	"optibfm/internal/fatal"
)

func TestPage_ShowsTheStudy(t *testing.T) {
	s := simulated()
	s.Config.Gate.Kappa = 0.2
	log := s.write(t)
	page, _ := pageOf(t, log)
	var got struct {
		Ready, Command, Link, Belief string
		Linked, Chosen, Reset        map[string]string
	}
	script := `
		const read = () => Object.fromEntries(Array.from(document.querySelectorAll("#answers tr"),
			(tr) => [tr.children[0].textContent, tr.children[2].textContent]));
		const text = (id) => document.getElementById(id).textContent;
		const result = { ready: document.documentElement.dataset.ready, linked: read(), link: text("command") };
		const kappa = document.getElementById("set-kappa");
		kappa.selectedIndex = Array.from(kappa.options).findIndex((o) => o.textContent === "0.8");
		kappa.dispatchEvent(new Event("change"));
		document.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
		Object.assign(result, { chosen: read(), command: text("command"), belief: text("belief-text") });
		document.getElementById("reset").click();
		return Object.assign(result, { reset: read() });`
	browsertest.Drive(t, page, "t=5&kappa=0.4&rho=0.996", "1280,1000", script, &got)
	if got.Ready != "yes" || got.Link != "optibfm replay run.mcap --kappa 0.4 --rho 0.996" {
		t.Errorf("ready %q, command %q", got.Ready, got.Link)
	}
	both := answersText(t, log, 0.4, 0.996)
	compareRows(t, got.Linked, both)
	if got.Command != "optibfm replay run.mcap --kappa 0.8 --rho 0.996" {
		t.Errorf("command %q", got.Command)
	}
	chosen := answersText(t, log, 0.8, 0.996)
	compareRows(t, got.Chosen, chosen)
	if want := "what if: ‖ẑ‖ " + chosen["‖ẑ‖ at the end"]; !strings.Contains(got.Belief, want) {
		t.Errorf("belief %q, want %q", got.Belief, want)
	}
	if both["requests"] == chosen["requests"] {
		t.Error("both settings ask for as many labels")
	}
	for name, text := range got.Reset {
		if text != "" && name != "" {
			t.Errorf("after reset: %s: %s", name, text)
		}
	}
}

// answersText returns the rows that the page shows for a setting.
func answersText(t *testing.T, log string, kappa, rho float64) map[string]string {
	t.Helper()
	a, err := flightlog.WhatIf(open(t, log), flightlog.Params{Kappa: &kappa, Rho: &rho})
	fatal.If(t, err)
	fixed := func(x float64) string { return fmt.Sprintf("%.4f", x) }
	return map[string]string{
		"requests": fmt.Sprint(a.Asked), "– answered by a logged label": fmt.Sprint(a.ByLabel),
		"– by the simulator's reward": fmt.Sprint(a.ByReward), "– can't tell": fmt.Sprint(a.CantTell),
		"– no answer in the log": fmt.Sprint(a.Unanswered), "labels in the belief": fmt.Sprint(a.Labels),
		"– of them unasked":          fmt.Sprint(a.Unasked),
		"labels of the run left out": fmt.Sprint(len(skippedRows(t, log, a))),
		"‖ẑ‖ at the end":             fixed(a.ZNorm), "cosine to the run's ẑ": fixed(a.Cosine),
		"mean bonus β‖φ‖": fixed(a.MeanBonus),
	}
}

func compareRows(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: the page shows %q, want %q", name, got[name], text)
		}
	}
}

func TestPage_IsDrawnInLightAndDark(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	for _, theme := range []string{"light", "dark"} {
		picture := browsertest.Picture(t, page, image.Pt(1280, 1400), theme)
		colours := make(map[[4]uint32]int)
		for y := 300; y < 1400; y += 2 {
			for x := 60; x < 900; x += 2 {
				r, g, b, a := picture.At(x, y).RGBA()
				colours[[4]uint32{r, g, b, a}]++
			}
		}
		if len(colours) < 200 {
			t.Errorf("%s: the plots have %d colours", theme, len(colours))
		}
	}
}

func TestPage_KeysMoveTheCursor(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	var got struct {
		Now      []string
		Overflow bool
		Rows     int
	}
	script := `
		const press = (key) => {
			document.dispatchEvent(new KeyboardEvent("keydown", { key }));
			return document.getElementById("now").textContent;
		};
		return {
			now: ["End", "Home", "ArrowRight", "n", "p", "PageDown"].map(press),
			overflow: document.documentElement.scrollWidth > window.innerWidth,
			rows: document.querySelectorAll("#readings div").length,
		};`
	for _, size := range []string{"1280,900", "800,1000"} {
		browsertest.Drive(t, page, "", size, script, &got)
		end, home, right, next := got.Now[0], got.Now[1], got.Now[2], got.Now[3]
		if home != "0.000 s, tick 0" || right == home || end == home || next == right {
			t.Errorf("%s: the cursor went to %q", size, got.Now)
		}
		if got.Overflow || got.Rows < 5 {
			t.Errorf("%s: wider than the window: %v; %d readings", size, got.Overflow, got.Rows)
		}
	}
}

// observer replaces the browser's ResizeObserver, which does not call a page without
// frames. resized calls the page.
const observer = `<script>window.ResizeObserver = class {
	constructor(call) { this.call = call; }
	observe(element) { window.resized = () => this.call([{ contentRect: element.getBoundingClientRect() }]); }
}</script>`

func TestPage_DrawsOnlyWithRoom(t *testing.T) {
	page, _ := pageOf(t, simulated().write(t))
	script := `
		const drawn = (canvas) => canvas.width > 0 &&
			canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0);
		const count = () => Array.from(document.querySelectorAll("figure canvas")).filter(drawn).length;
		const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
		const style = document.getElementById("style"), counts = [];
		for (const media of ["all", "not all", "all"]) { // whether the style applies
			style.media = media;
			window.resized();
			counts.push(count());
			["End", "n", "i", "a"].forEach(press);
			counts.push(count());
		}
		return counts;`
	for name, style := range map[string]string{
		"hidden":   "main { display: none }",
		"no width": "#plots { width: 0; overflow: hidden }",
	} {
		head := `<style id="style">` + style + `</style>` + observer + `</head>`
		hidden := bytes.Replace(page, []byte("</head>"), []byte(head), 1)
		var counts []int // drawn plots before and after keys: without room, with room, without room again
		browsertest.Drive(t, hidden, "", "1280,900", script, &counts)
		if !slices.Equal(counts, []int{0, 0, 7, 7, 0, 0}) {
			t.Errorf("%s: drawn plots: %v", name, counts)
		}
	}
}

func TestPage_ShowsNamesAsText(t *testing.T) {
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

// labelScript has functions that label a log in its page. saved returns the file that the
// page would download.
const labelScript = `
	const id = (name) => document.getElementById(name), texts = (list) => Array.from(list, (e) => e.textContent);
	const press = (...keys) => keys.forEach((key) => document.dispatchEvent(new KeyboardEvent("keydown", { key })));
	const rows = () => texts(document.querySelectorAll("#given tr"));
	const saved = () => {
		let text = "nothing";
		window.Blob = class { constructor(parts) { text = parts.join(""); } };
		URL.createObjectURL = () => "#";
		HTMLAnchorElement.prototype.click = function () { text = this.download + "\n" + text; };
		id("save-labels").click();
		return text;
	};`

func TestPage_LabelsTheMomentAtTheCursor(t *testing.T) {
	page, _ := labelPageOf(t, simulated().write(t), labelling())
	var got struct {
		Proposed, Rows, Left []string
		Now, Here, Saved     string
		Disabled             []bool
		Focus                string
	}
	script := labelScript + `
		const disabled = [id("save-labels").disabled];
		press("m", "+", "m", "2", "End", "-", "Home", "0", "ArrowRight", "9", "Delete", "m");
		const result = { now: id("now").textContent, rows: rows(), proposed: texts(id("proposed").children) };
		id("proposed").children[0].click();
		Object.assign(result, { here: id("label-here").textContent, saved: saved() });
		const remove = id("given").rows[1].querySelectorAll("button")[1];
		remove.focus();
		remove.click();
		result.focus = document.activeElement.getAttribute("aria-label");
		disabled.push(id("save-labels").disabled);
		press("Backspace");
		return Object.assign(result, { left: rows(), disabled });`
	browsertest.Drive(t, page, "", "1280,900", script, &got)
	given, _ := givenOf(t, page)
	at := func(i int) string { return fmt.Sprintf("%.3f s", given.Proposed[i].Time) }
	wantRows := []string{"0.000 s0×", at(1) + "-0.75×", at(0) + "+×"}
	if len(got.Rows) != 4 || !slices.Equal(got.Rows[:3], wantRows) || !strings.HasSuffix(got.Rows[3], "s-×") {
		t.Errorf("rows %q, want %q and - at the end", got.Rows, wantRows)
	}
	if want := []string{fmt.Sprintf("%.2f s: +", given.Proposed[0].Time),
		fmt.Sprintf("%.2f s: -0.75", given.Proposed[1].Time)}; !slices.Equal(got.Proposed, want) {
		t.Errorf("proposed %q, want %q", got.Proposed, want)
	}
	if got.Here != "At "+at(0)+": label +" || strings.Contains(got.Now, "tick 0") {
		t.Errorf("here %q; moved to %q though all proposed moments have a label", got.Here, got.Now)
	}
	lines := strings.Split(got.Saved, "\n")
	if len(lines) != 7 || lines[0] != "run-moments.csv" || lines[1] != "time_s,tick,gain_nats,expected,state,label" ||
		lines[3] != fmt.Sprintf("%.3f,3,0.125,-0.500,s%08x,-0.75", given.Proposed[1].Time, given.Proposed[1].State) {
		t.Errorf("saved %q", lines)
	}
	if !slices.Equal(got.Left, []string{got.Rows[0], got.Rows[3]}) || !slices.Equal(got.Disabled, []bool{true, false}) {
		t.Errorf("left %q, save disabled %v", got.Left, got.Disabled)
	}
	if want := "remove the label at " + at(0); got.Focus != want {
		t.Errorf("the focus is on %q, want %q", got.Focus, want)
	}
}

func TestPage_KeepsLabelsOverAReload(t *testing.T) {
	page, _ := labelPageOf(t, simulated().write(t), labelling())
	given, _ := givenOf(t, page)
	script := labelScript + `
		const result = { asked: window.asked, restored: rows() };
		press("Home", "+");
		Object.assign(result, { stored: window.stored ?? "", warned: id("label-kept").textContent !== "" });
		press("Delete");
		return Object.assign(result, { cleared: window.stored === null });`
	for name, c := range map[string]struct {
		get      string // returns the stored text
		restored int
		stored   string
	}{
		"rows": {`return '[[7,"-"],[5,"0.25"],[1e9,"+"],[-3,"+"],[2.5,"+"],["0","1"],[1,"x"],[1,"0x1"],[1,"1,2"],[1,""],' +
			'[1,1],5,null,[2]]'`, 2, `[[7,"-"],[5,"0.25"],[0,"+"]]`},
		"no JSON":    {`return "[[0"`, 0, `[[0,"+"]]`},
		"no storage": {`throw new DOMException("", "SecurityError")`, 0, ""},
	} {
		storage := `<head><script>Object.defineProperty(window, "localStorage", { get: () => ({
			getItem: (key) => { window.asked = key; ` + c.get + `; },
			setItem: (key, text) => { if ("` + name + `" === "no storage") throw new Error(); window.stored = text; },
			removeItem: () => { window.stored = null; },
		}) });</script>`
		var got struct {
			Asked, Stored   string
			Restored        []string
			Warned, Cleared bool
		}
		stored := bytes.Replace(page, []byte("<head>"), []byte(storage), 1)
		browsertest.Drive(t, stored, "", "1280,900", script, &got)
		if got.Asked != given.Key || len(got.Restored) != c.restored || got.Stored != c.stored ||
			got.Warned != (c.stored == "") || got.Cleared != (c.restored == 0) {
			t.Errorf("%s: %+v, want %+v", name, got, c)
		}
	}
}

func TestPage_GivesNoLabelThatDoesNotCount(t *testing.T) {
	bad, none := simulated(), simulated()
	bad.Change = func(t *controller.Tick) {
		if t.Index == 0 {
			t.Flags |= controller.FlagBadObs
		}
	}
	none.Ticks = 0
	script := labelScript + `
		press("Home", "+", "5");
		const here = id("label-here").textContent;
		id("proposed").lastChild?.click();
		press("-");
		return { rows: rows(), here, note: id("label-note").textContent, hidden: id("label-tools").hidden };`
	var got struct {
		Rows       []string
		Here, Note string
		Hidden     bool
	}
	page, _ := labelPageOf(t, bad.write(t), &Labelling{Good: 1, Bad: -1, Proposed: []Proposal{{Tick: 7}}})
	browsertest.Drive(t, page, "", "1280,900", script, &got)
	if len(got.Rows) != 1 || got.Here != "At 0.000 s: a label does not count, no valid observation" || got.Hidden {
		t.Errorf("%+v", got)
	}
	page, _ = labelPageOf(t, none.write(t), &Labelling{Refused: "<b>no</b> tick"})
	browsertest.Drive(t, page, "", "1280,900", script, &got)
	if len(got.Rows) != 0 || got.Note != "Not possible: <b>no</b> tick." || !got.Hidden {
		t.Errorf("without ticks: %+v", got)
	}
}
