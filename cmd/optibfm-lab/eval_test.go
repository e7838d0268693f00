package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/lab/eval"
)

const evalProtocol = `
version: 1
experiment: short
run: {trials: 2, episodes: 1, episode_steps: 10}
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods: [{name: random}, {name: thompson}]
`

func writtenProtocol(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "short.yaml")
	if err := os.WriteFile(path, []byte(evalProtocol), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs the program with arguments, in this process.
func evalCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetArgs(append([]string{"eval"}, args...))
	err := root.ExecuteContext(context.Background())
	return out.String(), err
}

func TestEvalRunsAProtocolInShardsAndMergesThem(t *testing.T) {
	protocol, dir := writtenProtocol(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{protocol, "--out", at("whole.csv")},
		{protocol, "--out", at("1.csv"), "--shard", "1/2", "--jobs", "1"},
		{protocol, "--out", at("2.csv"), "--shard", "2/2"},
		{"merge", at("merged.csv"), at("2.csv"), at("1.csv")},
	} {
		if _, err := evalCommand(t, args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	whole, err := eval.ReadFile(at("whole.csv"))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := eval.ReadFile(at("merged.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != len(merged) || len(whole) < 4*4 {
		t.Fatalf("%d rows at once, %d of two shards", len(whole), len(merged))
	}
	for i, r := range whole {
		if r.Measure == eval.MeasureHz {
			r.Value, merged[i].Value = 0, 0
		}
		if r != merged[i] {
			t.Errorf("row %d: %+v at once, %+v of two shards", i, r, merged[i])
		}
	}
}

func TestEvalListsItsTrialsWithoutRunningThem(t *testing.T) {
	out, err := evalCommand(t, writtenProtocol(t), "--list", "--shard", "1/2")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, "rover spin embedded:rover random") {
		t.Errorf("the list is\n%s%v", out, err)
	}
}

func TestEvalRefusesWhatItDoesNotUnderstand(t *testing.T) {
	protocol := writtenProtocol(t)
	for _, args := range [][]string{
		{}, {"no.yaml"}, {protocol, "--profile", "fast"}, {protocol, "--jobs", "0"}, {protocol, "--shard", "3/2"}, {"merge", "out.csv"}, {"merge", "out.csv", "no.csv"},
	} {
		if out, err := evalCommand(t, args...); err == nil {
			t.Errorf("%v: it said %q", args, out)
		}
	}
}

func TestAnInterruptedEvalSaysHowToGoOn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "results.csv")
	var progress bytes.Buffer
	err := runEval(ctx, evalFlags{out: out, jobs: 1, profile: eval.ProfileFull}, writtenProtocol(t), &bytes.Buffer{}, &progress)
	if err == nil || !strings.Contains(err.Error(), "0 of 4 trials") || !strings.Contains(err.Error(), "same command") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheTimeThatIsLeftIsThatOfTrialsLikeThose(t *testing.T) {
	var out bytes.Buffer
	b := newEvalBar(&out, 2)
	slow, fast := eval.Trial{Method: "ucb"}, eval.Trial{Method: "random"}
	b.Begin([]eval.Trial{slow, slow, slow, fast, fast, fast}, 4)
	b.Finished(slow, 100, 10*time.Second)
	b.Finished(fast, 100, time.Second)
	if left := b.timeLeft(); left != 11*time.Second { // 2 of 10 s and 2 of 1 s, two at a time
		t.Errorf("%v are left", left)
	}
	if line := b.line(10 * time.Second); !strings.HasPrefix(line, "[==============          ] 6/10 trials  20 steps/s  11s left") {
		t.Errorf("the line is %q", line)
	}
}
