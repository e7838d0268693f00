package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Verdict says how a claim fared.
type Verdict int

// A verdict is CannotTell until the trials decide it at 95 %.
const (
	CannotTell  Verdict = iota
	Holds               // of a claim: all of it
	HoldsInPart         // what was run of it holds; the rest, some environments or tasks perhaps, was not run
	DoesNotHold
	NotRun   // there are no rows to judge by
	Measured // of a finding that nothing is claimed about
)

// String is the verdict in words.
func (v Verdict) String() string {
	return [...]string{"cannot tell", "holds", "holds in part", "does not hold", "not run", "measured"}[v]
}

// claim declares something that the paper says (in our words) or that we ask, and
// how it is judged. It holds if all its checks hold in every environment; it does
// not hold if one of them is refuted in one.
type claim struct {
	name       string
	text       string
	experiment string
	ours       bool     // the paper does not ask it
	joint      bool     // its checks say something together only: one that was not run leaves it open
	over       *sweep   // the checks are made for several values of a parameter
	apart      []string // parameters whose values have hyper-parameters of their own
	note       string   // what a reader must know of how it is judged
	checks     []check
}

// sweep is the values of a parameter for which checks are made. Of the values that
// are not wanted the same is measured, and nothing claimed.
type sweep struct {
	key    string
	which  string // in words: "every α up to 10"
	wanted func(value float64) bool
	must   []float64 // without these only part of the claim was tried
	some   bool      // one value for which all checks hold is enough
}

// check compares a quantity, or two, with a bound.
type check struct {
	text    string // what is compared, for people
	of      quantity
	against *quantity // subtracted from or dividing the first; nil: the first alone
	ratio   bool      // divides
	bound   float64
	atMost  bool // the bound is an upper one
	told    bool // it is only measured: there is no bound
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
	Ours                    bool // the paper does not claim it
	Verdict                 Verdict
	Reason                  string  // why it cannot be told, what refutes it, or what was not run; "" where all of it holds
	Doubt                   float64 // probability of as clear a verdict if the truth were at the bound, all checks considered; 1 if unknown
	Together                float64 // the same where all claims are judged together (Holm, 1979)
	Findings                []Finding
	Tried, Untried          []string // environments; untried are those that it is about, too
	Note                    string   // how it is judged, and what people say about it, "" if nothing
}

// Finding is a check in one environment.
type Finding struct {
	Env        string
	What       string // the compared quantities, with the value of a swept parameter
	Wanted     string // such as "at least 0.95", "" where nothing is claimed
	Value      float64
	Confidence Interval
	Verdict    Verdict  // this check's alone
	Reason     string   // why it cannot be told, "" if it can
	Untried    []string // tasks of the environment that it is about, too, and how many of its models
	Trials     int      // of both quantities
	Compared   bool     // there are two quantities
	Paired     bool     // their trials have the same seeds

	doubts doubts
	value  string // of the swept parameter
	beside bool   // another value of the swept parameter decides
}

// judge says how a claim fared.
func (a *analysis) judge(c *claim) Judgement {
	j := Judgement{Name: c.name, Claim: c.text, Experiment: c.experiment, Ours: c.ours, Note: c.note, Verdict: NotRun, Doubt: 1, Together: 1}
	ts := a.trials.of(c.experiment)
	if len(ts) == 0 {
		j.Reason = fmt.Sprintf("no rows of the experiment %q", c.experiment)
		return j
	}
	var each []doubts
	j.Tried = ts.values("env")
	for _, env := range j.Tried {
		d, findings := a.judgeIn(c, c.grounds(ts.where(func(t *trial) bool { return t.env == env })), env)
		each = append(each, d)
		j.Findings = append(j.Findings, findings...)
	}
	for _, env := range environments(c.experiment) {
		if !slices.Contains(j.Tried, env) {
			j.Untried = append(j.Untried, env)
			each = append(each, untried)
		}
	}
	d := allOf(each)
	j.Verdict, j.Doubt = d.verdict(), min(1, 2*min(d.holds, d.fails))
	j.Reason = j.reason()
	return j
}

// judgeIn judges a claim by the trials of one environment.
func (a *analysis) judgeIn(c *claim, ts grounds, env string) (doubts, []Finding) {
	if c.over == nil {
		findings := a.checked(c, ts, env, "", true)
		return c.doubts(findings), findings
	}
	var each []doubts
	var findings []Finding
	var texts []string // of the values of each
	values := c.sweptValues(ts)
	for _, value := range values {
		found := a.checked(c, ts, env, value.text, value.wanted)
		if value.wanted {
			each, texts = append(each, c.doubts(found)), append(texts, value.text)
		}
		findings = append(findings, found...)
	}
	if len(each) == 0 {
		return untried, append(findings, notRunFinding(env, c.over.which))
	}
	if c.over.some {
		if i := decider(each); i >= 0 {
			for k := range findings {
				findings[k].beside = findings[k].value != texts[i]
			}
		}
		return someOf(each), findings
	}
	for _, value := range c.over.lacking(values) {
		findings = append(findings, notRunFinding(env, fmt.Sprintf("%s = %s", symbol(c.over.key), value)))
		each = append(each, untried)
	}
	return allOf(each), findings
}

// lacking are the values without which only part of the claim was tried.
func (s *sweep) lacking(values []sweptValue) []string {
	var lacking []string
	for _, must := range s.must {
		text := strconv.FormatFloat(must, 'f', -1, 64)
		if !slices.ContainsFunc(values, func(v sweptValue) bool { return compareValues(v.text, text) == 0 }) {
			lacking = append(lacking, text)
		}
	}
	return lacking
}

// notRunFinding is in the place of those that there are no rows for.
func notRunFinding(env, what string) Finding {
	return Finding{Env: env, What: what, Value: math.NaN(), Confidence: unknown(), Verdict: NotRun, Reason: "no rows with " + what, doubts: untried}
}

// doubts are those of the checks of one value.
func (c *claim) doubts(findings []Finding) doubts {
	d := allOf(doubtsOf(findings))
	if c.joint && slices.ContainsFunc(findings, func(f Finding) bool { return f.Verdict == NotRun }) {
		d.holds = 1
	}
	return d
}

// sweptValue is a value of the sweep's parameter.
type sweptValue struct {
	text   string
	wanted bool
}

// sweptValues are those that the trials have, less what they are compared with.
func (c *claim) sweptValues(ts grounds) []sweptValue {
	var values []sweptValue
	for i := range c.checks {
		of := &c.checks[i].of
		for _, value := range ts.where(func(t *trial) bool { return t.method == of.method && has(t.params, of.where) }).values(c.over.key) {
			v, err := strconv.ParseFloat(value, 64)
			swept := sweptValue{value, c.over.wanted(v)}
			if err == nil && !c.comparesWith(value) && !slices.Contains(values, swept) {
				values = append(values, swept)
			}
		}
	}
	slices.SortFunc(values, func(x, y sweptValue) int { return compareValues(x.text, y.text) })
	return values
}

// comparesWith says whether a value of the sweep's parameter is what the others
// are compared with.
func (c *claim) comparesWith(value string) bool {
	return slices.ContainsFunc(c.checks, func(k check) bool {
		if k.against == nil {
			return false
		}
		with := k.against.where.get(c.over.key)
		return with != "" && compareValues(with, value) == 0
	})
}

func (a *analysis) checked(c *claim, ts grounds, env, value string, wanted bool) []Finding {
	var findings []Finding
	for _, k := range c.checks {
		k.told = k.told || !wanted
		if f := a.check(c, &k, ts, env, value); !k.told || f.Verdict == Measured {
			findings = append(findings, f)
		}
	}
	return findings
}

// check compares in one environment, with one value of a swept parameter.
func (a *analysis) check(c *claim, k *check, ts grounds, env, value string) Finding {
	f := Finding{Env: env, What: k.text, Wanted: k.wanted(), Value: math.NaN(), Confidence: unknown(), doubts: undecided, value: value}
	if value != "" {
		f.What += fmt.Sprintf(" (%s = %s)", symbol(c.over.key), value)
	}
	samples, statistic, err := a.compared(c, k, ts, value)
	if err != nil {
		f.Reason = err.Error()
		if lacking := notRunError(""); errors.As(err, &lacking) {
			f.Verdict, f.doubts = NotRun, untried
		}
		return f.asTold(k)
	}
	f.Value = statistic(meanOf)
	f.Compared = k.against != nil
	repeated := true
	for _, s := range samples {
		f.Trials += s.size()
		repeated = repeated && s.repeated()
	}
	f.Paired = f.Compared && samples[0].paired(samples[1])
	if !repeated {
		f.Reason = "one trial of a task: no interval"
		return f.asTold(k)
	}
	u := a.boot.uncertainty(c.name+"|"+f.What+"|"+env, samples, statistic)
	f.Confidence, f.doubts = u.interval(), k.doubts(u)
	f.Verdict, f.Reason = k.decide(f.Confidence)
	if f.Untried = append(samples[0].untried(tasks(c.experiment, env)), ts.untried...); len(f.Untried) > 0 {
		f.doubts.lacking = true
	}
	if f.Verdict == Holds && f.doubts.lacking {
		f.Verdict = HoldsInPart
	}
	if f.Verdict == CannotTell && f.Confidence.Known() {
		f.Reason += k.wish(u, samples[0])
	}
	return f.asTold(k)
}

// asTold takes the verdict off a finding of which nothing is claimed.
func (f Finding) asTold(k *check) Finding {
	if k.told {
		f.doubts = untold
		if f.Verdict != NotRun {
			f.Verdict, f.Reason = Measured, ""
		}
	}
	return f
}

// compared are the samples of a check, one or two, and what is computed of them.
func (a *analysis) compared(c *claim, k *check, ts grounds, value string) ([]sample, func(centre) float64, error) {
	of, err := a.sample(c, &k.of, ts, value)
	if err != nil || k.against == nil {
		return []sample{of}, of.statistic, err
	}
	against, err := a.sample(c, k.against, ts, value)
	if err != nil {
		return nil, nil, err
	}
	if !of.samePlaces(against) {
		return nil, nil, errors.New("the two were not tried with the same models and tasks")
	}
	statistic := func(centre centre) float64 { return k.combine(of.statistic(centre), against.statistic(centre)) }
	return []sample{of, against}, statistic, nil
}

func (k *check) combine(of, against float64) float64 {
	if k.ratio {
		return of / against
	}
	return of - against
}

func (k *check) wanted() string {
	switch {
	case k.told:
		return ""
	case k.atMost:
		return fmt.Sprintf("at most %g", k.bound)
	}
	return fmt.Sprintf("at least %g", k.bound)
}

// doubts are those of a number about the check's bound.
func (k *check) doubts(u uncertainty) doubts {
	below := uncertainty{-u.value, u.above, u.below, u.freedom} // as seen from the other side
	d := doubts{holds: u.doubt(k.bound), fails: below.doubt(-k.bound), tried: true}
	if k.atMost {
		d.holds, d.fails = d.fails, d.holds
	}
	return d
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
	case low > 0:
		return Holds, ""
	case high < 0:
		return DoesNotHold, ""
	}
	return CannotTell, fmt.Sprintf("the interval covers %g", k.bound)
}

// mostWished is beyond what anybody runs.
const mostWished = 1000

// wish says how many trials might decide, if they were as those that there are:
// the interval must be as narrow as the value is far from the bound.
func (k *check) wish(u uncertainty, s sample) string {
	i := u.interval()
	end, off := u.value-i.Low, u.value-k.bound
	if off < 0 {
		end, off = i.High-u.value, -off
	}
	trials := math.Ceil(float64(s.size()) / float64(len(s)) * (end / off) * (end / off))
	if !(trials <= mostWished) {
		return ", and the value lies too near to it for any number of trials"
	}
	return fmt.Sprintf("; %.0f trials of a task might tell", trials)
}

// notRunError says of what there are no rows.
type notRunError string

func (e notRunError) Error() string { return string(e) }

func notRun(format string, args ...any) error { return notRunError(fmt.Sprintf(format, args...)) }

// sample takes the quantity of each of a method's trials, with its best
// hyper-parameters.
func (a *analysis) sample(c *claim, q *quantity, ts grounds, value string) (sample, error) {
	method := ts.where(func(t *trial) bool { return t.method == q.method })
	if len(method) == 0 {
		return nil, notRun("no rows of %s", q.method)
	}
	wanted := slices.Clone(q.where)
	if q.swept {
		wanted = append(wanted, parameter{c.over.key, value})
	}
	matching := a.best("claim "+c.name, method, c.varied(), c.apart).where(func(t *trial) bool { return has(t.params, wanted) })
	if len(matching) == 0 {
		return nil, notRun("no rows of %s with %s", q.method, c.telling(wanted).label())
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
		return nil, notRun("no %s of %s in that range", q.measure, q.method)
	}
	if !q.relative {
		return all, nil
	}
	s := a.sampleOf(matching, q.measure, true, number)
	if lacking := missingFrom(s, all); lacking != "" {
		return nil, fmt.Errorf("no oracle, or one whose returns are not positive, on %s", lacking)
	}
	return s, nil
}

// telling leaves out what is 0 and not swept, as weaknesses that an operator does
// not have.
func (c *claim) telling(wanted parameters) parameters {
	return slices.DeleteFunc(slices.Clone(wanted), func(p parameter) bool {
		return compareValues(p.value, "0") == 0 && (c.over == nil || p.key != c.over.key)
	})
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

// reason collects why the verdict is not that all of the claim holds.
func (j *Judgement) reason() string {
	switch j.Verdict {
	case Holds:
		return ""
	case HoldsInPart:
		return j.notRun()
	case CannotTell:
		return cmp.Or(j.reasonOf(CannotTell), j.reasonOf(NotRun), "a check fails, but of so many one may fail by chance")
	}
	return j.reasonOf(j.Verdict)
}

// notRun names what was not run.
func (j *Judgement) notRun() string {
	reasons := j.reasonOf(NotRun, HoldsInPart)
	if len(j.Untried) == 0 {
		return reasons
	}
	whole := strings.Join(j.Untried, ", ") + ": not run"
	if reasons == "" {
		return whole
	}
	return whole + "; " + reasons
}

// Extent says which environments hold that are not all, "" where it is all.
func (j *Judgement) Extent() string {
	if j.Verdict != HoldsInPart || len(j.Untried) == 0 {
		return ""
	}
	return strings.Join(j.Tried, ", ") + " only"
}

// reasonOf collects the findings of some verdicts.
func (j *Judgement) reasonOf(some ...Verdict) string {
	var reasons []string
	envs := make(map[string][]string) // by reason
	for i := range j.Findings {
		f := &j.Findings[i]
		if !slices.Contains(some, f.Verdict) {
			continue
		}
		why := f.explained()
		if envs[why] == nil {
			reasons = append(reasons, why)
		}
		if !slices.Contains(envs[why], f.Env) {
			envs[why] = append(envs[why], f.Env)
		}
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(envs[why], ", ") + ": " + why
	}
	return shortened(reasons)
}

// mostReasons are listed; the table of the findings has all.
const mostReasons = 3

func shortened(reasons []string) string {
	if more := len(reasons) - mostReasons; more > 0 {
		reasons = append(reasons[:mostReasons:mostReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "; ")
}

// explained says why a finding is no reason for the claim to hold.
func (f *Finding) explained() string {
	switch f.Verdict {
	case DoesNotHold:
		return fmt.Sprintf("%s is %s", f.What, number(f.Value))
	case NotRun:
		return "not run: " + f.Reason
	case HoldsInPart:
		return f.untried()
	}
	return f.Reason
}

// untried says which tasks and how many models were not run, "" if all were.
func (f *Finding) untried() string {
	if len(f.Untried) == 0 {
		return ""
	}
	return "not run: " + strings.Join(f.Untried, ", ")
}

// Remark is what a reader must know beside the verdict, "" if nothing.
func (f *Finding) Remark() string {
	untried := f.untried()
	if f.Reason == "" || untried == "" {
		return f.Reason + untried
	}
	return f.Reason + "; " + untried
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
