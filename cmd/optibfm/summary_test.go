package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"optibfm/configs"
)

func TestASummaryFitsInEightyColumnsAndSaysHowToGoOn(t *testing.T) {
	s := testSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 1, 2
	})
	var err error
	if s.model, err = openModel(s.file.Model); err != nil {
		t.Skip("the rover's trained model is not embedded in this build")
	}
	o, err := runLockstep(context.Background(), s, quietDisplay{})
	if err != nil {
		t.Fatal(err)
	}
	o.invoked, o.logPath = invocation{Program: "optibfm"}, "logs/a.mcap"
	s.file.Run.Lockstep = false // as a run in real time prints it
	o.posture = "lock_memory: all memory locked: not granted (the limit of locked memory is 64 KiB; it is not locked): run as root, or set LimitMEMLOCK=infinity\ntimer_slack_ns: 1: granted"
	var out bytes.Buffer
	if err := summarise(context.Background(), &out, s, o, false); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("too long: %q", line)
		}
	}
	for _, want := range []string{"compare", "oracle", "    optibfm replay logs/a.mcap\n", "    optibfm run --operator keyboard\n", "    optibfm run --task "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestAnInterruptedSummaryLeavesTheBaselinesOut(t *testing.T) {
	s := testSession(t, nil)
	o := outcome{tally: newTally(s.shape())}
	o.tally.returns = []float64{1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := summarise(ctx, &out, s, o, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "oracle") || !strings.Contains(out.String(), "returns   1.0") {
		t.Errorf("the summary is\n%s", out.String())
	}
}

func TestSummary_ARobotWithoutATaskHasNoneInItsTitle(t *testing.T) {
	for task, want := range map[string]string{
		"":     "\npuck, strategy ucb\n",
		"spin": "\npuck, task spin, strategy ucb\n",
	} {
		var out bytes.Buffer
		m := summary{Robot: "puck", Task: task, Strategy: "ucb"}
		m.print(&out)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("task %q: %q", task, out.String())
		}
	}
}

func TestASummaryOfNoEpisodeIsValidJSON(t *testing.T) {
	s := testSession(t, nil)
	var out bytes.Buffer
	if err := summarise(context.Background(), &out, s, outcome{tally: newTally(s.shape())}, true); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"returns":[]`) {
		t.Errorf("the summary is %s", out.String())
	}
}

func TestTheShareOfAnOracleThatGetsNothingIsNotTold(t *testing.T) {
	if got := shareOf(1, 2); got != ", 50 % of the oracle's" {
		t.Errorf("1 of 2: %q", got)
	}
	for _, oracle := range []float64{0, -1, nan()} {
		if got := shareOf(1, oracle); got != "" {
			t.Errorf("1 of %v: %q", oracle, got)
		}
	}
}

func TestWrapBreaksTextButNotCommands(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for line := range strings.Lines(wrap("  " + long)) {
		if len(strings.TrimRight(line, "\n")) > 80 || !strings.HasPrefix(line, "  word") && !strings.HasPrefix(line, "    word") {
			t.Errorf("%q", line)
		}
	}
	command := "    optibfm replay " + strings.Repeat("very/", 30) + "long file.mcap"
	if got := wrap(command); got != command+"\n" {
		t.Errorf("%q", got)
	}
}

func TestAdviceNamesTheProgramAsItWasStarted(t *testing.T) {
	for _, c := range []struct{ path, config, run, replay string }{
		{"./optibfm", embeddedConfig, "./optibfm run", "./optibfm replay a.mcap"},
		{"optibfm", "cheetah", "optibfm run --config cheetah", "optibfm replay a.mcap"},
		{"/tmp/go-build1234/b001/exe/optibfm", "my.yaml", "go run ./cmd/optibfm run --config my.yaml", "go run ./cmd/optibfm replay a.mcap"},
		{"/opt/my tools/optibfm", "my robot.yaml", "'/opt/my tools/optibfm' run --config 'my robot.yaml'", "'/opt/my tools/optibfm' replay a.mcap"},
	} {
		i := invoked(c.path, c.config)
		if i.run() != c.run || i.replay("a.mcap") != c.replay {
			t.Errorf("%s: %q, %q", c.path, i.run(), i.replay("a.mcap"))
		}
	}
	if got := (invocation{Program: "optibfm"}).replay("logs/my walker.mcap"); got != "optibfm replay 'logs/my walker.mcap'" {
		t.Errorf("a path with a space: %s", got)
	}
}
