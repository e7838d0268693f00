package rtloop

import (
	"math"
	"strings"
	"testing"

	"optibfm/internal/fatal"
)

func TestDefaultConfig_IsValid(t *testing.T) {
	fatal.If(t, DefaultConfig().Validate())
}

func TestConfig_RefusesValuesOutOfRange(t *testing.T) {
	tests := map[string]func(*Config){
		"period_ms":        func(c *Config) { c.PeriodMS = 0 },
		"period_ms is NaN": func(c *Config) { c.PeriodMS = math.NaN() },
		"period_ms is 1e":  func(c *Config) { c.PeriodMS = 1e9 },
		"fifo_priority":    func(c *Config) { c.Priority = 99 },
		"cpus":             func(c *Config) { c.CPUs = []int{0, -1} },
		"cpus has 1024":    func(c *Config) { c.CPUs = []int{1024} },
		"timer_slack_ns":   func(c *Config) { c.TimerSlackNS = -1 },
		"max_missed_ticks": func(c *Config) { c.MaxMissed = 0 },
		"memory_limit_mib": func(c *Config) { c.MemoryLimitMiB = 0 },
		"posture":          func(c *Config) { c.Posture = "relaxed" },
		"watchdog_ms":      func(c *Config) { c.WatchdogMS = 10 },
		"watchdog_ms is N": func(c *Config) { c.WatchdogMS = math.NaN() },
	}
	for want, spoil := range tests {
		cfg := DefaultConfig()
		spoil(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
		if l, _, err := Prepare(cfg); err == nil {
			l.Close()
			t.Errorf("Prepare accepts a bad %s", want)
		}
	}
}
