package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/shm"
	"optibfm/rtloop"
	"optibfm/simulate"
	"optibfm/tflite"
)

// control is the control process: it holds the robot and the belief, and
// starts the host process for everything else.
type control struct {
	session *session
	robot   hal.Robot
	agent   *controller.Agent
	link    *controlLink
	eps     simulate.Episodes
	limit   uint64 // ticks; 0: none
	arming  bool   // arm as soon as there is a plan
	planned bool   // there is one
	hold    bool   // a stop does not end the run
	acted   bool   // an operator's act took its time in this tick
	board   switchboard
	socket  *controlSocket // may be nil

	recalled string // what became of earlier runs' belief, in words

	hostGone     *atomic.Bool
	hostBeat     uint64 // last seen
	hostSilent   uint64 // ticks since it changed
	hostPatience uint64 // ticks

	fault     controller.Fault
	at        atomic.Uint64 // the tick in progress
	stuck     atomic.Bool   // the driver hangs: the robot was halted past it
	abandoned chan struct{} // closed when the stuck thread need not be waited for any more
	givenUp   bool          // it was not: it may still be inside the driver
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

// runControl runs a session in real time: this process becomes the control
// process. On every way out the robot is halted before anything else happens.
func runControl(ctx context.Context, s *session, network tflite.Evaluator, o orders) (err error) {
	// Opening a device may already move or stop it: no other process may have it.
	socket, err := listenControl(s.file.Safety)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, socket.close()) }()
	robot, err := openRobot(ctx, s, rtloop.Now)
	if err != nil {
		return err
	}
	if err := errors.Join(checkArming(os.Stderr, robot, s.file), checkBounds(os.Stderr, robot, s.file)); err != nil {
		return errors.Join(err, closeRobot(robot))
	}
	var c *control
	segment, err := shm.Create(segmentLayout(s.shape(), robot.Spec().Period))
	if err != nil {
		return errors.Join(err, closeRobot(robot))
	}
	defer func() {
		if c != nil && c.givenUp {
			return // a thread is still somewhere in there
		}
		err = errors.Join(err, closeRobot(robot), segment.Close())
	}()
	if err := checkRealTime(robot, s.file); err != nil {
		return err
	}
	if c, err = newControl(ctx, s, network, robot, segment); err != nil {
		return err
	}
	c.socket = socket
	defer socket.silence() // no word comes to a robot that is being closed
	loop, granted, err := rtloop.Prepare(s.file.Loop)
	if err != nil {
		return err
	}
	defer loop.Close()
	if loop.Notify, err = rtloop.NewNotifier(); err != nil {
		return err
	}
	o.Spec, o.Posture, o.ModelHash, o.Recalled = robot.Spec(), granted.String(), s.model.hash(), c.recalled
	for _, grant := range granted.Missing() {
		o.Missing = append(o.Missing, grant.Request)
	}
	caveat := s.model.caveat()
	if caveat != "" {
		o.Missing = append(o.Missing, "TensorFlow on the control thread")
		o.Posture += "\n" + caveat
	}
	if !o.fullScreen() {
		reportPosture(os.Stderr, granted, caveat)
	}
	host, err := startHost(s, segment.File(), o)
	if err != nil {
		return err
	}
	c.hostGone = &host.gone
	if err := host.waitReady(ctx, c.link); err != nil {
		c.link.ended.Store(1 + uint64(controller.FaultNone))
		if ended := host.release(hostUnready); !errors.Is(ended, errHostFailed) && !errors.Is(ended, errHostKilled) {
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
	if file.Run.EpisodeS > 0 && simulate.Resetter(robot) != nil && !resetsWithinATick(robot) {
		return fmt.Errorf("run.episode_s: found %g, but this robot's server may take seconds to start an episode, for which a control loop cannot wait: set run.episode_s to 0, or run.lockstep to true", file.Run.EpisodeS)
	}
	return nil
}

// reportPosture says, before anything moves, what the operating system refused.
// caveat is what the model takes from the promise.
func reportPosture(out io.Writer, granted rtloop.Granted, caveat string) {
	for _, g := range granted.Missing() {
		fmt.Fprint(out, wrap(fmt.Sprintf("warning: loop.%s: %s: not granted (%s): %s", g.Request, g.Asked, g.Why, g.Mend)))
	}
	if caveat != "" {
		fmt.Fprint(out, wrap("warning: "+caveat))
	}
}

func newControl(
	ctx context.Context, s *session, network tflite.Evaluator, robot hal.Robot, segment *shm.Segment,
) (*control, error) {
	link, err := newControlLink(segment, s.shape())
	if err != nil {
		return nil, err
	}
	agent, err := controller.NewAgent(s.file.Controller, controller.Parts{Robot: robot, Source: link, Model: network, Plans: link, Safety: s.file.Rules(harmless(robot, s.file))})
	if err != nil {
		return nil, err
	}
	recalled, err := teach(ctx, agent.Learner(), s)
	if err != nil {
		return nil, err
	}
	spec, run := robot.Spec(), s.file.Run
	c := &control{
		session: s, robot: robot, agent: agent, link: link, recalled: recalled,
		limit: periods(run.DurationS, spec.Period),
		eps:   newEpisodes(robot, run), hostPatience: max(2, periods(run.HostTimeoutS, spec.Period)),
		arming:    s.file.Safety.Arm == configs.ArmAutomatic,
		hold:      s.file.Safety.AfterStop == configs.AfterStopHold,
		abandoned: make(chan struct{}),
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
	stuck := sync.OnceFunc(c.cutOff)
	loop.OnStuck = func(time.Duration) { stuck() }
	loop.OnOverrun = c.overrun
	c.openToOperators(loop, stuck)
	over := make(chan error, 1)
	go func() {
		_, err := loop.Run(ctx, c.beat)
		over <- err
	}()
	err := c.await(ctx, over, stuck)
	c.link.ended.Store(1 + uint64(c.reason(err)))
	if errors.Is(err, errDone) || asWished(err) {
		return nil
	}
	return err
}

// asWished reports whether all that ended the run is an operator's stop: that is
// no failure, after which a service would be started again.
func asWished(err error) bool {
	var fault *controller.FaultError
	return errors.As(err, &fault) && fault.Err == errSaidStop
}

// openToOperators lets the socket answer, where there is one.
func (c *control) openToOperators(loop *rtloop.Loop, cutOff func()) {
	if c.socket == nil {
		return
	}
	spec := c.robot.Spec()
	c.socket.board, c.socket.live, c.socket.cutOff = &c.board, loop.Live, cutOff
	c.socket.period, c.socket.robot, c.socket.deadman = spec.Period, spec.Name, knownDeadman(c.robot, c.session.file.Safety)
	go c.socket.serve()
}

// cutOff halts the robot past a control thread that hangs in its driver.
func (c *control) cutOff() {
	c.stuck.Store(true)
	if h, ok := c.robot.(hal.Backstop); ok {
		h.HaltBeside()
	}
	time.AfterFunc(loosening, func() { close(c.abandoned) })
}

// await waits for the end of the loop. After a signal it waits as long as the driver's calls may
// take: a driver that hangs, with or without a watchdog, does not keep the operator waiting.
func (c *control) await(ctx context.Context, over <-chan error, stuck func()) error {
	select {
	case err := <-over:
		return err
	case <-c.abandoned:
	case <-ctx.Done():
		select {
		case err := <-over:
			return err
		case <-time.After(2*c.robot.Spec().Period + longestEnd(c.robot) + lastTick):
		}
		stuck()
		select {
		case err := <-over:
			return err
		case <-c.abandoned:
		}
	}
	c.givenUp = true
	return &controller.FaultError{Fault: controller.FaultStuck, Tick: c.at.Load(), Err: errStuck}
}

// longestEnd is how long a driver within its bounds can hold up the end of the loop: the tick
// in progress and the Halt after it.
func longestEnd(robot hal.Robot) time.Duration {
	b := hal.BoundsOf(robot)
	return b.Sense + b.Act + b.Halt
}

// reason is the fault that ended the loop.
func (c *control) reason(err error) controller.Fault {
	var fault *controller.FaultError
	var panicked *rtloop.PanicError
	switch {
	case c.stuck.Load(): // whatever the driver said when it came loose
		return controller.FaultStuck
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
	c.at.Store(b.Index)
	c.acted = false
	if c.stuck.Load() { // and came loose: what it was about to do is long out of date
		return &controller.FaultError{Fault: controller.FaultStuck, Tick: b.Index, Err: errStuck}
	}
	if c.limit > 0 && b.Index >= c.limit || c.link.stop.Load() == stopOperator {
		return errDone
	}
	t, err := c.link.nextTick()
	if err != nil {
		return err
	}
	over, err := c.eps.Begin(t)
	if over {
		return errDone
	}
	if err != nil {
		return &controller.FaultError{Fault: controller.FaultSense, Tick: b.Index, Err: err}
	}
	t.Index, t.Elapsed, t.Deadline, t.Wake = b.Index, b.Elapsed, b.Deadline, b.Wake
	if err := c.checkHost(t); err != nil {
		return err
	}
	if err := c.obey(); err != nil {
		return err
	}
	err = c.step(t)
	t.Done = rtloop.Now()
	c.link.commit(t)
	c.board.publish(c.agent, t, c.planned)
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
// speak again.
func (c *control) checkHost(t *controller.Tick) error {
	if c.hostGone.Load() {
		return &controller.FaultError{Fault: controller.FaultHost, Tick: t.Index, Err: errHostGone}
	}
	if beat := c.link.hostBeat.Load(); beat != c.hostBeat || t.Index == 0 {
		c.hostBeat, c.hostSilent = beat, 0
		return c.link.err()
	}
	// A loop that was itself held up has not seen the whole time go by.
	if c.hostSilent += min(t.Elapsed, 2); c.silent() {
		return c.stop(controller.FaultHost, errHostSilent)
	}
	return nil
}

func (c *control) silent() bool { return c.hostSilent > c.hostPatience }

// What ends the loop besides a fault that the agent found.
var (
	errStuck      = errors.New("a tick did not end, by loop.watchdog_ms or after a signal: find what held it up: the driver first, or TensorFlow with a SavedModel")
	errHostGone   = errors.New("the host process died: it said why, or somebody killed it")
	errHostSilent = errors.New("the host process gave no sign of life for run.host_timeout_s: find what holds it up")
)
