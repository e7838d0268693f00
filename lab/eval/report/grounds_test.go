package report

import (
	"strings"
	"testing"

	"optibfm/lab/eval"
)

// comparedOnSomeModels is a comparison of ucb and random with two models of the cheetah,
// and of LoLA with the first. With the second ucb gets next to nothing.
func comparedOnSomeModels(change func(*eval.Row)) []eval.Row {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	rows := without(l.rows, func(row *eval.Row) bool {
		return row.Env != "cheetah" || row.Method == thompson || row.Method == lola && row.BFMSeed == 1
	})
	for i := range rows {
		if rows[i].Method == ucb && rows[i].BFMSeed == 1 {
			rows[i].Value /= 10
		}
		change(&rows[i])
	}
	return rows
}

func TestMethodsAreComparedOnTheModelsThatAllOfThemWereTriedOn(t *testing.T) {
	r := newReport(t, comparedOnSomeModels(func(*eval.Row) {}))
	j := claimNamed(t, r, "baselines")
	if j.Verdict != HoldsInPart || !strings.Contains(j.Reason, "1 of 2 models") {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
	for _, f := range j.Findings {
		if f.Verdict == NotRun {
			continue
		}
		// Ten times less with the other model would nearly halve it.
		if f.Value < 0.5 || !f.Paired || f.Trials != 2*5*4 {
			t.Errorf("%s: %v of %d trials, paired: %v", f.What, f.Value, f.Trials, f.Paired)
		}
	}
	if want := "lola with 1 of 2 of cheetah in main"; !strings.Contains(strings.Join(r.Notices, "\n"), want) {
		t.Errorf("notices: %q", r.Notices)
	}
}

func TestAnOracleIsNotAskedForOfModelsThatAreNotCompared(t *testing.T) {
	complete := comparedOnSomeModels(func(*eval.Row) {})
	rows := without(complete, func(row *eval.Row) bool { return row.Method == oracle && row.BFMSeed == 1 })
	if j := claimNamed(t, newReport(t, rows), "baselines"); j.Verdict != HoldsInPart {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

func TestAModelThatOnlyTheOracleWasTriedOnDoesNotWeakenAClaim(t *testing.T) {
	rows := comparedOnSomeModels(func(*eval.Row) {})
	rows = without(rows, func(row *eval.Row) bool { return row.Method != oracle && row.BFMSeed == 1 })
	if j := claimNamed(t, newReport(t, rows), "baselines"); strings.Contains(j.Reason, "models") {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

func TestASettingThatWasTriedOnTheEasierModelOnlyIsNotChosen(t *testing.T) {
	rows := comparedOnSomeModels(func(*eval.Row) {})
	var easier []eval.Row
	for _, row := range rows {
		if row.Method == ucb && row.BFMSeed == 0 && row.Params == "beta=0.1" {
			row.Params, row.Value = "beta=7", 1.01*row.Value
			easier = append(easier, row)
		}
	}
	r := newReport(t, append(rows, easier...))
	for _, c := range r.Choices {
		if c.Method == ucb && strings.Contains(c.Best, "beta=7") {
			t.Errorf("%s: %s of %v", c.Experiment, c.Best, c.Candidates)
		}
	}
}
