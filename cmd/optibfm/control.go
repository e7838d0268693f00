package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/shm"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rtloop"
)

const (
	hostStart = 60 * time.Second // for the host to be ready
	hostEnd   = 60 * time.Second // for the host to finish the log and the summary
)

// control is the control process: it holds the robot and the belief, and
// starts the host process for everything else.
type control struct {
	session *session
	robot   hal.Robot
	agent   *controller.Agent
	link    *controlLink
	eps     episodes
	limit   uint64 // ticks; 0: none
	arming  bool   // arm as soon as there is a plan

	hostGone     *atomic.Bool
	hostBeat     uint64 // last seen
	hostSeen     uint64 // the tick at which it last changed
	hostPatience uint64 // ticks

	fault controller.Fault
	stuck atomic.Bool // the watchdog has spoken
}

// errDone ends the loop without a fault.
var errDone = errors.New("control: the run is over")

// runControl runs a session in real time: this process becomes the control
// process. On every way out the robot is halted before anything else happens.
func runControl(ctx context.Context, s *session, o orders) (err error) {
	if err := s.checkTerminal(); err != nil {
		return err
	}
	robot, err := openRobot(ctx, s.file.Robot, monotonic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRobot(robot)) }()
	segment, err := shm.Create(segmentLayout(s.shape()))
	if err != nil {
		return err
	}
	defer segment.Close()
	c, err := newControl(s, robot, segment)
	if err != nil {
		return err
	}
	s.file.Loop.PeriodMS = float64(robot.Spec().Period) / float64(time.Millisecond)
	loop, granted, err := rtloop.Prepare(s.file.Loop)
	if err != nil {
		return err
	}
	defer loop.Close()
	if loop.Notify, err = rtloop.NewNotifier(); err != nil {
		return err
	}
	o.Spec, o.Posture, o.ModelHash = robot.Spec(), granted.String(), s.bundle.Hash
	for _, grant := range granted.Missing() {
		o.Missing = append(o.Missing, grant.Request)
	}
	host, err := startHost(s, segment.File(), o)
	if err != nil {
		return err
	}
	c.hostGone = &host.gone
	if err := host.waitReady(ctx, c.link); err != nil {
		return errors.Join(err, host.finish())
	}
	err = c.run(ctx, loop)
	return errors.Join(err, host.finish())
}

func newControl(s *session, robot hal.Robot, segment *shm.Segment) (*control, error) {
	link, err := newControlLink(segment, s.shape())
	if err != nil {
		return nil, err
	}
	network, err := s.bundle.NewNetwork()
	if err != nil {
		return nil, err
	}
	agent, err := controller.NewAgent(s.file.Controller, controller.Parts{Robot: robot, Source: link, Model: network, Plans: link})
	if err != nil {
		return nil, err
	}
	if err := warmStart(agent.Learner(), s.file.Model); err != nil {
		return nil, err
	}
	spec, run := robot.Spec(), s.file.Run
	c := &control{
		session: s, robot: robot, agent: agent, link: link,
		limit: periods(run.DurationS, spec.Period),
		eps:   newEpisodes(robot, run), arming: true, hostPatience: max(2, periods(run.HostTimeoutS, spec.Period)),
	}
	return c, c.offerFirst()
}

// offerFirst shows the host the belief before the first tick, from which
// replay starts.
func (c *control) offerFirst() error {
	s := c.link.State()
	belief := c.agent.Learner().Belief()
	s.Next, s.Valid, s.Hash = 0, 0, belief.Hash()
	belief.State(s.Belief)
	return c.link.Offer()
}

// run is the control loop. It returns nil when the run ended as wished.
func (c *control) run(ctx context.Context, loop *rtloop.Loop) error {
	loop.Halt = func() {
		if err := c.agent.Halt(c.fault); err != nil {
			// The robot's own deadman is what is left; the error is
			// reported again when the robot is closed.
			c.fault = controller.FaultAct
		}
	}
	loop.OnStuck = func(time.Duration) {
		c.stuck.Store(true)
		if h, ok := c.robot.(hal.Backstop); ok {
			h.HaltBeside()
		}
	}
	_, err := loop.Run(ctx, c.beat)
	c.link.ended.Store(1 + uint64(c.reason(err)))
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// reason is the fault that ended the loop.
func (c *control) reason(err error) controller.Fault {
	var fault *controller.FaultError
	var panicked *rtloop.PanicError
	switch {
	case err == nil || errors.Is(err, errDone):
		return c.fault
	case errors.As(err, &fault):
		return fault.Fault
	case errors.As(err, &panicked):
		return controller.FaultPanic
	case errors.Is(err, rtloop.ErrOverrun):
		return controller.FaultOverrun
	}
	return controller.FaultHost
}

// beat is one tick. It allocates nothing.
func (c *control) beat(b rtloop.Beat) error {
	if c.stuck.Load() { // and came loose: what it was about to do is long out of date
		return &controller.FaultError{Fault: controller.FaultStuck, Tick: b.Index, Err: errStuck}
	}
	if c.limit > 0 && b.Index >= c.limit || c.link.stop.Load() != stopNone {
		return errDone
	}
	t, err := c.link.nextTick()
	if err != nil {
		return err
	}
	over, err := c.eps.begin(t)
	if over {
		return errDone
	}
	if err != nil {
		return err
	}
	t.Index, t.Elapsed, t.Deadline, t.Wake = b.Index, b.Elapsed, b.Deadline, b.Wake
	if err := c.checkHost(t); err != nil {
		return err
	}
	err = c.agent.Step(t)
	c.eps.end(t)
	t.Done = monotonic()
	c.arm(t)
	c.link.commit(t)
	return err
}

// arm arms once there is a plan to follow: a simulator needs no operator's
// word for it.
func (c *control) arm(t *controller.Tick) {
	if !c.arming || !t.Flags.Has(controller.FlagReplanned) {
		return
	}
	c.arming = false
	if err := c.agent.Arm(); err != nil {
		c.fault = controller.FaultAct
	}
}

// checkHost notes a host that has ended or fallen silent.
func (c *control) checkHost(t *controller.Tick) error {
	if c.hostGone.Load() {
		return &controller.FaultError{Fault: controller.FaultHost, Tick: t.Index, Err: errHostGone}
	}
	if beat := c.link.hostBeat.Load(); beat != c.hostBeat || t.Index == 0 {
		c.hostBeat, c.hostSeen = beat, t.Index
		return c.link.err()
	}
	if t.Index-c.hostSeen > c.hostPatience {
		return &controller.FaultError{Fault: controller.FaultHost, Tick: t.Index, Err: errHostSilent}
	}
	return nil
}

// What ends the loop besides a fault that the agent found.
var (
	errStuck      = errors.New("a tick took longer than loop.watchdog_ms: find what held it up, in the driver first")
	errHostGone   = errors.New("the host process died: it said why, or somebody killed it")
	errHostSilent = errors.New("the host process gave no sign of life for run.host_timeout_s: find what holds it up")
)

// hostProcess is the child.
type hostProcess struct {
	cmd      *exec.Cmd
	lifeline *os.File     // held open; its closing tells the host that we are gone
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
	h := &hostProcess{lifeline: write, crash: crash, restore: func() error { return nil }, exited: make(chan error, 1)}
	if isTerminal(os.Stdin) {
		if restore, err := keyboard.Save(os.Stdin); err == nil {
			h.restore = restore
		}
	}
	h.screen = !o.Plain && !o.JSON && fullScreen(os.Stdout) != nil
	h.cmd = exec.Command("/proc/self/exe", "host")
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	h.cmd.ExtraFiles = []*os.File{segment, file, read, crash}
	if h.cmd.SysProcAttr, err = asUser(s.file.Run.HostUser); err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
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

// asUser makes the host run as another user.
func asUser(name string) (*syscall.SysProcAttr, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("run.host_user: %w: create the user, or leave the key empty", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("run.host_user: %w", err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
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
			return errors.New("control: the host process ended before it was ready: it said why")
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("control: the host process was not ready within %v: see what it printed", hostStart)
		}
	}
	return nil
}

// finish waits for the host to record the end of the run, kills it where it
// does not, and gives the terminal back whatever it did.
func (h *hostProcess) finish() error {
	defer h.lifeline.Close()
	select {
	case err := <-h.exited:
		if err != nil {
			err = fmt.Errorf("control: the host process: %w", err)
		}
		return errors.Join(err, h.giveBack(h.cmd.ProcessState.ExitCode() > 1 || h.cmd.ProcessState.ExitCode() < 0))
	case <-time.After(hostEnd):
		_ = h.cmd.Process.Kill()
		return errors.Join(fmt.Errorf("control: the host process did not end within %v and was killed", hostEnd), h.giveBack(true))
	}
}

// giveBack gives the terminal back, also where the host could not: it was
// killed, or it panicked.
func (h *hostProcess) giveBack(died bool) error {
	if died && h.screen {
		rescueTerminal(os.Stdout)
		_, _ = io.Copy(os.Stderr, io.NewSectionReader(h.crash, 0, 1<<20)) // its fault is told either way
	}
	return errors.Join(h.restore(), h.crash.Close())
}
