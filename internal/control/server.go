package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// Socket is where an operator arms, disarms, stops and resets the
// robot: a Unix socket of the control process. A question is a line of one
// word, its answer a line of JSON (condition). One goroutine serves one caller
// after the other, slowly, and does nothing but set the words of the
// switchboard.
//
// Three things keep everybody else away: the socket's mode (0660, and its
// group), the credentials of the caller, which the kernel vouches for, and that
// no process which this one started may call, the host first of all: what faces
// the network must not be able to arm a robot, whichever user it is.
type Server struct {
	listener *net.UnixListener
	path     string
	group    int // -1: none
	board    *commandMailbox
	live     func() rtloop.Live
	period   time.Duration
	robot    string
	deadman  string             // in words; empty where the robot itself knows
	cutOff   func(rtloop.Stall) // halts the robot past a control thread that does not answer a stop
	done     chan struct{}      // closed when the goroutine has ended
}

const (
	socketPatience = 200 * time.Millisecond // with a caller who says nothing
	socketPause    = 20 * time.Millisecond  // after each caller: nobody keeps this process busy
	longestAct     = 16                     // bytes of a question
)

// Listen opens the socket; nil where none is wanted.
func Listen(s configs.Safety) (*Server, error) {
	if s.Socket == "" {
		return nil, nil
	}
	// What the host starts and leaves behind becomes a child of this process,
	// and not init's, whose children may call.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("safety.socket: subreaper: %w", err)
	}
	group := -1
	if s.Group != "" {
		g, err := user.LookupGroup(s.Group)
		if err != nil {
			return nil, fmt.Errorf("safety.group: %w: create the group, or leave the key empty", err)
		}
		if group, err = strconv.Atoi(g.Gid); err != nil {
			return nil, fmt.Errorf("safety.group: %s: %w", s.Group, err)
		}
	}
	listener, err := listenPrivately(s.Socket, group)
	if err != nil {
		return nil, fmt.Errorf("safety.socket: %s: %w", s.Socket, err)
	}
	return &Server{listener: listener, path: s.Socket, group: group, done: make(chan struct{})}, nil
}

var ErrSocketInUse = errors.New("another process answers there: one robot has one controller: end it, or give another path")

// listenPrivately listens on a socket that nobody could have connected to before
// its mode was set.
func listenPrivately(path string, group int) (*net.UnixListener, error) {
	if err := clearAway(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // the listener has its own descriptor, close-on-exec too
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind: %w: make the folder %s and let this user write to it", err, filepath.Dir(path))
	}
	if err := errors.Join(os.Chmod(path, 0o660), os.Chown(path, -1, group), unix.Listen(fd, 8)); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return l.(*net.UnixListener), nil
}

// clearAway removes the socket of a process that is dead, and nothing else.
func clearAway(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("there is something else that is no socket: give another path")
	}
	c, err := net.DialTimeout("unix", path, socketPatience)
	if err == nil {
		_ = c.Close() // it told what we wanted to know
		return ErrSocketInUse
	}
	if errors.Is(err, syscall.EAGAIN) { // it listens, and others wait for it too
		return ErrSocketInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// silence ends the goroutine. The socket goes on to say that somebody is there.
func (s *Server) silence() {
	if s == nil || s.board == nil {
		return
	}
	_ = s.listener.SetDeadline(time.Now()) // it can be set while the socket is open
	<-s.done
}

// Close gives the socket up and removes it.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.silence()
	return errors.Join(s.listener.Close(), os.Remove(s.path)) // the file stays: the listener was made from a descriptor
}

// serve answers until it is silenced. It never takes the process with it:
// a panic here stops the robot in the next tick.
func (s *Server) serve() {
	defer close(s.done)
	defer func() {
		if value := recover(); value != nil {
			err := fmt.Errorf("%w: %v", errSocketDied, value)
			s.board.broken.Store(&err)
		}
	}()
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err == nil {
			s.Answer(c)
		}
		time.Sleep(socketPause)
	}
}

// Answer serves one caller. What goes wrong is the caller's to see.
func (s *Server) Answer(c *net.UnixConn) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(socketPatience)); err != nil {
		return
	}
	if err := s.admit(c); err != nil {
		s.reply(c, err)
		return
	}
	line, err := bufio.NewReaderSize(c, longestAct).ReadSlice('\n')
	if err != nil {
		return
	}
	s.reply(c, s.obey(strings.TrimSpace(string(line))))
}

// obey does what a word asks for.
func (s *Server) obey(word string) error {
	if word == "status" {
		return nil
	}
	a, ok := actNames[word]
	if !ok {
		return fmt.Errorf("%q is no act: say arm, disarm, stop, reset or status", word)
	}
	patience := 2*s.period + time.Second
	err := s.board.Ask(a, patience)
	if a == commandStop && errors.Is(err, errNoAnswer) {
		s.cutOff(rtloop.Stall{For: patience})
	}
	return err
}

func (s *Server) reply(c *net.UnixConn, refusal error) {
	text, err := json.Marshal(s.condition(refusal))
	if err != nil {
		panic(err) // numbers and text
	}
	if err := c.SetWriteDeadline(time.Now().Add(socketPatience)); err != nil {
		return
	}
	_, _ = c.Write(append(text, '\n')) // a caller who is gone asked for nothing more
}

func (s *Server) condition(refusal error) link.Status {
	b, live := s.board, s.live()
	r := link.Status{
		Robot: s.robot, State: controller.Mode(b.mode.Load()).String(), Tick: b.tick.Load(), Deadman: s.deadman,
		LateUS: micro(live.Lateness), WorstUS: micro(live.WorstLateness), Skipped: live.Skipped,
	}
	if refusal != nil {
		r.Error = refusal.Error()
	}
	if r.Deadman == "" {
		r.Deadman = ownDeadman(time.Duration(b.deadman.Load()), controller.Mode(b.mode.Load()))
	}
	if age := b.planAge.Load(); age > 0 {
		r.Planned, r.ZAgeMS = true, float64(age-1)*s.period.Seconds()*1000
	}
	if stop := b.stopped.Load(); stop != nil {
		r.Cause, r.Found = stop.Fault.String(), stop.Err.Error()
	}
	if present := controller.Fault(b.present.Load()); present != controller.FaultNone {
		r.Present = present.String()
	}
	return r
}

// ownDeadman says in words what the robot's driver has set. It sets it when it is
// armed.
func ownDeadman(after time.Duration, mode controller.Mode) string {
	switch {
	case after > 0:
		return fmt.Sprintf("the robot's own, after %v", after)
	case mode == controller.Armed:
		return "NONE is known"
	}
	return "none is set; the robot's own is set when it is armed, where it has one"
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// admit refuses a caller who may not move this robot.
func (s *Server) admit(c *net.UnixConn) error {
	peer, err := peerOf(c)
	if err != nil {
		return err
	}
	if err := mayOperate(peer, s.group); err != nil {
		return err
	}
	if peer.Pid <= 0 || descends(int(peer.Pid), os.Getpid(), readParent) {
		return fmt.Errorf("process %d belongs to the controller itself: only a person arms, stops or resets a robot here", peer.Pid)
	}
	return nil
}

// peerOf is who has connected, by the kernel's word.
func peerOf(c *net.UnixConn) (*unix.Ucred, error) {
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

// mayOperate tells whether a user is root, the one who runs this program, or in
// the group.
func mayOperate(peer *unix.Ucred, group int) error {
	if peer.Uid == 0 || int(peer.Uid) == os.Getuid() {
		return nil
	}
	if group >= 0 && (int(peer.Gid) == group || inGroup(peer.Uid, group)) {
		return nil
	}
	return fmt.Errorf("user %d may not operate this robot: be root, the program's user, or in safety.group", peer.Uid)
}

func inGroup(uid uint32, group int) bool {
	u, err := user.LookupId(strconv.Itoa(int(uid)))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(group))
}

// descends reports whether a process is below an ancestor other than itself. A
// process that cannot be looked up counts as below: it has no business here.
func descends(pid, ancestor int, parent func(int) (int, error)) bool {
	if pid == ancestor || pid == 1 {
		return false
	}
	above, err := parent(pid)
	switch {
	case err != nil:
		return true
	case above == ancestor:
		return true
	case above == 0: // started from outside of this container
		return false
	}
	return descends(above, ancestor, parent)
}

// readParent reads the fourth field of /proc/PID/stat; the second may hold
// anything but is in the last parentheses.
func readParent(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat is not as proc(5) says", pid)
	}
	return strconv.Atoi(fields[1])
}
