package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/hal"
	"optibfm/internal/ipc"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// controlProcess is the control process: it holds the robot and the belief.
type controlProcess struct {
	session    *setup.Session
	robot      hal.Robot
	bounds     hal.Bounds // of the robot
	observed   hal.Spec   // the robot, with the channels of the ticks' observations
	agent      *controller.Agent
	link       *ipc.ControlLink
	episodes   episodes.Episodes
	maxTicks   uint64           // 0: no limit
	tick       *controller.Tick // not in the host's memory
	stage      *atomic.Uint64   // of the control thread: a controller.Stage
	autoArm    bool             // arm at the first plan
	awaits     bool             // the operator, before arming automatically
	hasPlan    bool             // the agent has followed a plan
	holdStops  bool             // a stop does not end the run
	ranCommand bool             // this tick ran an operator's command, which may take several periods
	mailbox    commandMailbox
	server     *Server // nil without safety.socket

	armInput   hal.ArmInput   // nil: none
	labelInput hal.LabelInput // nil: none
	presses    [16]hal.Press
	warner     hal.Warner            // nil: none
	refusal    atomic.Pointer[error] // of the newest arming by armInput, or automatically

	switched *ipc.TaskBelief // to which the run switched since the last tick; nil: none
	former   ipc.TaskBelief  // scratch: before a changed task

	recalled string // where the initial belief comes from, for the host

	hostGone    *atomic.Bool
	hostBeat    uint64 // newest value
	hostSilent  uint64 // periods since hostBeat changed
	hostTimeout uint64 // periods

	simulatorWait uint64 // periods that a robot in simulated time waits for the host; 0: none
	waitedNow     uint64 // periods of the present wait
	waited        uint64 // periods of all waits

	index      atomic.Uint64                          // of the tick in progress
	heldStop   atomic.Pointer[controller.FaultError]  // newest stop that did not end the run
	stuck      *atomic.Pointer[controller.FaultError] // the control thread hung; set before the robot is halted beside it
	unhalted   atomic.Pointer[controller.FaultError]  // the loop's last Halt failed
	abandoned  chan struct{}                          // closed some time after stuck was set, see stuckGrace
	threadLost bool                                   // the control thread may still be inside the driver
	after      func(time.Duration) <-chan time.Time   // time.After, or a test's clock
}

// stuckGrace limits the time of a stuck control thread to return before the process ends without
// it, in addition to the bounds of the driver: one that is only slow returns, and the loop halts the
// robot. The end of the process triggers the device's deadman.
const stuckGrace = time.Second

// lastTickMargin limits the time of a tick after a signal, in addition to two periods and the
// bounds of the driver, before the robot is halted beside the driver. A simulator on a busy
// computer has longer.
const (
	lastTickMargin      = 400 * time.Millisecond
	simulatorTickMargin = 5 * time.Second
)

// errDone ends the loop without a fault.
var errDone = errors.New("control: the run is over")

// Run runs a session in real time: this process becomes the control process. However it ends, Run
// first halts the robot. Run returns nil after an orderly end, and after an operator's stop.
func Run(ctx context.Context, s *setup.Session, network tflite.Evaluator, o ipc.HostConfig) (err error) {
	// Opening a device may already move or stop it, so no other process may hold it.
	server, err := Listen(s.File.Safety)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	host, err := takeHost(s.File.Run.HostUser)
	if err != nil {
		return err
	}
	defer host.dismiss()
	if err := host.shareWeights(s.Model); err != nil {
		return err
	}
	robot, err := setup.OpenRobot(ctx, s, rtloop.Now)
	if err != nil {
		return err
	}
	s.Timeline.End("devices")
	warnings := journal.For(os.Stderr, journal.Warning)
	err = errors.Join(setup.CheckArming(warnings, robot, s.File), setup.CheckBounds(warnings, robot, s.File),
		setup.CheckHostUser(warnings, robot, s.File, userName(os.Geteuid())))
	if err != nil {
		return errors.Join(err, setup.CloseRobot(robot))
	}
	var c *controlProcess
	segment, err := ipc.CreateIn(host.segment, s.Shape(), robot.Spec().Period)
	if err != nil {
		return errors.Join(err, setup.CloseRobot(robot))
	}
	defer func() {
		if c != nil && c.threadLost {
			return // that thread may still use the robot and the segment
		}
		err = errors.Join(err, setup.CloseRobot(robot), segment.Close())
	}()
	if err := checkRealTime(robot, s.File); err != nil {
		return err
	}
	s.File = setup.RelaxDeadlines(robot, s.File)
	if c, err = newControlProcess(ctx, s, network, robot, segment); err != nil {
		return err
	}
	c.server = server
	defer server.stopServing() // before the robot is closed
	loop, granted, err := rtloop.Prepare(s.File.Loop)
	if err != nil {
		return err
	}
	defer loop.Close()
	if loop.Notify, err = rtloop.NewNotifier(); err != nil {
		return err
	}
	s.Timeline.End("belief and locked memory")
	return c.runWithHost(ctx, loop, granted, host, segment, o)
}

// runWithHost configures the host process, runs the loop and waits for the host to finish the
// record.
func (c *controlProcess) runWithHost(
	ctx context.Context, loop *rtloop.Loop, granted rtloop.Granted, host *hostProcess, segment *ipc.Segment,
	o ipc.HostConfig,
) error {
	model := c.session.Model
	o.Spec, o.Posture, o.ModelHash, o.Recalled = c.observed, granted.String(), model.Fingerprint(), c.recalled
	o.Began, o.Fresh, o.Lineage = c.session.Began, c.session.Fresh, c.session.Lineage
	o.Awaits, o.Timeline = c.awaits, c.session.Timeline
	if v, ok := c.robot.(hal.Viewer); ok {
		o.View = v.View()
	}
	for _, grant := range granted.Missing() {
		o.Missing = append(o.Missing, grant.Request)
	}
	caveat := model.Caveat()
	if caveat != "" {
		o.Missing = append(o.Missing, "TensorFlow on the control thread")
		o.Posture += "\n" + caveat
	}
	kernel := "no PREEMPT_RT"
	if rtloop.RealTimeKernel(os.DirFS("/")) {
		kernel = "PREEMPT_RT"
	}
	o.Posture += "\nkernel: " + kernel
	if !terminal.TakesScreen(o.Show) { // the host draws it: nothing else may write there
		reportPosture(journal.For(os.Stderr, journal.Warning), granted, caveat)
	}
	tasks, err := net.FileConn(host.tasks)
	if err != nil {
		return fmt.Errorf("control: socket of the tasks: %w", err)
	}
	defer tasks.Close()
	if err := host.configure(c.session, o); err != nil {
		return err
	}
	c.hostGone = &host.gone
	if err := host.waitReady(ctx, c.link); err != nil {
		c.link.Ended.Store(1 + uint64(controller.FaultNone))
		ended := host.abandon(hostUnreadyTimeout)
		if !errors.Is(ended, ipc.ErrHostFailed) && !errors.Is(ended, ipc.ErrHostKilled) {
			err = errors.Join(err, ended)
		}
		return err
	}
	if err := segment.Freeze(); err != nil {
		return err
	}
	go c.taskSwitch().serveHost(tasks)
	err = c.run(ctx, loop)
	defer c.repeatHalt()()
	return errors.Join(err, host.finish(finishTimeout(err)))
}

// checkRealTime refuses a configuration that cannot run at the robot's period.
func checkRealTime(robot hal.Robot, file configs.File) error {
	period := float64(robot.Spec().Period) / float64(time.Millisecond)
	if math.Abs(period-file.Loop.PeriodMS) > 1e-9 {
		return fmt.Errorf("loop.period_ms: found %g ms, but the robot's period is %g ms; set loop.period_ms to %[2]g",
			file.Loop.PeriodMS, period)
	}
	if file.Run.EpisodeS > 0 && episodes.Resetter(robot) != nil && !setup.ResetsInOneTick(robot) {
		return fmt.Errorf("run.episode_s: the server of this robot may take seconds to start an episode (%g); "+
			"set run.episode_s to 0, or run.lockstep to true", file.Run.EpisodeS)
	}
	return nil
}

// reportPosture prints the privileges that the operating system refused, and the caveat of the
// model.
func reportPosture(out io.Writer, granted rtloop.Granted, caveat string) {
	for _, g := range granted.Missing() {
		text := fmt.Sprintf("warning: loop.%s: %s: not granted (%s); %s", g.Request, g.Asked, g.Why, g.Fix)
		fmt.Fprint(out, plaintext.Wrap(text))
	}
	if caveat != "" {
		fmt.Fprint(out, plaintext.Wrap("warning: "+caveat))
	}
}

func newControlProcess(
	ctx context.Context, s *setup.Session, network tflite.Evaluator, robot hal.Robot, segment *ipc.Segment,
) (*controlProcess, error) {
	link, err := ipc.NewControlLink(segment, s.Shape())
	if err != nil {
		return nil, err
	}
	assembler, err := setup.NewAssembler(s.File, robot.Spec(), s.Model)
	if err != nil {
		return nil, err
	}
	if err := s.Recall(); err != nil {
		return nil, err
	}
	stage, stuck := new(atomic.Uint64), new(atomic.Pointer[controller.FaultError])
	agent, err := controller.NewAgent(s.File.Controller, controller.Parts{
		Robot: robot, Source: link, Model: network, Plans: link, Stage: stage, Stuck: stuck,
		Safety: s.File.Rules(setup.SimulatedOrShadow(robot, s.File)), Hold: s.File.Robot.HoldWith(),
		Assembler: assembler,
	})
	if err != nil {
		return nil, err
	}
	recalled, err := setup.RestoreBelief(ctx, agent.Learner(), s)
	if err != nil {
		return nil, err
	}
	spec, run := robot.Spec(), s.File.Run
	c := &controlProcess{
		session: s, robot: robot, agent: agent, link: link, recalled: recalled,
		observed:    setup.Observed(robot.Spec(), assembler),
		maxTicks:    setup.Periods(run.DurationS, spec.Period),
		episodes:    setup.NewEpisodes(robot, run),
		hostTimeout: max(2, setup.Periods(run.HostTimeoutS, spec.Period)),
		tick:        controller.NewTick(s.Shape()),
		stage:       stage,
		stuck:       stuck,
		autoArm:     s.File.Safety.Arm == configs.ArmAutomatic,
		awaits:      setup.AwaitsOperator(robot, s.File),
		holdStops:   s.File.Safety.AfterStop == configs.AfterStopHold,
		former:      newFormer(s.Shape()),
		abandoned:   make(chan struct{}),
		after:       time.After,
	}
	c.armInput, _ = robot.(hal.ArmInput)
	c.labelInput, _ = robot.(hal.LabelInput)
	c.warner, _ = robot.(hal.Warner)
	if setup.CanWaitForHost(robot, s.File) {
		c.simulatorWait = setup.Periods(run.SimulatorWaitS, spec.Period)
	}
	return c, c.offerFirst()
}

// offerFirst publishes the belief before the first tick: replay starts from it.
func (c *controlProcess) offerFirst() error {
	s := c.link.State()
	s.Next, s.Valid = 0, 0
	c.agent.Learner().WriteBelief(s)
	return c.link.Offer()
}

// run runs the control loop. It returns nil after an orderly end.
func (c *controlProcess) run(ctx context.Context, loop *rtloop.Loop) error {
	loop.Halt, loop.OnStuck, loop.OnOverrun = c.halt, c.haltStuck, c.onOverrun
	c.bounds = hal.BoundsOf(c.robot)
	c.startServer(loop)
	endReports := c.reportHeldStops()
	endWarnings := c.reportWarnings(loop)
	over := make(chan error, 1)
	go func() {
		_, err := loop.Run(ctx, c.onBeat)
		over <- err
	}()
	err := c.wait(ctx, loop, over)
	endReports()
	endWarnings()
	c.link.Demoted.Store(loop.Live().Demoted)
	if found := c.faultOf(err); found != nil { // also if the Halt hook failed
		c.noteStop(found)
	}
	first := c.mailbox.cause.Load()
	if first == nil || first == c.heldStop.Load() {
		c.link.Ended.Store(1 + uint64(controller.FaultNone))
		return nil
	}
	if failed := c.unhalted.Load(); failed != nil && failed != first {
		c.link.Warn(failed.Err.Error())
	}
	c.link.Report(first, true)
	c.link.Ended.Store(1 + uint64(first.Fault))
	return c.runError(first, err)
}

// startServer serves the control socket, if there is one.
func (c *controlProcess) startServer(loop *rtloop.Loop) {
	if c.server == nil {
		return
	}
	spec := c.robot.Spec()
	c.server.mailbox, c.server.live, c.server.haltStuck = &c.mailbox, loop.Live, c.haltStuck
	c.server.console, c.server.warner = c.link.Console, c.warner
	c.server.period, c.server.robot, c.server.tasks = spec.Period, spec.Name, c.taskSwitch()
	c.server.deadman = setup.DescribeDeadman(c.robot, c.session.File.Safety)
	go c.server.serve()
}

func (c *controlProcess) taskSwitch() *taskSwitch {
	return &taskSwitch{
		session: c.session, mailbox: &c.mailbox, timeout: threadTimeout(c.robot.Spec().Period), pause: hostPause,
		limit: rate.NewLimiter(rate.Every(callerEvery), callerBurst),
	}
}

// wait waits for the end of the loop. After a signal it waits as long as the driver's calls may
// take, so that a driver that hangs does not keep the operator waiting, even without a watchdog.
func (c *controlProcess) wait(ctx context.Context, loop *rtloop.Loop, over <-chan error) error {
	select {
	case err := <-over:
		return err
	case <-c.abandoned:
	case <-ctx.Done():
		if ended, err := c.waitStopped(loop, over); ended {
			return err
		}
	}
	c.threadLost = true
	return nil
}

// maxStopTime is the longest delay of the loop's end by a driver within its bounds: by the tick in
// progress and the Halt after it.
func (c *controlProcess) maxStopTime() time.Duration {
	b := c.bounds
	if controller.Stage(c.stage.Load()) == controller.StageArm {
		return b.Sense + b.Act + b.Arm + b.Halt
	}
	return b.Sense + b.Act + b.Halt
}

// waitStopped waits for the end of the loop after a signal. It halts the robot beside the control
// thread only if that makes no progress: a slow thread is not stuck.
func (c *controlProcess) waitStopped(loop *rtloop.Loop, over <-chan error) (ended bool, err error) {
	margin := 2*c.robot.Spec().Period + lastTickMargin
	if setup.IsSimulator(c.robot) {
		margin += simulatorTickMargin - lastTickMargin
	}
	for progress := c.progress(loop); ; {
		timeout := margin + c.maxStopTime()
		select {
		case err := <-over:
			return true, err
		case <-c.abandoned:
			return false, nil
		case <-c.after(timeout):
		}
		now := c.progress(loop)
		if now == progress {
			c.haltStuck(rtloop.Stall{For: timeout})
		}
		progress = now
	}
}

// progress returns a value that changes as long as the control thread makes progress.
func (c *controlProcess) progress(loop *rtloop.Loop) [2]uint64 {
	return [2]uint64{loop.Live().Ticks, c.stage.Load()}
}

// onBeat runs one tick. It allocates nothing.
func (c *controlProcess) onBeat(b rtloop.Beat) error {
	err := c.runTick(b)
	c.stage.Store(uint64(controller.StageBetweenTicks))
	return err
}

func (c *controlProcess) runTick(b rtloop.Beat) error {
	c.index.Store(b.Index - c.waited)
	c.ranCommand = false
	if stuck := c.stuck.Load(); stuck != nil { // the thread returned too late to act
		return stuck
	}
	if c.maxTicks > 0 && c.index.Load() >= c.maxTicks || c.link.Stop.Load() == ipc.StopOperator {
		return errDone
	}
	if err := c.checkHost(b); err != nil {
		return err
	}
	if c.waitForHost(b) { // simulated time stands still
		return c.runCommands()
	}
	t := c.tick
	c.stage.Store(uint64(controller.StageReset))
	over, err := c.episodes.Begin(t)
	if over {
		return errDone
	}
	if err != nil {
		return &controller.FaultError{Fault: controller.FaultSense, Tick: c.index.Load(), Err: err}
	}
	t.Index, t.Elapsed, t.Deadline, t.Wake = c.index.Load(), b.Elapsed, b.Deadline, b.Wake
	if err := c.runCommands(); err != nil {
		return err
	}
	err = c.step(t)
	c.forwardPresses()
	c.stage.Store(uint64(controller.StageRecord))
	if first := c.mailbox.cause.Load(); first != nil && t.Fault != controller.FaultNone {
		t.Fault = first.Fault // a stuck thread may return with another fault
	}
	t.Done = rtloop.Now()
	if unsent := c.recordSwitch(t); err == nil {
		err = unsent
	}
	if unsent := c.link.Record(t); err == nil {
		err = unsent
	}
	c.mailbox.publishTick(c.agent, t, c.hasPlan)
	return err
}

func (c *controlProcess) step(t *controller.Tick) error {
	err := c.agent.Step(t)
	c.episodes.End(t)
	if err != nil {
		return c.endOrHold(err)
	}
	if t.Flags.Has(controller.FlagResting) && !c.agent.Mode().Moves() {
		c.ranCommand = true // going limp may take several periods
	}
	c.hasPlan = c.hasPlan || t.Flags.Has(controller.FlagReplanned)
	return c.armAutomatically(t)
}

// armAutomatically arms at the first plan without a present fault (safety.arm: automatic), and not
// before the operator of a simulator is there. It tries once: after a refusal a person may move the
// robot by hand, and then arms it.
func (c *controlProcess) armAutomatically(t *controller.Tick) error {
	switch {
	case !c.autoArm, !t.Flags.Has(controller.FlagReplanned), c.agent.Present() != controller.FaultNone,
		c.awaits && t.Flags.Has(controller.FlagUnreachable):
		return nil
	}
	err := c.arm()
	if errors.Is(err, controller.ErrPosition) {
		refusal := err
		c.refusal.Store(&refusal)
		return nil
	}
	if err != nil {
		return c.stopRobot(controller.FaultAct, err)
	}
	return nil
}

// arm arms the robot, in as many periods as it takes.
func (c *controlProcess) arm() error {
	c.ranCommand, c.autoArm = true, false
	if stuck := c.stuck.Load(); stuck != nil { // the second path has halted the robot: Arm would undo that
		return stuck
	}
	return c.agent.Arm(rtloop.Now())
}

// checkHost stops the robot if the host ended or is silent. A host that ended also ends the run:
// the log and the planner are gone. A silent host may recover.
func (c *controlProcess) checkHost(b rtloop.Beat) error {
	if c.hostGone.Load() {
		return &controller.FaultError{Fault: controller.FaultHost, Tick: c.index.Load(), Err: c.link.Stall(errHostGone)}
	}
	if beat := c.link.HostBeat.Load(); beat != c.hostBeat || b.Index == 0 {
		c.hostBeat, c.hostSilent = beat, 0
		return c.link.Err()
	}
	// After a late tick most of the elapsed time is not the silence of the host.
	c.hostSilent += min(b.Elapsed, 2)
	if c.hostIsSilent() && c.waitedNow >= c.simulatorWait {
		return c.stopRobot(controller.FaultHost, errHostSilent)
	}
	return nil
}

func (c *controlProcess) hostIsSilent() bool { return c.hostSilent > c.hostTimeout }

// waitForHost reports whether a simulated robot stands still in this period, and with it
// its time: for a host that is alive but slow, and not for longer than
// run.simulator_wait_s.
func (c *controlProcess) waitForHost(b rtloop.Beat) bool {
	if c.simulatorWait == 0 {
		return false
	}
	if !c.hostIsSilent() && !c.planTooOld() {
		c.waitedNow = 0
		return false
	}
	if c.waitedNow >= c.simulatorWait {
		return false
	}
	c.waitedNow += max(b.Elapsed, 1)
	c.waited += b.Elapsed
	c.link.Waited.Store(c.waited)
	return true
}

// planTooOld reports whether the age of the newest plan would stop the robot. It only decides
// whether to wait: the agent checks its own copy of the plan.
func (c *controlProcess) planTooOld() bool {
	p, tick := c.link.Latest(), c.index.Load()
	return p != nil && c.agent.Armed() && tick > p.Confirmed && tick-p.Confirmed > c.session.File.Controller.MaxPlanAge
}

var (
	errHostGone   = errors.New("the host process died: it printed the reason, or it was killed")
	errHostSilent = errors.New("the host process made no progress for run.host_timeout_s (a simulator: " +
		"run.simulator_wait_s); " +
		"give it processor time, or raise the limit")
)
