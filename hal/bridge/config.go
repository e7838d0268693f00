package bridge

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Config says where a robot is and how to talk to it. Zero values mean the
// defaults.
type Config struct {
	// Address is "unix:/path/of/socket" or "tcp:host:port". It may be empty
	// where there is a Command: a socket in a new folder is used then.
	Address string `yaml:"address"`
	// Command, where given, starts the server: a program and its arguments. It
	// finds the address in its environment as OPTIBFM_BRIDGE_ADDRESS, serves
	// one connection and exits. It is killed by Close.
	Command []string `yaml:"command"`
	// Task is the task that a simulator shall reward. Empty: the server's.
	Task string `yaml:"task"`
	// Mode is "lockstep" (default: time advances by one period with each Act)
	// or "free" (time is everybody's).
	Mode string `yaml:"mode"`
	// TimeoutMs limits how long a call waits for the server. Default: 10000 in
	// lockstep, where passing it means that the robot is lost; in free mode
	// half a period, the most that the control thread is held up. Reset waits
	// at least 10 s.
	TimeoutMs float64 `yaml:"timeout_ms"`
	// StaleMs is the age at which a sample is refused, in free mode. Default:
	// three periods.
	StaleMs float64 `yaml:"stale_ms"`
	// DeadmanMs is the silence after which the server halts the robot, in free
	// mode. Default: 500.
	DeadmanMs float64 `yaml:"deadman_ms"`
	// StartTimeoutMs limits two waits of Dial: for the connection (with Command:
	// until the server listens) and for the server's complete welcome. Default:
	// 60000.
	StartTimeoutMs float64 `yaml:"start_timeout_ms"`

	// Output gets what the server of Command prints. Default: os.Stderr.
	Output io.Writer `yaml:"-"`
}

// The names of the modes.
const (
	Lockstep = "lockstep"
	Free     = "free"
)

const (
	lockstepTimeout = 10 * time.Second
	startTimeout    = 60 * time.Second
	resetTimeout    = 10 * time.Second
	haltTimeout     = 100 * time.Millisecond
	freeDeadman     = 500 * time.Millisecond
	maxMs           = 3600e3
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if len(c.Command) > 0 && c.Command[0] == "" {
		return fmt.Errorf("bridge: command: the program is empty; give its name or path")
	}
	if c.Address == "" && len(c.Command) == 0 {
		return fmt.Errorf("bridge: address: it is empty and there is no command; give unix:/path or tcp:host:port")
	}
	if c.Address != "" {
		if _, _, err := splitAddress(c.Address); err != nil {
			return err
		}
	}
	if _, err := c.mode(); err != nil {
		return err
	}
	settings := []struct {
		key   string
		value float64
	}{
		{"timeout_ms", c.TimeoutMs}, {"stale_ms", c.StaleMs}, {"deadman_ms", c.DeadmanMs}, {"start_timeout_ms", c.StartTimeoutMs},
	}
	for _, s := range settings {
		if !(s.value >= 0 && s.value <= maxMs) {
			return fmt.Errorf("bridge: %s: not between 0 and an hour (%v); give milliseconds, or 0 for the default", s.key, s.value)
		}
	}
	return nil
}

func (c Config) mode() (mode, error) {
	switch c.Mode {
	case "", Lockstep:
		return lockstep, nil
	case Free:
		return free, nil
	}
	return 0, fmt.Errorf("bridge: mode: unknown (%q); choose lockstep or free", c.Mode)
}

// startTimeout is StartTimeoutMs, or its default.
func (c Config) startTimeout() time.Duration { return orDefault(c.StartTimeoutMs, startTimeout) }

// splitAddress gives what net.Dial and net.Listen want.
func splitAddress(address string) (network, where string, err error) {
	network, where, _ = strings.Cut(address, ":")
	if (network != "unix" && network != "tcp") || where == "" {
		return "", "", fmt.Errorf("bridge: address: not understood (%q); give unix:/path or tcp:host:port", address)
	}
	return network, where, nil
}

// orDefault is the setting in milliseconds, or the default where it is 0.
func orDefault(ms float64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
