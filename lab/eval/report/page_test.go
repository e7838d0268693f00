package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"optibfm/lab/eval"
)

const hostileName = `<script>document.body.dataset.pwned=1</script>"'><img src=x onerror=alert(1)>`

// hostileRows have markup in every text.
func hostileRows() []eval.Row {
	l := newLab()
	l.tasks = map[string][]string{hostileName: {hostileName}}
	l.returns(experimentMain, oracle, "", 3, always(1))
	l.returns(experimentMain, hostileName, "a<b=</style><b>", 3, always(0.5))
	l.returns(hostileName, ucb, "beta=<svg onload=alert(1)>", 3, always(0.5))
	for i := range l.rows {
		l.rows[i].Bundle, l.rows[i].Version, l.rows[i].ProtocolHash = hostileName, hostileName, hostileName
		l.rows[i].ModelHash = "</td>" + l.rows[i].ModelHash
	}
	return l.rows
}

func pageOf(t testing.TB, r *Report) []byte {
	t.Helper()
	page, err := r.Page()
	must(t, err)
	return page
}

func TestThePageLoadsNothingAndRunsNothing(t *testing.T) {
	page := pageOf(t, newPaperReport(t))
	for _, forbidden := range []string{"http://", "https://", " src=", "@import", "url(", "<script", "<link", "<iframe", "<image", "xlink", " style=", "javascript:"} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	if !regexp.MustCompile(`content="default-src &#39;none&#39;; .*style-src &#39;sha256-`).Match(page) {
		t.Error("the page's policy allows more than its own style")
	}
}

func TestNamesInTheResultsStayText(t *testing.T) {
	r := newReport(t, hostileRows())
	page := pageOf(t, r)
	if _, outside, _ := bytes.Cut(page, []byte("</style>")); bytes.Contains(outside, []byte("</style>")) {
		t.Error("a name ended the style")
	}
	for _, forbidden := range []string{"<script", "<img", "<svg onload", "<b>quot", "</td>1"} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("a name is markup: %q", forbidden)
		}
	}
	files, err := r.Write(t.TempDir())
	must(t, err)
	for _, path := range files {
		if name := filepath.Base(path); strings.ContainsAny(name, `<>"'& /`) {
			t.Errorf("a file is called %q", name)
		}
	}
}

func TestThePageHasEveryClaimFigureAndTable(t *testing.T) {
	r := newPaperReport(t)
	page := string(pageOf(t, r))
	if n := strings.Count(page, `<article class="claim">`); n != len(claims) {
		t.Errorf("%d claims, want %d", n, len(claims))
	}
	for _, f := range r.Figures {
		if f.Missing != "" || !strings.Contains(page, `<figure id="`+f.Name+`">`) {
			t.Errorf("no figure %s: %s", f.Name, f.Missing)
		}
	}
	for _, want := range []string{"19 hold", "11 hold", "What else we ask", "pairs", "Methods, task by task", "Hyper-parameters", "β = 0.1: ", "5eedmain", "models/walker-1", "rows", "v0.6.0"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestThePageIsWellFormed(t *testing.T) {
	for _, r := range []*Report{newPaperReport(t), newReport(t, hostileRows())} {
		d := xml.NewDecoder(bytes.NewReader(pageOf(t, r)))
		d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestExperimentsWithoutRowsAreNamedAsMissing(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	r := newReport(t, l.rows)
	page := string(pageOf(t, r))
	if want := `A drifting target: no rows of the experiment &#34;drift&#34;.`; !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
	if strings.Count(page, "<figure id=") != 2 { // the main comparison's
		t.Error("there are figures of what was not run")
	}
}

func TestTheColumnsOfTheResultsAreExplained(t *testing.T) {
	var names []string
	for _, c := range resultColumns {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, eval.Columns) {
		t.Errorf("explained are %v, the columns are %v", names, eval.Columns)
	}
}

func TestTheSameResultsInAnyOrderMakeTheSameFiles(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	first, err := newReport(t, l.rows).files()
	must(t, err)
	rand.Shuffle(len(l.rows), func(i, j int) { l.rows[i], l.rows[j] = l.rows[j], l.rows[i] })
	second, err := newReport(t, l.rows).files()
	must(t, err)
	for i := range first {
		if first[i].name != second[i].name || !bytes.Equal(first[i].content, second[i].content) {
			t.Errorf("%s differs", first[i].name)
		}
	}
}

func TestEstimatesHaveEveryPointOfEveryFigure(t *testing.T) {
	r := newPaperReport(t)
	content, err := r.Estimates()
	must(t, err)
	records, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	must(t, err)
	points := 0
	for _, f := range r.Figures {
		for _, p := range f.Panels {
			for _, s := range p.Series {
				points += len(s.Points)
			}
		}
	}
	if len(records) != points+1 || len(records[0]) != len(estimateColumns) {
		t.Errorf("%d records of %d columns for %d points", len(records), len(records[0]), points)
	}
	if want := []string{"main", "cheetah", "ucb", "beta=0.1", relativeLabel, "1"}; !slices.Equal(records[1][:6], want) {
		t.Errorf("the first point is %v, want %v", records[1][:6], want)
	}
}

func TestPromisesAreComparedWithTheOraclesReturn(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	r := newReport(t, l.rows)
	at := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == "promised" })
	if panels := r.Figures[at].Panels; len(panels) != 2*len(l.envs()) || math.Abs(panels[0].Series[0].Points[9].Mean-1.1) > 0.05 {
		t.Errorf("%+v", panels)
	}
	for i := range l.rows {
		if l.rows[i].Measure == eval.MeasurePromised {
			l.rows[i].Measure = "something else"
		}
	}
	if f := newReport(t, l.rows).Figures[at]; !strings.Contains(f.Missing, "has what it shows") {
		t.Errorf("without promises it has %d panels: %s", len(f.Panels), f.Missing)
	}
}

func TestFiguresAreWrittenInBothFormats(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	folder := filepath.Join(t.TempDir(), "new", "report")
	files, err := newReport(t, l.rows).Write(folder)
	must(t, err)
	if want := []string{"figures/main.svg", "figures/main.png", "figures/promised.svg", "figures/promised.png", "estimates.csv", "index.html"}; len(files) != len(want) {
		t.Errorf("wrote %v, want %v", files, want)
	}
	picture, err := os.Open(filepath.Join(folder, "figures", "main.png"))
	must(t, err)
	defer func() { _ = picture.Close() }()
	decoded, err := png.Decode(picture)
	must(t, err)
	if size := decoded.Bounds().Size(); size.X != 1200 || size.Y < 900 {
		t.Errorf("the picture has %v dots, want two rows of two panels of 300 points at 144 dots an inch", size)
	}
	svg, err := os.ReadFile(filepath.Join(folder, "figures", "main.svg"))
	must(t, err)
	for _, want := range []string{"Main comparison", "thompson", "quadruped", "oracle&#39;s return"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := newReport(t, []eval.Row{aRow(ucb, "", 0, 1)}).Write(file); err == nil {
		t.Error("a report was written into a file")
	}
}

func TestOnlyDrawingsOfOurOwnBecomePartOfThePage(t *testing.T) {
	if _, err := inlined(strings.NewReader(`<svg><script>x</script></svg>`), "1 1", "x"); err == nil {
		t.Error("a script in a drawing was taken over")
	}
	got, err := inlined(strings.NewReader(`<svg width="1"><g transform="scale(1)"><path d="M0,0" style="fill:none;stroke:#0072B2;stroke-width:2"/><text style="font-family:X;font-weight:normal;fill:#1B1F24">a &lt; b</text></g></svg>`), "3 4", `"x"`)
	must(t, err)
	want := `<svg viewBox="0 0 3 4" role="img" aria-label="&#34;x&#34;"><g transform="scale(1)"><path d="M0,0" fill="none" stroke-width="2" class="s-m0"></path>` +
		`<text font-family="` + fonts + `" class="f-ink">a &lt; b</text></g></svg>`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTicksAreFewAndRound(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{1, 10, "2 4 6 8 10"}, {0, 1.06, "0 0.2 0.4 0.6 0.8 1"}, {0, 30_000, "0 5000 10k 15k 20k 25k 30k"}, {0, 380, "0 100 200 300"}, {-0.3, 0.2, "-0.3 -0.2 -0.1 0 0.1 0.2"}} {
		var labels []string
		for _, tick := range niceTicks(c.low, c.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

func TestEpisodesAreLabelledAtWholeNumbers(t *testing.T) {
	if ticks := wholeTicks(1, 2); len(ticks) != 2 || ticks[0].Label != "1" || ticks[1].Label != "2" {
		t.Errorf("%v", ticks)
	}
}

func TestPanelsOfOneMeasureHaveTheSameScale(t *testing.T) {
	for _, f := range newPaperReport(t).Figures {
		scale := make(map[string]Interval)
		for _, p := range f.Panels {
			if known, there := scale[p.YLabel]; there && known != p.Range {
				t.Errorf("%s: %s of %s is from %v, elsewhere from %v", f.Name, p.YLabel, p.Title, p.Range, known)
			}
			scale[p.YLabel] = p.Range
		}
	}
}

func TestABandOfFewTrialsDoesNotPressTheLinesFlat(t *testing.T) {
	wide := Point{0, Estimate{Mean: 0.8, Confidence: Interval{-40, 90}}}
	panel := sameRange([]Panel{{Relative: true, Series: []Series{{Points: []Point{wide}}}}})[0]
	if panel.Range.Low != -0.52 || panel.Range.High > 1.7 {
		t.Errorf("y is from %v", panel.Range)
	}
}

func TestNumbersAreShownWithThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.95123: "0.951", 12345.6: "12346", 0.00001234: "1.23e-05", -0.5: "-0.5", 100: "100"} {
		if got := number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
	if got := grouped(1234567); got != "1,234,567" {
		t.Errorf("grouped: %s", got)
	}
}

func TestEveryMeasureOfAnUnknownExperimentIsShownSomehow(t *testing.T) {
	l := newLab()
	l.returns("rover", oracle, "", 3, always(1))
	l.returns("rover", ucb, "", 3, always(0.9))
	l.returns("returns only", ucb, "", 3, always(0.9))
	l.each(l.envs(), func(env, task string, model, trial int) {
		l.add(l.row("coverage", env, task, ucb, "", model, trial), "covered", 1, 0.97)
	})
	var shown []string
	for _, f := range newReport(t, l.rows).Figures {
		for i := range f.Panels {
			if i == 0 {
				shown = append(shown, fmt.Sprintf("%s: %s", f.Name, f.Panels[i].YLabel))
			}
		}
	}
	if want := []string{"other-coverage: covered", "other-returns-only: " + relativeLabel, "other-rover: " + relativeLabel}; !slices.Equal(shown, want) {
		t.Errorf("shown are %q, want %q", shown, want)
	}
}

func BenchmarkNew(b *testing.B) {
	rows := paperRows()
	b.ReportAllocs()
	for b.Loop() {
		newReport(b, rows)
	}
}
