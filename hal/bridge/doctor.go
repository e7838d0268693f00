package bridge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
)

// checkServer checks the server. It does not connect, because a server may move its robot for a
// client.
func checkServer(ctx context.Context, c Config, computer registry.Computer) []registry.Finding {
	return []registry.Finding{c.check(ctx, computer)}
}

func (c Config) check(ctx context.Context, computer registry.Computer) registry.Finding {
	if len(c.Command) > 0 {
		return c.checkCommand(ctx)
	}
	socket, local := strings.CutPrefix(c.Address, "unix:")
	if !local {
		return found(registry.StatusSkip, "", "%s: not connected", c.Address)
	}
	if !computer.Exists(socket) {
		return found(registry.StatusWarn, "start the robot's server before the run", "%s: no such socket", socket)
	}
	if err := computer.Access(socket); err != nil {
		return found(registry.StatusFail, "create the socket with access for this user's group",
			"%s: %v for %s", socket, err, computer.User())
	}
	return found(registry.StatusOK, "", "%s: present, not connected", socket)
}

// checkCommand checks the program that starts the server. It runs the project's scripts with
// --help, which imports their packages.
func (c Config) checkCommand(ctx context.Context) registry.Finding {
	program, err := exec.LookPath(c.Command[0])
	if err != nil {
		return found(registry.StatusFail, "install it, or correct robot.bridge.command", "%v", err)
	}
	script := c.script()
	if script == "" {
		return found(registry.StatusOK, "", "%s: present, not started", program)
	}
	if _, err := os.Stat(script); err != nil {
		return found(registry.StatusFail, registry.MissingFile("robot.bridge.command", script), "%v", err)
	}
	if err := CheckScript(ctx, c.Command); err != nil {
		text, fix, _ := strings.Cut(err.Error(), "; ")
		fix = cmp.Or(fix, "run `"+strings.Join(c.Command, " ")+" --help`")
		return found(registry.StatusFail, fix, "%s", plaintext.Clean(text))
	}
	return found(registry.StatusOK, "", "%s %s: all packages found, not connected", program, script)
}

func found(status, fix, format string, args ...any) registry.Finding {
	return registry.Finding{Status: status, Fix: fix, Found: fmt.Sprintf(format, args...)}
}
