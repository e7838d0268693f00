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
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/keyboard"
)

// HostFinishTimeout is the time in which the host must finish the log and the summary.
const HostFinishTimeout = 60 * time.Second

const (
	hostStartTimeout   = 60 * time.Second       // until the host is ready
	hostConfigTimeout  = 10 * time.Second       // until the host has read its configuration
	hostAbortTimeout   = 5 * time.Second        // for a host that failed or has nothing to finish
	hostUnreadyTimeout = 500 * time.Millisecond // for a host that is not ready: it may hang
)

// hostProcess is the host process, a child of the control process.
type hostProcess struct {
	process  *os.Process
	lifeline *os.File     // sends the configuration; the host ends when it is closed
	segment  *os.File     // empty until ipc.CreateIn
	tasks    *os.File     // this process's end of the socket at which the host asks for another task
	crash    *os.File     // the stack of its panic
	weights  *os.File     // this process's end of the socket that passes the file of the weights
	restore  func() error // restores the terminal
	screen   bool         // the host draws a full screen
	exited   chan hostEnd
	gone     atomic.Bool // the host has ended; set before its silence is noticed
	finished bool        // finish or abandon has returned
}

type hostEnd struct {
	state *os.ProcessState
	err   error
}

// takeHost returns the host process that Isolate started, or starts it.
func takeHost(userName string) (*hostProcess, error) {
	h, err := inheritHost()
	if h == nil && err == nil {
		h, err = spawnHost(userName)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		state, err := h.process.Wait()
		h.gone.Store(true)
		h.exited <- hostEnd{state, err}
	}()
	return h, nil
}

// spawnHost starts the host process, which waits for its configuration. The host inherits the
// standard files, the segment, the lifeline, the crash file and its ends of the sockets for tasks
// and weights. It inherits no descriptor of a device, because none is open yet. The control thread
// makes no system call on any of these files.
func spawnHost(userName string) (*hostProcess, error) {
	attributes, err := userAttributes(userName)
	if err != nil {
		return nil, err
	}
	if err := forbidInspection(); err != nil {
		return nil, err
	}
	h := newHostProcess()
	if h.segment, err = ipc.NewFile(); err != nil {
		return nil, err
	}
	if h.crash, err = memoryFile("optibfm-crash"); err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	tasks, theirs, err := ipc.Sockets("tasks")
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	weights, receiver, err := ipc.Sockets("weights")
	if err != nil {
		return nil, err
	}
	defer receiver.Close()
	h.lifeline, h.tasks, h.weights = write, tasks, weights
	cmd := exec.Command("/proc/self/exe", "host")
	cmd.Args[0] = ipc.HostName
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{h.segment, read, h.crash, theirs, receiver}
	cmd.SysProcAttr = attributes
	if err := startUnprivileged(cmd); err != nil {
		if userName != "" && errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("run.host_user: %w: only root and the service can start a process as %s; "+
				"run as root, or leave the key empty", err, userName)
		}
		return nil, fmt.Errorf("control: starting the host process: %w", err)
	}
	h.process = cmd.Process
	// A child that changes its user before exec(2) makes both processes dumpable again.
	return h, forbidInspection()
}

func newHostProcess() *hostProcess {
	return &hostProcess{exited: make(chan hostEnd, 1), restore: func() error { return nil }}
}

// shareWeights passes the weights of a native model to the host. Without weights, the host opens
// the model.
func (h *hostProcess) shareWeights(m setup.Model) error {
	defer h.weights.Close()
	native, ok := m.(setup.NativeModel)
	if !ok || native.Weights == nil {
		return nil
	}
	defer native.Weights.Close()
	err := ipc.SendFile(h.weights, native.Weights)
	if errors.Is(err, syscall.EPIPE) { // the host has ended: waitReady reports it
		return nil
	}
	if err != nil {
		return fmt.Errorf("control: sending the weights to the host process: %w", err)
	}
	return nil
}

// configure sends the configuration to the host. It first saves the modes of the terminal, for
// restoreTerminal.
func (h *hostProcess) configure(s *setup.Session, o ipc.HostConfig) (err error) {
	o.YAML, o.Control = s.YAML, s.File.Controller
	h.screen = terminal.TakesScreen(o.Show)
	if s.File.Operator.Source == configs.SourceKeyboard {
		if h.restore, err = keyboard.Save(os.Stdin); err != nil {
			return err
		}
	} else if restore, err := keyboard.Save(os.Stdin); h.screen && err == nil { // the screen reads keys
		h.restore = restore
	}
	err = h.lifeline.SetWriteDeadline(time.Now().Add(hostConfigTimeout))
	if err == nil {
		err = json.NewEncoder(h.lifeline).Encode(o)
	}
	if errors.Is(err, syscall.EPIPE) { // the host has ended: waitReady reports it
		return nil
	}
	if err != nil {
		return fmt.Errorf("control: sending the configuration to the host process: %w", err)
	}
	return nil
}

// memoryFile returns a file in memory. The kernel frees it with its last descriptor.
func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("control: %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// userName returns the name of a user, or the number as text if the user has no name.
func userName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// userAttributes returns the attributes to run the host as another user. That user's groups grant
// access to the reward device and the GPU.
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
func (h *hostProcess) waitReady(ctx context.Context, l *ipc.ControlLink) error {
	deadline := time.After(hostStartTimeout)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.Ready.Load() == 0 {
		select {
		case <-ticker.C:
		case end := <-h.exited:
			h.exited <- end
			if ctx.Err() != nil { // the signal may have ended the host too
				return ipc.ErrInterrupted
			}
			return errors.New("control: the host process ended before the robot was armed: nothing moved; see its output")
		case <-ctx.Done():
			return ipc.ErrInterrupted
		case <-deadline:
			return fmt.Errorf("control: the host process was not ready within %v; see its output", hostStartTimeout)
		}
	}
	return nil
}

// finishTimeout returns the time that the host has to finish after a run that ended with err.
func finishTimeout(err error) time.Duration {
	if errors.Is(err, errHostSilent) || errors.Is(err, errStuck) {
		return hostAbortTimeout
	}
	return HostFinishTimeout
}

// finish waits for the host to record the end of the run, kills it after the timeout and restores
// the terminal. A signal during the wait shortens it to hostAbortTimeout.
func (h *hostProcess) finish(timeout time.Duration) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, ipc.StopSignals...)
	defer signal.Stop(signals)
	select {
	case end := <-h.exited:
		return h.endError(end)
	case <-signals:
	case <-time.After(timeout - hostAbortTimeout):
	}
	return h.abandon(hostAbortTimeout)
}

// abandon closes the lifeline, and kills the host if it has not ended after the grace period.
func (h *hostProcess) abandon(grace time.Duration) error {
	_ = h.lifeline.Close()
	select {
	case end := <-h.exited:
		return h.endError(end)
	case <-time.After(grace):
	}
	h.finished = true
	if err := h.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) { // another user runs it
		return errors.Join(fmt.Errorf("%w: %w", ipc.ErrHostLeft, err), h.restoreTerminal(true))
	}
	<-h.exited
	return errors.Join(ipc.ErrHostKilled, h.restoreTerminal(true))
}

// dismiss ends the host of a run that failed before it started.
func (h *hostProcess) dismiss() {
	if !h.finished {
		_ = h.abandon(hostUnreadyTimeout) // the run has its own error
	}
}

// endError closes the lifeline and restores the terminal. It returns the error of a host that
// abandon did not kill.
func (h *hostProcess) endError(end hostEnd) error {
	h.finished = true
	_ = h.lifeline.Close() // it may be closed already
	code, err := -1, end.err
	if err == nil {
		code = end.state.ExitCode()
	}
	switch {
	case code == 0:
	case code == 1:
		err = ipc.ErrHostFailed
	case err == nil:
		err = fmt.Errorf("control: the host process: %v", end.state)
	}
	return errors.Join(err, h.restoreTerminal(code != 0 && code != 1))
}

// restoreTerminal restores the terminal. If the host died with a full screen, it also prints the
// stack of the host's panic.
func (h *hostProcess) restoreTerminal(died bool) error {
	if died && h.screen {
		terminal.RescueTerminal(os.Stdout)
		_, _ = io.Copy(os.Stderr, io.NewSectionReader(h.crash, 0, 1<<20)) // best effort
	}
	var err error
	if !terminal.InBackground(int(os.Stdin.Fd())) { // else it would stop this process
		err = h.restore()
	}
	return errors.Join(err, h.crash.Close())
}
