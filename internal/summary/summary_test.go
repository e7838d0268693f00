package summary

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/record"
	"optibfm/internal/rigtest"
	"optibfm/internal/shell"
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

func TestPrint_OfATaughtRun(t *testing.T) {
	for name, c := range map[string]struct {
		operator, fault, log string
		labels, undone       uint64
		want, not            []string
	}{
		"taught": {configs.SourceWeb, "", "logs/a.mcap", 3, 0,
			[]string{"\nrover, strategy", "optibfm task save NAME -c mine.yaml --from logs/a.mcap\n", "optibfm replay"},
			[]string{"corner", "returns", "You are the operator", "Another task"}},
		"halted": {configs.SourceKeyboard, "stopped", "logs/a.mcap", 3, 0,
			[]string{"HALTED", "optibfm task save NAME"}, []string{"You are the operator"}},
		"undone":     {configs.SourceWeb, "", "logs/a.mcap", 3, 1, []string{"2 used; ", "undone 1,", "task save"}, nil},
		"all undone": {configs.SourceWeb, "", "logs/a.mcap", 3, 3, []string{"0 used; "}, []string{"task save"}},
		"no label":   {configs.SourceWeb, "", "logs/a.mcap", 0, 0, []string{"optibfm replay"}, []string{"task save"}},
		"no log":     {configs.SourceWeb, "", "", 3, 0, nil, []string{"task save", "replay"}},
		"simulated operator": {configs.SourceScripted, "", "logs/a.mcap", 3, 0,
			[]string{"task corner", "You are the operator", "Another task"}, []string{"task save"}},
		"simulated operator, halted": {configs.SourceScripted, "stopped", "logs/a.mcap", 3, 0,
			[]string{"optibfm replay"}, []string{"You are the operator", "Another task"}},
	} {
		s := rigtest.NewSession(t, func(f *configs.File) { f.Operator.Source = c.operator })
		s.Invoked = shell.Invocation{
			Program: "optibfm", Save: []string{"task", "save", "NAME", "-c", "mine.yaml"},
			Keyboard: []string{"run", "--operator", "keyboard"}, Task: []string{"run", "--task", "spin"},
		}
		o := record.Outcome{Robot: "rover", Tally: record.NewStatistics(s.Shape()), Fault: c.fault, LogPath: c.log}
		o.Tally.Applied, o.Tally.Undone = c.labels, c.undone
		if c.operator != configs.SourceScripted {
			o.Tally.Returns = []float64{1}
		}
		var out bytes.Buffer
		if err := Print(t.Context(), &out, s, o, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, out.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q is in\n%s", name, not, out.String())
			}
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
