package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
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
	s.invoked, o.logPath = invoked("./optibfm", runFlags{config: embeddedConfig}, s.file), "logs/a.mcap"
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
	for _, want := range []string{
		"compare", "oracle",
		"    ./optibfm replay logs/a.mcap\n", "    ./optibfm run --operator keyboard\n", "    ./optibfm run --task ",
	} {
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

func TestInvoked_NamesTheProgramAsItWasStarted(t *testing.T) {
	for path, want := range map[string]string{
		"./optibfm":                          "./optibfm",
		"/no/such/optibfm":                   "/no/such/optibfm",
		"/tmp/go-build1234/b001/exe/optibfm": "go run ./cmd/optibfm",
		"/opt/my tools/optibfm":              "'/opt/my tools/optibfm'",
	} {
		if got := programName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// walkerByWeb is a walker at its real rate with a person at a browser.
var walkerByWeb = runFlags{config: "walker", operator: "web", set: []string{"run.lockstep=false", "run.episode_s=0"}}

func TestInvoked_SuggestsOnlyRunsThatRunAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		flags          runFlags
		keyboard, task string
	}{
		"rover": {
			runFlags{config: embeddedConfig, plain: true},
			"o run --operator keyboard", "o run --task corner",
		},
		"fast":     {runFlags{config: embeddedConfig, fast: true}, "", "o run --task corner --fast"},
		"lockstep": {runFlags{config: "walker"}, "", ""},
		"web, at real rate": {
			walkerByWeb,
			"o run --config walker --operator keyboard --set run.lockstep=false --set run.episode_s=0", "",
		},
		"keyboard": {
			runFlags{config: "rover-keyboard"},
			"", "o run --config rover-keyboard --task far_corner",
		},
		"overrides": {
			runFlags{config: embeddedConfig, set: []string{"operator.source=none", "model.bundle=it's"}},
			`o run --operator keyboard --set 'model.bundle=it'\''s'`,
			`o run --task corner --set operator.source=none --set 'model.bundle=it'\''s'`,
		},
		"another task given": {
			runFlags{config: embeddedConfig, task: "corner", seed: 7, givenSeed: true},
			"o run --task corner --operator keyboard --seed 7", "o run --task far_corner --seed 7",
		},
	} {
		file, err := c.flags.load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		i := invoked("o", c.flags, file)
		for _, s := range []struct {
			args []string
			want string
		}{{i.Keyboard, c.keyboard}, {i.Task, c.task}} {
			got := ""
			if s.args != nil {
				got = i.command(s.args...)
			}
			if got != s.want {
				t.Errorf("%s: suggests %q, want %q", name, got, s.want)
			}
		}
	}
}

func TestInvoked_OperatesTheSocketOfTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := "version: 1\nsafety: {arm: operator, socket: /tmp/mine.sock}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags runFlags
		want  string
	}{
		"default socket": {runFlags{config: "robot"}, "o arm"},
		"of the file":    {runFlags{config: path}, "o arm -c " + path},
		"overridden": {
			runFlags{config: path, set: []string{"safety.socket=/tmp/other socket"}},
			"o arm --socket '/tmp/other socket'",
		},
	} {
		file, err := c.flags.load()
		if err != nil {
			t.Fatal(err)
		}
		if got := invoked("o", c.flags, file).operate("arm"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (invocation{Program: "optibfm"}).command("replay", "logs/my walker.mcap"); got != "optibfm replay 'logs/my walker.mcap'" {
		t.Errorf("a path with a space: %s", got)
	}
}
