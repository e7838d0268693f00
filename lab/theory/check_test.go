package theory

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// shortCheck is the whole check with short runs.
func shortCheck(t *testing.T) Report {
	t.Helper()
	c, err := newChecker(context.Background(), Config{Runs: 60, Seed: 3})
	fatal.If(t, err)
	c.coverEpisodes, c.regretEpisodes = 60, 60
	fatal.If(t, c.run())
	return c.report
}

func TestCheck_ClaimsHoldAndControlsFail(t *testing.T) {
	r := shortCheck(t)
	groups := map[string]int{}
	for _, c := range r.Claims {
		groups[c.Group]++
		// With 60 episodes the exponents are those of the early learning phase.
		if c.Verdict == Fails && !strings.HasPrefix(c.Text, "exponent") {
			t.Errorf("%s: %v: %s", c.Text, c.Measured, c.Verdict)
		}
		if c.Group == "control" && strings.HasPrefix(c.Text, "z*") && c.Verdict != Holds {
			t.Errorf("the control holds: %s: %v", c.Text, c.Measured)
		}
	}
	for _, group := range []string{
		"coverage", "misspecified", "regret", "bound", "worst task", "fixed horizon", "control",
	} {
		if groups[group] == 0 {
			t.Errorf("no claim about %s", group)
		}
	}
	writesEverything(t, r)
}

func writesEverything(t *testing.T, r Report) {
	t.Helper()
	var table, claims, curves bytes.Buffer
	fatal.If(t, errors.Join(r.WriteTable(&table), r.WriteClaims(&claims), r.WriteCurves(&curves)))
	if lines := strings.Count(table.String(), "\n"); lines != len(r.Claims)+1 {
		t.Errorf("the table has %d lines for %d claims", lines, len(r.Claims))
	}
	rows, err := csv.NewReader(&claims).ReadAll()
	if err != nil || len(rows) != len(r.Claims)+1 {
		t.Errorf("the claims have %d rows for %d (%v)", len(rows), len(r.Claims), err)
	}
	if rows, err = csv.NewReader(&curves).ReadAll(); err != nil || len(rows) < 10*len(r.Curves) {
		t.Errorf("the curves have %d rows for %d (%v)", len(rows), len(r.Curves), err)
	}
}

func TestCheck_RefusesTooFewRuns(t *testing.T) {
	errtest.Is(t, errtest.Of(Check(context.Background(), Config{Runs: 5})), ErrConfig)
}

func TestCheck_StopsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	cfg := Config{Runs: 1000, Progress: func(what string) {
		if what == "coverage" {
			stop()
		}
	}}
	errtest.Is(t, errtest.Of(Check(ctx, cfg)), context.Canceled, "found")
}
