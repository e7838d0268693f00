package summary

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"optibfm/internal/record"
	"optibfm/internal/rigtest"
)

func TestPrint_InterruptedHasNoBaselines(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	o := record.Outcome{Tally: record.NewStatistics(s.Shape())}
	o.Tally.Returns = []float64{1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := Print(ctx, &out, s, o, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "oracle") || !strings.Contains(out.String(), "returns   1.0") {
		t.Errorf("the summary is\n%s", out.String())
	}
}

func TestSummary_TitleWithoutATask(t *testing.T) {
	for task, want := range map[string]string{
		"":     "\npuck, strategy ucb\n",
		"spin": "\npuck, task spin, strategy ucb\n",
	} {
		var out bytes.Buffer
		m := Summary{Robot: "puck", Task: task, Strategy: "ucb"}
		m.Print(&out)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("task %q: %q", task, out.String())
		}
	}
}

func TestPrint_NoEpisodeIsValidJSON(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	var out bytes.Buffer
	o := record.Outcome{Tally: record.NewStatistics(s.Shape())}
	if err := Print(context.Background(), &out, s, o, true); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"returns":[]`) {
		t.Errorf("the summary is %s", out.String())
	}
}

func TestShareOf_IsEmptyUnlessTheOracleIsPositive(t *testing.T) {
	if got := shareOf(1, 2); got != ", 50 % of the oracle's" {
		t.Errorf("1 of 2: %q", got)
	}
	for _, oracle := range []float64{0, -1, math.NaN()} {
		if got := shareOf(1, oracle); got != "" {
			t.Errorf("1 of %v: %q", oracle, got)
		}
	}
}
