package jitter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"optibfm/rtloop"
)

const cyclictestLimit = 200_000 // µs, the end of its histogram

// runCyclictest runs cyclictest once and returns its JSON result.
func runCyclictest(ctx context.Context, program string, cfg rtloop.Config, turn time.Duration) ([]byte, error) {
	dir, err := os.MkdirTemp("", "optibfm-jitter")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	result := filepath.Join(dir, "result.json")
	cmd := exec.CommandContext(ctx, program, cyclictestArguments(cfg, turn, result)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("jitter: cyclictest: %w (%q); use --alone", err, strings.TrimSpace(string(output)))
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return nil, fmt.Errorf("jitter: cyclictest: no result: %w; use --alone", err)
	}
	return text, nil
}

func cyclictestArguments(cfg rtloop.Config, turn time.Duration, result string) []string {
	period := cfg.Period()
	args := []string{
		"--default-system", "--quiet", "--mlockall", "--threads=1",
		"--interval=" + strconv.FormatInt(max(period.Microseconds(), 1), 10),
		"--loops=" + strconv.FormatInt(max(int64(turn/period), 1), 10),
		"--histogram=" + strconv.Itoa(cyclictestLimit), "--histfile=" + os.DevNull, "--json=" + result,
	}
	if cfg.Priority > 0 {
		args = append(args, "--priority="+strconv.Itoa(cfg.Priority))
	}
	if len(cfg.CPUs) > 0 {
		args = append(args, "--affinity="+strings.Trim(strings.ReplaceAll(fmt.Sprint(cfg.CPUs), " ", ","), "[]"))
	}
	return args
}

// addCyclictest adds the JSON result of one run of cyclictest.
func (h *Histogram) addCyclictest(text []byte, period time.Duration) error {
	var file struct {
		Thread map[string]struct {
			Histogram map[string]int64 `json:"histogram"`
			Cycles    int64            `json:"cycles"`
			Max       int              `json:"max"`
		} `json:"thread"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("jitter: cyclictest: result: %w; use --alone", err)
	}
	thread, ok := file.Thread["0"]
	if !ok {
		return errors.New("jitter: cyclictest: result: no thread 0; use --alone")
	}
	beyond := thread.Cycles
	for latency, n := range thread.Histogram {
		us, err := strconv.Atoi(latency)
		if err != nil || us < 0 || n < 0 {
			return fmt.Errorf("jitter: cyclictest: result: invalid latency (%q, %d times); use --alone", latency, n)
		}
		h.add(us, n)
		beyond -= n
	}
	if beyond > 0 {
		h.add(thread.Max, beyond)
	}
	h.summarize(period)
	return nil
}
