package main

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
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/rewardsrc/keyboard"
)

const (
	hostStart   = 60 * time.Second       // for the host to be ready
	hostEnd     = 60 * time.Second       // for the host to finish the log and the summary
	hostAbort   = 5 * time.Second        // for a host that has nothing to finish, or that failed
	hostUnready = 500 * time.Millisecond // for a host that is not ready, and may hang in TensorFlow
)

// hostName is the name of the host process in ps and top: its arguments begin with
// it, and it is the name of its threads, which the kernel cuts at 15 bytes.
const hostName = "optibfm-host"

var (
	errInterrupted = errors.New("control: interrupted before the robot was armed: nothing moved")
	errHostFailed  = errors.New("control: the host process ended with an error, which it has printed")
	errHostKilled  = errors.New("control: the host process did not end in time and was killed; " +
		"see `optibfm log info` for what it recorded")
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

// startHost starts the host process. It inherits the segment, its orders and
// the lifeline, and nothing else; no descriptor of a device is among them, for
// Go opens all of them close-on-exec.
func startHost(s *session, segment *os.File, o orders) (*hostProcess, error) {
	attributes, err := asUser(s.file.Run.HostUser)
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
		lifeline: write, crash: crash, screen: takesScreen(o.Show), exited: make(chan error, 1),
		restore: func() error { return nil },
	}
	if s.file.Operator.Source == configs.SourceKeyboard {
		if h.restore, err = keyboard.Save(os.Stdin); err != nil {
			return nil, err
		}
	}
	h.cmd = exec.Command("/proc/self/exe", "host")
	h.cmd.Args[0] = hostName
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	h.cmd.ExtraFiles = []*os.File{segment, file, read, crash}
	h.cmd.SysProcAttr = attributes
	if err := startWithoutRights(h.cmd); err != nil {
		if s.file.Run.HostUser != "" && errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("run.host_user: %w: only root can start a process as %s: run as root, or leave the key empty", err, s.file.Run.HostUser)
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
func ordersFile(s *session, o orders) (*os.File, error) {
	o.YAML = s.yaml
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
func (h *hostProcess) waitReady(ctx context.Context, l *controlLink) error {
	deadline := time.After(hostStart)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.ready.Load() == 0 {
		select {
		case <-ticker.C:
		case err := <-h.exited:
			h.exited <- err
			if ctx.Err() != nil { // by the same signal as we, perhaps
				return errInterrupted
			}
			return errors.New("control: the host process ended before the robot was armed: nothing moved")
		case <-ctx.Done():
			return errInterrupted
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
	return hostEnd
}

// finish waits for the host to record the end of the run, kills it where it
// does not, and gives the terminal back whatever it did. A signal, the second
// one where one ended the run, makes the host leave out what takes long.
func (h *hostProcess) finish(patience time.Duration) error {
	hurry := make(chan os.Signal, 1)
	signal.Notify(hurry, stopSignals...)
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
	return errors.Join(errHostKilled, h.giveBack(true))
}

// ended says how the host ended, which it did by itself.
func (h *hostProcess) ended(err error) error {
	_ = h.lifeline.Close() // again, perhaps
	code := h.cmd.ProcessState.ExitCode()
	switch {
	case err == nil:
	case code == 1:
		err = errHostFailed
	default:
		err = fmt.Errorf("control: the host process: %w", err)
	}
	return errors.Join(err, h.giveBack(code != 0 && code != 1))
}

// giveBack gives the terminal back, also where the host could not: it was
// killed, or it panicked.
func (h *hostProcess) giveBack(died bool) error {
	if died && h.screen {
		rescueTerminal(os.Stdout)
		_, _ = io.Copy(os.Stderr, io.NewSectionReader(h.crash, 0, 1<<20)) // decoration
	}
	var err error
	if !inBackground(int(os.Stdin.Fd())) { // where it would stop us
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

// nameThreads names the threads of this process, of which the first is the process's
// own name. Later ones inherit it.
func nameThreads(name string) error {
	threads, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		return err
	}
	for _, path := range threads {
		if err := os.WriteFile(path, []byte(name), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("host: naming the process: %w", err)
		}
	}
	return nil
}

// dropRealTime gives up the right to real-time priorities, which limits hand
// down to child processes. The host does so before anything else.
func dropRealTime() error {
	if err := unix.Setrlimit(unix.RLIMIT_RTPRIO, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("host: giving up real-time priorities: %w", err)
	}
	return nil
}
