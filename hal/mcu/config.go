package mcu

import (
	"fmt"
	"math"
	"time"

	"optibfm/hal/serial"
)

// Config says where the board is. Zero values mean the defaults.
type Config struct {
	Port serial.Config `yaml:"port"`
	// TimeoutMs limits the wait for the answer to Arm and Halt, for each of
	// two tries. Default: 20.
	TimeoutMs float64 `yaml:"timeout_ms"`
	// StaleMs is the age at which a sample is refused. Default: 100.
	StaleMs float64 `yaml:"stale_ms"`
	// DeadmanMs is the silence after which the firmware halts, whole
	// milliseconds. Default: 200.
	DeadmanMs float64 `yaml:"deadman_ms"`
	// StartTimeoutMs limits the wait for the firmware when the port is opened,
	// which resets many boards. Default: 3000.
	StartTimeoutMs float64 `yaml:"start_timeout_ms"`
}

const (
	defaultTimeout = 20 * time.Millisecond
	defaultStale   = 100 * time.Millisecond
	defaultDeadman = 200 * time.Millisecond
	defaultStart   = 3 * time.Second
	maxMs          = 60_000
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("mcu: port: %w", err)
	}
	settings := []struct {
		key   string
		value float64
	}{
		{"timeout_ms", c.TimeoutMs}, {"stale_ms", c.StaleMs}, {"deadman_ms", c.DeadmanMs}, {"start_timeout_ms", c.StartTimeoutMs},
	}
	for _, s := range settings {
		if !(s.value >= 0 && s.value <= maxMs) {
			return fmt.Errorf("mcu: %s: not between 0 and a minute (%v): give milliseconds, or 0 for the default", s.key, s.value)
		}
	}
	if c.DeadmanMs != math.Trunc(c.DeadmanMs) {
		return fmt.Errorf("mcu: deadman_ms: not whole (%v): the firmware counts whole milliseconds", c.DeadmanMs)
	}
	return nil
}

func orDefault(ms float64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
