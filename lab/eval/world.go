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
	// scripts/maze_bridge.py for [AntMaze] and scripts/go2_bridge.py for the variants of [Go2].
	Bridge string
	// Output receives what the interpreter prints.
	Output io.Writer
}

// ErrPython is wrapped by the error of an interpreter that cannot serve the environments.
var ErrPython = errors.New("eval: python")

// bridgeTimeoutMS is far above any step of a simulator, startTimeoutMS far above its start, also on
// a busy machine.
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
	if _, ok := go2s[env]; ok {
		return "scripts/go2_bridge.py"
	}
	return "scripts/dmc_bridge.py"
}

// command returns the command that starts the server of an environment.
func (w Worlds) command(env string) []string {
	variant, ok := go2s[env]
	switch {
	case !ok:
		return []string{w.python(), w.script(env), env}
	case variant.exact:
		return []string{w.python(), w.script(env), go2Task, "--exact"}
	}
	return []string{w.python(), w.script(env), go2Task}
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
	robot, err := bridge.Dial(ctx, bridge.Config{
		Command: w.command(env), Task: task, Mode: bridge.Lockstep, Output: w.Output,
		TimeoutMs: bridgeTimeoutMS, StartTimeoutMs: startTimeoutMS,
	})
	if err != nil || !go2s[env].estimated {
		return robot, err
	}
	return newEstimated(robot)
}

func closeSimulator(r Simulator) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return r.Halt()
}
