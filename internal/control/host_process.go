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

const (
	hostStart         = 60 * time.Second       // for the host to be ready
	HostFinishTimeout = 60 * time.Second       // for the host to finish the log and the summary
	hostAbort         = 5 * time.Second        // for a host that has nothing to finish, or that failed
	hostUnready       = 500 * time.Millisecond // for a host that is not ready, and may hang in TensorFlow
)

// hostProcess is the child, as the control process sees it.
type hostProcess struct {
	cmd      *exec.Cmd
	lifeline *os.File     // held open; its closing tells the host not to wait for us
	restore  func() error // of the terminal
	screen   bool         // it has the whole terminal
	crash    *os.File     // the trace of its panic
	exited   chan error
	gone     atomic.Bool // it has ended: known within a tick, before its silence is
}

// startHost starts the host process. It inherits the segment, its configuration, the lifeline, the crash file
// and the wakes, and nothing else. Go opens all descriptors close-on-exec, so it inherits no device.
func startHost(s *setup.Session, segment *os.File, o link.HostConfig, wakes ...*link.Wake) (*hostProcess, error) {
	attributes, err := asUser(s.File.Run.HostUser)
	if err != nil {
		return nil, err
	}
	file, err := ordersFile(s, o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	crash, err := nameless("optibfm-crash")
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
	h.cmd.ExtraFiles = []*os.File{segment, file, read, crash}
	for _, w := range wakes {
		f, err := w.Inheritable()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		h.cmd.ExtraFiles = append(h.cmd.ExtraFiles, f)
	}
	h.cmd.SysProcAttr = attributes
	if err := startWithoutRights(h.cmd); err != nil {
		if s.File.Run.HostUser != "" && errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("run.host_user: %w: only root can start a process as %s: run as root, or leave the key empty", err, s.File.Run.HostUser)
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

// ordersFile returns the orders in a file that has no name.
func ordersFile(s *setup.Session, o link.HostConfig) (*os.File, error) {
	o.YAML = s.YAML
	f, err := nameless("optibfm-orders")
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

// nameless returns a file in memory that ends with its last descriptor.
func nameless(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("control: %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// asUser makes the host run as another user, with that user's groups: they are
// what gives it the reward device and the GPU.
func asUser(name string) (*syscall.SysProcAttr, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("run.host_user: %w: create the user, or leave the key empty", err)
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
	deadline := time.After(hostStart)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.Ready.Load() == 0 {
		select {
		case <-ticker.C:
		case err := <-h.exited:
			h.exited <- err
			if ctx.Err() != nil { // by the same signal as we, perhaps
				return link.ErrInterrupted
			}
			return errors.New("control: the host process ended before the robot was armed: nothing moved")
		case <-ctx.Done():
			return link.ErrInterrupted
		case <-deadline:
			return fmt.Errorf("control: the host process was not ready within %v: see what it printed", hostStart)
		}
	}
	return nil
}

// patienceAfter is how long the host may take for its last work after a run
// that ended with err.
func patienceAfter(err error) time.Duration {
	if errors.Is(err, errHostSilent) || errors.Is(err, errStuck) {
		return hostAbort
	}
	return HostFinishTimeout
}

// finish waits for the host to record the end of the run, kills it where it
// does not, and gives the terminal back whatever it did. A signal, the second
// one where one ended the run, makes the host leave out what takes long.
func (h *hostProcess) finish(patience time.Duration) error {
	hurry := make(chan os.Signal, 1)
	signal.Notify(hurry, link.StopSignals...)
	defer signal.Stop(hurry)
	select {
	case err := <-h.exited:
		return h.ended(err)
	case <-hurry:
	case <-time.After(patience - hostAbort):
	}
	return h.release(hostAbort)
}

// release tells the host that the control process does not wait for it any more,
// and kills it if it has not ended after the given time.
func (h *hostProcess) release(grace time.Duration) error {
	_ = h.lifeline.Close()
	select {
	case err := <-h.exited:
		return h.ended(err)
	case <-time.After(grace):
	}
	_ = h.cmd.Process.Kill()
	<-h.exited
	return errors.Join(link.ErrHostKilled, h.giveBack(true))
}

// ended says how the host ended, which it did by itself.
func (h *hostProcess) ended(err error) error {
	_ = h.lifeline.Close() // again, perhaps
	code := h.cmd.ProcessState.ExitCode()
	switch {
	case err == nil:
	case code == 1:
		err = link.ErrHostFailed
	default:
		err = fmt.Errorf("control: the host process: %w", err)
	}
	return errors.Join(err, h.giveBack(code != 0 && code != 1))
}

// giveBack gives the terminal back, also where the host could not: it was
// killed, or it panicked.
func (h *hostProcess) giveBack(died bool) error {
	if died && h.screen {
		terminal.RescueTerminal(os.Stdout)
		_, _ = io.Copy(os.Stderr, io.NewSectionReader(h.crash, 0, 1<<20)) // decoration
	}
	var err error
	if !terminal.InBackground(int(os.Stdin.Fd())) { // where it would stop us
		err = h.restore()
	}
	return errors.Join(err, h.crash.Close())
}

// startWithoutRights starts a process that has none of the capabilities which
// make this one real-time, and can gain none. All of that belongs to the thread
// that forks, so it is one that ends afterwards.
func startWithoutRights(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := giveUpRights(); err != nil {
			started <- err
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}

// giveUpRights takes the calling thread's capabilities. Root keeps them: it
// needs them to become another user, which takes them too.
func giveUpRights() error {
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
