package summary

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/lockstep"
	"optibfm/internal/recorder"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/internal/terminal"
)

func TestPrint_InterruptedHasNoBaselines(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	o := recorder.Outcome{Tally: recorder.NewStatistics(s.Shape())}
	o.Tally.Returns = []float64{1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	fatal.If(t, Print(ctx, &out, s, o, false))
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
		o := recorder.Outcome{Robot: "rover", Tally: recorder.NewStatistics(s.Shape()), Fault: c.fault, LogPath: c.log}
		o.Tally.Applied, o.Tally.Undone, o.Tally.Last.Counted = c.labels, c.undone, c.labels-c.undone
		if c.operator != configs.SourceScripted {
			o.Tally.Returns = []float64{1}
		}
		var out bytes.Buffer
		fatal.If(t, Print(t.Context(), &out, s, o, false))
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
	o := recorder.Outcome{Tally: recorder.NewStatistics(s.Shape())}
	fatal.If(t, Print(context.Background(), &out, s, o, true))
	if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"returns":[]`) {
		t.Errorf("the summary is %s", out.String())
	}
}

func TestSummary_ComparesEpisodesFromTheSameStart(t *testing.T) {
	for name, c := range map[string]struct {
		dropped, episodes uint64
		oracle            []float64
		want              string // "": no shares
	}{
		"each with its own": {
			0, 3, []float64{200, 50, 80, 1}, "  share     0.50 1.00 0.25 of the oracle's, from the same start",
		},
		"a record is missing": {1, 3, []float64{200, 50, 80, 1}, ""},
		"returns are missing": {0, 4, []float64{200, 50, 80, 1}, ""},
		"a long run":          {0, 3, []float64{200, 50}, ""},
		"no positive return":  {0, 3, []float64{200, 0, 80}, ""},
	} {
		m := Summary{
			Returns: []float64{100, 50, 20}, Episodes: c.episodes, Dropped: c.dropped,
			Oracle: &baseline{c.oracle, 100}, Random: &baseline{nil, 3},
		}
		var out bytes.Buffer
		m.Print(&out)
		hasShares := strings.Contains(out.String(), "  share")
		if hasShares != (c.want != "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, out.String())
		}
	}
}

// TestBaselines_BeginEachEpisodeWhereTheRunDid runs the oracle's z as a run: each return is then
// the oracle's own.
func TestBaselines_BeginEachEpisodeWhereTheRunDid(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 1, 12
		f.Log.Enabled = false
	})
	var err error
	s.Model, err = setup.OpenModel(s.File.Model.Bundle)
	fatal.If(t, err)
	fatal.If(t, FollowOracle(t.Context(), s))
	o, err := lockstep.Run(t.Context(), s, terminal.QuietDisplay{})
	fatal.If(t, err)
	oracle, _, err := baselines(t.Context(), s, len(o.Tally.Returns))
	fatal.If(t, err)
	if len(o.Tally.Returns) != 12 || !slices.Equal(oracle.Returns, o.Tally.Returns) {
		t.Errorf("returns %v of the run, %v of the oracle", o.Tally.Returns, oracle.Returns)
	}
	if o.Tally.Returns[0] == o.Tally.Returns[1] {
		t.Error("two episodes have the same start")
	}
}

func TestSummary_CountsTheLabelsInTheBelief(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Operator.Source = configs.SourceWeb })
	s.Invoked = shell.Invocation{Program: "optibfm", Save: []string{"task", "save", "NAME"}}
	y := recorder.NewStatistics(s.Shape())
	y.Applied, y.Undone, y.Last.Counted = 3, 1, 12 // 10 of them were in the task from which the run started
	o := recorder.Outcome{Tally: y}
	var out bytes.Buffer
	fatal.If(t, Print(t.Context(), &out, s, o, false))
	if want := "labels    12 used; asked 0, answered 0, expired 0; undone 1, refused 0\n"; !strings.Contains(
		out.String(), want) {
		t.Errorf("want %q in\n%s", want, out.String())
	}
	y.Undone, y.Last.Counted = 3, 0
	if got := SaveCommand(s, y, "a.mcap"); got != "" {
		t.Errorf("without a label, the command is %q", got)
	}
}

func TestSummary_ShowsTheAgeOfSamplesAndDemotions(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	y := recorder.NewStatistics(s.Shape())
	for i := range 100 {
		tick := controller.NewTick(s.Shape())
		tick.Index, tick.Elapsed = uint64(i), 1
		tick.Wake = int64(i)*20e6 + 1e9
		if i > 0 { // the first tick has no sample
			tick.SenseAt = tick.Wake - 2e6
		}
		y.Add(tick)
	}
	late := controller.NewTick(s.Shape())
	late.Index, late.Elapsed, late.Wake, late.SenseAt = 100, 1, 5e9, 5e9-30e6
	y.Add(late)
	var out bytes.Buffer
	m := newSummary(s, recorder.Outcome{Tally: y, Demoted: 3})
	m.Print(&out)
	rigtest.Contains(t, out.String(), "  samples   p50 2.0, p99 2.0, max 30.0 ms old at a tick\n", "lost it 3 times")
	s.File.Run.Lockstep = true
	if m := newSummary(s, recorder.Outcome{Tally: y}); m.Age != nil {
		t.Error("samples in simulated time have an age")
	}
}
