package report

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"optibfm/lab/eval"
)

func trialsOf(t *testing.T, rows []eval.Row) trials {
	t.Helper()
	ts, _, err := newTrials(rows)
	must(t, err)
	return ts
}

func aRow(method, params string, x, value float64) eval.Row {
	return eval.Row{
		Experiment: experimentMain, Env: "walker", Task: "walk", Method: method, Params: params,
		Measure: eval.MeasureReturn, X: x, Value: value, ModelHash: "m",
	}
}

func TestRowsInAnyOrderMakeTheSameTrials(t *testing.T) {
	rows := []eval.Row{aRow(ucb, "beta=1", 1, 20), aRow(ucb, "beta=1", 0, 10), aRow(random, "", 0, 5)}
	for range 2 {
		ts := trialsOf(t, rows)
		if len(ts) != 2 || ts[0].method != ucb || !slices.Equal(ts[0].curves[eval.MeasureReturn], curve{{0, 10}, {1, 20}}) {
			t.Errorf("trials %+v", ts)
		}
		slices.Reverse(rows)
	}
}

func TestWhatIsNotUnderstoodIsSaidWithItsRow(t *testing.T) {
	good := aRow(ucb, "", 0, 1)
	for want, row := range map[string]eval.Row{
		"row 2: measure is empty":                       {Experiment: "main", Env: "a", Task: "b", Method: ucb},
		"row 2: experiment is empty":                    {Env: "a", Task: "b", Method: ucb, Measure: "return"},
		`row 2: params "beta": found "beta": want key`:  aRow(ucb, "beta", 0, 1),
		`row 2: params "a=1;a=2": a stands there twice`: aRow(ucb, "a=1;a=2", 0, 1),
		"want finite numbers":                           aRow(ucb, "", 0, math.NaN()),
		"is 2 here and 1 in another row":                aRow(ucb, "", 0, 2),
	} {
		_, err := New([]eval.Row{good, row}, Options{})
		if err == nil || !errors.Is(err, eval.ErrResults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New(nil, Options{}); !errors.Is(err, ErrNoRows) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := New([]eval.Row{good}, Options{Resamples: 3}); err == nil {
		t.Error("three draws make an interval")
	}
}

func TestARowThatIsThereTwiceCountsOnce(t *testing.T) {
	row := aRow(ucb, "", 0, 1)
	hz := row
	hz.Measure, hz.X, hz.Value = eval.MeasureHz, 10, 100
	other := hz
	other.Value = 90 // no two runs are as fast
	r := newReport(t, []eval.Row{row, hz, row, other})
	if r.Tasks[0].Return.Trials != 1 || r.Rates[0].Hz.Mean != 100 {
		t.Errorf("%+v, %+v", r.Tasks[0], r.Rates[0])
	}
	if !strings.Contains(strings.Join(r.Notices, "\n"), "2 rows are there more than once") {
		t.Errorf("notices: %q", r.Notices)
	}
}

func TestTheBudgetCurveIsTheMeanRewardUntilTheLabelsAreUsed(t *testing.T) {
	rewards := curve{{4, 0.1}, {20, 0.5}, {40, 0.8}, {100, 0.9}}
	labels := curve{{4, 4}, {20, 10}, {40, 29}, {100, 31}}
	got := budgetCurve(rewards, labels)
	whole := (4*0.1 + 16*0.5 + 20*0.8 + 60*0.9) / 100
	want := curve{{10, (4*0.1 + 16*0.5) / 20}, {30, whole}, {100, whole}}
	for i, p := range want {
		near(t, "the budget", got[i].x, p.x, 0)
		near(t, "the mean reward", got[i].y, p.y, 1e-12)
	}
	if len(got) != len(budgets) {
		t.Errorf("%d of %d budgets", len(got), len(budgets))
	}
	if ended := budgetCurve(rewards, curve{{4, 4}, {20, 10}, {100, 30}}); len(ended) != 2 {
		t.Errorf("a trial that ended with 30 labels knows of %v", ended)
	}
	if late := budgetCurve(curve{{500, 0.5}}, curve{{500, 500}}); late[0].x != 1000 {
		t.Errorf("a budget of %v is known, though the first row came after it", late[0].x)
	}
}

func TestBinsAreMeansAtTheirMiddle(t *testing.T) {
	got := curve{{1, 1}, {2, 3}, {12, 5}}.binned(10)
	if !slices.Equal(got, curve{{5, 2}, {15, 5}}) {
		t.Errorf("%v", got)
	}
}

func newAnalysis(t *testing.T, rows []eval.Row) *analysis {
	t.Helper()
	ts := trialsOf(t, rows)
	return &analysis{trials: ts, oracles: newOracles(ts), boot: bootstrap{resamples: 200}, choices: make(map[choiceKey]Choice)}
}

func TestTheBestSettingIsChosenForEachEnvironment(t *testing.T) {
	rows := []eval.Row{aRow(ucb, "beta=1", 0, 10), aRow(ucb, "beta=0.1", 0, 20)}
	for _, value := range []float64{30, 5} {
		row := aRow(ucb, map[float64]string{30: "beta=1", 5: "beta=0.1"}[value], 0, value)
		row.Env = "cheetah"
		rows = append(rows, row)
	}
	a := newAnalysis(t, rows)
	for _, kept := range a.best("test", a.trials, nil, nil) {
		if want := map[string]string{"walker": "beta=0.1", "cheetah": "beta=1"}[kept.env]; kept.params.String() != want {
			t.Errorf("%s is shown with %s", kept.env, kept.params)
		}
	}
}

func TestWhatIsLearntFromDifferentMethodsIsTunedApart(t *testing.T) {
	a := newAnalysis(t, []eval.Row{aRow(collected, "beta=1;by=ucb", 0, 10), aRow(collected, "by=thompson;sigma=1", 0, 20), aRow(collected, "by=thompson;sigma=9", 0, 2)})
	if kept := a.best("test", a.trials, []string{"by"}, nil); len(kept) != 2 {
		t.Errorf("kept %d of three", len(kept))
	}
}

func TestASettingThatWasNotTriedWithEverythingIsPassedOver(t *testing.T) {
	a := newAnalysis(t, []eval.Row{
		aRow(ucb, "beta=1;noise=0", 0, 10), aRow(ucb, "beta=1;noise=1", 0, 4),
		aRow(ucb, "beta=0.1;noise=0", 0, 9), // a mean of 9 against 7, but of the easy half
	})
	if c := a.choose("test", a.trials, []string{"noise"}, nil); c.Best != "beta=1" || len(c.Candidates) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestTheOracleIsThatOfTheSameRewardAndTheMostLabels(t *testing.T) {
	of := func(experiment, method, params string, value float64) eval.Row {
		row := aRow(method, params, 0, value)
		row.Experiment = experiment
		return row
	}
	a := newAnalysis(t, []eval.Row{
		of("main", oracle, "", 100),
		of("nonlinear", oracle, "nonlinearity=2", 150), of("nonlinear", ucb, "beta=1;nonlinearity=2", 1), of("nonlinear", ucb, "beta=1;nonlinearity=4", 2),
		of("warm_start", oracle, "labels=10", 7), of("warm_start", oracle, "labels=50000", 90), of("warm_start", ucb, "warm_start=10", 3),
		of("noisy", ucb, "noise=1", 4),
		of("data_efficiency", collected, "by=ucb;labels=10", 60),
	})
	for _, c := range []struct {
		experiment, method, params string
		want                       []float64
	}{
		{"nonlinear", ucb, "beta=1;nonlinearity=2", []float64{150}},
		{"nonlinear", ucb, "beta=1;nonlinearity=4", nil}, // another reward than any oracle's
		{"warm_start", ucb, "warm_start=10", []float64{90}},
		{"warm_start", oracle, "labels=10", []float64{90}},
		{"noisy", ucb, "noise=1", []float64{100}}, // the main comparison's
		{"data_efficiency", collected, "by=ucb;labels=10", []float64{100}},
	} {
		found := a.trials.where(func(t *trial) bool {
			return t.experiment == c.experiment && t.method == c.method && t.params.String() == c.params
		})
		if got := a.oracles.values(found[0], eval.MeasureReturn); !slices.Equal(got.values, c.want) {
			t.Errorf("%s %s: %v, want %v", c.experiment, c.params, got, c.want)
		}
	}
}

func FuzzParameters(f *testing.F) {
	for _, text := range []string{"", "beta=0.1", "beta=0.1;rho=0.999", "a=;b=;", "=1", "a=b=c", "x;y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseParameters(text)
		if err != nil {
			return
		}
		again, err := parseParameters(p.String())
		if err != nil || !slices.Equal(again, p) {
			t.Errorf("%q became %v, then %v (%v)", text, p, again, err)
		}
	})
}

func TestTwoSamplersAreTunedApart(t *testing.T) {
	a := newAnalysis(t, []eval.Row{
		aRow(ucb, "beta=0.1;sampler=correct", 0, 10), aRow(ucb, "beta=1;sampler=correct", 0, 20),
		aRow(ucb, "beta=0.1;sampler=transposed", 0, 18), aRow(ucb, "beta=1;sampler=transposed", 0, 2),
	})
	for _, kept := range a.best("test", a.trials, []string{"sampler"}, []string{"sampler"}) {
		if want := map[string]string{"correct": "1", "transposed": "0.1"}[kept.params.get("sampler")]; kept.params.get("beta") != want {
			t.Errorf("kept %s", kept.params)
		}
	}
}

func TestTheMeanSoFarIsOfAllStepsUpToARow(t *testing.T) {
	got := curve{{4, 0.1}, {20, 0.5}, {40, 0.8}}.soFar()
	for i, want := range []float64{0.1, (4*0.1 + 16*0.5) / 20, (4*0.1 + 16*0.5 + 20*0.8) / 40} {
		near(t, "the mean", got[i].y, want, 1e-12)
	}
}

func TestLearnersThatDoubtLabelsAreShownApartAndOnlyWithMistakes(t *testing.T) {
	l := newLab()
	l.trials, l.models, l.tasks = 2, 1, map[string][]string{"walker": {"walk"}}
	l.returns(experimentPeople, oracle, "", 4, always(1))
	l.returns(experimentPeople, ucb, "beta=0.1", 4, always(0.9))
	asked := "beta=0.1;labels_per_minute=30"
	l.returns(experimentPeople, ucb, asked, 4, always(0.8))
	l.returns(experimentPeople, ucb, asked+";mistakes=0.1", 4, always(0.5))
	l.returns(experimentPeople, ucb, asked+";mistakes=0;robust=0.1", 4, always(0.8))
	l.returns(experimentPeople, ucb, asked+";mistakes=0.1;robust=0.1", 4, always(0.7))
	l.returns(experimentPeople, ucb, "beta=0.1;delay_s=1;labels_per_minute=30", 4, always(0.6))
	r := newReport(t, l.rows)
	for _, f := range r.Figures {
		if f.Experiment != experimentPeople {
			continue
		}
		plain, doubting := 0, 0
		for _, panel := range f.Panels {
			for _, s := range panel.Series {
				if strings.Contains(s.Params, "robust") {
					doubting++
				} else {
					plain++
				}
			}
		}
		if wanted := f.Name == "people-mistakes"; plain == 0 || (doubting == 1) != wanted {
			t.Errorf("%s: %d lines of learners that doubt labels, %d of others", f.Name, doubting, plain)
		}
	}
	for _, finding := range claimNamed(t, r, "people-mistakes").Findings {
		if strings.HasPrefix(finding.What, ucb) && math.Abs(finding.Value-0.5/0.8) > 0.1 {
			t.Errorf("the claim of mistakes looks at learners that doubt labels: %s", finding.String())
		}
	}
}
