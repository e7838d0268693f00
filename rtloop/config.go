package rtloop

import (
	"fmt"
	"math"
	"time"
)

// The postures: the reaction to a refused request.
const (
	Strict = "strict" // refuse to start
	Warn   = "warn"   // report it and continue
)

// NoLimit is the Config.MaxMissed of a loop that may miss any number of ticks.
const NoLimit = -1

// Config has the settings of a loop. Start from DefaultConfig.
type Config struct {
	// PeriodMS is the time from one tick to the next, in milliseconds,
	// 0.05 to 60000. It is rounded to a nanosecond.
	PeriodMS float64 `yaml:"period_ms" rule:"[0.05, 60000]"`
	// Priority is the SCHED_FIFO priority of the control thread, 1 to 98; 0:
	// the ordinary scheduler. 99 is for the watchdog and the kernel.
	Priority int `yaml:"fifo_priority" rule:"[0, 98]"`
	// CPUs are the processors that the control thread may run on; empty: all.
	CPUs []int `yaml:"cpus" rule:"[0, 1023]"`
	// LockMemory keeps every page of the process in memory (mlockall).
	LockMemory bool `yaml:"lock_memory"`
	// TimerSlackNS is the delay, in nanoseconds, with which the kernel may wake
	// a control thread without FIFO priority to save power; 0: unchanged.
	TimerSlackNS int64 `yaml:"timer_slack_ns" rule:"[0, inf)"`
	// MaxMissed is the number of missed ticks, without a punctual one in
	// between, that stops the robot; 1 or more, or NoLimit.
	MaxMissed int `yaml:"max_missed_ticks" rule:"[-1, inf)"`
	// MemoryLimitMiB is the memory, in MiB, above which the disabled garbage
	// collector runs nevertheless; 16 or more.
	MemoryLimitMiB int `yaml:"memory_limit_mib" rule:"[16, 16777216]"`
	// Posture is Strict or Warn.
	Posture string `yaml:"posture" rule:"strict|warn"`
	// WatchdogMS is the time without a tick, in milliseconds, after which the
	// watchdog considers the control thread stuck; at least three periods;
	// 0: no watchdog.
	WatchdogMS float64 `yaml:"watchdog_ms" rule:"[0, 3600000]"`
}

// DefaultConfig returns 50 Hz and the posture Warn.
func DefaultConfig() Config {
	return Config{
		PeriodMS:       20,
		Priority:       80,
		LockMemory:     true,
		TimerSlackNS:   1,
		MaxMissed:      5,
		MemoryLimitMiB: 512,
		Posture:        Warn,
		WatchdogMS:     200,
	}
}

// Period returns PeriodMS as a duration.
func (c Config) Period() time.Duration { return milliseconds(c.PeriodMS) }

// Validate returns an error that names the first key that is out of range.
func (c Config) Validate() error {
	if !(c.PeriodMS >= 0.05 && c.PeriodMS <= 60000) {
		return fmt.Errorf("rtloop: period_ms is %v: give 0.05 to 60000", c.PeriodMS)
	}
	if c.Priority < 0 || c.Priority > 98 {
		return fmt.Errorf("rtloop: fifo_priority is %d: give 1 to 98, or 0 for the ordinary scheduler", c.Priority)
	}
	for _, cpu := range c.CPUs {
		if cpu < 0 || cpu >= maxCPUs {
			return fmt.Errorf("rtloop: cpus has %d: give numbers from 0 to %d, as in /proc/cpuinfo", cpu, maxCPUs-1)
		}
	}
	if c.TimerSlackNS < 0 {
		return fmt.Errorf("rtloop: timer_slack_ns is %d: give 1 or more, or 0 to keep the current one", c.TimerSlackNS)
	}
	if c.MaxMissed < 1 && c.MaxMissed != NoLimit {
		return fmt.Errorf("rtloop: max_missed_ticks is %d: give 1 or more, or %d for no limit", c.MaxMissed, NoLimit)
	}
	if c.MemoryLimitMiB < 16 || c.MemoryLimitMiB > 1<<24 {
		return fmt.Errorf("rtloop: memory_limit_mib is %d: give 16 or more", c.MemoryLimitMiB)
	}
	if c.Posture != Strict && c.Posture != Warn {
		return fmt.Errorf("rtloop: posture is %q: give %s or %s", c.Posture, Strict, Warn)
	}
	if c.WatchdogMS != 0 && !(c.WatchdogMS >= 3*c.PeriodMS && c.WatchdogMS <= 3.6e6) {
		return fmt.Errorf("rtloop: watchdog_ms is %v: give at least three periods (%v), or 0 for none",
			c.WatchdogMS, 3*c.PeriodMS)
	}
	return nil
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
