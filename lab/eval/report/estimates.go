package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"
)

// column is a column of a file and what it holds.
type column struct{ Name, Meaning string }

// resultColumns explain a results file; the test of this package fails where
// eval.Columns has others.
var resultColumns = []column{
	{"experiment", "the protocol's experiment"},
	{"env", "the environment, such as walker"},
	{"task", "the reward to find out, such as walk"},
	{"bundle", "path of the model, as the protocol names it"},
	{"bfm_seed", "seed of the model's training"},
	{"method", "what chose the task embedding: ucb, thompson, their episode-level variants (_ep), a baseline, or the oracle"},
	{"params", "key=value;key=value: what tells runs of a method apart"},
	{"trial", "number of the trial, from 0"},
	{"seed", "of the trial: all its random numbers follow from it"},
	{"measure", "return: sum of the rewards of an episode; reward: mean since the row before; labels and asked: used and requested so far; hz: decisions a second of processor time"},
	{"x", "the episode, from 0 (return); steps so far (reward, labels, asked); decisions measured (hz)"},
	{"value", "of the measure"},
	{"version", "of the program"},
	{"model_hash", "sha256 of the model's weights"},
	{"protocol_hash", "of the experiment as it was run, defaults filled in"},
}

// estimateColumns explain the file of what the figures show.
var estimateColumns = []column{
	{"figure", "name of the figure's files"},
	{"panel", "title of the panel"},
	{"line", "label in the legend"},
	{"params", "the method's hyper-parameters, less the one to the right"},
	{"measure", "label of the vertical axis"},
	{"x", "place on the horizontal axis; the value of the parameter where it is one"},
	{"mean", "over trials, then tasks, then models"},
	{"ci_low", "lower end of the 95 % interval of the mean; empty if unknown"},
	{"ci_high", "its upper end"},
	{"model_min", "least mean of a model"},
	{"model_max", "greatest mean of a model"},
	{"iqm", "interquartile mean of all trials"},
	{"models", "how many there are"},
	{"tasks", "how many there are"},
	{"trials", "how many there are in all"},
}

// Estimates is every point of every figure, as CSV.
func (r *Report) Estimates() ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	header := make([]string, len(estimateColumns))
	for i, c := range estimateColumns {
		header[i] = c.Name
	}
	records := [][]string{header}
	for i := range r.Figures {
		f := &r.Figures[i]
		for j := range f.Panels {
			panel := &f.Panels[j]
			for _, s := range panel.Series {
				for _, p := range s.Points {
					records = append(records, append([]string{f.Name, panel.Title, s.Label, s.Params, panel.YLabel}, panel.fields(&p)...))
				}
			}
		}
	}
	if err := w.WriteAll(records); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// fields are a point's columns from x on.
func (p *Panel) fields(at *Point) []string {
	x := plain(at.X)
	if len(p.Ordinals) > 0 {
		x = p.Ordinals[int(at.X)]
	}
	return []string{
		x, plain(at.Mean), plain(at.Confidence.Low), plain(at.Confidence.High), plain(at.Models.Low), plain(at.Models.High), plain(at.IQM),
		strconv.Itoa(at.BFMs), strconv.Itoa(at.Tasks), strconv.Itoa(at.Trials),
	}
}

func plain(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 8, 64)
}
