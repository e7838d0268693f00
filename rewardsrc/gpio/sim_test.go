package gpio

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/rewardsrctest"
)

// TestKernel_GPIOSim presses a button of the kernel's gpio-sim, with real
// requests, sequence numbers and times.
func TestKernel_GPIOSim(t *testing.T) {
	const configfs = "/sys/kernel/config/gpio-sim"
	if _, err := os.Stat(configfs); err != nil {
		t.Skipf("no gpio-sim here (modprobe gpio-sim; mount configfs): %v", err)
	}
	dir := filepath.Join(configfs, fmt.Sprintf("optibfm-%d", os.Getpid()))
	bank := filepath.Join(dir, "bank0")
	if err := os.MkdirAll(bank, 0o755); err != nil {
		t.Skipf("gpio-sim makes no chip: %v", err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:max(0, len(b)-1)])
	}
	t.Cleanup(func() {
		write(filepath.Join(dir, "live"), "0")
		for _, path := range []string{bank, dir} {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}
	})
	write(filepath.Join(bank, "num_lines"), "8")
	write(filepath.Join(dir, "live"), "1")
	chip := read(filepath.Join(bank, "chip_name"))
	pull := filepath.Join("/sys/devices/platform", read(filepath.Join(dir, "dev_name")), chip, "sim_gpio3/pull")
	write(pull, "pull-up")
	cfg := DefaultConfig()
	cfg.Chip, cfg.Good, cfg.LED, cfg.Bias, cfg.Labels.RefractoryMS = chip, "3", "5", AsIs, 0
	p, err := Open(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Halt()
	before := rewardsrc.Monotonic()
	for range 3 {
		write(pull, "pull-down")
		time.Sleep(30 * time.Millisecond)
		write(pull, "pull-up")
		time.Sleep(30 * time.Millisecond)
	}
	for _, l := range rewardsrctest.Labels(t, p, 3) {
		if l.Value != cfg.Labels.GoodValue || l.At < before || l.At > rewardsrc.Monotonic() {
			t.Errorf("label %+v", l)
		}
	}
	if p.Missing() != 0 {
		t.Errorf("%d presses missing", p.Missing())
	}
}
