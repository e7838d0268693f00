package theory

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
)

// Claim is a measured statement.
type Claim struct {
	Group    string // coverage, misspecified, regret, bound, worst task, control
	Text     string
	Measured Interval
	Want     string // the statement's value
	Verdict  Verdict
	Note     string
}

// Verdict is the result of a claim.
type Verdict string

// The verdicts. An undecided claim is true for one end of the interval only: more runs decide.
const (
	Holds     Verdict = "yes"
	Fails     Verdict = "NO"
	Undecided Verdict = "undecided"
)

func atLeast(i Interval, limit float64) Verdict { return judge(i.Low >= limit, i.High >= limit) }

func below(i Interval, limit float64) Verdict { return judge(i.High < limit, i.Low < limit) }

func judge(surely, perhaps bool) Verdict {
	switch {
	case surely:
		return Holds
	case perhaps:
		return Undecided
	}
	return Fails
}

// Curve is a growing sum or a falling share over a run.
type Curve struct {
	// Group: "random", "fork", "worst task" and "misspecified regret" are regret over episodes;
	// "misspecified" is the share of runs covered so far, over labels; "width" is the share of runs
	// with a largest ‖z* - ẑ‖_V/β of at most x.
	Group string
	Name  string
	X     []float64
	Y     []Interval // mean and middle 90 % of the runs; of a share its confidence interval
}

// Report is the result of Check.
type Report struct {
	Runs   int
	Seed   uint64
	Claims []Claim
	Curves []Curve
}

// Count returns the number of claims that have a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, c := range r.Claims {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

func (r *Report) addCoverage(name string, delta float64, control bool, ratios []float64) {
	slices.Sort(ratios)
	covered := Share(within(ratios), len(ratios))
	r.Curves = append(r.Curves, widths(fmt.Sprintf("%s, δ = %g", name, delta), ratios))
	c := Claim{
		Group: "coverage", Measured: covered,
		Text:    fmt.Sprintf("z* in all confidence sets of a run, δ = %g, %s", delta, name),
		Want:    fmt.Sprintf("≥ %g", 1-delta),
		Verdict: atLeast(covered, 1-delta),
		// The width that would have covered 1-δ of the runs.
		Note: fmt.Sprintf("%.2f β would do", stat.Quantile(1-delta, stat.Empirical, ratios, nil)),
	}
	if control {
		c.Group, c.Want, c.Verdict = "control", fmt.Sprintf("< %g", 1-delta), below(covered, 1-delta)
	}
	r.Claims = append(r.Claims, c)
}

// widths returns the distribution of sorted ratios.
func widths(name string, ratios []float64) Curve {
	c := Curve{Group: "width", Name: name}
	points := min(widthPoints, len(ratios))
	for i := range points {
		at := i * (len(ratios) - 1) / (points - 1)
		share := float64(at+1) / float64(len(ratios))
		c.X, c.Y = append(c.X, ratios[at]), append(c.Y, Interval{share, share, share})
	}
	return c
}

// within counts the ratios of at most 1.
func within(ratios []float64) int {
	n := 0
	for _, x := range ratios {
		if x <= 1 {
			n++
		}
	}
	return n
}

func (r *Report) addMisspecified(traces []Trace) {
	for set, name := range []string{"β′", "β + ζ√n", "β"} {
		covered := Share(within(ratios(traces, set)), len(traces))
		c := Claim{
			Group: "misspecified", Measured: covered,
			Text:    fmt.Sprintf("z* in all confidence sets of a run, rewards off by ±%g, width %s", zeta, name),
			Want:    fmt.Sprintf("≥ %g", 1-delta),
			Verdict: atLeast(covered, 1-delta),
		}
		if name == "β" {
			c.Group, c.Want, c.Verdict = "control", fmt.Sprintf("< %g", 1-delta), below(covered, 1-delta)
		}
		r.Claims = append(r.Claims, c)
		r.Curves = append(r.Curves, survival(name, traces, set))
	}
}

// addMisspecifiedRegret adds the curve of the regret with rewards that are not linear.
func (r *Report) addMisspecifiedRegret(name string, traces []Trace) {
	regret := make([][]float64, len(traces))
	for i, t := range traces {
		regret[i] = t.Regret
	}
	r.Curves = append(r.Curves, curve("misspecified regret", name, regret))
}

// survival returns the share of runs with z* in every confidence set so far.
func survival(name string, traces []Trace, set int) Curve {
	shortest := traces[0].Labels
	for _, t := range traces {
		shortest = min(shortest, t.Labels)
	}
	c := Curve{Group: "misspecified", Name: name}
	for _, index := range spaced(1, shortest, curvePoints) {
		in := 0
		for _, t := range traces {
			if t.Left[set] < 0 || t.Left[set] > index+1 {
				in++
			}
		}
		c.X = append(c.X, float64(index+1))
		c.Y = append(c.Y, Share(in, len(traces)))
	}
	return c
}

// Numbers of points of curves and fits.
const (
	curvePoints = 40
	widthPoints = 200
	fitPoints   = 16
)

// fitted returns the episodes for the fit of exponents: the last nine tenths.
func fitted(episodes int) []int { return spaced(episodes/10, episodes, fitPoints) }

func (r *Report) addRegret(family Family, name string, traces []Trace) {
	curves := make([][]float64, len(traces))
	for i, t := range traces {
		curves[i] = t.Regret
	}
	episodes := len(curves[0])
	r.Curves = append(r.Curves, curve(string(family), name, curves))
	exponent := Exponent(curves, fitted(episodes), r.Seed)
	claim := Claim{
		Group: "regret", Measured: exponent,
		Text:    fmt.Sprintf("exponent of the regret over %d episodes, %s, %s", episodes, family, name),
		Want:    "< 0.5",
		Verdict: below(exponent, sqrt),
		Note:    fmt.Sprintf("regret %.3g", band(curves, episodes-1).Value),
	}
	switch {
	case name == "random", name == "greedy" && family == FamilyFork:
		claim.Group, claim.Want, claim.Verdict = "control", "≥ 0.5", atLeast(exponent, sqrt)
	case name == "greedy": // in Random it sees every state without exploring
		return
	}
	r.Claims = append(r.Claims, claim)
	if traces[0].Closed != nil {
		r.addBounds(family, name, traces)
	}
}

// addBounds compares the regret with its bounds, for every run and episode.
func (r *Report) addBounds(family Family, name string, traces []Trace) {
	realised, closed := make([][]float64, len(traces)), make([][]float64, len(traces))
	plans, optimistic := 0, 0
	for i, t := range traces {
		realised[i], closed[i] = t.Realised, t.Closed
		plans, optimistic = plans+t.Plans, optimistic+t.Optimistic
	}
	r.addBound(family, name, "Σ 2β‖ψ‖", traces, realised)
	r.addBound(family, name, "the closed bound", traces, closed)
	share := Share(optimistic, plans)
	r.Claims = append(r.Claims, Claim{
		Group: "bound", Measured: share,
		Text:    fmt.Sprintf("plans whose score is at least V*, %s, %s", family, name),
		Want:    fmt.Sprintf("≥ %g", 1-delta),
		Verdict: atLeast(share, 1-delta),
	})
	r.Curves = append(r.Curves,
		curve(string(family), name+": Σ 2β‖ψ‖", realised), curve(string(family), name+": closed bound", closed))
}

func (r *Report) addBound(family Family, name, bound string, traces []Trace, limits [][]float64) {
	kept, used := 0, 0.0
	for i, t := range traces {
		most := 0.0
		for k, regret := range t.Regret {
			most = max(most, regret/limits[i][k])
		}
		if most <= 1 {
			kept++
		}
		used = max(used, most)
	}
	r.Claims = append(r.Claims, Claim{
		Group: "bound", Measured: Share(kept, len(traces)),
		Text:    fmt.Sprintf("runs whose regret never exceeds %s, %s, %s", bound, family, name),
		Want:    "all",
		Verdict: judge(kept == len(traces), false),
		Note:    fmt.Sprintf("at most %.2g of it", used),
	})
}

func (r *Report) addWorst(name string, byTask [][]Trace) {
	runs, episodes := len(byTask[0]), len(byTask[0][0].Regret)
	means := make([][]float64, len(byTask))
	for i, traces := range byTask {
		means[i] = make([]float64, episodes)
		for _, t := range traces {
			for k, v := range t.Regret {
				means[i][k] += v / float64(runs)
			}
		}
	}
	worst := Curve{Group: "worst task", Name: name}
	for _, k := range spaced(1, episodes, curvePoints) {
		most := 0.0
		for _, mean := range means {
			most = max(most, mean[k])
		}
		worst.X = append(worst.X, float64(k+1))
		worst.Y = append(worst.Y, Interval{most, most, most})
	}
	r.Curves = append(r.Curves, worst)
	exponent := worstExponent(byTask, fitted(episodes), r.Seed)
	r.Claims = append(r.Claims, Claim{
		Group: "worst task", Measured: exponent,
		Text:    fmt.Sprintf("exponent of the greatest regret at n over tasks, fork, %s", name),
		Want:    "< 0.5",
		Verdict: below(exponent, sqrt),
	})
}

func curve(group, name string, curves [][]float64) Curve {
	c := Curve{Group: group, Name: name}
	for _, index := range spaced(1, len(curves[0]), curvePoints) {
		c.X = append(c.X, float64(index+1))
		c.Y = append(c.Y, band(curves, index))
	}
	return c
}

// WriteTable writes the claims as a text table.
func (r Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\tclaim\tmeasured\t%g %% interval\twanted\tholds\t\n", 100*Confidence)
	group := ""
	for _, c := range r.Claims {
		shown := ""
		if c.Group != group {
			group, shown = c.Group, c.Group
		}
		m := c.Measured
		fmt.Fprintf(table, "%s\t%s\t%.3f\t%.3f to %.3f\t%s\t%s\t%s\n",
			shown, c.Text, m.Value, m.Low, m.High, c.Want, c.Verdict, c.Note)
	}
	return table.Flush()
}

// WriteClaims writes the claims as CSV.
func (r Report) WriteClaims(w io.Writer) error {
	rows := [][]string{{"group", "claim", "measured", "low", "high", "wanted", "holds", "note", "runs", "seed"}}
	for _, c := range r.Claims {
		rows = append(rows, []string{
			c.Group, c.Text, number(c.Measured.Value), number(c.Measured.Low), number(c.Measured.High),
			c.Want, string(c.Verdict), c.Note, strconv.Itoa(r.Runs), strconv.FormatUint(r.Seed, 10)})
	}
	return writeCSV(w, rows)
}

// WriteCurves writes the curves as CSV.
func (r Report) WriteCurves(w io.Writer) error {
	rows := [][]string{{"group", "name", "x", "value", "low", "high"}}
	for _, c := range r.Curves {
		for i, x := range c.X {
			y := c.Y[i]
			rows = append(rows, []string{c.Group, c.Name, number(x), number(y.Value), number(y.Low), number(y.High)})
		}
	}
	return writeCSV(w, rows)
}

func writeCSV(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("theory: results: %w", err)
	}
	return nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }
