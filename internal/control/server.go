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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/ipc"
	"optibfm/rtloop"
)

// Server answers commands at the control socket, a Unix socket. A request is a line with one word,
// or a switch of the task (link.SwitchWord). The reply is a line of JSON (link.Status). Each caller
// has a goroutine, which only exchanges atomic words with the control thread. It reads no file: a
// disk that stalls does not delay a stop.
//
// A connection to a second socket (StopPath) is a stop, without a request. Other callers cannot
// delay it, and callers that occupy the socket stop the robot. The host process may use this
// socket.
//
// Three checks refuse other callers of the control socket: its mode (0660) and group, the
// credentials that the kernel reports, and the ancestry of the calling process. Children of this
// process may not call, also as another user: the host faces the network and must not be able to
// arm the robot.
type Server struct {
	lock      *os.File
	listener  *net.UnixListener
	stops     *net.UnixListener // every connection is a stop
	path      string
	group     int // -1: none
	mailbox   *commandMailbox
	live      func() rtloop.Live
	console   *atomic.Uint64 // a link.ConsoleState
	warner    hal.Warner     // nil: none
	period    time.Duration
	robot     string
	tasks     *taskSwitch
	deadman   string             // text; empty if it depends on the robot
	haltStuck func(rtloop.Stall) // halts the robot beside a control thread that does not answer a stop
	done      chan struct{}      // closed at the end of both goroutines that accept callers
	callers   sync.WaitGroup
}

const (
	callerTimeout   = 500 * time.Millisecond // for the request of a caller, and for the reply
	callerPause     = 20 * time.Millisecond  // between callers: limits the load
	stopPause       = 5 * time.Millisecond   // between stops
	maxCallers      = 64                     // at a time, of each socket
	maxCommandBytes = 128
	backlog         = 4096 // the kernel's limit
)

// StopPath returns the path of the socket at which every connection is a stop.
func StopPath(socket string) string { return socket + ".stop" }

// lockPath returns the path of the file that the holder of a robot locks. It is never removed: a
// run could otherwise lock the removed file while another run locks a new one.
func lockPath(socket string) string { return socket + ".lock" }

// Listen takes the lock of the robot and opens the control socket. It returns nil without
// safety.socket. The error wraps ErrSocketInUse if another process has the lock or listens there.
// Close removes the sockets.
func Listen(s configs.Safety) (_ *Server, err error) {
	if s.Socket == "" {
		return nil, nil
	}
	// Orphans of the host become children of this process, not of init, so that Server recognises
	// them.
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
	server := &Server{path: s.Socket, group: group, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("safety.socket: %s: %w", s.Socket, err), server.release())
		}
	}()
	if server.lock, err = takeLock(lockPath(s.Socket)); err != nil {
		return nil, err
	}
	if server.listener, err = listenRestricted(s.Socket, group, answered); err != nil {
		return nil, err
	}
	if server.stops, err = listenRestricted(StopPath(s.Socket), group, ignored); err != nil {
		return nil, err
	}
	return server, nil
}

// Hold takes the lock of the robot, and release gives it back: no run can start meanwhile. Without
// safety.socket, or without its folder, which a run needs, it takes none. The error wraps
// ErrSocketInUse if another process has the lock.
func Hold(s configs.Safety) (release func() error, err error) {
	release = func() error { return nil }
	if s.Socket == "" {
		return release, nil
	}
	lock, err := takeLock(lockPath(s.Socket))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return release, nil
	case err != nil:
		return nil, fmt.Errorf("safety.socket: %s: %w", s.Socket, err)
	}
	return lock.Close, nil
}

// ErrSocketInUse means that another process holds the robot.
var ErrSocketInUse = errors.New("another process holds this robot; end it (another robot needs another safety.socket)")

// takeLock locks a file until the process ends. Any user who can reach the file may lock it: a run
// of the service and a run of root exclude each other, whichever created the file.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
		if err == nil {
			_ = f.Chmod(0o644) // despite the umask; fails if another user created it meanwhile
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w; create the folder %s, writable for this user", err, filepath.Dir(path))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrSocketInUse
		}
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f, nil
}

// listenRestricted listens at path with mode 0660. Callers can connect only after the mode is set.
func listenRestricted(path string, group int, held func(string) error) (*net.UnixListener, error) {
	if err := removeStaleSocket(path, held); err != nil {
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
	if err := errors.Join(os.Chmod(path, 0o660), owned, unix.Listen(fd, backlog)); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return l.(*net.UnixListener), nil
}

// removeStaleSocket removes the socket of a dead process. Anything else at path is an error. held
// returns an error if a process listens there.
func removeStaleSocket(path string, held func(string) error) error {
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
	if err := held(path); err != nil {
		return err
	}
	return os.Remove(path)
}

// ignored does not connect: a connection to the socket of stops would stop the robot. The lock
// excludes other runs.
func ignored(string) error { return nil }

// answered returns ErrSocketInUse if a process listens at path: a version of this program without
// the lock, or one whose lock file was removed.
func answered(path string) error {
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
	return nil
}

// stopServing ends the goroutines. The lock stays, so that no other process takes the robot.
func (s *Server) stopServing() {
	if s == nil || s.mailbox == nil {
		return
	}
	s.refuseCallers()
	<-s.done
}

// refuseCallers ends the goroutines that accept callers.
func (s *Server) refuseCallers() {
	_ = s.listener.SetDeadline(time.Now()) // never fails on an open socket
	_ = s.stops.SetDeadline(time.Now())
}

// Close closes and removes the sockets.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.stopServing()
	return s.release()
}

// release removes the sockets before it releases the lock. A listener made from a descriptor does
// not remove its socket.
func (s *Server) release() error {
	var errs []error
	for path, l := range map[string]*net.UnixListener{s.path: s.listener, StopPath(s.path): s.stops} {
		if l != nil {
			errs = append(errs, l.Close(), os.Remove(path))
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// serve answers until stopServing. A panic here stops the robot in the next tick.
func (s *Server) serve() {
	defer close(s.done)
	defer s.callers.Wait()
	var stops sync.WaitGroup
	stops.Go(func() { s.accept(s.stops, stopPause, s.serveStop) })
	s.accept(s.listener, callerPause, s.serveCaller)
	stops.Wait()
}

// accept serves the callers of a socket, at most maxCallers at a time.
func (s *Server) accept(l *net.UnixListener, pause time.Duration, serveCaller func(*net.UnixConn)) {
	defer s.catchPanic()
	slots := make(chan struct{}, maxCallers)
	for {
		slots <- struct{}{}
		c, err := l.AcceptUnix()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			<-slots
		} else {
			s.callers.Go(func() {
				defer func() { <-slots }()
				defer c.Close()
				defer s.catchPanic()
				serveCaller(c)
			})
		}
		time.Sleep(pause)
	}
}

// catchPanic stops the robot after a panic, and serves no other caller.
func (s *Server) catchPanic() {
	if value := recover(); value != nil {
		s.mailbox.notePanic(value)
		s.refuseCallers()
	}
}

// serveStop stops the robot. It asks nothing of the caller, and waits for it only with the reply.
func (s *Server) serveStop(c *net.UnixConn) { s.reply(c, s.execute("stop", nil)) }

// serveCaller serves one caller. The caller sees any failure.
func (s *Server) serveCaller(c *net.UnixConn) {
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

// threadTimeout limits the time of the control thread to answer a command.
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

func (s *Server) status(refusal error) ipc.Status {
	b, live := s.mailbox, s.live()
	r := ipc.Status{
		Robot: s.robot, State: controller.Mode(b.mode.Load()).String(), Tick: b.tick.Load(), Deadman: s.deadman,
		LateUS: microseconds(live.Lateness), WorstUS: microseconds(live.WorstLateness), Skipped: live.Skipped,
		Demoted: live.Demoted, Warning: warningOf(s.warner),
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
	if s.console.Load() == ipc.ConsoleWaits {
		r.Console = "no browser can reach it; the run's output gives the cause, and it tries again"
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

// isDescendant reports whether a process descends from ancestor. An unknown process counts as a
// descendant.
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

// parentOf reads the fourth field of /proc/PID/stat. The second one is in parentheses and may
// contain any character.
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
