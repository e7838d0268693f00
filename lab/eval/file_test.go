package eval

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/fatal"
)

const shortProtocol = `
version: 1
experiment: short
run: {trials: 2, episodes: 1, episode_steps: 10}
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods: [{name: random}, {name: thompson}]
`

func writeShortProtocol(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "short.yaml")
	fatal.If(t, os.WriteFile(path, []byte(shortProtocol), 0o644))
	return path
}

func TestRunFile_ShardsMergeToTheWhole(t *testing.T) {
	protocol, dir := writeShortProtocol(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, o := range []FileOptions{
		{Out: at("whole.csv"), Jobs: 2},
		{Out: at("1.csv"), Jobs: 1, Shard: "1/2"},
		{Out: at("2.csv"), Jobs: 2, Shard: "2/2"},
	} {
		o.Profile = ProfileFull
		if err := RunFile(t.Context(), protocol, o, io.Discard, io.Discard); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	_, err := MergeFiles(at("merged.csv"), []string{at("2.csv"), at("1.csv")})
	whole, err1 := ReadFile(at("whole.csv"))
	merged, err2 := ReadFile(at("merged.csv"))
	fatal.If(t, err, err1, err2)
	if len(whole) != len(merged) || len(whole) < 4*4 {
		t.Fatalf("%d rows of the whole, %d of two shards", len(whole), len(merged))
	}
	for i, r := range whole {
		if r.Measure == MeasureHz {
			r.Value, merged[i].Value = 0, 0
		}
		if r != merged[i] {
			t.Errorf("row %d: %+v of the whole, %+v of two shards", i, r, merged[i])
		}
	}
}

func TestRunFile_ListsTrials(t *testing.T) {
	var out bytes.Buffer
	o := FileOptions{Profile: ProfileFull, Jobs: 1, Shard: "1/2", List: true}
	err := RunFile(t.Context(), writeShortProtocol(t), o, &out, io.Discard)
	if err != nil || strings.Count(out.String(), "\n") != 2 ||
		!strings.Contains(out.String(), "rover spin embedded:rover random") {
		t.Errorf("the list is\n%s%v", &out, err)
	}
}

func TestRunFile_RefusesInvalidOptions(t *testing.T) {
	protocol := writeShortProtocol(t)
	for want, c := range map[string]struct {
		path string
		o    FileOptions
	}{
		"no.yaml":         {"no.yaml", FileOptions{Profile: ProfileFull, Jobs: 1}},
		"fast":            {protocol, FileOptions{Profile: "fast", Jobs: 1}},
		"--jobs":          {protocol, FileOptions{Profile: ProfileFull}},
		"3/2":             {protocol, FileOptions{Profile: ProfileFull, Jobs: 1, Shard: "3/2"}},
		"not a directory": {protocol, FileOptions{Profile: ProfileFull, Jobs: 1, Out: protocol + "/no/a.csv"}},
	} {
		err := RunFile(t.Context(), c.path, c.o, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRunFile_InterruptedRunNamesHowToContinue(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := FileOptions{Out: filepath.Join(t.TempDir(), "results.csv"), Jobs: 1, Profile: ProfileFull}
	err := RunFile(ctx, writeShortProtocol(t), o, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "0 of 4 trials") || !strings.Contains(err.Error(), "same command") {
		t.Errorf("the error is %v", err)
	}
}

func TestProgressBar_EstimatesTheRemainingTimeByKind(t *testing.T) {
	b := newProgressBar(io.Discard, 2)
	slow, fast := Trial{Method: "ucb"}, Trial{Method: "random"}
	b.Begin([]Trial{slow, slow, slow, fast, fast, fast}, 4)
	b.Finished(slow, 100, 10*time.Second)
	b.Finished(fast, 100, time.Second)
	if left := b.timeLeft(); left != 11*time.Second { // 2 of 10 s and 2 of 1 s, two at a time
		t.Errorf("%v are left", left)
	}
	const want = "[==============          ] 6/10 trials  20 steps/s  11s left"
	if line := b.line(10 * time.Second); !strings.HasPrefix(line, want) {
		t.Errorf("the line is %q", line)
	}
}
