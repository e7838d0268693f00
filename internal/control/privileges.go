package control

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// forbidInspection hides this process from other processes of its user (PR_SET_DUMPABLE, proc(5)):
// only root may trace it, read or write its memory, or take its descriptors. It also leaves no core
// file.
func forbidInspection() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("control: PR_SET_DUMPABLE: %w", err)
	}
	return nil
}

// userCapabilities let a process that is not root start another one as another user, and give up
// that right.
const userCapabilities = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP

// hostVariable passes the host process through exec(2): its process number and the descriptors of
// hostProcess.files.
const hostVariable = "OPTIBFM_HOST"

func (h *hostProcess) files() [5]**os.File {
	return [...]**os.File{&h.lifeline, &h.segment, &h.tasks, &h.crash, &h.weights}
}

// Isolate starts the host process of a run as hostUser if this process may change users without
// being root, as in the packaged service. Then it replaces this program by itself without the
// capabilities for that: exec(2) ends all threads that have them. It returns in the new program, or
// at once if there is nothing to do. Call it before anything is open.
func Isolate(hostUser string) error {
	has, err := capabilities()
	if err != nil {
		return err
	}
	may := (has.Effective | has.Permitted | has.Inheritable) & userCapabilities
	switch {
	case os.Getenv(hostVariable) != "" && may != 0 && os.Geteuid() != 0:
		return errors.New("control: the program can still change its user; remove cap_setuid and cap_setgid from its file")
	case os.Getenv(hostVariable) != "", hostUser == "", os.Geteuid() == 0:
		return nil
	case has.Effective&(1<<unix.CAP_SETUID) == 0 || has.Effective&(1<<unix.CAP_SETGID) == 0:
		return nil // startUnprivileged fails, with a fix
	}
	h, err := spawnHost(hostUser)
	if err != nil {
		return err
	}
	err = h.replaceProgram()
	_ = h.lifeline.Close()
	return fmt.Errorf("control: giving up the capabilities: %w", err)
}

// replaceProgram continues in a new image of this program, without userCapabilities. It returns
// only an error.
func (h *hostProcess) replaceProgram() error {
	runtime.LockOSThread() // the thread that calls exec(2) determines the capabilities
	defer runtime.UnlockOSThread()
	inherited := strconv.Itoa(h.process.Pid)
	for _, file := range h.files() {
		raw, err := (*file).SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) {
			inherited += " " + strconv.Itoa(int(fd))
			_, failed = unix.FcntlInt(fd, unix.F_SETFD, 0)
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	if err := dropUserCapabilities(); err != nil {
		return err
	}
	return syscall.Exec(programPath(), os.Args, append(os.Environ(), hostVariable+"="+inherited))
}

// programPath returns the path of this program, whose last element becomes the name of the process.
// It returns another path if that file was replaced or is out of reach.
func programPath() string {
	const self = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return self
	}
	there, err := os.Stat(path)
	here, selfErr := os.Stat(self)
	if err != nil || selfErr != nil || !os.SameFile(there, here) {
		return self
	}
	return path
}

// inheritHost returns the host process that the previous image of this program started, nil without
// one.
func inheritHost() (*hostProcess, error) {
	text := os.Getenv(hostVariable)
	if text == "" {
		return nil, nil
	}
	if err := os.Unsetenv(hostVariable); err != nil {
		return nil, err
	}
	if err := forbidInspection(); err != nil { // exec(2) has allowed it again
		return nil, err
	}
	h := newHostProcess()
	files := h.files()
	fields := strings.Fields(text)
	numbers := make([]int, len(fields))
	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil || len(fields) != 1+len(files) {
			return nil, fmt.Errorf("control: %s: found %q; unset this variable", hostVariable, text)
		}
		numbers[i] = n
	}
	for i, file := range files {
		fd := uintptr(numbers[1+i])
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, fmt.Errorf("control: %s: descriptor %d: %w; unset this variable", hostVariable, fd, err)
		}
		*file = os.NewFile(fd, "host")
	}
	var err error
	h.process, err = os.FindProcess(numbers[0])
	return h, err
}

// startUnprivileged starts a process that has none of the capabilities of this one and cannot gain
// any, and that can neither reach a CAN bus nor type into its terminal. These are attributes of the
// forking thread, so that thread ends afterwards.
func startUnprivileged(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		keep := uint32(0)
		if cmd.SysProcAttr != nil && cmd.SysProcAttr.Credential != nil {
			keep = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID // until exec(2), which removes them
		}
		err := dropPrivileges(keep)
		if err == nil {
			err = filterSystemCalls()
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

// dropPrivileges removes the capabilities of the calling thread. Root keeps them until it changes
// the user.
func dropPrivileges(keep uint32) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	for c := uintptr(0); keep != 0 && c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // needs CAP_SETPCAP; no_new_privs has the same effect
	}
	if os.Geteuid() == 0 {
		return nil
	}
	has, err := capabilities()
	if err != nil {
		return err
	}
	keep &= has.Permitted
	return setCapabilities(unix.CapUserData{Effective: keep, Permitted: keep}, unix.CapUserData{})
}

// dropUserCapabilities removes userCapabilities from all sets of the calling thread. Without
// CAP_SETPCAP the bounding set stays, and no_new_privs takes its place: no later program gains
// them.
func dropUserCapabilities() error {
	for c := range uint(32) {
		if userCapabilities&(1<<c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, uintptr(c), 0, 0); err != nil {
			return fmt.Errorf("ambient capabilities: %w", err)
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return fmt.Errorf("no_new_privs: %w", err)
			}
		}
	}
	var has [2]unix.CapUserData
	if err := unix.Capget(capabilityHeader(), &has[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	has[0].Effective &^= userCapabilities
	has[0].Permitted &^= userCapabilities
	has[0].Inheritable &^= userCapabilities
	return setCapabilities(has[0], has[1])
}

func capabilityHeader() *unix.CapUserHeader {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// capabilities returns those of the calling thread below 32.
func capabilities() (unix.CapUserData, error) {
	var has [2]unix.CapUserData
	if err := unix.Capget(capabilityHeader(), &has[0]); err != nil {
		return has[0], fmt.Errorf("capabilities: %w", err)
	}
	return has[0], nil
}

func setCapabilities(low, high unix.CapUserData) error {
	sets := [2]unix.CapUserData{low, high}
	if err := unix.Capset(capabilityHeader(), &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
