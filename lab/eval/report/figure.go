package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// figure declares a picture: which rows, what against what, and what makes a
// panel and a line. Everything else about it is computed.
type figure struct {
	name       string // of its files
	title      string
	experiment string
	caption    string // what there is to see, in a sentence or two

	measures []shown           // a row of panels each
	x        axis              // what the measures are drawn against
	panels   []string          // fields of which each combination of values is a panel
	lines    []string          // fields of which each combination of values is a line
	absent   string            // what a line is called that lacks its parameter
	methods  []string          // shown; none: all but the oracle
	keep     func(*trial) bool // which trials belong into the figure; nil: all
	vary     []string          // parameters that are not tuned, beside those of panels, lines and x
	apart    []string          // parameters whose values have hyper-parameters of their own
	guide    *guide            // drawn dashed, if there is one
}

// shown is a measure as a figure shows it.
type shown struct {
	measure  string
	label    string  // of the axis
	relative bool    // divided by the oracle's
	from, to float64 // of the rows' x
}

// axis is what is to the right: the rows' x, or a parameter.
type axis struct {
	key     string // of the parameter; "": the rows' x
	oracle  string // the oracle's, where it has another
	missing string // the value of trials that lack the parameter; "": they are not shown
	label   string
	offset  float64 // added to the rows' x, as in episodes that people count from 1
	log     bool
}

// guide is a line that is known beforehand, by task.
type guide struct {
	label string
	at    map[string]curve
}

const anywhere = math.MaxFloat64 // an x that no row reaches

// everything shows a measure over all x.
func everything(measure, label string, relative bool) shown {
	return shown{measure: measure, label: label, relative: relative, from: -anywhere, to: anywhere}
}

// Figure is a declared figure with the numbers to draw.
type Figure struct {
	Name, Title, Caption string
	Experiment           string
	Panels               []Panel // by measure, then by what makes a panel
	Choices              []Choice
	Bands                string // what the bands of the lines are
	Missing              string // why there is nothing to show, "" if there is
}

// Panel is one plot of a figure.
type Panel struct {
	Title, XLabel, YLabel string
	Relative              bool     // the values are divided by the oracle's
	LogX                  bool     // x is drawn on a logarithmic axis
	Ordinals              []string // where x is a parameter: its values, x = 0, 1, ...
	Range                 Interval // of y: the same in all panels of a measure
	Series                []Series
	Guide                 curve // dashed, if any
	GuideLabel            string
}

// Series is one line.
type Series struct {
	Label  string
	Method string
	Level  int    // of the parameters that make lines: 0 for the least value
	Levels int    // how many there are
	Kind   string // the name that makes the line: of the method or of a parameter's value; "" where it is a number
	Params string // of the trials, less what x is
	Points []Point
}

// Point is what the trials say at one x.
type Point struct {
	X float64
	Estimate
}

// build computes what a figure shows.
func (a *analysis) build(f *figure) Figure {
	out := Figure{Name: f.name, Title: f.title, Caption: f.caption, Experiment: f.experiment}
	all := a.trials.of(f.experiment)
	ts := all.where(f.shows)
	if len(all) == 0 {
		out.Missing = fmt.Sprintf("no rows of the experiment %q", f.experiment)
		return out
	}
	if len(ts) == 0 {
		out.Missing = fmt.Sprintf("no trial of the experiment %q has what it shows", f.experiment)
		return out
	}
	varied := f.varied()
	best := a.best("figure "+f.name, ts, varied, f.apart)
	out.Choices = a.made(f, best, varied)
	groups := best.split(f.panels)
	levels := f.levels(best)
	for i := range f.measures {
		var panels []Panel
		for _, g := range groups {
			if panel := a.panel(f, &f.measures[i], g, levels); len(panel.Series) > 0 {
				panels = append(panels, panel)
			}
		}
		out.Panels = append(out.Panels, sameRange(panels)...)
	}
	if len(out.Panels) == 0 {
		out.Missing = "no numbers to show: " + a.why(f, best)
	}
	out.Bands = bandsOf(out.Panels)
	return out
}

// sameRange gives panels the range of y that has all means, 0, and what the
// values are compared with. Bands are shown as far as they are no wider than
// that by half at either side: those of a few trials would press all else flat.
func sameRange(panels []Panel) []Panel {
	var means, bands Interval
	for i := range panels {
		if panels[i].Relative || len(panels[i].Guide) > 0 {
			means.High = max(means.High, 1.04)
		}
		for _, s := range panels[i].Series {
			for _, p := range s.Points {
				means.add(p.Mean, p.Mean)
				if band := p.band(); band.Known() {
					bands.add(band.Low, band.High)
				}
			}
		}
	}
	if means.High <= means.Low {
		means.High = means.Low + 1
	}
	room := (means.High - means.Low) / 2
	y := Interval{min(means.Low, max(bands.Low, means.Low-room)), max(means.High, min(bands.High, means.High+room))}
	y.High += 0.02 * (y.High - y.Low)
	for i := range panels {
		panels[i].Range = y
	}
	return panels
}

// shows says whether a trial belongs into the figure.
func (f *figure) shows(t *trial) bool {
	if f.keep != nil && !f.keep(t) {
		return false
	}
	if len(f.methods) > 0 {
		return slices.Contains(f.methods, t.method)
	}
	return t.method != oracle
}

// varied are the parameters that the figure is about; all others are tuned.
func (f *figure) varied() []string {
	keys := slices.Concat(f.panels, f.lines, f.vary, []string{f.x.key, f.x.oracle})
	keys = slices.DeleteFunc(keys, isColumn)
	slices.Sort(keys)
	return keys
}

// isColumn says whether a field is no parameter.
func isColumn(key string) bool {
	return slices.Contains([]string{"", "env", "task", "method", "labels by"}, key)
}

// made are the choices in which there was something to choose.
func (a *analysis) made(f *figure, ts trials, varied []string) []Choice {
	var choices []Choice
	for _, g := range ts.split(slices.Concat(tuned, f.apart)) {
		if choice := a.choose("figure "+f.name, g.trials, varied, f.apart); len(choice.Candidates) > 1 {
			choices = append(choices, choice)
		}
	}
	return choices
}

func (a *analysis) why(f *figure, ts trials) string {
	for i := range f.measures {
		if slices.ContainsFunc(ts, func(t *trial) bool { return len(t.curve(f.measures[i].measure)) > 0 }) {
			return "the oracle's returns are missing or not positive"
		}
	}
	return fmt.Sprintf("the rows have no measure %q", f.measures[0].measure)
}

// levels are the values of what makes lines, beside the method, in order.
func (f *figure) levels(ts trials) []string {
	var levels []string
	for _, g := range ts.split(f.lineParameters()) {
		if level := strings.Join(g.key, ";"); !slices.Contains(levels, level) {
			levels = append(levels, level)
		}
	}
	return levels
}

func (f *figure) lineParameters() []string {
	return slices.DeleteFunc(slices.Clone(f.lines), func(key string) bool { return key == "method" })
}

func (a *analysis) panel(f *figure, m *shown, g group, levels []string) Panel {
	panel := Panel{Title: panelTitle(f.panels, g.key), XLabel: f.x.label, YLabel: m.label, Relative: m.relative, LogX: f.x.log}
	if f.x.key != "" {
		panel.Ordinals = f.ordinals(g.trials)
	}
	width := f.binWidth(m, g.trials)
	for _, line := range g.trials.split(f.lines) {
		first := line.trials[0]
		s := Series{
			Label: f.lineLabel(line.key), Method: first.method, Params: first.params.without([]string{f.x.key, f.x.oracle}).String(),
			Levels: len(levels), Level: f.level(first, levels), Kind: f.kind(first),
		}
		s.Points = a.points(f, m, line.trials, panel.Ordinals, width, panel.Title+"|"+s.Label)
		if len(s.Points) > 0 {
			panel.Series = append(panel.Series, s)
		}
	}
	if f.guide != nil {
		panel.Guide, panel.GuideLabel = f.guide.at[g.trials[0].task], f.guide.label
	}
	return panel
}

func (f *figure) level(t *trial, levels []string) int {
	var values []string
	for _, key := range f.lineParameters() {
		values = append(values, t.field(key))
	}
	return slices.Index(levels, strings.Join(values, ";"))
}

// kind is the name that makes a line, if it is one.
func (f *figure) kind(t *trial) string {
	if slices.Contains(f.lines, "method") {
		return t.method
	}
	keys := f.lineParameters()
	if len(keys) != 1 {
		return ""
	}
	value := cmp.Or(t.field(keys[0]), t.method)
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return ""
	}
	return value
}

func panelTitle(fields, values []string) string {
	parts := make([]string, len(values))
	for i, value := range values {
		parts[i] = value
		if !isColumn(fields[i]) {
			parts[i] = symbol(fields[i]) + " = " + value
		}
	}
	return strings.Join(parts, ", ")
}

// lineLabel is what the legend calls a line.
func (f *figure) lineLabel(values []string) string {
	var parts []string
	for i, value := range values {
		switch {
		case isColumn(f.lines[i]):
			parts = append(parts, value)
		case value != "":
			parts = append(parts, symbol(f.lines[i])+" = "+value)
		case f.absent != "":
			parts = append(parts, f.absent)
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}

// xValue is the value of the parameter that is drawn to the right.
func (f *figure) xValue(t *trial) string {
	if t.method == oracle && f.x.oracle != "" {
		return t.params.get(f.x.oracle)
	}
	return cmp.Or(t.params.get(f.x.key), f.x.missing)
}

// ordinals are the values of the parameter to the right. They stand at equal
// distances, as they often go from 0 through decades.
func (f *figure) ordinals(ts trials) []string {
	var values []string
	for _, t := range ts {
		if v := f.xValue(t); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, compareValues)
	return values
}

// mostPoints are drawn of a line; of more, means over bins.
const mostPoints = 120

// binWidth is the width of bins in x, 0 if there are few enough points.
func (f *figure) binWidth(m *shown, ts trials) float64 {
	if f.x.key != "" {
		return 0
	}
	longest, furthest := 0, 0.0
	for _, t := range ts {
		if c := t.curve(m.measure); len(c) > 0 {
			longest, furthest = max(longest, len(c)), max(furthest, c[len(c)-1].x)
		}
	}
	if longest <= mostPoints {
		return 0
	}
	return math.Ceil(furthest / mostPoints)
}

// points are the estimates of a line. Where x is a parameter each trial gives
// one number; where it is the rows', each gives its curve, of which an x is left
// out that fewer than half of the trials have.
func (a *analysis) points(f *figure, m *shown, ts trials, ordinals []string, width float64, name string) []Point {
	curves := make(map[*trial]map[float64]float64, len(ts))
	var xs []float64
	for _, t := range ts {
		at := make(map[float64]float64)
		for _, p := range f.curveOf(m, t, ordinals, width) {
			at[p.x] = p.y
			xs = append(xs, p.x)
		}
		curves[t] = at
	}
	slices.Sort(xs)
	var points []Point
	for _, x := range slices.Compact(xs) {
		s := a.sampleOf(ts, m.measure, m.relative, func(t *trial) (float64, bool) {
			v, ok := curves[t][x]
			return v, ok
		})
		if f.x.key == "" && 2*s.size() < len(ts) {
			continue
		}
		if len(s) > 0 {
			label := fmt.Sprintf("%s|%s|%s|%v", f.name, m.measure, name, x)
			points = append(points, Point{x + f.x.offset, a.boot.estimate(label, s)})
		}
	}
	return points
}

func (f *figure) curveOf(m *shown, t *trial, ordinals []string, width float64) curve {
	c := t.curve(m.measure).between(m.from, m.to)
	switch {
	case len(c) == 0:
		return nil
	case f.x.key != "":
		x := slices.Index(ordinals, f.xValue(t))
		if x < 0 {
			return nil
		}
		return curve{{float64(x), reduced(m.measure, c)}}
	case width > 0:
		return c.binned(width)
	}
	return c
}

// bandsOf says what the bands mean: as in the paper, the range of the models'
// means; with one model the interval over its trials.
func bandsOf(panels []Panel) string {
	models, known := 0, false
	for _, panel := range panels {
		for _, s := range panel.Series {
			for _, p := range s.Points {
				models = max(models, p.BFMs)
				known = known || p.Confidence.Known()
			}
		}
	}
	switch {
	case models > 1:
		return "Bands: from the lowest to the highest mean of " + strconv.Itoa(models) + " models"
	case known:
		return "Bands: 95 % intervals over trials (one model)"
	}
	return "No bands: one model, and one trial a task"
}
