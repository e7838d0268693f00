package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"optibfm/internal/control"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/rigtest"
)

// The attacks of a compromised host process. scripts/vm/systemd.sh runs the first one in the
// packaged service.
func init() {
	spoils["host attacks the control process"] = func(h *host.Process, _ <-chan struct{}) {
		go func() {
			for range 20 {
				attackControlProcess(os.Getppid())
				line, err := control.Send(h.Session.File.Safety.Socket, "arm")
				fmt.Fprintf(os.Stderr, "the host received: %s %v\n", line, err)
				time.Sleep(50 * time.Millisecond)
			}
			fmt.Fprintln(os.Stderr, "the attack is over")
		}()
	}
	spoils["host blocks its descriptors"] = func(_ *host.Process, now <-chan struct{}) {
		inherited := inheritedDescriptors()
		go func() {
			<-now
			for _, fd := range inherited {
				blockDescriptor(fd)
			}
			hole := unix.Fallocate(3, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<12)
			reportAttack("a hole in the segment", hole)
			fmt.Fprintln(os.Stderr, "the attack is over")
		}()
	}
}

func reportAttack(name string, err error) {
	result := "succeeded"
	if err != nil {
		result = err.Error()
	}
	fmt.Fprintf(os.Stderr, "attack, %s: %s\n", name, result)
}

// attackControlProcess tries to change the control process, or to take what it has.
func attackControlProcess(pid int) {
	check := functionNamed("optibfm/internal/control.isDescendant")
	reportAttack("code of isDescendant", writeMemory(pid, check, code(false)))
	var word [8]byte
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: reflect.ValueOf(control.Send).Pointer(), Len: 8}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	reportAttack("memory", err)
	reportAttack("ptrace", traceProcess(pid))
	reportAttack("descriptors", takeDescriptor(pid))
	_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	reportAttack("environment", err)
	_, err = unix.Socket(unix.AF_CAN, unix.SOCK_RAW, unix.CAN_RAW)
	reportAttack("CAN bus", err)
	key := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&key)))
	reportAttack("input into the terminal", errno)
	_, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&[256]byte{})), 0)
	reportAttack("io_uring", errno)
}

// functionNamed returns the address of an unexported function of the package control. Other
// processes of this program have it at the same address.
func functionNamed(name string) uintptr {
	for pc, distance := reflect.ValueOf(control.Send).Pointer(), uintptr(0); distance < 1<<20; distance += 16 {
		for _, at := range []uintptr{pc + distance, pc - distance} {
			if f := runtime.FuncForPC(at); f != nil && f.Name() == name {
				return f.Entry()
			}
		}
	}
	panic("no function " + name)
}

// code returns the instructions of a function that returns a bool.
func code(result bool) []byte {
	value := map[bool]uint32{true: 1}[result]
	if runtime.GOARCH == "arm64" { // movz w0, #value; ret
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x52800000|value<<5), 0xD65F03C0)
	}
	return append(binary.LittleEndian.AppendUint32([]byte{0xB8}, value), 0xC3) // mov eax, value; ret
}

func writeMemory(pid int, address uintptr, data []byte) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, int64(address))
	return err
}

func traceProcess(pid int) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the end of the thread ends the tracing
		result <- unix.PtraceSeize(pid)
	}()
	return <-result
}

func takeDescriptor(pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	_, err = unix.PidfdGetfd(process, 0, 0)
	return err
}

// inheritedDescriptors returns the descriptors that the control process passed on purpose.
func inheritedDescriptors() (fds []int) {
	for fd := 3; fd < 32; fd++ {
		name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		for _, kind := range []string{"/memfd:", "pipe:", "socket:", "anon_inode:[eventfd]"} {
			if strings.HasPrefix(name, kind) && fd < firstOwnDescriptor() {
				fds = append(fds, fd)
			}
		}
	}
	return fds
}

// firstOwnDescriptor is the epoll instance of the Go runtime, which follows the inherited
// descriptors.
func firstOwnDescriptor() int {
	for fd := 3; fd < 32; fd++ {
		if name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); name == "anon_inode:[eventpoll]" {
			return fd
		}
	}
	return 32
}

// blockDescriptor makes a descriptor block, and fills it.
func blockDescriptor(fd int) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	}
	reportAttack(fmt.Sprintf("descriptor %d blocks", fd), err)
	go func() { // until it blocks
		full := binary.LittleEndian.AppendUint64(nil, 1<<64-2) // of an eventfd
		for range 1 << 20 {
			if _, err := unix.Write(fd, full); err != nil {
				return
			}
		}
	}()
}

// become makes a command that has not started run as another user, who may use its files.
func become(t *testing.T, r *attendedRun, uid int, ambient ...uintptr) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	_, robot, _ := strings.Cut(r.robot.address, "unix:")
	fatal.If(t, os.Chmod(robot, 0o777))
	dirs := []string{filepath.Dir(robot), filepath.Dir(r.socket), logDir(r.cmd)}
	for _, arg := range r.cmd.Args {
		if bundle, ok := strings.CutPrefix(arg, "model.bundle="); ok {
			dirs = append(dirs, bundle)
		}
	}
	for _, dir := range dirs {
		for ; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
			fatal.If(t, os.Chmod(dir, 0o777))
		}
	}
	program, err := os.Executable()
	fatal.If(t, err)
	r.cmd.Path = filepath.Join(filepath.Dir(r.socket), "optibfm")
	fatal.If(t, os.Link(program, r.cmd.Path))
	r.cmd.Dir = "/"
	r.cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, AmbientCaps: ambient,
	}
}

func waitAttack(t *testing.T, r *attendedRun) {
	t.Helper()
	over := func() bool { return strings.Contains(r.output.String(), "the attack is over") }
	if !rigtest.WaitUntil(rigtest.HangGuard, over) {
		t.Fatalf("no attack:\n%s", r.output)
	}
}

// checkAttacksFailed checks that no attack succeeded and that the robot has not moved.
func checkAttacksFailed(t *testing.T, r *attendedRun) {
	t.Helper()
	waitAttack(t, r)
	text := r.output.String()
	if n := r.robot.acts.Load(); n != 0 || strings.Contains(text, `"state":"armed"`) {
		t.Errorf("the host armed the robot: %d acts", n)
	}
	for _, line := range regexp.MustCompile(`(?m)^attack, .*: succeeded$`).FindAllString(text, -1) {
		t.Errorf("%s", line)
	}
	for _, denied := range []string{"CAN bus", "input into the terminal", "io_uring"} { // by the filter of system calls
		if !strings.Contains(text, "attack, "+denied+": operation not permitted\n") {
			t.Errorf("no filter of %s", denied)
		}
	}
}

const nobody = 65534

func TestAttack_HostOfTheSameUserCannotArm(t *testing.T) {
	r := prepareAttended(t, "host attacks the control process")
	become(t, r, nobody)
	r.start()
	checkAttacksFailed(t, r)
	rigtest.Contains(t, r.output.String(), "belongs to the controller itself")
	r.arm() // a person can
	fatal.If(t, r.End())
}

// statusOf returns a line of /proc/PID/status.
func statusOf(t *testing.T, pid int, key string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	fatal.If(t, err)
	found := regexp.MustCompile(`(?m)^` + key + `:\s*(.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in\n%s", key, text)
	}
	return string(found[1])
}

func TestAttack_HostOfAnotherUserCannotArm(t *testing.T) {
	daemon, err := user.Lookup("daemon")
	if err != nil {
		t.Skip(err)
	}
	r := prepareAttended(t, "host attacks the control process", "run.host_user=daemon")
	become(t, r, nobody, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP)
	r.start()
	checkAttacksFailed(t, r)
	rigtest.Contains(t, r.output.String(), "permission denied")
	pid := r.cmd.Process.Pid
	for _, process := range []int{pid, hostOf(t, r.cmd)} {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"} {
			bits, err := strconv.ParseUint(statusOf(t, process, set), 16, 64)
			if err != nil || bits&(1<<unix.CAP_SETUID|1<<unix.CAP_SETGID|1<<unix.CAP_SETPCAP) != 0 {
				t.Errorf("process %d: %s is %#x, %v", process, set, bits, err)
			}
		}
	}
	for process, uid := range map[int]string{pid: strconv.Itoa(nobody), hostOf(t, r.cmd): daemon.Uid} {
		if found := statusOf(t, process, "Uid"); found != strings.Repeat(uid+"\t", 3)+uid {
			t.Errorf("process %d: users %s, want %s", process, found, uid)
		}
	}
	if groups := statusOf(t, hostOf(t, r.cmd), "Gid"); !strings.HasPrefix(groups, daemon.Gid+"\t") {
		t.Errorf("the host has the group %s", groups)
	}
	if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.Contains(string(name), "exe") {
		t.Errorf("the control process has the name %s", name)
	}
	r.arm() // a person can
	fatal.If(t, r.End())
}

func TestAttack_HostCannotBlockTheControlThread(t *testing.T) {
	r := runAttended(t, "host blocks its descriptors")
	r.arm()
	r.spoilNow()
	waitAttack(t, r)
	r.goesOn("the host filled its descriptors")
	text := r.output.String()
	if strings.Contains(text, "segment: succeeded") || strings.Count(text, " blocks: succeeded") < 3 {
		t.Errorf("%s", text)
	}
	late := time.AfterFunc(rigtest.HangGuard, func() {
		t.Error("SIGTERM does not end it")
		_ = r.cmd.Process.Kill()
	})
	_ = r.End() // its host may fail
	late.Stop()
}
