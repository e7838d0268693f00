package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"optibfm/configs"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// The command draws on the terminal of a person, who moves a servo and hangs up.
func TestSense_DrawsOnATerminalAndHoldsTheRobot(t *testing.T) {
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	socket := "safety.socket=" + t.TempDir() + "/s"
	person, terminal := rigtest.OpenPTY(t)
	cmd := exec.Command("/proc/self/exe", "sense", "--config", rigtest.GripperFile, "--set", socket,
		"--set", "robot.composite.devices[0].feetech.port.path="+chain.Path)
	cmd.Env = append(os.Environ(), actAsProgram+"=1")
	var errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = terminal, &errors
	fatal.If(t, cmd.Start())
	var screen rigtest.SyncBuffer
	go func() { _, _ = io.Copy(&screen, person) }()
	sees := func(word string) func() bool { return func() bool { return strings.Contains(screen.String(), word) } }
	if !rigtest.WaitUntil(rigtest.HangGuard, sees("\x1b[H\x1b[Jchannel")) {
		t.Fatalf("no table: %q, %q", screen.String(), errors.String())
	}
	chain.Set(1, feetechtest.Place, 2, 3072) // a quarter of a turn
	if !rigtest.WaitUntil(rigtest.HangGuard, sees("1.571")) {
		t.Errorf("no quarter of a turn: %q", screen.String())
	}
	file, err := configs.Load(rigtest.GripperFile, socket)
	fatal.If(t, err)
	errtest.Is(t, errtest.Of(control.Hold(file.Safety)), control.ErrSocketInUse)
	fatal.If(t, cmd.Process.Signal(syscall.SIGHUP))
	if err := cmd.Wait(); err != nil || errors.Len() > 0 {
		t.Errorf("%v, %q", err, errors.String())
	}
}
