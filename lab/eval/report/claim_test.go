package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"optibfm/lab/eval"
)

var update = flag.Bool("update", false, "write the golden files anew")

// paperRows are every experiment as the paper tells it.
var paperRows = sync.OnceValue(func() []eval.Row {
	l := newLab()
	l.paper()
	return l.rows
})

var paperReport = sync.OnceValues(func() (*Report, error) { return New(paperRows(), Options{Resamples: 400}) })

func newPaperReport(t testing.TB) *Report {
	t.Helper()
	r, err := paperReport()
	must(t, err)
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; after a wanted change: go test ./eval/report -update\n%s", path, got)
	}
}

func TestTheSummaryOfThePapersOwnResultsIsTheGoldenOne(t *testing.T) {
	var text bytes.Buffer
	must(t, newPaperReport(t).WriteText(&text))
	golden(t, "summary.golden", text.Bytes())
}

func TestEveryClaimHoldsWhereThingsAreAsThePaperTells(t *testing.T) {
	for _, j := range newPaperReport(t).Claims {
		if j.Verdict != Holds || j.Reason != "" || j.Decisive() == nil {
			t.Errorf("%s: %s: %s", j.Name, j.Verdict, j.Reason)
		}
	}
}

func claimNamed(t *testing.T, r *Report, name string) Judgement {
	t.Helper()
	for _, j := range r.Claims {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("no claim %q", name)
	return Judgement{}
}

func TestAClaimDoesNotHoldWhereOneEnvironmentRefutesIt(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	for i := range l.rows {
		if row := &l.rows[i]; row.Env == "walker" && row.Method == ucb {
			row.Value *= 0.9
		}
	}
	j := claimNamed(t, newReport(t, l.rows), "near-oracle")
	if j.Verdict != DoesNotHold || !strings.HasPrefix(j.Reason, "walker: ucb, episodes 5 and later") {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
	for _, f := range j.Findings {
		if want := map[bool]Verdict{true: DoesNotHold, false: Holds}[f.Env == "walker" && strings.HasPrefix(f.What, "ucb")]; f.Verdict != want {
			t.Errorf("%s: %s, want %s", f.String(), f.Verdict, want)
		}
	}
}

func TestWhatCannotBeToldOrWasNotRunIsSaidWithItsReason(t *testing.T) {
	noisy := newLab()
	noisy.spread, noisy.trials = 0.4, 3
	noisy.mainComparison(rises(0.6, 0.95, 1))

	alone := newLab()
	alone.trials = 1
	alone.mainComparison(rises(0.6, 0.99, 1))

	complete := newLab()
	complete.mainComparison(rises(0.6, 0.99, 1))
	lacking := func(method string) []eval.Row {
		return without(complete.rows, func(row *eval.Row) bool { return row.Method == method })
	}
	dead := newLab()
	dead.mainComparison(rises(0.6, 0.99, 1))
	for i := range dead.rows {
		if dead.rows[i].Method == oracle {
			dead.rows[i].Value = 0
		}
	}
	halved := newLab()
	halved.mainComparison(rises(0.6, 0.99, 1))
	ofLola := func(some func(*eval.Row) bool) func(*eval.Row) bool {
		return func(row *eval.Row) bool { return row.Method == lola && some(row) }
	}
	half := without(halved.rows, ofLola(func(row *eval.Row) bool { return row.Task == "run" }))
	oneLess := without(complete.rows, func(row *eval.Row) bool {
		return row.Method == oracle && row.Env == "walker" && row.Task == "stand"
	})
	for _, c := range []struct {
		what, claim, reason string
		verdict             Verdict
		rows                []eval.Row
	}{
		{"wide intervals", "near-oracle", "the interval covers 0.95", CannotTell, noisy.rows},
		{"one trial", "near-oracle", "one trial of a task: no interval", CannotTell, alone.rows},
		{"no oracle", "near-oracle", "no oracle, or one whose returns are not positive, on cheetah/run", CannotTell, lacking(oracle)},
		{"an oracle that gets nothing", "near-oracle", "no oracle, or one whose returns are not positive, on cheetah/run", CannotTell, dead.rows},
		{"a task without an oracle", "near-oracle", "walker: no oracle, or one whose returns are not positive, on walker/stand", CannotTell, oneLess},
		{"no lola", "baselines", "no rows of lola", HoldsInPart, lacking(lola)},
		{"a task without lola", "baselines", "not run: run", HoldsInPart, half},
		{"a model without lola", "baselines", "not run: 1 of 2 models", HoldsInPart, without(halved.rows, ofLola(func(row *eval.Row) bool { return row.BFMSeed == 1 }))},
		{"lola on other tasks", "baselines", "not tried with the same models and tasks", CannotTell, without(halved.rows, func(row *eval.Row) bool {
			return row.Method != oracle && (row.Method == lola) == (row.Task == "run")
		})},
		{"another experiment", "drift", `no rows of the experiment "drift"`, NotRun, complete.rows},
	} {
		j := claimNamed(t, newReport(t, c.rows), c.claim)
		if j.Verdict != c.verdict || !strings.Contains(j.Reason, c.reason) {
			t.Errorf("%s: %s: %s, want %s: %s", c.what, j.Verdict, j.Reason, c.verdict, c.reason)
		}
	}
}

func TestEveryExperimentOfAFigureHasAClaim(t *testing.T) {
	for _, f := range figures {
		if !slices.ContainsFunc(claims, func(c claim) bool { return c.experiment == f.experiment }) {
			t.Errorf("no claim is made of %s", f.experiment)
		}
	}
}

func TestWhatWasRunOfAClaimIsJudged(t *testing.T) {
	l := newLab()
	l.navigation()
	var rows []eval.Row
	for _, row := range l.rows {
		if row.Method != ucb {
			rows = append(rows, row)
		}
	}
	j := claimNamed(t, newReport(t, rows), "navigation")
	if j.Verdict != HoldsInPart || j.Reason != "antmaze: not run: no rows of ucb" || j.Decisive() == nil || !j.Stands() {
		t.Errorf("%s: %s: %+v", j.Verdict, j.Reason, j.Decisive())
	}
	for i := range rows {
		if rows[i].Method == thompson {
			rows[i].Value /= 2
		}
	}
	if j := claimNamed(t, newReport(t, rows), "navigation"); j.Verdict != DoesNotHold {
		t.Errorf("where half of it fails: %s: %s", j.Verdict, j.Reason)
	}
}

func TestAClaimHoldsInPartWhereEnvironmentsOrTheValuesItIsAboutWereNotRun(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	l.disturbances()
	var cheetah, young []eval.Row
	for _, row := range l.rows {
		if row.Env == "cheetah" {
			cheetah = append(cheetah, row)
		}
		if !strings.Contains(row.Params, "plan_age=10") {
			young = append(young, row)
		}
	}
	for _, c := range []struct {
		claim, reason, extent string
		rows                  []eval.Row
	}{
		{"baselines", "quadruped, walker: not run", "cheetah only", cheetah},
		{"async", "cheetah, quadruped, walker: not run: no rows with age of z = 10", "", young},
	} {
		r := newReport(t, c.rows)
		j := claimNamed(t, r, c.claim)
		if j.Verdict != HoldsInPart || j.Reason != c.reason || j.Extent() != c.extent {
			t.Errorf("%s: %s (%s): %s", c.claim, j.Verdict, j.Extent(), j.Reason)
		}
		if !bytes.Contains(pageOf(t, r), []byte(c.reason)) {
			t.Errorf("%s: the page does not say that %s", c.claim, c.reason)
		}
	}
}

// without leaves out rows.
func without(rows []eval.Row, lacking func(*eval.Row) bool) []eval.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row eval.Row) bool { return lacking(&row) })
}

func TestAClaimHoldsInPartWhereTasksOfItsProtocolWereNotRun(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	l.kappa()
	backward := func(row *eval.Row) bool { return strings.HasSuffix(row.Task, "_backward") }
	flip := func(row *eval.Row) bool { return row.Env == "walker" && row.Task == "flip" }
	for _, c := range []struct {
		what, claim, reason string
		lacking             func(*eval.Row) bool
	}{
		{"a profile with two of four tasks", "baselines", "cheetah: not run: run_backward, walk_backward", backward},
		{"checks that say something together only", "kappa", "cheetah: not run: run_backward, walk_backward", backward},
		{"two environments", "near-oracle", "cheetah: not run: run_backward, walk_backward; walker: not run: flip",
			func(row *eval.Row) bool { return backward(row) || flip(row) }},
		{"an environment as well", "near-oracle", "quadruped: not run; walker: not run: flip",
			func(row *eval.Row) bool { return row.Env == "quadruped" || flip(row) }},
		{"one method is not finished", "near-oracle", "walker: not run: flip",
			func(row *eval.Row) bool { return row.Method == thompson && flip(row) }},
		{"one model is not finished", "near-oracle", "walker: not run: flip (with some models)",
			func(row *eval.Row) bool { return row.BFMSeed == 1 && flip(row) }},
	} {
		r := newReport(t, without(l.rows, c.lacking))
		j := claimNamed(t, r, c.claim)
		if j.Verdict != HoldsInPart || j.Reason != c.reason {
			t.Errorf("%s: %s: %s, want %s", c.what, j.Verdict, j.Reason, c.reason)
		}
		var text bytes.Buffer
		must(t, r.WriteText(&text))
		for where, of := range map[string][]byte{"summary": text.Bytes(), "page": pageOf(t, r)} {
			if !bytes.Contains(of, []byte("; "+c.reason)) {
				t.Errorf("%s: the %s does not say that %s", c.what, where, c.reason)
			}
		}
	}
}

func TestTasksThatWereNotRunAreSaidOfVerdictsThatDoNotHoldToo(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.8, 1))
	r := newReport(t, without(l.rows, func(row *eval.Row) bool { return row.Task == "flip" || row.Task == "jump" }))
	j := claimNamed(t, r, "near-oracle")
	if j.Verdict != DoesNotHold {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
	for _, f := range j.Findings {
		want := map[string]string{"cheetah": "", "quadruped": "not run: jump", "walker": "not run: flip"}[f.Env]
		if f.Remark() != want {
			t.Errorf("%s: %q, want %q", f.String(), f.Remark(), want)
		}
	}
	if !bytes.Contains(pageOf(t, r), []byte("does not hold: not run: flip<")) {
		t.Error("the page does not say it")
	}
	want := "Tasks of the protocols that were not run, where others of the environment were: quadruped/jump in main; walker/flip in main."
	if !slices.Contains(r.Notices, want) {
		t.Errorf("notices: %q", r.Notices)
	}
}

func TestTasksBeyondTheProtocolAreNoneThatLack(t *testing.T) {
	l := newLab()
	l.tasks["walker"] = append(l.tasks["walker"], "moonwalk")
	l.tasks["hopper"] = []string{"hop"}
	l.mainComparison(rises(0.6, 0.99, 1))
	l.returns("own", ucb, "", 3, always(1))
	r := newReport(t, without(l.rows, func(row *eval.Row) bool { return row.Experiment == "own" && row.Task == "flip" }))
	if j := claimNamed(t, r, "near-oracle"); j.Verdict != Holds {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
	if len(r.Notices) > 0 {
		t.Errorf("notices: %q", r.Notices)
	}
}

func TestClaimsAreOfTheEnvironmentsAndTasksOfTheirProtocols(t *testing.T) {
	paths, err := filepath.Glob("../../experiments/*.yaml")
	must(t, err)
	seen := make(map[string][]string)
	for _, path := range paths {
		protocol, err := eval.Load(path)
		must(t, err)
		for _, env := range protocol.Environments {
			judged := slices.ContainsFunc(claims, func(c claim) bool { return c.experiment == protocol.Experiment })
			if want := slices.Sorted(slices.Values(env.Tasks)); judged && !slices.Equal(tasks(protocol.Experiment, env.Name), want) {
				t.Errorf("claims are of %v of %s, the protocol %s of %v", tasks(protocol.Experiment, env.Name), env.Name, path, want)
			}
			if env.Name == "rover" { // not the paper's
				continue
			}
			seen[protocol.Experiment] = append(seen[protocol.Experiment], env.Name)
		}
	}
	for _, c := range claims {
		want := seen[c.experiment]
		slices.Sort(want)
		if got := environments(c.experiment); !slices.Equal(got, want) {
			t.Errorf("%s is of %v, its protocol of %v", c.name, got, want)
		}
	}
}

func TestTheFindingShownIsTheOneThatDecides(t *testing.T) {
	refuted := newLab()
	refuted.mainComparison(rises(0.6, 0.99, 1))
	for i := range refuted.rows {
		if row := &refuted.rows[i]; row.Env == "walker" && row.Method == ucb {
			row.Value *= 0.9
		} else if row.Env == "quadruped" && row.Method == ucb {
			row.Value *= 0.5
		}
	}
	some := newLab()
	some.drift()
	for i := range some.rows { // at 0.9999 just better, which ρ = 0.999 need not be
		if row := &some.rows[i]; row.Params == "rho=0.9999" {
			row.Value -= 0.17
		}
	}
	for _, c := range []struct {
		claim, of string
		verdict   Verdict
		rows      []eval.Row
	}{
		{"near-oracle", "quadruped: ucb", DoesNotHold, refuted.rows},
		{"drift", "(ρ = 0.999)", Holds, some.rows},
	} {
		j := claimNamed(t, newReport(t, c.rows), c.claim)
		if shown := j.Decisive(); j.Verdict != c.verdict || shown == nil || !strings.Contains(shown.String(), c.of) {
			t.Errorf("%s: %s: shown is %v, want %s", c.claim, j.Verdict, shown, c.of)
		}
	}
}

func TestTrialsWithOtherSeedsAreComparedAsGroups(t *testing.T) {
	l := newLab()
	l.navigation()
	for i := range l.rows {
		if l.rows[i].Method == random {
			l.rows[i].Seed += 1000
		}
	}
	for _, f := range claimNamed(t, newReport(t, l.rows), "navigation").Findings {
		if want := map[bool]string{true: "100, not paired", false: "50"}[strings.Contains(f.What, "less random")]; f.Counted() != want {
			t.Errorf("%s: %s, want %s", f.What, f.Counted(), want)
		}
	}
}

func TestFewLabelsProveNothingWithoutTheReward(t *testing.T) {
	l := newLab()
	l.kappa()
	var rows []eval.Row
	for _, row := range l.rows {
		if row.Params != "kappa=0" {
			rows = append(rows, row)
		}
	}
	j := claimNamed(t, newReport(t, rows), "kappa")
	if j.Verdict != CannotTell || !strings.Contains(j.Reason, "not run: no rows of ucb with κ = 0") {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

func TestHowManyTrialsMightTellIsSaid(t *testing.T) {
	s := sample{{task: "a", values: numbered(1, 2, 3, 4, 5)}} // 3 ± 0.71·t
	u := (bootstrap{resamples: 2000}).uncertainty("", []sample{s}, s.statistic)
	i := u.interval()
	if got, want := (&check{bound: (3 + i.Low) / 2}).wish(u, s), "; 20 trials of a task might tell"; got != want {
		t.Errorf("half as far as the end: %s", got)
	}
	if got := (&check{bound: (3 + i.High) / 2}).wish(u, s); got != "; 20 trials of a task might tell" {
		t.Errorf("half as far as the other end: %s", got)
	}
	if got := (&check{bound: 3}).wish(u, s); got != ", and the value lies too near to it for any number of trials" {
		t.Errorf("at the bound: %s", got)
	}
}

func TestNoTrialsAreWishedForWhereThereIsNoInterval(t *testing.T) {
	l := newLab()
	l.navigation()
	for i := range l.rows {
		if row := &l.rows[i]; row.Method == oracle && row.Trial > 0 { // one success of five: a draw may have none
			row.Value = 0
		}
	}
	j := claimNamed(t, newReport(t, l.rows), "navigation")
	if want := "antmaze: no interval: what is divided by may be zero"; j.Verdict != CannotTell || j.Reason != want {
		t.Errorf("%s: %s, want %s", j.Verdict, j.Reason, want)
	}
}

func TestValuesBeyondTheClaimAreMeasured(t *testing.T) {
	l := newLab()
	l.disturbances()
	j := claimNamed(t, newReport(t, l.rows), "inaccurate")
	for _, f := range j.Findings {
		beyond := strings.Contains(f.What, "00)") // α = 100 and 1000
		if beyond != (f.Verdict == Measured) || beyond != (f.Wanted == "") {
			t.Errorf("%s: %s", f.String(), f.Verdict)
		}
	}
}

func TestABoundIsMetByAWholeIntervalOnly(t *testing.T) {
	for _, c := range []struct {
		atMost    bool
		low, high float64
		want      Verdict
	}{
		{false, 0.96, 1, Holds}, {false, 0.94, 1, CannotTell}, {false, 0.8, 0.9, DoesNotHold},
		{true, 0.8, 0.94, Holds}, {true, 0.8, 0.96, CannotTell}, {true, 0.96, 1, DoesNotHold},
		{false, 0.95, 0.95, CannotTell}, {true, 0.95, 0.95, CannotTell}, {false, 0.95, 1, CannotTell},
	} {
		k := check{bound: 0.95, atMost: c.atMost}
		if got, _ := k.decide(Interval{c.low, c.high}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got, reason := (&check{}).decide(unknown()); got != CannotTell || reason == "" {
		t.Errorf("an unknown interval: %s %q", got, reason)
	}
}

func TestTwoMethodsThatGetNothingAreNotToldApart(t *testing.T) {
	l := newLab()
	l.navigation()
	for i := range l.rows {
		if l.rows[i].Method != oracle {
			l.rows[i].Value = 0
		}
	}
	for _, f := range claimNamed(t, newReport(t, l.rows), "navigation").Findings {
		if !strings.Contains(f.What, "less random") {
			continue
		}
		if f.Verdict != CannotTell || f.doubts.verdict() != CannotTell || !strings.Contains(f.Reason, "covers 0") {
			t.Errorf("%s: %s: %s", f.String(), f.Verdict, f.Reason)
		}
	}
}

func TestAClaimIsJudgedForEachValueOfItsSweep(t *testing.T) {
	l := newLab()
	l.drift()
	for i := range l.rows {
		if row := &l.rows[i]; row.Params != "rho=1" && row.Params != "rho=0.999" {
			row.Value -= 0.6 // forgetting too much or too little
		}
	}
	j := claimNamed(t, newReport(t, l.rows), "drift")
	if j.Verdict != Holds {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
	if len(j.Findings) != 6 {
		t.Errorf("%d findings, want two methods at three values of ρ", len(j.Findings))
	}
	for _, f := range j.Findings {
		if want := map[bool]Verdict{true: Holds, false: DoesNotHold}[strings.Contains(f.What, "ρ = 0.999)")]; f.Verdict != want {
			t.Errorf("%s: %s", f.String(), f.Verdict)
		}
	}
}

func TestAKappaThatSavesNoLabelsIsNotEnough(t *testing.T) {
	l := newLab()
	l.kappa()
	var rows []eval.Row
	for _, row := range l.rows {
		if row.Params == "kappa=0" || row.Params == "kappa=0.001" { // as good, with a third of the labels
			rows = append(rows, row)
		}
	}
	j := claimNamed(t, newReport(t, rows), "kappa")
	if j.Verdict != DoesNotHold || !strings.Contains(j.Reason, "ucb's labels of the first 10,000 steps") {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

func TestTrialsThatEndedEarlyTellNothingOfKappa(t *testing.T) {
	l := newLab()
	l.kappa()
	var rows []eval.Row
	for _, row := range l.rows {
		if row.X <= 3000 {
			rows = append(rows, row)
		}
	}
	if j := claimNamed(t, newReport(t, rows), "kappa"); j.Verdict != NotRun {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

func TestNotesStandWithTheirClaims(t *testing.T) {
	rows := []eval.Row{aRow(ucb, "", 0, 1)}
	r, err := New(rows, Options{Notes: map[string]string{"drift": "nobody drove <yet>"}})
	must(t, err)
	if j := claimNamed(t, r, "drift"); j.Note != "nobody drove <yet>" {
		t.Errorf("the note is %q", j.Note)
	}
	if !bytes.Contains(pageOf(t, r), []byte(`<p class="note">nobody drove &lt;yet&gt;</p>`)) {
		t.Error("the page lacks the note")
	}
	if _, err := New(rows, Options{Notes: map[string]string{"drfit": ""}}); err == nil || !strings.Contains(err.Error(), `"drfit": use one of near-oracle`) {
		t.Errorf("a note about nothing: %v", err)
	}
}

func TestWhatWeakensTheNumbersIsNoticed(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	var rows []eval.Row
	for _, row := range l.rows {
		switch {
		case row.Method == oracle && row.Task == "jump":
			continue
		case row.Method == lola && row.Trial > 0 && row.Task == "walk":
			continue
		case row.Env == "walker":
			row.Version, row.ProtocolHash = "v0.7.0", "another"
		}
		rows = append(rows, row)
	}
	got := strings.Join(newReport(t, rows).Notices, "\n")
	for _, want := range []string{
		"main was run with 2 different protocols", "come from 2 versions", "not positive: quadruped/jump in main.",
		"6 settings were tried only once", "6 settings were tried less often",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the notices lack %q:\n%s", want, got)
		}
	}
	one := newLab()
	one.models = 1
	one.mainComparison(rises(0.6, 0.99, 1))
	if got := strings.Join(newReport(t, one.rows).Notices, "\n"); !strings.Contains(got, "one trained model only of cheetah, quadruped, walker") {
		t.Errorf("nothing is said of a single network: %q", got)
	}
	if notices := newPaperReport(t).Notices; len(notices) > 0 {
		t.Errorf("nothing is wrong with the paper's own results, but: %q", notices)
	}
}
