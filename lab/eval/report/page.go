package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's template and style
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
)

var (
	//go:embed page/page.html
	pageSource string
	//go:embed page/page.css
	pageStyle string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"grouped": grouped,
	"grade":   grade,
	"number":  number,
	"short":   func(hash string) string { return hash[:min(len(hash), 12)] },
}).Parse(pageSource))

// grade is the class of a verdict.
func grade(v Verdict) string { return [...]string{"warn", "good", "good", "bad", "none", "none"}[v] }

// drawn is a figure as the page shows it.
type drawn struct {
	*Figure
	Plots  []template.HTML
	Legend []key
	File   string // its path beside the page, without the ending
}

// key is a line of the page's legend.
type key struct {
	Label string
	Mark  template.HTML
}

// Page is the report as one page that loads nothing: its policy forbids it to,
// and it has no script.
func (r *Report) Page() ([]byte, error) {
	var figures []drawn
	var lacking []*Figure
	for i := range r.Figures {
		f := &r.Figures[i]
		if len(f.Panels) == 0 {
			lacking = append(lacking, f)
			continue
		}
		d, err := drawInline(f)
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		figures = append(figures, d)
	}
	style := pageStyle + inkStyle()
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, struct {
		*Report
		Drawn           []drawn
		Lacking         []*Figure
		Policy          string
		Style           template.CSS
		ResultColumns   []column
		EstimateColumns []column
	}{
		r, figures, lacking, "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashSource(style),
		template.CSS(style), resultColumns, estimateColumns,
	})
	return out.Bytes(), err
}

func drawInline(f *Figure) (drawn, error) {
	d := drawn{Figure: f, File: FiguresName + "/" + f.Name}
	looks := looks(f)
	for i := range f.Panels {
		plot, err := f.Panels[i].inline(looks)
		if err != nil {
			return d, err
		}
		d.Plots = append(d.Plots, plot)
	}
	for _, e := range f.legend() {
		mark, err := e.mark()
		if err != nil {
			return d, err
		}
		d.Legend = append(d.Legend, key{e.label, mark})
	}
	return d, nil
}

// FigureOf is the first figure of an experiment, "" if nothing is shown of it.
func (r *Report) FigureOf(experiment string) string {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Experiment == experiment && len(f.Panels) > 0 {
			return f.Name
		}
	}
	return ""
}

// hashSource is how a content security policy names an inline style.
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// count is how many claims have a verdict, in words.
type count struct {
	Verdict Verdict
	Text    string
}

// claimed are the claims of a section of the page.
type claimed struct {
	ID, Title string
	Counts    []count
	Claims    []*Judgement
}

// Claimed are the paper's claims and ours.
func (r *Report) Claimed() []claimed {
	return []claimed{r.claimed(false, "claims", "The paper's claims"), r.claimed(true, "ours", "What else we ask")}
}

func (r *Report) claimed(ours bool, id, title string) claimed {
	c := claimed{ID: id, Title: title}
	for _, v := range verdictsInOrder {
		if n := r.Count(ours, v); n > 0 {
			c.Counts = append(c.Counts, count{v, words(v, n)})
		}
	}
	for i := range r.Claims {
		if r.Claims[i].Ours == ours {
			c.Claims = append(c.Claims, &r.Claims[i])
		}
	}
	return c
}

// Hashes are the first characters of the experiment's protocols.
func (e *ExperimentOrigin) Hashes() string {
	short := make([]string, len(e.Protocols))
	for i, hash := range e.Protocols {
		short[i] = hash[:min(len(hash), 12)]
	}
	return strings.Join(short, " ")
}
