package cli

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// loadProcesses is the number of processes that compete for the processors.
const loadProcesses = 8

// TestRun_SurvivesLoad is a measurement: OPTIBFM_LOAD_RUNS runs of OPTIBFM_LOAD_SECONDS
// (default 120), in sequence, at normal priority, next to busy processes, with labels from
// a browser. Each ends by SIGINT. OPTIBFM_LOAD_ARGS replaces the arguments that choose the
// robot.
func TestRun_SurvivesLoad(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("OPTIBFM_LOAD_RUNS"))
	if err != nil {
		t.Skip("a measurement: set OPTIBFM_LOAD_RUNS to the number of runs")
	}
	length := 120 * time.Second
	if s, err := strconv.Atoi(os.Getenv("OPTIBFM_LOAD_SECONDS")); err == nil {
		length = time.Duration(s) * time.Second
	}
	for range loadProcesses {
		busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = busy.Wait() })
	}
	for run := range runs {
		t.Run(strconv.Itoa(run+1), func(t *testing.T) { runUnderLoad(t, length) })
	}
}

func runUnderLoad(t *testing.T, length time.Duration) {
	args := cmp.Or(os.Getenv("OPTIBFM_LOAD_ARGS"), "--config rover --set run.episodes=0")
	args = "run --plain --fresh " + args + " --operator web --set operator.web.listen=127.0.0.1:0" +
		" --set operator.web.tls=off --set loop.posture=warn --set loop.fifo_priority=0 --set run.duration_s=0" +
		" --set log.dir=" + t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output := newPairingReader()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", strings.Fields(args)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), actAsProgram+"=1")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	go func() { watched <- labelInBrowser(ctx, output) }()
	begun := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
		t.Errorf("it ended after %v", time.Since(begun))
	case <-time.After(length):
		_ = cmd.Process.Signal(syscall.SIGINT)
		err = <-ended
	}
	cancel()
	t.Logf("error: %v; the console: %v; the output:\n%s", err, <-watched, output)
	if err != nil {
		t.Errorf("it failed: %v", err)
	}
}
