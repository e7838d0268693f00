package control

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/internal/host"
	"optibfm/internal/link"
	"optibfm/internal/record"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rtloop"
)

// twoEnds is a control process and its host's end of the segment, in heap
// memory and on one goroutine.
type twoEnds struct {
	*controlProcess
	host    *link.HostLink
	planner *controller.Planner
	plan    *controller.Plan
	beats   uint64
}

func newTwoEnds(t *testing.T, s *setup.Session) *twoEnds {
	t.Helper()
	robot, err := rover.New(s.File.Robot.Rover)
	if err != nil {
		t.Fatal(err)
	}
	return newTwoEndsWith(t, s, robot)
}

func newTwoEndsWith(t *testing.T, s *setup.Session, robot hal.Robot) *twoEnds {
	t.Helper()
	segment, err := link.New(s.Shape(), robot.Spec().Period)
	if err != nil {
		t.Fatal(err)
	}
	network, err := s.Model.Evaluator(s.File)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newControlProcess(t.Context(), s, network, robot, segment)
	if err != nil {
		t.Fatal(err)
	}
	c.hostGone = new(atomic.Bool)
	host, err := link.NewHostLink(segment, s.Shape())
	if err != nil {
		t.Fatal(err)
	}
	if network, err = s.Model.Evaluator(s.File); err != nil {
		t.Fatal(err)
	}
	planner, err := controller.NewPlanner(s.File.Controller, network)
	if err != nil {
		t.Fatal(err)
	}
	return &twoEnds{controlProcess: c, host: host, planner: planner, plan: controller.NewPlan(s.Shape())}
}

// Tick runs one beat, lets the planner answer it, and throws its record away.
func (e *twoEnds) Tick() error {
	e.host.HostBeat.Add(1)
	err := e.onBeat(rtloop.Beat{Index: e.beats, Elapsed: min(e.beats, 1), Deadline: rtloop.Now(), Wake: rtloop.Now()})
	e.beats++
	if err != nil {
		return err
	}
	state, fresh, err := e.host.NewestState()
	if err != nil || !fresh || state.Valid == 0 {
		return err
	}
	if _, err := e.planner.Plan(state, e.plan); err != nil {
		return err
	}
	if _, err := e.host.NextTick(); err != nil {
		return err
	}
	e.host.ReleaseTick()
	for {
		if _, ok := e.host.NextRequest(); !ok {
			return e.host.Publish(e.plan)
		}
	}
}

func TestAControlTickAllocatesNothingInAnyStrategy(t *testing.T) {
	for _, strategy := range controller.Strategies() {
		t.Run(strategy, func(t *testing.T) {
			s := rigtest.NewSession(t, func(f *configs.File) {
				f.Controller.Strategy, f.Controller.Rho, f.Run.EpisodeS = strategy, 0.999, 0.5
				f.Controller.FixedZ = []float64{1, 0, 0, 0, 0, 0, 0, 0}
				f.Controller.Gate.RequestsPerMinute = 0
			})
			e := newTwoEnds(t, s)
			id := uint64(0)
			press := func(kind rewardsrc.Kind) {
				id++
				if err := e.host.Push(rewardsrc.Label{ID: id, Tick: e.beats, Kind: kind, Value: 0.5}); err != nil {
					t.Fatal(err)
				}
			}
			step := func() {
				press(rewardsrc.Value)
				if id%5 == 0 {
					press(rewardsrc.Undo)
				}
				if err := e.Tick(); err != nil {
					t.Fatal(err)
				}
			}
			for range 50 { // arm, first plans, first use of all scratch
				step()
			}
			if !e.agent.Armed() {
				t.Fatal("the robot was never armed")
			}
			// Not a mean per tick: episodes start seldom.
			for _, a := range allocationsOf(func() {
				for range 500 {
					step()
				}
			}) {
				t.Errorf("allocated in 500 ticks: %s", a)
			}
		})
	}
}

func TestALabelReachesTheBeliefThroughTheSegment(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	before := e.agent.Learner().Belief().Hash()
	if err := e.host.Push(rewardsrc.Label{ID: 1, Tick: 3, Kind: rewardsrc.Value, Value: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Tick(); err != nil {
		t.Fatal(err)
	}
	if e.agent.Learner().Belief().Hash() == before {
		t.Error("the belief did not change")
	}
}

func TestAFullLabelRingRefusesThePress(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	for i := range link.LabelSlots {
		if !e.host.HasRoom() {
			t.Fatalf("no room for label %d of %d", i, link.LabelSlots)
		}
		if err := e.host.Push(rewardsrc.Label{ID: uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if e.host.HasRoom() {
		t.Error("a full ring says that it has room")
	}
	if err := e.host.Push(rewardsrc.Label{ID: 99}); !errors.Is(err, link.ErrLabelRing) {
		t.Errorf("push to a full ring: %v", err)
	}
}

func TestASilentHostHaltsTheRobot(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Run.HostTimeoutS, f.Run.SimulatorWaitS = 0.5, 0 })
	e := newTwoEnds(t, s)
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	patience := setup.Periods(0.5, e.robot.Spec().Period)
	for i := uint64(0); ; i++ {
		err := e.onBeat(rtloop.Beat{Index: e.beats, Elapsed: 1})
		e.beats++
		var fault *controller.FaultError
		if errors.As(err, &fault) {
			if fault.Fault != controller.FaultHost && fault.Fault != controller.FaultStalePlan {
				t.Errorf("fault %v", fault.Fault)
			}
			return
		}
		if err != nil || i > patience+1 {
			t.Fatalf("%d ticks without a sign of life, patience is %d: %v", i, patience, err)
		}
	}
}

func TestTheHostCanEndTheRun(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	if err := e.Tick(); err != nil {
		t.Fatal(err)
	}
	e.host.Stop.Store(link.StopOperator)
	if err := e.Tick(); !errors.Is(err, errDone) {
		t.Errorf("after the stop: %v", err)
	}
}

func TestAHostThatWritesNonsenseHaltsTheRobot(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	e.plan.Z[0] = math.NaN()
	if err := e.host.Publish(e.plan); err != nil {
		t.Fatal(err)
	}
	err := e.onBeat(rtloop.Beat{Index: e.beats, Elapsed: 1})
	var fault *controller.FaultError
	if !errors.As(err, &fault) || fault.Fault != controller.FaultHost {
		t.Errorf("a plan that is not a number: %v", err)
	}
	if e.agent.Armed() {
		t.Error("still armed")
	}
}

// brokenRobot is a rover of which one thing fails.
type brokenRobot struct {
	*rover.Rover
	arm, reset func() error
	sense      func()
	halt       func()
	halts      atomic.Int64
}

func (b *brokenRobot) Arm() error {
	if b.arm != nil {
		return b.arm()
	}
	return b.Rover.Arm()
}

func (b *brokenRobot) Reset(seed uint64) error {
	if b.reset != nil {
		return b.reset()
	}
	return b.Rover.Reset(seed)
}

func (b *brokenRobot) Sense(obs []float32) (int64, error) {
	if b.sense != nil {
		b.sense()
	}
	return b.Rover.Sense(obs)
}

func (b *brokenRobot) Halt() error {
	b.halts.Add(1)
	if b.halt != nil {
		b.halt()
	}
	return b.Rover.Halt()
}

func newBroken(t *testing.T) (*brokenRobot, *twoEnds) {
	t.Helper()
	s := rigtest.NewSession(t, nil)
	inner, err := rover.New(s.File.Robot.Rover)
	if err != nil {
		t.Fatal(err)
	}
	b := &brokenRobot{Rover: inner}
	return b, newTwoEndsWith(t, s, b)
}

func wantFault(t *testing.T, err error, want controller.Fault) {
	t.Helper()
	var fault *controller.FaultError
	if !errors.As(err, &fault) || fault.Fault != want {
		t.Errorf("want the fault %q, got %v", want, err)
	}
}

func TestARobotThatCannotBeArmedEndsTheRun(t *testing.T) {
	robot, e := newBroken(t)
	robot.arm = func() error { return errors.New("the brake is on") }
	var err error
	for range 10 {
		if err = e.Tick(); err != nil {
			break
		}
	}
	wantFault(t, err, controller.FaultAct)
}

func TestARobotThatCannotBeResetEndsTheRun(t *testing.T) {
	robot, e := newBroken(t)
	robot.reset = func() error { return errors.New("it fell off the table") }
	wantFault(t, e.Tick(), controller.FaultSense)
}

// runBroken runs the real loop until the robot ends it.
func runBroken(t *testing.T, e *twoEnds, maxMissed int) error {
	t.Helper()
	return runLoop(context.Background(), t, e, rtloop.Config{PeriodMS: 5, MaxMissed: maxMissed, WatchdogMS: 50})
}

func runLoop(ctx context.Context, t *testing.T, e *twoEnds, cfg rtloop.Config) error {
	t.Helper()
	cfg.Posture, cfg.MemoryLimitMiB = rtloop.Warn, 512
	loop, _, err := rtloop.Prepare(cfg)
	for range 1000 { // a loop that another test gave up may be about to end
		if err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
		loop, _, err = rtloop.Prepare(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	return e.run(ctx, loop)
}

func TestAPanicInTheControlThreadHaltsTheRobot(t *testing.T) {
	robot, e := newBroken(t)
	robot.sense = func() { panic("a driver's mistake") }
	err := runBroken(t, e, rtloop.NoLimit)
	var panicked *rtloop.PanicError
	if !errors.As(err, &panicked) {
		t.Errorf("want a panic, got %v", err)
	}
	if robot.halts.Load() == 0 {
		t.Error("the robot was not halted")
	}
	if got := e.link.Ended.Load(); got != 1+uint64(controller.FaultPanic) {
		t.Errorf("the host was told %d", got)
	}
}

func TestADriverThatNeverReturnsIsGivenUp(t *testing.T) {
	robot, e := newBroken(t)
	release := make(chan struct{})
	robot.sense = func() { <-release }
	err := runBroken(t, e, rtloop.NoLimit)
	wantFault(t, err, controller.FaultStuck)
	if !e.threadLost {
		t.Error("the thread was not given up")
	}
	if got := e.link.Ended.Load(); got != 1+uint64(controller.FaultStuck) {
		t.Errorf("the host was told %d", got)
	}
	if got := robot.halts.Load(); got != 0 {
		t.Errorf("the driver was called %d times beside the thread that is inside of it", got)
	}
	close(release)
	for robot.halts.Load() == 0 { // the loop's own, once it came loose
		time.Sleep(time.Millisecond)
	}
}

func TestASignalEndsARunWhoseDriverHangsAlsoWithoutAWatchdog(t *testing.T) {
	robot, e := newBroken(t)
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	robot.sense = func() { cancel(); <-release }
	wantFault(t, runLoop(ctx, t, e, rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit}), controller.FaultStuck)
	close(release)
	for robot.halts.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

// boundedRobot states how long its calls take.
type boundedRobot struct {
	*hangingRobot
	bounds hal.Bounds
}

func (r boundedRobot) Bounds() hal.Bounds { return r.bounds }

func TestControl_ASignalWaitsForADriverWithinItsBounds(t *testing.T) {
	hanging, _ := newHanging(t, configs.AfterStopHold)
	robot := boundedRobot{hanging, hal.Bounds{Sense: time.Minute}}
	e := newTwoEndsWith(t, rigtest.NewSession(t, func(f *configs.File) { f.Run.HostTimeoutS = 60 }), robot)
	ctx, cancel := context.WithCancel(context.Background())
	hanging.sense = func() {
		hanging.sense = nil
		cancel()
		time.Sleep(stuckGrace + stuckGrace/2)
	}
	if err := runLoop(ctx, t, e, rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit}); err != nil {
		t.Error(err)
	}
	if robot.beside.Load() != 0 || robot.halts.Load() == 0 {
		t.Errorf("halted %d times beside the driver, %d times by the loop", robot.beside.Load(), robot.halts.Load())
	}
}

func TestTheLoopMustHaveTheRobotsPeriod(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	robot, err := rover.New(s.File.Robot.Rover)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRealTime(robot, s.File); err != nil {
		t.Errorf("the same period: %v", err)
	}
	s.File.Loop.PeriodMS++
	if err := checkRealTime(robot, s.File); err == nil {
		t.Error("another period was accepted")
	}
}

// pressing is a source that always has a label, and notes what became of it.
type pressing struct{ acknowledged, refused int }

func (*pressing) Ask(rewardsrc.Request)         {}
func (*pressing) Halt() error                   { return nil }
func (p *pressing) Acknowledge(rewardsrc.Label) { p.acknowledged++ }
func (p *pressing) Refuse(rewardsrc.Label, error) {
	p.refused++
}
func (p *pressing) Poll(dst []rewardsrc.Label) int {
	dst[0] = rewardsrc.Label{Kind: rewardsrc.Value, Value: 1, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic()}
	return 1
}

func TestNoLabelIsAcknowledgedThatTheRobotHasNoRoomForOrComesAfterTheEnd(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	source := &pressing{}
	h := &host.Process{Link: e.host, Desk: record.NewLabelIntake(e.session.File, source, record.NewStatistics(e.agent.Shape()), rewardsrc.Monotonic)}
	h.TakeLabels()
	if source.acknowledged != link.LabelSlots || source.refused != 0 {
		t.Errorf("%d acknowledged of %d, %d refused", source.acknowledged, link.LabelSlots, source.refused)
	}
	if err := e.Tick(); err != nil {
		t.Fatal(err)
	}
	e.link.Ended.Store(1)
	h.TakeLabels()
	if source.acknowledged != link.LabelSlots {
		t.Errorf("%d acknowledged after the end", source.acknowledged-link.LabelSlots)
	}
}

func TestTooManyMissedTicksHaltTheRobot(t *testing.T) {
	robot, e := newBroken(t)
	robot.sense = func() { time.Sleep(20 * time.Millisecond) }
	err := runBroken(t, e, 3)
	if !errors.Is(err, rtloop.ErrOverrun) {
		t.Errorf("want an overrun, got %v", err)
	}
	if robot.halts.Load() == 0 {
		t.Error("the robot was not halted")
	}
	if got := e.link.Ended.Load(); got != 1+uint64(controller.FaultOverrun) {
		t.Errorf("the host was told %d", got)
	}
}

func TestTheTickRingHoldsTenSeconds(t *testing.T) {
	for period, want := range map[time.Duration]int{
		time.Second: 256, 50 * time.Millisecond: 256, 20 * time.Millisecond: 512, time.Millisecond: 16384, time.Nanosecond: 65536, 0: 65536,
	} {
		if got := link.TickSlots(period); got != want {
			t.Errorf("%v: %d slots, want %d", period, got, want)
		}
	}
}
