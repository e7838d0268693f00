package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

const (
	loadProcesses = 8 // that compete for the processors
	pressInterval = 500 * time.Millisecond
)

// TestRun_SurvivesLoad is a measurement: OPTIBFM_LOAD_RUNS runs of OPTIBFM_LOAD_SECONDS
// (default 120), in sequence, at normal priority, next to OPTIBFM_LOAD_PROCESSES busy
// processes (default 8), with labels and pictures in a browser. Each ends by SIGINT.
// OPTIBFM_LOAD_ARGS replaces the arguments that choose the robot.
func TestRun_SurvivesLoad(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("OPTIBFM_LOAD_RUNS"))
	if err != nil {
		t.Skip("a measurement: set OPTIBFM_LOAD_RUNS to the number of runs")
	}
	length := 120 * time.Second
	if s, err := strconv.Atoi(os.Getenv("OPTIBFM_LOAD_SECONDS")); err == nil {
		length = time.Duration(s) * time.Second
	}
	processes := loadProcesses
	if n, err := strconv.Atoi(os.Getenv("OPTIBFM_LOAD_PROCESSES")); err == nil {
		processes = n
	}
	for range processes {
		busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		fatal.If(t, busy.Start())
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
	output := &rigtest.SyncBuffer{}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", strings.Fields(args)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), actAsProgram+"=1")
	cmd.Stdout, cmd.Stderr = output, output
	fatal.If(t, cmd.Start())
	begun := time.Now()
	person := rigtest.PairPhone(t, output)
	var labelling sync.WaitGroup
	labelling.Go(func() { person.PressAgain(ctx, pressInterval) })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := time.After(length)
	var err error
	var loads []float64
	for running := true; running; {
		select {
		case err = <-ended:
			t.Errorf("it ended after %v", time.Since(begun))
			running = false
		case <-over:
			_ = cmd.Process.Signal(syscall.SIGINT)
			err = <-ended
			running = false
		case <-time.After(5 * time.Second):
			loads = append(loads, loadAverage(t))
		}
	}
	cancel()
	labelling.Wait()
	t.Logf("load average: %.1f", loads)
	t.Logf("error: %v; the output:\n%s", err, output)
	errtest.Nil(t, err, "it failed")
}

// loadAverage returns the load average of the last minute.
func loadAverage(t *testing.T) (average float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(text), &average)
	}
	errtest.Nil(t, err)
	return average
}
