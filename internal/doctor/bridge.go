package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"optibfm/hal/bridge"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
)

// checkBridge checks the server of a bridge. It does not connect, because a server may move its
// robot for a client.
func (d *doctor) checkBridge(ctx context.Context) finding {
	b := d.file.Robot.Bridge
	if len(b.Command) > 0 {
		return d.checkBridgeCommand(ctx)
	}
	socket, local := strings.CutPrefix(b.Address, "unix:")
	if !local {
		return skip("%s: not connected", b.Address)
	}
	if _, err := fs.Stat(d.files, relative(socket)); err != nil {
		return warn("start the robot's server before the run", "%s: no such socket", socket)
	}
	if err := d.access(socket); err != nil {
		return fail("create the socket with access for this user's group", "%s: %v for %s", socket, err, d.user.Name)
	}
	return pass("%s: present, not connected", socket)
}

// checkBridgeCommand checks the program that starts the server. It runs the project's scripts with
// --help, which imports their packages.
func (d *doctor) checkBridgeCommand(ctx context.Context) finding {
	command := d.file.Robot.Bridge.Command
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fail("install it, or correct robot.bridge.command", "%v", err)
	}
	script := setup.BridgeScript(d.file.Robot)
	if script == "" {
		return pass("%s: present, not started", program)
	}
	if _, err := os.Stat(script); err != nil {
		return fail(setup.MissingScript(script), "%v", err)
	}
	if err := bridge.CheckScript(ctx, command); err != nil {
		text, fix, _ := strings.Cut(err.Error(), "; ")
		return fail(cmp.Or(fix, "run `"+strings.Join(command, " ")+" --help`"), "%s", plaintext.Clean(text))
	}
	return pass("%s %s: all packages found, not connected", program, script)
}
