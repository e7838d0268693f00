package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Verdict says how a claim fared.
type Verdict int

// A verdict is CannotTell until the 95 % intervals decide it.
const (
	CannotTell Verdict = iota
	Holds
	DoesNotHold
)

// String is the verdict in words.
func (v Verdict) String() string { return [...]string{"cannot tell", "holds", "does not hold"}[v] }

// claim declares something that the paper says (in our words), and how it is
// judged. It holds if all its checks hold in every environment; it does not
// hold if one of them is refuted in one.
type claim struct {
	name       string
	text       string
	experiment string
	over       *sweep   // the checks are made for several values of a parameter
	apart      []string // parameters whose values have hyper-parameters of their own
	note       string   // what a reader must know of how it is judged
	checks     []check
}

// sweep is the values of a parameter for which checks are made.
type sweep struct {
	key    string
	which  string // in words: "every α up to 10"
	wanted func(value float64) bool
	some   bool // one value for which all checks hold is enough
}

// check compares a quantity, or two, with a bound.
type check struct {
	text    string // what is compared, for people
	of      quantity
	against *quantity // subtracted from or dividing the first; nil: the first alone
	ratio   bool      // divides
	bound   float64
	atMost  bool // the bound is an upper one
}

// quantity is a number of each trial of a method.
type quantity struct {
	method   string
	where    parameters // the trials have these
	swept    bool       // and the sweep's parameter has the value that is judged
	measure  string
	relative bool
	from, to float64 // of x
}

// Judgement is a claim with what the results say about it.
type Judgement struct {
	Name, Claim, Experiment string
	Verdict                 Verdict
	Reason                  string // why it cannot be told, or what refutes it; "" where it holds
	Findings                []Finding
	Note                    string // how it is judged, and what people say about it, "" if nothing
}

// Finding is a check in one environment.
type Finding struct {
	Env        string
	What       string // the compared quantities, with the value of a swept parameter
	Wanted     string // such as "at least 0.95"
	Value      float64
	Confidence Interval
	Verdict    Verdict
	Reason     string // why it cannot be told, "" if it can
	Trials     int

	margin float64 // from the bound to the nearer end of the interval
}

// judge says how a claim fared.
func (a *analysis) judge(c *claim) Judgement {
	j := Judgement{Name: c.name, Claim: c.text, Experiment: c.experiment, Note: c.note}
	ts := a.trials.of(c.experiment)
	if len(ts) == 0 {
		j.Reason = fmt.Sprintf("no rows of the experiment %q", c.experiment)
		return j
	}
	var verdicts []Verdict
	for _, env := range ts.values("env") {
		verdict, findings := a.judgeIn(c, ts.where(func(t *trial) bool { return t.env == env }), env)
		verdicts = append(verdicts, verdict)
		j.Findings = append(j.Findings, findings...)
	}
	j.Verdict = all(verdicts)
	j.Reason = j.reason()
	return j
}

// judgeIn judges a claim by the trials of one environment.
func (a *analysis) judgeIn(c *claim, ts trials, env string) (Verdict, []Finding) {
	if c.over == nil {
		findings := a.checked(c, ts, env, "")
		return all(verdictsOf(findings)), findings
	}
	var verdicts []Verdict
	var findings []Finding
	for _, value := range c.sweptValues(ts) {
		found := a.checked(c, ts, env, value)
		verdicts = append(verdicts, all(verdictsOf(found)))
		findings = append(findings, found...)
	}
	if len(findings) == 0 {
		return CannotTell, []Finding{{Env: env, What: c.over.which, Value: math.NaN(), Confidence: unknown(), Reason: "no rows with " + c.over.which}}
	}
	if c.over.some {
		return some(verdicts), findings
	}
	return all(verdicts), findings
}

// sweptValues are the values of the sweep's parameter that the trials have.
func (c *claim) sweptValues(ts trials) []string {
	var values []string
	for i := range c.checks {
		method := c.checks[i].of.method
		for _, value := range ts.where(func(t *trial) bool { return t.method == method }).values(c.over.key) {
			v, err := strconv.ParseFloat(value, 64)
			if err == nil && c.over.wanted(v) && !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
	}
	slices.SortFunc(values, compareValues)
	return values
}

func (a *analysis) checked(c *claim, ts trials, env, value string) []Finding {
	findings := make([]Finding, len(c.checks))
	for i := range c.checks {
		findings[i] = a.check(c, &c.checks[i], ts, env, value)
	}
	return findings
}

// check compares in one environment, with one value of a swept parameter.
func (a *analysis) check(c *claim, k *check, ts trials, env, value string) Finding {
	f := Finding{Env: env, What: k.text, Wanted: k.wanted(), Value: math.NaN(), Confidence: unknown()}
	if value != "" {
		f.What += fmt.Sprintf(" (%s = %s)", symbol(c.over.key), value)
	}
	of, reason := a.sample(c, &k.of, ts, value)
	if reason != "" {
		f.Reason = reason
		return f
	}
	f.Trials = of.size()
	compare, repeated := of.redraw, of.repeated()
	f.Value = of.mean()
	if k.against != nil {
		against, reason := a.sample(c, k.against, ts, value)
		if reason != "" {
			f.Value, f.Reason = math.NaN(), reason
			return f
		}
		if !sameStrata(of, against) {
			f.Value, f.Reason = math.NaN(), "the two were not tried with the same models and tasks"
			return f
		}
		f.Trials += against.size()
		f.Value = k.combine(of.mean(), against.mean())
		compare = func(rng *rand.Rand) float64 { return k.combine(of.redraw(rng), against.redraw(rng)) }
		repeated = repeated && against.repeated()
	}
	if !repeated {
		f.Reason = "one trial of a task: no interval"
		return f
	}
	f.Confidence = a.boot.interval(c.name+"|"+f.What+"|"+env, compare)
	f.Verdict, f.Reason = k.decide(f.Confidence)
	f.margin = min(math.Abs(f.Confidence.Low-k.bound), math.Abs(f.Confidence.High-k.bound))
	return f
}

func (k *check) combine(of, against float64) float64 {
	if k.ratio {
		return of / against
	}
	return of - against
}

func (k *check) wanted() string {
	if k.atMost {
		return fmt.Sprintf("at most %g", k.bound)
	}
	return fmt.Sprintf("at least %g", k.bound)
}

// decide compares an interval with the bound.
func (k *check) decide(i Interval) (Verdict, string) {
	low, high := i.Low-k.bound, i.High-k.bound
	if k.atMost {
		low, high = -high, -low
	}
	switch {
	case !i.Known():
		return CannotTell, "no interval: what is divided by may be zero"
	case low >= 0:
		return Holds, ""
	case high < 0:
		return DoesNotHold, ""
	}
	return CannotTell, fmt.Sprintf("the interval covers %g", k.bound)
}

// sample takes the quantity of each of a method's trials, with its best
// hyper-parameters; a reason says why there is none.
func (a *analysis) sample(c *claim, q *quantity, ts trials, value string) (sample, string) {
	method := ts.where(func(t *trial) bool { return t.method == q.method })
	if len(method) == 0 {
		return nil, "no rows of " + q.method
	}
	wanted := slices.Clone(q.where)
	if q.swept {
		wanted = append(wanted, parameter{c.over.key, value})
	}
	matching := a.best("claim "+c.name, method, c.varied(), c.apart).where(func(t *trial) bool { return has(t.params, wanted) })
	if len(matching) == 0 {
		return nil, fmt.Sprintf("no rows of %s with %s", q.method, wanted.label())
	}
	number := func(t *trial) (float64, bool) {
		part := t.curve(q.measure).between(q.from, q.to)
		if len(part) == 0 {
			return 0, false
		}
		return reduced(q.measure, part), true
	}
	all := a.sampleOf(matching, q.measure, false, number)
	if len(all) == 0 {
		return nil, fmt.Sprintf("no %s of %s in that range", q.measure, q.method)
	}
	if !q.relative {
		return all, ""
	}
	s := a.sampleOf(matching, q.measure, true, number)
	if lacking := missingFrom(s, all); lacking != "" {
		return nil, "no oracle, or one whose returns are not positive, on " + lacking
	}
	return s, ""
}

// missingFrom is the first task that is in all but not in part, "" if there is
// none.
func missingFrom(part, all sample) string {
	for i := range all {
		if !slices.ContainsFunc(part, func(s stratum) bool { return s.bfm == all[i].bfm && s.task == all[i].task }) {
			return all[i].task
		}
	}
	return ""
}

// has says whether parameters have all the wanted values. Where a parameter is
// missing, 0 is meant, as of noise that an experiment does not add.
func has(p, wanted parameters) bool {
	return !slices.ContainsFunc(wanted, func(w parameter) bool {
		if !p.has(w.key) {
			return compareValues(w.value, "0") != 0
		}
		return compareValues(p.get(w.key), w.value) != 0
	})
}

// varied are the parameters by which the claim tells trials apart: the others
// are tuned.
func (c *claim) varied() []string {
	var keys []string
	if c.over != nil {
		keys = append(keys, c.over.key)
	}
	for i := range c.checks {
		for _, q := range []*quantity{&c.checks[i].of, c.checks[i].against} {
			if q == nil {
				continue
			}
			for _, p := range q.where {
				keys = append(keys, p.key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (s sample) size() int {
	n := 0
	for i := range s {
		n += len(s[i].values)
	}
	return n
}

// sameStrata says whether two samples are of the same models and tasks, without
// which their means are not comparable.
func sameStrata(a, b sample) bool {
	return slices.EqualFunc(a, b, func(x, y stratum) bool { return x.bfm == y.bfm && x.task == y.task })
}

func verdictsOf(findings []Finding) []Verdict {
	verdicts := make([]Verdict, len(findings))
	for i := range findings {
		verdicts[i] = findings[i].Verdict
	}
	return verdicts
}

// all holds if each does, and does not if one does not.
func all(verdicts []Verdict) Verdict {
	switch {
	case slices.Contains(verdicts, DoesNotHold):
		return DoesNotHold
	case slices.Contains(verdicts, CannotTell):
		return CannotTell
	}
	return Holds
}

// some holds if one does, and does not if none can.
func some(verdicts []Verdict) Verdict {
	switch {
	case slices.Contains(verdicts, Holds):
		return Holds
	case slices.Contains(verdicts, CannotTell):
		return CannotTell
	}
	return DoesNotHold
}

// reason collects why the verdict is not that the claim holds.
func (j *Judgement) reason() string {
	if j.Verdict == Holds {
		return ""
	}
	var reasons []string
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.Verdict != j.Verdict {
			continue
		}
		reason := fmt.Sprintf("%s: %s is %s", f.Env, f.What, number(f.Value))
		if f.Verdict == CannotTell {
			reason = f.Env + ": " + f.Reason
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, "; ")
}

// number is a value for people: three digits that count.
func number(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if parsed, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(parsed) >= 1e-3 || v == 0 {
		return strconv.FormatFloat(parsed, 'f', -1, 64)
	}
	return text
}
