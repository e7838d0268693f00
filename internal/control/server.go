package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/link"
	"optibfm/rtloop"
)

// Server answers commands at the control socket, a Unix socket: a request is a line with one word, or a
// switch of the task (link.SwitchWord), the reply a line of JSON (link.Status). One goroutine serves one caller
// after the other and only exchanges atomic words with the control thread. It reads no file: a disk that
// stalls does not delay a stop.
//
// Three checks keep other callers out: the mode of the socket (0660, and its group), the credentials
// that the kernel reports, and the ancestry of the calling process. No process that this one started
// may call, whatever its user: the host faces the network and must not be able to arm the robot.
type Server struct {
	listener  *net.UnixListener
	path      string
	group     int // -1: none
	mailbox   *commandMailbox
	live      func() rtloop.Live
	period    time.Duration
	robot     string
	tasks     *taskSwitch
	deadman   string             // text; empty if it depends on the robot
	haltStuck func(rtloop.Stall) // halts the robot beside a control thread that does not answer a stop
	done      chan struct{}      // closed at the end of the goroutine
}

const (
	callerTimeout   = 200 * time.Millisecond // for one caller
	callerPause     = 20 * time.Millisecond  // between callers: limits the load
	maxCommandBytes = 128
)

// Listen opens the control socket. It returns nil without safety.socket, and an error that wraps
// ErrSocketInUse if another process listens there. Close removes the socket.
func Listen(s configs.Safety) (*Server, error) {
	if s.Socket == "" {
		return nil, nil
	}
	// Orphans of the host become children of this process, not of init, so that Server recognises them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("safety.socket: subreaper: %w", err)
	}
	group := -1
	if s.Group != "" {
		g, err := user.LookupGroup(s.Group)
		if err != nil {
			return nil, fmt.Errorf("safety.group: %w; create the group, or leave the key empty", err)
		}
		if group, err = strconv.Atoi(g.Gid); err != nil {
			return nil, fmt.Errorf("safety.group: %s: %w", s.Group, err)
		}
	}
	listener, err := listenRestricted(s.Socket, group)
	if err != nil {
		return nil, fmt.Errorf("safety.socket: %s: %w", s.Socket, err)
	}
	return &Server{listener: listener, path: s.Socket, group: group, done: make(chan struct{})}, nil
}

// ErrSocketInUse means that another process listens at the control socket.
var ErrSocketInUse = errors.New("another process answers there; end it, or set safety.socket to another path")

// listenRestricted listens at path with mode 0660. No caller can connect before the mode is set.
func listenRestricted(path string, group int) (*net.UnixListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // the listener has a descriptor from dup, also close-on-exec
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind: %w; create the folder %s, writable for this user", err, filepath.Dir(path))
	}
	owned := os.Chown(path, -1, group)
	if errors.Is(owned, fs.ErrPermission) {
		owned = fmt.Errorf("safety.group: %w; add the user of this process to the group", owned)
	}
	if err := errors.Join(os.Chmod(path, 0o660), owned, unix.Listen(fd, 8)); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return l.(*net.UnixListener), nil
}

// removeStaleSocket removes the socket of a dead process. Anything else at path is an error.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("it exists and is not a socket; set safety.socket to another path")
	}
	c, err := net.DialTimeout("unix", path, callerTimeout)
	if err == nil {
		_ = c.Close()
		return ErrSocketInUse
	}
	if errors.Is(err, syscall.EAGAIN) { // its queue of callers is full
		return ErrSocketInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// stopServing ends the goroutine. The socket stays open, so that no other process takes the robot.
func (s *Server) stopServing() {
	if s == nil || s.mailbox == nil {
		return
	}
	_ = s.listener.SetDeadline(time.Now()) // never fails on an open socket
	<-s.done
}

// Close closes and removes the socket.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.stopServing()
	return errors.Join(s.listener.Close(), os.Remove(s.path)) // a listener made from a descriptor leaves the file
}

// serve answers until stopServing. A panic here stops the robot in the next tick.
func (s *Server) serve() {
	defer close(s.done)
	defer s.mailbox.catchPanic()
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err == nil {
			s.serveCaller(c)
		}
		time.Sleep(callerPause)
	}
}

// serveCaller serves one caller. The caller sees any failure.
func (s *Server) serveCaller(c *net.UnixConn) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(callerTimeout)); err != nil {
		return
	}
	if err := s.authorize(c); err != nil {
		s.reply(c, err)
		return
	}
	in := bufio.NewReaderSize(c, maxCommandBytes)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	s.reply(c, s.execute(strings.TrimSpace(string(line)), in))
}

// execute runs a command. status runs nothing.
func (s *Server) execute(word string, body io.Reader) error {
	if word == "status" {
		return nil
	}
	if known, err := s.tasks.execute(word, body); known {
		return err
	}
	a, ok := commandNames[word]
	if !ok {
		return fmt.Errorf("unknown command %.20q; use arm, disarm, stop, reset, status, task switch or task new", word)
	}
	timeout := threadTimeout(s.period)
	err := s.mailbox.call(a, timeout)
	if a == commandStop && errors.Is(err, errNoAnswer) {
		s.haltStuck(rtloop.Stall{For: timeout})
	}
	return err
}

// threadTimeout is how long the control thread may take to answer a command.
func threadTimeout(period time.Duration) time.Duration { return 2*period + time.Second }

func (s *Server) reply(c *net.UnixConn, refusal error) {
	text, err := json.Marshal(s.status(refusal))
	if err != nil {
		panic(err) // numbers and text
	}
	if err := c.SetWriteDeadline(time.Now().Add(callerTimeout)); err != nil {
		return
	}
	_, _ = c.Write(append(text, '\n')) // the caller may have left
}

func (s *Server) status(refusal error) link.Status {
	b, live := s.mailbox, s.live()
	r := link.Status{
		Robot: s.robot, State: controller.Mode(b.mode.Load()).String(), Tick: b.tick.Load(), Deadman: s.deadman,
		LateUS: microseconds(live.Lateness), WorstUS: microseconds(live.WorstLateness), Skipped: live.Skipped,
	}
	if refusal != nil {
		r.Error = refusal.Error()
	}
	if r.Deadman == "" {
		r.Deadman = driverDeadman(time.Duration(b.deadman.Load()), controller.Mode(b.mode.Load()))
	}
	if age := b.planAge.Load(); age > 0 {
		r.Planned, r.ZAgeMS = true, float64(age-1)*s.period.Seconds()*1000
	}
	if stop := b.cause.Load(); stop != nil {
		r.Cause, r.Found = stop.Fault.String(), stop.Err.Error()
	}
	if present := controller.Fault(b.present.Load()); present != controller.FaultNone {
		r.Present = present.String()
	}
	return r
}

// driverDeadman describes the deadman of the robot, which its driver sets when it is armed.
func driverDeadman(after time.Duration, mode controller.Mode) string {
	switch {
	case after > 0:
		return fmt.Sprintf("the robot's own, after %v", after)
	case mode.Moves():
		return "NONE is known"
	}
	return "none is set; the driver sets the robot's own, if there is one, when it is armed"
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// authorize refuses callers that may not operate the robot.
func (s *Server) authorize(c *net.UnixConn) error {
	peer, err := peerCredentials(c)
	if err != nil {
		return err
	}
	if err := checkUser(peer, s.group); err != nil {
		return err
	}
	if peer.Pid <= 0 || isDescendant(int(peer.Pid), os.Getpid(), parentOf) {
		return fmt.Errorf("process %d belongs to the controller itself; "+
			"arm, stop and reset the robot from a shell of an operator", peer.Pid)
	}
	return nil
}

// peerCredentials returns the credentials of the caller from the kernel (SO_PEERCRED).
func peerCredentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return peer, failed
}

// checkUser accepts root, the user of this process and members of the group.
func checkUser(peer *unix.Ucred, group int) error {
	if peer.Uid == 0 || int(peer.Uid) == os.Getuid() {
		return nil
	}
	if group >= 0 && (int(peer.Gid) == group || inGroup(peer.Uid, group)) {
		return nil
	}
	return fmt.Errorf("user %d may not operate this robot; "+
		"become root, the user of the program, or a member of safety.group", peer.Uid)
}

func inGroup(uid uint32, group int) bool {
	u, err := user.LookupId(strconv.Itoa(int(uid)))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(group))
}

// isDescendant reports whether a process descends from ancestor. An unknown process counts as a descendant.
func isDescendant(pid, ancestor int, parent func(int) (int, error)) bool {
	if pid == ancestor || pid == 1 {
		return false
	}
	above, err := parent(pid)
	switch {
	case err != nil:
		return true
	case above == ancestor:
		return true
	case above == 0: // from outside of this container
		return false
	}
	return isDescendant(above, ancestor, parent)
}

// parentOf reads the fourth field of /proc/PID/stat. The second one is in parentheses and may contain
// any character.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat: fewer fields than in proc(5)", pid)
	}
	return strconv.Atoi(fields[1])
}
