package control

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc"
	"optibfm/rtloop"
)

// testRun is a control process and the host's end of its segment, in heap memory and on one
// goroutine.
type testRun struct {
	*controlProcess
	t       *testing.T
	host    *ipc.HostLink
	planner *controller.Planner
	plan    *controller.Plan
	beats   uint64 // periods since the start
}

// newRun returns a run of a session with robot, or with the rover of the session if robot is nil.
func newRun(t *testing.T, s *setup.Session, robot hal.Robot) *testRun {
	t.Helper()
	if robot == nil {
		var err error
		robot, err = rover.New(rigtest.Section[rover.Config](s.File))
		fatal.If(t, err)
	}
	segment, err := ipc.New(s.Shape(), robot.Spec().Period)
	fatal.If(t, err)
	network, err := s.Model.Evaluator(s.File)
	fatal.If(t, err)
	c, err := newControlProcess(t.Context(), s, network, robot, segment)
	fatal.If(t, err)
	c.hostGone = new(atomic.Bool)
	host, err := ipc.NewHostLink(segment, s.Shape())
	fatal.If(t, err)
	network, err = s.Model.Evaluator(s.File)
	fatal.If(t, err)
	planner, err := controller.NewPlanner(s.File.Controller, network)
	fatal.If(t, err)
	return &testRun{controlProcess: c, t: t, host: host, planner: planner, plan: controller.NewPlan(s.Shape())}
}

// silentBeat runs a beat that the host does not answer.
func (r *testRun) silentBeat() error {
	now := rtloop.Now()
	err := r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: min(r.beats, 1), Deadline: now, Wake: now})
	r.beats++
	return err
}

// Tick runs a beat, answers it with a plan and discards its record.
func (r *testRun) Tick() error {
	r.host.HostBeat.Add(1)
	if err := r.silentBeat(); err != nil {
		return err
	}
	state, fresh, err := r.host.NewestState()
	if err != nil || !fresh || state.Valid == 0 {
		return err
	}
	if _, err := r.planner.Plan(state, r.plan); err != nil {
		return err
	}
	if _, err := r.host.NextTick(); err != nil {
		return err
	}
	r.host.ReleaseTick()
	for {
		if _, ok := r.host.NextRequest(); !ok {
			return r.host.Publish(r.plan)
		}
	}
}

// ticks runs n ticks without a fault.
func (r *testRun) ticks(n int) {
	r.t.Helper()
	for range n {
		fatal.If(r.t, r.Tick())
	}
}

// ticksUntilFault returns the fault that ends at most n ticks, and their number.
func (r *testRun) ticksUntilFault(n int) (ticks int, err error) {
	for ; err == nil && ticks < n; ticks++ {
		err = r.Tick()
	}
	return ticks, err
}

// takeRecords takes all records and copies the newest one to last.
func (r *testRun) takeRecords(last *controller.Tick) {
	r.t.Helper()
	for {
		tick, err := r.host.NextTick()
		fatal.If(r.t, err)
		if tick == nil {
			return
		}
		last.CopyFrom(tick)
		r.host.ReleaseTick()
	}
}

// newIntake returns a host process whose label intake reads source.
func (r *testRun) newIntake(source rewardsrc.Source) *host.Process {
	h := &host.Process{Session: r.session, Link: r.host, Display: terminal.QuietDisplay{}}
	h.Connect(nil, source)
	return h
}

func wantFault(t *testing.T, err error, want controller.Fault) {
	t.Helper()
	var fault *controller.FaultError
	if !errors.As(err, &fault) || fault.Fault != want {
		t.Errorf("want the fault %q, got %v", want, err)
	}
}

// wantNoAllocations fails if the second of two calls of f allocates.
func wantNoAllocations(t *testing.T, f func()) {
	t.Helper()
	for _, a := range allocationsOf(f) {
		t.Errorf("allocated: %s", a)
	}
}

// faultyRobot is a rover whose calls a test replaces. It has a second path to its failsafe output.
type faultyRobot struct {
	*rover.Rover
	arm, reset       func() error
	sense, act, halt func() // called first
	haltBeside       func() // called last
	bounds           hal.Bounds
	failing          int64        // the first calls of Halt, which fail
	halts, beside    atomic.Int64 // calls of Halt and HaltBeside
}

func call(f func()) {
	if f != nil {
		f()
	}
}

func (r *faultyRobot) Arm() error {
	if r.arm != nil {
		return r.arm()
	}
	return r.Rover.Arm()
}

func (r *faultyRobot) Reset(seed uint64) error {
	if r.reset != nil {
		return r.reset()
	}
	return r.Rover.Reset(seed)
}

func (r *faultyRobot) Sense(obs []float32) (int64, error) {
	call(r.sense)
	return r.Rover.Sense(obs)
}

func (r *faultyRobot) Act(action []float32) error {
	call(r.act)
	return r.Rover.Act(action)
}

func (r *faultyRobot) Halt() error {
	n := r.halts.Add(1)
	call(r.halt)
	if n <= r.failing {
		return hal.ErrBus
	}
	return r.Rover.Halt()
}

func (r *faultyRobot) HaltBeside() {
	r.beside.Add(1)
	call(r.haltBeside)
}

func (r *faultyRobot) Bounds() hal.Bounds { return r.bounds }

// newFaulty returns a run of a faulty robot that is not armed.
func newFaulty(t *testing.T, change func(*configs.File)) (*faultyRobot, *testRun) {
	t.Helper()
	s := rigtest.NewSession(t, change)
	inner, err := rover.New(rigtest.Section[rover.Config](s.File))
	fatal.If(t, err)
	robot := &faultyRobot{Rover: inner}
	return robot, newRun(t, s, robot)
}

// newArmed returns a run of a faulty robot that is armed and needs no host.
func newArmed(t *testing.T, afterStop string) (*faultyRobot, *testRun) {
	t.Helper()
	robot, r := newFaulty(t, func(f *configs.File) {
		f.Safety.AfterStop, f.Safety.Socket, f.Run.HostTimeoutS = afterStop, "unused", 60
		f.Controller.MaxPlanAge = 1 << 40
	})
	fatal.If(t, r.agent.Arm(0))
	return robot, r
}

// waitHalted waits for the Halt of a loop whose control thread returned.
func (r *faultyRobot) waitHalted(t *testing.T) {
	t.Helper()
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return r.halts.Load() > 0 }) {
		t.Error("the loop did not halt the robot")
	}
}

// untilStuck blocks until the run has noted a stuck thread.
func (r *testRun) untilStuck() {
	for r.stuck.Load() == nil {
		time.Sleep(time.Millisecond)
	}
}

// loop runs the real loop until the robot ends it. The limit of its watchdog is above the pauses of a
// busy computer.
func (r *testRun) loop() error {
	return r.loopWith(r.t.Context(), rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit, WatchdogMS: 300})
}

func (r *testRun) loopWith(ctx context.Context, cfg rtloop.Config) error {
	r.t.Helper()
	cfg.Posture, cfg.MemoryLimitMiB = rtloop.Warn, 512
	var loop *rtloop.Loop
	var err error
	// There is one loop a process, and that of an earlier test may still be ending.
	rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		loop, _, err = rtloop.Prepare(cfg)
		return err == nil
	})
	fatal.If(r.t, err)
	defer loop.Close()
	return r.run(ctx, loop)
}
