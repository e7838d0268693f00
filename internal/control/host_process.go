package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/link"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/keyboard"
)

// HostFinishTimeout is how long the host may take to finish the log and the summary.
const HostFinishTimeout = 60 * time.Second

const (
	hostStartTimeout   = 60 * time.Second       // until the host is ready
	hostAbortTimeout   = 5 * time.Second        // for a host that failed or has nothing to finish
	hostUnreadyTimeout = 500 * time.Millisecond // for a host that is not ready and may hang in TensorFlow
)

// hostProcess is the host process, a child of the control process.
type hostProcess struct {
	cmd      *exec.Cmd
	lifeline *os.File     // the host ends when it is closed
	restore  func() error // restores the terminal
	screen   bool         // it draws a full screen
	crash    *os.File     // the stack of its panic
	exited   chan error
	gone     atomic.Bool // it has ended; known sooner than its silence
}

// startHost starts the host process. It inherits the segment, its configuration, the lifeline, the crash file, its
// socket of the tasks and the wakes, and no descriptor of a device: Go opens all files close-on-exec.
func startHost(
	s *setup.Session, segment, tasks *os.File, o link.HostConfig, wakes ...*link.Wake,
) (*hostProcess, error) {
	attributes, err := userAttributes(s.File.Run.HostUser)
	if err != nil {
		return nil, err
	}
	file, err := hostConfigFile(s, o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	crash, err := memoryFile("optibfm-crash")
	if err != nil {
		return nil, err
	}
	h := &hostProcess{
		lifeline: write, crash: crash, screen: terminal.TakesScreen(o.Show), exited: make(chan error, 1),
		restore: func() error { return nil },
	}
	if s.File.Operator.Source == configs.SourceKeyboard {
		if h.restore, err = keyboard.Save(os.Stdin); err != nil {
			return nil, err
		}
	}
	h.cmd = exec.Command("/proc/self/exe", "host")
	h.cmd.Args[0] = link.HostName
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	h.cmd.ExtraFiles = []*os.File{segment, file, read, crash, tasks}
	for _, w := range wakes {
		f, err := w.Inheritable()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		h.cmd.ExtraFiles = append(h.cmd.ExtraFiles, f)
	}
	h.cmd.SysProcAttr = attributes
	if err := startUnprivileged(h.cmd); err != nil {
		if s.File.Run.HostUser != "" && errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("run.host_user: %w: only root can start a process as %s; "+
				"run as root, or leave the key empty", err, s.File.Run.HostUser)
		}
		return nil, fmt.Errorf("control: starting the host process: %w", err)
	}
	go func() {
		err := h.cmd.Wait()
		h.gone.Store(true)
		h.exited <- err
	}()
	return h, nil
}

// hostConfigFile returns an unnamed file with the configuration of the host.
func hostConfigFile(s *setup.Session, o link.HostConfig) (*os.File, error) {
	o.YAML, o.Control = s.YAML, s.File.Controller
	f, err := memoryFile("optibfm-config")
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(f).Encode(o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// memoryFile returns a file in memory that ends with its last descriptor.
func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("control: %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// userAttributes makes the host run as another user with that user's groups, which grant access to the
// reward device and the GPU.
func userAttributes(name string) (*syscall.SysProcAttr, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("run.host_user: %w; create the user, or leave the key empty", err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("run.host_user: the groups of %s: %w", name, err)
	}
	ids := make([]uint32, 0, len(groups)+2)
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("run.host_user: %s: %w", name, err)
		}
		ids = append(ids, uint32(id))
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}}, nil
}

// waitReady waits until the host has opened everything.
func (h *hostProcess) waitReady(ctx context.Context, l *link.ControlLink) error {
	deadline := time.After(hostStartTimeout)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.Ready.Load() == 0 {
		select {
		case <-ticker.C:
		case err := <-h.exited:
			h.exited <- err
			if ctx.Err() != nil { // perhaps by the same signal
				return link.ErrInterrupted
			}
			return errors.New("control: the host process ended before the robot was armed: nothing moved")
		case <-ctx.Done():
			return link.ErrInterrupted
		case <-deadline:
			return fmt.Errorf("control: the host process was not ready within %v; see its output", hostStartTimeout)
		}
	}
	return nil
}

// finishTimeout returns how long the host may take to finish after a run that ended with err.
func finishTimeout(err error) time.Duration {
	if errors.Is(err, errHostSilent) || errors.Is(err, errStuck) {
		return hostAbortTimeout
	}
	return HostFinishTimeout
}

// finish waits for the host to record the end of the run, kills it after the timeout and restores the
// terminal. A signal, or a second one after a run that a signal ended, shortens the wait.
func (h *hostProcess) finish(timeout time.Duration) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, link.StopSignals...)
	defer signal.Stop(signals)
	select {
	case err := <-h.exited:
		return h.exitError(err)
	case <-signals:
	case <-time.After(timeout - hostAbortTimeout):
	}
	return h.abandon(hostAbortTimeout)
}

// abandon closes the lifeline, and kills the host if it has not ended after the grace period.
func (h *hostProcess) abandon(grace time.Duration) error {
	_ = h.lifeline.Close()
	select {
	case err := <-h.exited:
		return h.exitError(err)
	case <-time.After(grace):
	}
	_ = h.cmd.Process.Kill()
	<-h.exited
	return errors.Join(link.ErrHostKilled, h.restoreTerminal(true))
}

// exitError returns the error of a host that ended without being killed here.
func (h *hostProcess) exitError(err error) error {
	_ = h.lifeline.Close() // it may be closed already
	code := h.cmd.ProcessState.ExitCode()
	switch {
	case err == nil:
	case code == 1:
		err = link.ErrHostFailed
	default:
		err = fmt.Errorf("control: the host process: %w", err)
	}
	return errors.Join(err, h.restoreTerminal(code != 0 && code != 1))
}

// restoreTerminal restores the terminal, also after a host that was killed or that panicked.
func (h *hostProcess) restoreTerminal(died bool) error {
	if died && h.screen {
		terminal.RescueTerminal(os.Stdout)
		_, _ = io.Copy(os.Stderr, io.NewSectionReader(h.crash, 0, 1<<20)) // best effort
	}
	var err error
	if !terminal.InBackground(int(os.Stdin.Fd())) { // in the background it would stop this process
		err = h.restore()
	}
	return errors.Join(err, h.crash.Close())
}

// startUnprivileged starts a process that has none of the real-time capabilities of this one and cannot
// gain any. These are attributes of the forking thread, so that thread ends afterwards.
func startUnprivileged(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if err := dropPrivileges(); err != nil {
			started <- err
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}

// dropPrivileges removes the capabilities of the calling thread. Root keeps them: it needs them to
// change the user, which removes them.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	if os.Geteuid() == 0 {
		return nil
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
