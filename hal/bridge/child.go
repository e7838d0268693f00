package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"optibfm/scripts"
)

// The environment of a server that Dial started.
const (
	envAddress = "OPTIBFM_BRIDGE_ADDRESS" // where to listen
	envOnce    = "OPTIBFM_BRIDGE_ONCE"    // "1": serve one connection and exit
	envView    = "OPTIBFM_BRIDGE_VIEW"    // a Unix socket to serve pictures on, if the robot has any
)

// exitPatience is the time from the end of the connection to kill.
const exitPatience = 500 * time.Millisecond

// child is a server that Dial started.
type child struct {
	cmd      *exec.Cmd
	address  string
	folder   string        // of the Python package, and of the socket unless the configuration has an address
	exited   chan struct{} // closed when err is set
	err      error         // of the process
	expiring sync.Once
}

func startChild(config Config) (*child, error) {
	folder, err := childFolder()
	if err != nil {
		return nil, fmt.Errorf("bridge: folder of the server: %w; see TMPDIR", err)
	}
	c := &child{address: config.Address, folder: folder, exited: make(chan struct{})}
	c.cmd = exec.Command(config.Command[0], config.Command[1:]...)
	if c.address == "" {
		c.address = "unix:" + filepath.Join(folder, socketName)
	}
	c.cmd.Env = append(pythonPath(folder), envAddress+"="+c.address, envOnce+"=1", envView+"="+c.viewSocket())
	c.cmd.Stdout, c.cmd.Stderr = config.output(), config.output()
	// A separate process group: Ctrl-C at the terminal must reach only this
	// process, which halts the robot before the server exits.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A grandchild that inherited the output must not block Wait.
	c.cmd.WaitDelay = exitPatience
	if err := c.cmd.Start(); err != nil {
		c.clean()
		return nil, fmt.Errorf("bridge: command: %w; check the program's name and the working directory", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// childFolder makes a folder with the Python package optibfm_bridge, so that server and program
// have the same version of it without an installation.
func childFolder() (string, error) {
	folder, err := socketFolder(os.TempDir())
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(folder, scripts.Bridge); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// pythonPath returns the environment with a folder in which Python looks after those of
// $PYTHONPATH.
func pythonPath(folder string) []string {
	if former := os.Getenv("PYTHONPATH"); former != "" {
		folder = former + string(os.PathListSeparator) + folder
	}
	return append(os.Environ(), "PYTHONPATH="+folder)
}

// socketName is the longest name of a socket in the folder of a child.
const socketName = "robot.sock"

// socketFolder makes a folder for sockets, in /tmp if their paths in another folder would be too
// long for the kernel.
func socketFolder(in string) (string, error) {
	const pattern, random = "optibfm-bridge-", 10 // characters that os.MkdirTemp adds, at most
	if len(filepath.Join(in, pattern, socketName))+random > maxSocketPath {
		in = "/tmp"
	}
	return os.MkdirTemp(in, pattern)
}

func (c *child) viewSocket() string { return filepath.Join(c.folder, "view.sock") }

// connect waits until the server listens, at most until a deadline, which is limit after the start.
func (c *child) connect(ctx context.Context, deadline time.Time, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, fmt.Errorf("not listening after %v (start_timeout_ms)", limit))
	defer cancel()
	conn, err := connect(ctx, c.address, c.exited, nil)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, errExited):
		return nil, fmt.Errorf("bridge: command: %w (%v); see its output", err, c.cmd.ProcessState)
	}
	return nil, fmt.Errorf("bridge: command: waiting until the server listens: %w; see its output", err)
}

// terminate asks the server and its children to exit, before there is a connection
// whose end would make it exit.
func (c *child) terminate() { c.signal(syscall.SIGTERM) }

// expire kills the server if it does not exit within exitPatience after the end of
// its connection. Until then it can halt its robot. expire does not wait.
func (c *child) expire() {
	c.expiring.Do(func() { time.AfterFunc(exitPatience, func() { c.signal(syscall.SIGKILL) }) })
}

// stop waits until the server has exited or was killed.
func (c *child) stop() {
	c.expire()
	<-c.exited
	c.clean()
}

// signal sends a signal to the process group of the server, unless it has exited:
// the kernel may have reused the number.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.exited:
	default:
		_ = syscall.Kill(-c.cmd.Process.Pid, s)
	}
}

func (c *child) clean() { _ = os.RemoveAll(c.folder) }
