package bridge

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"optibfm/hal"
	"optibfm/internal/registry"
)

// Register registers the driver bridge.
func Register() {
	registry.AddRobot("bridge", "Bridge is a robot in another process.", Config{},
		func(ctx context.Context, c Config, o registry.Opening) (hal.Robot, error) {
			c.SimulatorWait = o.SimulatorWait
			return Dial(ctx, c)
		})
	registry.AddCheck("bridge", checkServer)
}

// Simulated reports whether the robot's time waits for the program.
func (c Config) Simulated() bool { return c.Mode != Free }

// SimulatedTime is Simulated: samples have the server's time.
func (c Config) SimulatedTime() bool { return c.Mode != Free }

// Files returns the script of [Scripts] that an interpreter of this computer runs as Command. Other
// commands may start a server on another computer.
func (c Config) Files() map[string]string {
	if script := c.script(); script != "" {
		return map[string]string{"command": script}
	}
	return nil
}

func (c Config) script() string {
	if len(c.Command) < 2 || !slices.Contains(Scripts, filepath.Base(c.Command[1])) {
		return ""
	}
	return c.Command[1]
}

// ResetTimeout is the longest duration of Reset in free mode, and the shortest limit in lockstep.
func (*Robot) ResetTimeout() time.Duration { return resetTimeout }

// Tasks returns the tasks of the script of Command, nil for another server.
func (c Config) Tasks() []string {
	script := c.script()
	if script == "" {
		return nil
	}
	return ScriptTasks(filepath.Base(script), c.Command[2:])
}
