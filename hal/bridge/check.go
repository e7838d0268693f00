package bridge

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Scripts are the servers of this project, in scripts/.
var Scripts = []string{"dmc_bridge.py", "g1_bridge.py", "humenv_bridge.py", "maze_bridge.py", "ros2_bridge.py"}

// ScriptTasks returns the tasks of one of [Scripts] with its arguments, nil if only the
// running server has them.
func ScriptTasks(script string, arguments []string) []string {
	if script == "g1_bridge.py" {
		return []string{"stand", "walk_forward", "walk_backward", "walk_left", "turn_left", "crouch", "raise_arms"}
	}
	if len(arguments) == 0 {
		return nil
	}
	switch script + " " + arguments[0] {
	case "dmc_bridge.py cheetah":
		return []string{"walk", "run", "walk_backward", "run_backward"}
	case "dmc_bridge.py quadruped":
		return []string{"stand", "walk", "run", "jump"}
	case "dmc_bridge.py walker":
		return []string{
			"stand", "walk", "run", "flip", "speedup", "slowdown", "speedup_upright", "slowdown_upright",
		}
	case "maze_bridge.py antmaze":
		return []string{"task1", "task2", "task3", "task4", "task5"}
	}
	return nil
}

// CheckScript checks that a command of one of [Scripts] finds its interpreter and
// the packages that the script imports. It runs the command with --help. The error
// includes the last line of the output, which names the package to install. ctx
// limits the wait.
func CheckScript(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:]), "--help")...)
	cmd.WaitDelay = time.Second // for a pipe that a child holds open
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("bridge: %s: %w", strings.Join(cmd.Args, " "), context.Cause(ctx))
	case cmd.ProcessState == nil: // not started
		return fmt.Errorf("bridge: %w; install the interpreter, or name another", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("bridge: %s: %w: %s", command[0], err, lines[len(lines)-1])
}
