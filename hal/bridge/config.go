package bridge

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"optibfm/internal/keys"
)

// Config selects the server of a robot and the mode. Zero values mean the
// defaults.
type Config struct {
	// Address is "unix:/path/of/socket" or "tcp:host:port". A host such as
	// robot.local needs systemd-resolved or avahi. With a Command the address
	// may be empty: the default is a socket in a new folder.
	Address string `yaml:"address"`
	// Command starts the server: a program and its arguments. The server reads
	// the address from OPTIBFM_BRIDGE_ADDRESS in its environment, serves one
	// connection and exits. Close kills it if necessary.
	Command []string `yaml:"command"`
	// Task is the task that a simulator rewards. Empty: the server's choice.
	Task string `yaml:"task"`
	// Mode is "lockstep" (default: time advances by one period with each Act)
	// or "free" (real time).
	Mode string `yaml:"mode" rule:"lockstep|free|"`
	// TimeoutMs limits the wait of a call for the server. Default: 10000 in
	// lockstep, where a timeout loses the robot; half a period in free mode,
	// which bounds the delay of the control thread. Reset waits at least 10 s,
	// Halt in free mode 100 ms to 5 s.
	TimeoutMs float64 `yaml:"timeout_ms" rule:"[0, 3600000]"`
	// StaleMs is the age limit of a sample in free mode. Default: three periods.
	StaleMs float64 `yaml:"stale_ms" rule:"[0, 3600000]"`
	// DeadmanMs is the silence after which the server halts the robot, in free
	// mode. Default: 500.
	DeadmanMs float64 `yaml:"deadman_ms" rule:"[0, 3600000]"`
	// StartTimeoutMs limits Dial: the wait until the server listens (and the network
	// reaches it) and then for its complete welcome. Default:
	// 60000 with Command, else 15000.
	StartTimeoutMs float64 `yaml:"start_timeout_ms" rule:"[0, 3600000]"`

	// SimulatorWait is the smallest StaleMs of a simulator, a server that can reset its
	// robot. Its Arm and Halt wait as long, at most five seconds.
	SimulatorWait time.Duration `yaml:"-"`
	// Output receives the output of the server of Command, and a notice if the welcome
	// takes long. Default: os.Stderr.
	Output io.Writer `yaml:"-"`
}

func (c Config) output() io.Writer {
	if c.Output == nil {
		return os.Stderr
	}
	return c.Output
}

// The names of the modes.
const (
	Lockstep = "lockstep"
	Free     = "free"
)

const (
	lockstepTimeout = 10 * time.Second
	startTimeout    = 15 * time.Second
	commandTimeout  = 60 * time.Second // a server that has to start
	resetTimeout    = 10 * time.Second
	haltTimeout     = 100 * time.Millisecond
	longestHalt     = 5 * time.Second // of a slow server
	freeDeadman     = 500 * time.Millisecond
	noticeAfter     = 3 * time.Second // without a welcome
)

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("bridge", c); err != nil {
		return err
	}
	if len(c.Command) > 0 && c.Command[0] == "" {
		return fmt.Errorf("bridge: command: the program is empty; set its name or path")
	}
	if c.Address == "" && len(c.Command) == 0 {
		return fmt.Errorf("bridge: address and command are empty; set the address to unix:/path or tcp:host:port")
	}
	if c.Address != "" {
		if _, _, err := splitAddress(c.Address); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) mode() mode {
	if c.Mode == Free {
		return free
	}
	return lockstep
}

// startTimeout returns StartTimeoutMs, or its default.
func (c Config) startTimeout() time.Duration {
	if len(c.Command) > 0 {
		return orDefault(c.StartTimeoutMs, commandTimeout)
	}
	return orDefault(c.StartTimeoutMs, startTimeout)
}

// maxSocketPath is the size of sun_path in sockaddr_un, less its final zero.
const maxSocketPath = 107

// splitAddress returns the arguments of net.Dial and net.Listen.
func splitAddress(address string) (network, where string, err error) {
	network, where, _ = strings.Cut(address, ":")
	if (network != "unix" && network != "tcp") || where == "" {
		return "", "", fmt.Errorf("bridge: address: invalid (%q); use unix:/path or tcp:host:port", address)
	}
	if network == "unix" && len(where) > maxSocketPath {
		return "", "", fmt.Errorf("bridge: address: the path is too long (%d bytes); "+
			"use at most %d, such as unix:/tmp/robot.sock", len(where), maxSocketPath)
	}
	return network, where, nil
}

// orDefault converts a setting in milliseconds; 0 means the default.
func orDefault(ms float64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
