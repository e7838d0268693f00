package newrobot_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/cli/newrobot"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// outside runs a command in the folder of a robot and returns its output.
func outside(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// backend is a source file of a robot with its own inference backend.
const backend = `package main

import (
	"fmt"

	"optibfm"
	"optibfm/tflite"
)

type halvedConfig struct {
	Workers int ` + "`" + `yaml:"workers" rule:"[1, 64]"` + "`" + `
}

type halved struct{ *tflite.Network }

func (halved) String() string { return "runs on half of the processors" }

func init() {
	optibfm.RegisterBackend("halved", halvedConfig{Workers: 1},
		func(c halvedConfig, b *tflite.Bundle, w optibfm.Workload) (tflite.Model, error) {
			if w.Candidates < 1 || w.Processors < 1 {
				return nil, fmt.Errorf("bad workload (%+v)", w)
			}
			n, err := b.NewNetwork(tflite.Workers(c.Workers))
			return halved{n}, err
		})
}
`

// A robot of another module, with its own backend, runs in two processes. The test checks its
// sections, arms it, kills it and replays its log.
func TestWriteGo_RunsOutsideTheRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	repository, err := filepath.Abs("../../..")
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	fatal.If(t, newrobot.WriteGo(&out, "crawler", repository))
	if !strings.Contains(out.String(), "cd crawler && go run . run") {
		t.Errorf("printed %q", out.String())
	}
	dir, err := filepath.Abs("crawler")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "backend.go"), []byte(backend), 0o600))
	if text, err := outside(dir, "go", "build", "-o", "crawler", "."); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	program := filepath.Join(dir, "crawler")
	for set, want := range map[string]string{
		"robot.crawler.top_sped_mps=1":  "unknown key robot.crawler.top_sped_mps; did you mean top_speed_mps?",
		"robot.crawler.top_speed_mps=9": "out of range (9); choose a value from 0.1 to 3",
		"robot.driver=rover":            `robot.driver is unknown ("rover"); use one of crawler`,
		"model.backend=tensorflow":      `model.backend is unknown ("tensorflow"); use one of native, halved`,
		"model.halved.workers=0":        "out of range (0); choose a value from 1 to 64",
	} {
		if text, err := outside(dir, program, "run", "--set", set); err == nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, no %q in\n%s", set, err, want, text)
		}
	}
	for _, args := range [][]string{{"--help"}, {"log", "--help"}, {"run", "--set", "safety.socket="}} {
		text, _ := outside(dir, program, args...)
		if strings.Contains(text, "optibfm ") || !strings.Contains(text, "crawler ") {
			t.Errorf("%v names another program:\n%s", args, text)
		}
	}
	text, err := outside(dir, program, "model", "backend", "--set", "model.backend=halved", "--searches", "3")
	if err != nil || !strings.Contains(text, "half of the processors") || !strings.Contains(text, "0 of 3 searches") {
		t.Errorf("model backend: %v\n%s", err, text)
	}
	runAndKill(t, dir, program)
}

func runAndKill(t *testing.T, dir, program string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := exec.CommandContext(ctx, program, "run", "--plain", "--set", "safety.socket="+socket,
		"--set", "loop.max_missed_ticks=-1", "--set", "controller.max_plan_age_ticks=1000",
		"--set", "controller.strategy=ucb", "--set", "model.backend=halved")
	run.Dir = dir
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	fatal.If(t, run.Start())
	moves := func() bool {
		_, _ = outside(dir, program, "arm", "--socket", socket)
		status, _ := outside(dir, program, "status", "--socket", socket)
		return strings.Contains(status, "armed") && !strings.Contains(status, "disarmed")
	}
	if !rigtest.WaitUntil(rigtest.HangGuard, moves) {
		t.Errorf("not armed; the run printed\n%s", out.String())
	}
	time.Sleep(2 * time.Second) // some ticks and labels
	fatal.If(t, run.Process.Kill())
	_ = run.Wait() // killed
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*-crawler.mcap"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	replayed := func() bool { // the host process ends the log
		text, err := outside(dir, program, "replay", logs[0])
		return err == nil && strings.Contains(text, "agree")
	}
	if !rigtest.WaitUntil(rigtest.HangGuard, replayed) {
		text, err := outside(dir, program, "replay", logs[0])
		t.Errorf("replay: %v\n%s", err, text)
	}
}

func TestWriteGo_RefusesNamesThatMakeNoProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, want := range map[string]string{
		"type": "choose another name", "hal": "choose another name", "Crawler": "bad name", "a-b": "bad name",
		"crawler": "not the repository of optibfm",
	} {
		errtest.Contains(t, newrobot.WriteGo(io.Discard, name, ""), want, name)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("%v: %v", entries, err)
	}
}
