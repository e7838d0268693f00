package eval

import (
	"context"
	"errors"
	"fmt"
	"io"

	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
)

// Simulator is a robot that can be reset and returns the reward of its task.
type Simulator interface {
	hal.Robot
	hal.Resetter
	hal.Rewarder
}

// Worlds opens the environments.
type Worlds struct {
	// Python is the interpreter, default python3.
	Python string
	// Bridge is the script that serves the robots, default scripts/dmc_bridge.py,
	// and scripts/maze_bridge.py for [AntMaze].
	Bridge string
	// Output receives what the interpreter prints.
	Output io.Writer
}

// ErrPython is wrapped by the error of an interpreter that cannot serve the environments.
var ErrPython = errors.New("eval: python")

// bridgeTimeoutMS is far above any step of a simulator, startTimeoutMS far above its start, also on a busy machine.
const (
	bridgeTimeoutMS = 60_000
	startTimeoutMS  = 600_000
)

func (w Worlds) python() string {
	if w.Python == "" {
		return "python3"
	}
	return w.Python
}

func (w Worlds) script(env string) string {
	switch {
	case w.Bridge != "":
		return w.Bridge
	case env == AntMaze:
		return "scripts/maze_bridge.py"
	}
	return "scripts/dmc_bridge.py"
}

// Check reports, before any trial, whether an environment can be opened.
func (w Worlds) Check(ctx context.Context, env string) error {
	if env == Rover {
		return nil
	}
	if err := bridge.CheckScript(ctx, []string{w.python(), w.script(env)}); err != nil {
		return fmt.Errorf("%w: %w (--python names another interpreter, --bridge another script than %s)",
			ErrPython, err, w.script(env))
	}
	return nil
}

// Open returns the robot of an environment, with a task.
func (w Worlds) Open(ctx context.Context, env, task string) (Simulator, error) {
	if env == Rover {
		cfg := rover.DefaultConfig()
		cfg.Task = task
		return rover.New(cfg)
	}
	return bridge.Dial(ctx, bridge.Config{
		Command: []string{w.python(), w.script(env), env}, Task: task, Mode: bridge.Lockstep, Output: w.Output,
		TimeoutMs: bridgeTimeoutMS, StartTimeoutMs: startTimeoutMS,
	})
}

func closeSimulator(r Simulator) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return r.Halt()
}
