package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/link"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rtloop"
	"optibfm/simulate"
	"optibfm/tflite"
)

// control is the control process: it holds the robot and the belief, and
// starts the host process for everything else.
type control struct {
	session *setup.Session
	robot   hal.Robot
	agent   *controller.Agent
	link    *link.ControlLink
	eps     simulate.Episodes
	limit   uint64 // ticks; 0: none
	arming  bool   // arm as soon as there is a plan
	planned bool   // there is one
	hold    bool   // a stop does not end the run
	acted   bool   // an operator's act took its time in this tick
	board   commandMailbox
	socket  *Server // may be nil

	recalled string // what became of earlier runs' belief, in words

	hostGone     *atomic.Bool
	hostBeat     uint64 // last seen
	hostSilent   uint64 // periods since it changed
	hostPatience uint64 // periods

	simulatorPatience uint64 // periods that a simulated robot waits for the host; 0: never
	waiting           uint64 // of these, now
	waited            uint64 // periods in which it stood still, in all

	at        atomic.Uint64                         // the tick in progress
	held      atomic.Pointer[controller.FaultError] // the stop that the run outlasts
	hung      atomic.Pointer[controller.FaultError] // the control thread hangs: the robot was halted past it
	abandoned chan struct{}                         // closed when the stuck thread need not be waited for any more
	givenUp   bool                                  // it was not: it may still be inside the driver
	after     func(time.Duration) <-chan time.Time  // time.After; a test has its own
}

// loosening is how long a control thread that the watchdog found stuck may
// take to come loose. After that the process goes without it: its end is what
// the device's own deadman waits for.
const loosening = time.Second

// lastTick is how long a tick may take after a signal, besides two periods and the bounds of
// the driver, before the robot is halted past the driver.
const lastTick = 400 * time.Millisecond

// errDone ends the loop without a fault.
var errDone = errors.New("control: the run is over")

// Run runs a session in real time: this process becomes the control
// process. On every way out the robot is halted before anything else happens.
func Run(ctx context.Context, s *setup.Session, network tflite.Evaluator, o link.HostConfig) (err error) {
	// Opening a device may already move or stop it: no other process may have it.
	socket, err := Listen(s.File.Safety)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	robot, err := setup.OpenRobot(ctx, s, rtloop.Now)
	if err != nil {
		return err
	}
	if err := errors.Join(setup.CheckArming(os.Stderr, robot, s.File), setup.CheckBounds(os.Stderr, robot, s.File)); err != nil {
		return errors.Join(err, setup.CloseRobot(robot))
	}
	var c *control
	segment, err := link.Create(s.Shape(), robot.Spec().Period)
	if err != nil {
		return errors.Join(err, setup.CloseRobot(robot))
	}
	defer func() {
		if c != nil && c.givenUp {
			return // a thread is still somewhere in there
		}
		if c != nil {
			err = errors.Join(err, c.link.CloseWakes())
		}
		err = errors.Join(err, setup.CloseRobot(robot), segment.Close())
	}()
	if err := checkRealTime(robot, s.File); err != nil {
		return err
	}
	if c, err = newControl(ctx, s, network, robot, segment); err != nil {
		return err
	}
	c.socket = socket
	defer socket.silence() // no word comes to a robot that is being closed
	loop, granted, err := rtloop.Prepare(s.File.Loop)
	if err != nil {
		return err
	}
	defer loop.Close()
	if loop.Notify, err = rtloop.NewNotifier(); err != nil {
		return err
	}
	o.Spec, o.Posture, o.ModelHash, o.Recalled = robot.Spec(), granted.String(), s.Model.Fingerprint(), c.recalled
	for _, grant := range granted.Missing() {
		o.Missing = append(o.Missing, grant.Request)
	}
	caveat := s.Model.Caveat()
	if caveat != "" {
		o.Missing = append(o.Missing, "TensorFlow on the control thread")
		o.Posture += "\n" + caveat
	}
	if !terminal.TakesScreen(o.Show) {
		reportPosture(os.Stderr, granted, caveat)
	}
	if err := c.link.OpenWakes(); err != nil {
		return err
	}
	host, err := startHost(s, segment.File(), o, c.link.TickWake, c.link.StateWake)
	if err != nil {
		return err
	}
	c.hostGone = &host.gone
	if err := host.waitReady(ctx, c.link); err != nil {
		c.link.Ended.Store(1 + uint64(controller.FaultNone))
		if ended := host.release(hostUnready); !errors.Is(ended, link.ErrHostFailed) && !errors.Is(ended, link.ErrHostKilled) {
			err = errors.Join(err, ended)
		}
		return err
	}
	err = c.run(ctx, loop)
	return errors.Join(err, host.finish(patienceAfter(err)))
}

// checkRealTime refuses what cannot be done at the robot's real rate.
func checkRealTime(robot hal.Robot, file configs.File) error {
	period := float64(robot.Spec().Period) / float64(time.Millisecond)
	if math.Abs(period-file.Loop.PeriodMS) > 1e-9 {
		return fmt.Errorf("loop.period_ms: it is not the robot's period (%g ms, not %g ms): give loop.period_ms the robot's value", file.Loop.PeriodMS, period)
	}
	if file.Run.EpisodeS > 0 && simulate.Resetter(robot) != nil && !setup.ResetsInOneTick(robot) {
		return fmt.Errorf("run.episode_s: found %g, but this robot's server may take seconds to start an episode, for which a control loop cannot wait: set run.episode_s to 0, or run.lockstep to true", file.Run.EpisodeS)
	}
	return nil
}

// reportPosture says, before anything moves, what the operating system refused.
// caveat is what the model takes from the promise.
func reportPosture(out io.Writer, granted rtloop.Granted, caveat string) {
	for _, g := range granted.Missing() {
		fmt.Fprint(out, plaintext.Wrap(fmt.Sprintf("warning: loop.%s: %s: not granted (%s): %s", g.Request, g.Asked, g.Why, g.Fix)))
	}
	if caveat != "" {
		fmt.Fprint(out, plaintext.Wrap("warning: "+caveat))
	}
}

func newControl(
	ctx context.Context, s *setup.Session, network tflite.Evaluator, robot hal.Robot, segment *link.Segment,
) (*control, error) {
	link, err := link.NewControlLink(segment, s.Shape())
	if err != nil {
		return nil, err
	}
	agent, err := controller.NewAgent(s.File.Controller, controller.Parts{
		Robot: robot, Source: link, Model: network, Plans: link, Safety: s.File.Rules(setup.SimulatedOrShadow(robot, s.File)), Stage: link.Stage,
	})
	if err != nil {
		return nil, err
	}
	recalled, err := setup.RestoreBelief(ctx, agent.Learner(), s)
	if err != nil {
		return nil, err
	}
	spec, run := robot.Spec(), s.File.Run
	c := &control{
		session: s, robot: robot, agent: agent, link: link, recalled: recalled,
		limit: setup.Periods(run.DurationS, spec.Period),
		eps:   setup.NewEpisodes(robot, run), hostPatience: max(2, setup.Periods(run.HostTimeoutS, spec.Period)),
		arming:    s.File.Safety.Arm == configs.ArmAutomatic,
		hold:      s.File.Safety.AfterStop == configs.AfterStopHold,
		abandoned: make(chan struct{}),
		after:     time.After,
	}
	if setup.CanWaitForHost(robot, s.File) {
		c.simulatorPatience = setup.Periods(run.SimulatorWaitS, spec.Period)
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

// run is the control loop. It returns nil when the run ended in order.
func (c *control) run(ctx context.Context, loop *rtloop.Loop) error {
	loop.Halt, loop.OnStuck, loop.OnOverrun = c.halt, c.cutOff, c.overrun
	c.openToOperators(loop)
	endReports := c.reportHeld()
	over := make(chan error, 1)
	go func() {
		_, err := loop.Run(ctx, c.beat)
		over <- err
	}()
	err := c.await(ctx, loop, over)
	endReports()
	if found := c.Found(err); found != nil { // the Halt hook may have failed
		c.Note(found)
	}
	first := c.board.stopped.Load()
	if first == nil || first == c.held.Load() {
		c.link.Ended.Store(1 + uint64(controller.FaultNone))
		return nil
	}
	c.link.Report(first, true)
	c.link.Ended.Store(1 + uint64(first.Fault))
	return c.outcome(first, err)
}

// openToOperators lets the socket answer, where there is one.
func (c *control) openToOperators(loop *rtloop.Loop) {
	if c.socket == nil {
		return
	}
	spec := c.robot.Spec()
	c.socket.board, c.socket.live, c.socket.cutOff = &c.board, loop.Live, c.cutOff
	c.socket.period, c.socket.robot = spec.Period, spec.Name
	c.socket.deadman = setup.DescribeDeadman(c.robot, c.session.File.Safety)
	go c.socket.serve()
}

// await waits for the end of the loop. After a signal it waits as long as the driver's calls may
// take: a driver that hangs, with or without a watchdog, does not keep the operator waiting.
func (c *control) await(ctx context.Context, loop *rtloop.Loop, over <-chan error) error {
	select {
	case err := <-over:
		return err
	case <-c.abandoned:
	case <-ctx.Done():
		if ended, err := c.awaitStopped(loop, over); ended {
			return err
		}
	}
	c.givenUp = true
	return nil
}

// longestEnd is how long a driver within its bounds can hold up the end of the loop: the tick
// in progress and the Halt after it.
func longestEnd(robot hal.Robot) time.Duration {
	b := hal.BoundsOf(robot)
	return b.Sense + b.Act + b.Halt
}

// awaitStopped waits for the end of a loop that was told to end, while its thread makes
// progress: one that is slow does not hang.
func (c *control) awaitStopped(loop *rtloop.Loop, over <-chan error) (ended bool, err error) {
	patience := 2*c.robot.Spec().Period + longestEnd(c.robot) + lastTick
	for progress := c.progress(loop); ; {
		select {
		case err := <-over:
			return true, err
		case <-c.abandoned:
			return false, nil
		case <-c.after(patience):
		}
		now := c.progress(loop)
		if now == progress {
			c.cutOff(rtloop.Stall{For: patience})
		}
		progress = now
	}
}

// progress changes while the control thread does not hang.
func (c *control) progress(loop *rtloop.Loop) [2]uint64 {
	return [2]uint64{loop.Live().Ticks, c.link.Stage.Load()}
}

// beat is one tick. It allocates nothing.
func (c *control) beat(b rtloop.Beat) error {
	err := c.doBeat(b)
	c.link.Stage.Store(uint64(controller.StageBetweenTicks))
	return err
}

func (c *control) doBeat(b rtloop.Beat) error {
	c.at.Store(b.Index - c.waited)
	c.acted = false
	if hung := c.hung.Load(); hung != nil { // and came loose: what it was about to do is long out of date
		return hung
	}
	if c.limit > 0 && c.at.Load() >= c.limit || c.link.Stop.Load() == link.StopOperator {
		return errDone
	}
	if err := c.checkHost(b); err != nil {
		return err
	}
	if c.waits(b) { // and its time with it
		return c.obey()
	}
	t, err := c.link.NextTick()
	if err != nil {
		return err
	}
	c.link.Stage.Store(uint64(controller.StageReset))
	over, err := c.eps.Begin(t)
	if over {
		return errDone
	}
	if err != nil {
		return &controller.FaultError{Fault: controller.FaultSense, Tick: c.at.Load(), Err: err}
	}
	t.Index, t.Elapsed, t.Deadline, t.Wake = c.at.Load(), b.Elapsed, b.Deadline, b.Wake
	if err := c.obey(); err != nil {
		return err
	}
	err = c.step(t)
	c.link.Stage.Store(uint64(controller.StageRecord))
	if first := c.board.stopped.Load(); first != nil && t.Fault != controller.FaultNone {
		t.Fault = first.Fault // where the thread hung, and came loose with another
	}
	t.Done = rtloop.Now()
	c.link.Commit(t)
	c.board.Publish(c.agent, t, c.planned)
	return err
}

func (c *control) step(t *controller.Tick) error {
	err := c.agent.Step(t)
	c.eps.End(t)
	if err != nil {
		return c.outlast(err)
	}
	c.planned = c.planned || t.Flags.Has(controller.FlagReplanned)
	return c.armItself(t)
}

// armItself arms once there is a plan to follow: a simulator needs no operator's
// word for it.
func (c *control) armItself(t *controller.Tick) error {
	if !c.arming || !t.Flags.Has(controller.FlagReplanned) {
		return nil
	}
	c.acted = true
	err := c.agent.Arm()
	if errors.Is(err, controller.ErrPresent) {
		return nil // with a later plan, then
	}
	c.arming = false // after a stop it is an operator's act
	if err == nil || errors.Is(err, controller.ErrFaulted) {
		return nil
	}
	return c.stop(controller.FaultAct, err)
}

// checkHost notes a host that has ended or fallen silent. One that has ended
// took the log and the planner with it, so the run ends; one that was silent may
// recover.
func (c *control) checkHost(b rtloop.Beat) error {
	if c.hostGone.Load() {
		return &controller.FaultError{Fault: controller.FaultHost, Tick: c.at.Load(), Err: c.link.Stall(errHostGone)}
	}
	if beat := c.link.HostBeat.Load(); beat != c.hostBeat || b.Index == 0 {
		c.hostBeat, c.hostSilent = beat, 0
		return c.link.Err()
	}
	// A loop that was itself held up has not seen the whole time go by.
	c.hostSilent += min(b.Elapsed, 2)
	if c.silent() && c.waiting >= c.simulatorPatience {
		return c.stop(controller.FaultHost, errHostSilent)
	}
	return nil
}

func (c *control) silent() bool { return c.hostSilent > c.hostPatience }

// waits reports whether a simulated robot stands still in this period, and with it
// its time: for a host that is alive but slow, and not for longer than
// run.simulator_wait_s.
func (c *control) waits(b rtloop.Beat) bool {
	if c.simulatorPatience == 0 {
		return false
	}
	if !c.silent() && !c.planTooOld() {
		c.waiting = 0
		return false
	}
	if c.waiting >= c.simulatorPatience {
		return false
	}
	c.waiting += max(b.Elapsed, 1)
	c.waited += b.Elapsed
	c.link.Waited.Store(c.waited)
	return true
}

// planTooOld reports whether this tick's plan would stop the robot. It decides
// nothing but whether to wait: the host is not trusted, and the agent checks a copy.
func (c *control) planTooOld() bool {
	p, tick := c.link.Latest(), c.at.Load()
	return p != nil && c.agent.Armed() && tick > p.Confirmed && tick-p.Confirmed > c.session.File.Controller.MaxPlanAge
}

// What ends the loop besides a fault that the agent found.
var (
	errHostGone   = errors.New("the host process died: it printed why, or it was killed")
	errHostSilent = errors.New("the host process made no progress for run.host_timeout_s: " +
		"give it processor time, or raise the limit")
)
