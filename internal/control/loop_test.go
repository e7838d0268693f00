package control

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// Tests of the real loop and of threads that panic, hang or are late.

// wantEnd checks the fault of a run and the one that the host receives.
func wantEnd(t *testing.T, r *testRun, err error, want controller.Fault) {
	t.Helper()
	wantFault(t, err, want)
	if got := r.link.Ended.Load(); got != 1+uint64(want) {
		t.Errorf("the host received the fault %d, want %d (%v)", got-1, want, want)
	}
}

func TestRun_HaltsAfterADriverPanics(t *testing.T) {
	mistake := func() { panic("a driver's mistake") }
	for _, afterStop := range []string{configs.AfterStopEnd, configs.AfterStopHold} {
		for call, inject := range map[string]func(*faultyRobot){
			"sense": func(r *faultyRobot) { r.sense = mistake },
			"act":   func(r *faultyRobot) { r.act = mistake },
		} {
			t.Run(afterStop+"/"+call, func(t *testing.T) {
				robot, r := newArmed(t, afterStop)
				inject(robot)
				err := r.loop()
				var panicked *rtloop.PanicError
				if !errors.As(err, &panicked) || robot.halts.Load() == 0 {
					t.Errorf("%v, %d halts", err, robot.halts.Load())
				}
				wantEnd(t, r, err, controller.FaultPanic)
			})
		}
	}
}

func TestRun_HaltsBesideADriverThatHangs(t *testing.T) {
	for _, afterStop := range []string{configs.AfterStopEnd, configs.AfterStopHold} {
		for call, inject := range map[string]func(*faultyRobot, func()){
			"sense": func(r *faultyRobot, hang func()) { r.sense = hang },
			"act":   func(r *faultyRobot, hang func()) { r.act = hang },
		} {
			t.Run(afterStop+"/"+call, func(t *testing.T) {
				robot, r := newArmed(t, afterStop)
				release := make(chan struct{})
				inject(robot, func() { <-release })
				wantEnd(t, r, r.loop(), controller.FaultStuck)
				if robot.beside.Load() != 1 || robot.halts.Load() != 0 || !r.threadLost {
					t.Errorf("halted %d times beside the thread and %d times inside the driver; thread lost: %t",
						robot.beside.Load(), robot.halts.Load(), r.threadLost)
				}
				close(release)
				robot.waitHalted(t)
			})
		}
	}
}

func TestRun_SignalEndsARunWhoseDriverHangsWithoutAWatchdog(t *testing.T) {
	robot, r := newFaulty(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	robot.sense = func() { cancel(); <-release }
	err := r.loopWith(ctx, rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit})
	wantFault(t, err, controller.FaultStuck)
	close(release)
	robot.waitHalted(t)
}

func TestRun_SignalWaitsForADriverWithinItsBounds(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopHold)
	robot.bounds = hal.Bounds{Sense: time.Minute, Act: time.Hour}
	limits := make(chan time.Duration)
	r.after = func(limit time.Duration) <-chan time.Time { limits <- limit; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	var limit time.Duration
	robot.sense = func() {
		robot.sense = nil
		cancel()
		limit = <-limits
	}
	errtest.Nil(t, r.loopWith(ctx, rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit}))
	if limit < robot.bounds.Sense+robot.bounds.Act || robot.halts.Load() == 0 {
		t.Errorf("waits for %v, halted %d times", limit, robot.halts.Load())
	}
}

func TestRun_WaitsForTheBoundOfArmOnlyWhileItArms(t *testing.T) {
	_, r := newArmed(t, configs.AfterStopHold)
	r.bounds = hal.Bounds{Sense: 1, Act: 2, Arm: 100, Halt: 4}
	for stage, want := range map[controller.Stage]time.Duration{controller.StageSense: 7, controller.StageArm: 107} {
		r.stage.Store(uint64(stage))
		if got := r.maxStopTime(); got != want {
			t.Errorf("%v: waits for %v, want %v", stage, got, want)
		}
	}
}

func TestRun_HaltsAfterTooManyMissedTicks(t *testing.T) {
	robot, r := newFaulty(t, nil)
	robot.sense = func() { time.Sleep(20 * time.Millisecond) }
	err := r.loopWith(t.Context(), rtloop.Config{PeriodMS: 5, MaxMissed: 3})
	if !errors.Is(err, rtloop.ErrOverrun) || robot.halts.Load() == 0 {
		t.Errorf("want an overrun and a halt: %v, %d halts", err, robot.halts.Load())
	}
	wantEnd(t, r, err, controller.FaultOverrun)
}

func TestRun_HoldsAStopAfterMissedTicks(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopHold)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	senses := 0
	robot.sense = func() {
		switch senses++; senses {
		case 3:
			time.Sleep(200 * time.Millisecond) // 40 periods
		case 30:
			cancel()
		}
	}
	if err := r.loopWith(ctx, rtloop.Config{PeriodMS: 5, MaxMissed: 20}); err != nil {
		t.Fatalf("the run ended: %v", err)
	}
	cause := r.mailbox.cause.Load()
	if cause == nil || cause.Fault != controller.FaultOverrun || !errors.Is(cause, rtloop.ErrOverrun) {
		t.Errorf("the cause is %v", cause)
	}
	if r.agent.Mode() != controller.Stopped || robot.halts.Load() < 2 { // at the stop and at the end
		t.Errorf("%v, %d halts", r.agent.Mode(), robot.halts.Load())
	}
}

func TestRun_ArmingMayTakeSeveralPeriods(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopHold)
	fatal.If(t, r.agent.Disarm())
	robot.arm = func() error { time.Sleep(time.Second); return robot.Rover.Arm() } // 200 periods
	r.hasPlan = true
	r.mailbox.request.Store(1<<8 | uint64(commandArm))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	senses, armed := 0, false
	robot.sense = func() {
		if senses++; senses == 20 {
			armed = r.agent.Armed()
			cancel()
		}
	}
	fatal.If(t, r.loopWith(ctx, rtloop.Config{PeriodMS: 5, MaxMissed: 100}))
	if !armed {
		t.Errorf("%v by %v", r.agent.Mode(), r.agent.Cause())
	}
}

// An arming beyond loop.watchdog_ms ends the run, but not before a driver within its bounds has
// returned: nothing else would halt the devices that are armed already.
func TestRun_HaltsAfterAnArmingBeyondTheWatchdog(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopHold)
	fatal.If(t, r.agent.Disarm())
	halts := robot.halts.Load()
	robot.bounds = hal.Bounds{Arm: time.Minute}
	robot.arm = func() error {
		r.untilStuck()
		time.Sleep(stuckGrace + stuckGrace/2)
		return robot.Rover.Arm()
	}
	acts := 0
	robot.act = func() { acts++ }
	r.hasPlan = true
	r.mailbox.request.Store(1<<8 | uint64(commandArm))
	err := r.loop()
	wantOneCause(t, r, err, controller.FaultStuck)
	errtest.Contains(t, err, "in Arm of rover, for ")
	halts, beside := robot.halts.Load()-halts, robot.beside.Load()
	if r.threadLost || acts != 0 || halts == 0 || beside != 1 {
		t.Errorf("thread lost %t, %d acts, halted %d times, %d times beside the thread", r.threadLost, acts, halts, beside)
	}
}

func TestRun_ActsNoMoreAfterAHungSense(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopHold)
	acts := 0
	robot.sense = func() { r.haltStuck(rtloop.Stall{}) }
	robot.act = func() { acts++ }
	wantFault(t, r.silentBeat(), controller.FaultStuck)
	if acts != 0 || robot.halts.Load() != 1 {
		t.Errorf("%d acts, %d halts", acts, robot.halts.Load())
	}
}

func TestRun_EndsAfterASecondPathThatPanics(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopEnd)
	release := make(chan struct{})
	robot.sense = func() { <-release }
	robot.haltBeside = func() { panic("a driver's mistake") }
	wantEnd(t, r, r.loop(), controller.FaultStuck)
	close(release)
	robot.waitHalted(t)
}

// The first cause is another one, and the host may take a minute to finish the record.
func TestRun_ReportsAndRepeatsALastHaltThatFails(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopEnd)
	robot.failing = 3
	r.hostGone.Store(true)
	err := r.loop()
	wantOneCause(t, r, err, controller.FaultHost)
	errtest.Is(t, err, hal.ErrBus)
	if warning, _ := r.host.NextWarning(); !strings.Contains(warning, "Halt failed") {
		t.Errorf("the host received %q", warning)
	}
	end := r.repeatHalt()
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return robot.halts.Load() == robot.failing+1 }) {
		t.Errorf("%d calls of Halt", robot.halts.Load())
	}
	end()
}

// Arm would undo what the second path did.
func TestRun_ArmsNoRobotThatWasHaltedBesideAHungSense(t *testing.T) {
	robot, r := newFaulty(t, func(f *configs.File) { f.Safety.Arm = configs.ArmAutomatic })
	arms, senses := 0, 0
	robot.arm = func() error { arms++; return robot.Rover.Arm() }
	robot.sense = func() {
		if senses++; senses == 2 { // of the tick with the first plan
			r.haltStuck(rtloop.Stall{})
		}
	}
	_, err := r.ticksUntilFault(3)
	errtest.Is(t, err, errStuck)
	if arms != 0 || r.agent.Armed() {
		t.Errorf("armed %d times", arms)
	}
}

// wantOneCause checks that error, host and status report the same cause.
func wantOneCause(t *testing.T, r *testRun, err error, want controller.Fault) {
	t.Helper()
	wantEnd(t, r, err, want)
	report, fresh := r.host.NewestStop()
	if !fresh || report.Final != 1 {
		t.Fatalf("the host received no final report: %v", report.String())
	}
	live := func() rtloop.Live { return rtloop.Live{} }
	server := &Server{mailbox: &r.mailbox, live: live, console: new(atomic.Uint64)}
	if got := server.status(nil); got.Cause != want.String() || got.Found != report.Found() {
		t.Errorf("status: %s (%s), host: %s", got.Cause, got.Found, report.String())
	}
	if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, report.String()) {
		t.Errorf("error: %v\nhost: %s", err, report.String())
	}
}

// The Halt after each cause hangs, so that the watchdog finds the control thread stuck.
func TestRun_ReportsTheFirstCauseBeforeWhatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		inject func(*faultyRobot, *testRun)
		want   controller.Fault
	}{
		"dead host": {func(_ *faultyRobot, r *testRun) { r.hostGone.Store(true) }, controller.FaultHost},
		"panic in the driver": {func(robot *faultyRobot, _ *testRun) {
			robot.sense = func() { panic("a driver's mistake") }
		}, controller.FaultPanic},
		"panic in the socket goroutine": {func(_ *faultyRobot, r *testRun) {
			r.mailbox.serverPanic.Store(&errServerPanic)
		}, controller.FaultPanic},
	} {
		t.Run(name, func(t *testing.T) {
			robot, r := newArmed(t, configs.AfterStopEnd)
			c.inject(robot, r)
			robot.halt = r.untilStuck
			err := r.loop()
			wantOneCause(t, r, err, c.want)
			_, after, _ := strings.Cut(err.Error(), "\n")
			if !strings.Contains(after, "then: ") || !strings.Contains(after, "in Halt of rover, for ") {
				t.Errorf("the error does not list what followed: %v", err)
			}
		})
	}
}

func TestRun_ReportsStuckAfterTheThreadReturnsWithAnotherFault(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopEnd)
	robot.act = func() {
		r.untilStuck()
		if err := robot.Rover.Halt(); err != nil { // as the second path does: this Act fails
			t.Error(err)
		}
	}
	wantOneCause(t, r, r.loop(), controller.FaultStuck)
	last := *controller.NewTick(r.agent.Shape())
	if r.takeRecords(&last); last.Fault != controller.FaultStuck {
		t.Errorf("the last record has the fault %v", last.Fault)
	}
}

func TestRun_ReportsTheStageOfAStuckThread(t *testing.T) {
	for call, inject := range map[string]func(*faultyRobot, func()){
		"Sense": func(r *faultyRobot, hang func()) { r.sense = hang },
		"Act":   func(r *faultyRobot, hang func()) { r.act = hang },
		"Reset": func(r *faultyRobot, hang func()) { r.reset = func() error { hang(); return nil } },
	} {
		t.Run(call, func(t *testing.T) {
			robot, r := newArmed(t, configs.AfterStopEnd)
			inject(robot, r.untilStuck)
			err := r.loop()
			wantOneCause(t, r, err, controller.FaultStuck)
			if want := "control thread stuck: in " + call + " of rover, for "; !strings.Contains(err.Error(), want) {
				t.Errorf("want %q: %v", want, err)
			}
		})
	}
}

// A service manager restarts a run that ends with an error.
func TestRun_EndsWithoutAnErrorAfterAnOperatorsStop(t *testing.T) {
	robot, r := newArmed(t, configs.AfterStopEnd)
	r.mailbox.stopRequested.Store(true)
	errtest.Nil(t, r.loop())
	if mode := r.agent.Mode(); mode != controller.Stopped || r.agent.Cause() != controller.FaultOperator {
		t.Errorf("%v, %v", mode, r.agent.Cause())
	}
	robot.waitHalted(t)
}

func TestStuckError_NamesTheStage(t *testing.T) {
	for stage, want := range map[controller.Stage]string{
		controller.StageBetweenTicks: "between two ticks, for 1s",
		controller.StageAct:          "in Act of bridge, for 1s",
		controller.StagePolicy:       "in the model's policy, for 1s",
		1 << 40:                      "in Stage(1099511627776), for 1s", // without a name
	} {
		if got := (&stuckError{stage, "bridge", rtloop.Stall{For: time.Second}}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The test turns the clock.
func TestRun_SignalWaitsForASlowThreadButNotForAStuckOne(t *testing.T) {
	for _, slow := range []bool{true, false} {
		_, r := newArmed(t, configs.AfterStopEnd)
		asked, elapsed, over := make(chan bool), make(chan time.Time), make(chan error, 1)
		r.after = func(time.Duration) <-chan time.Time { asked <- true; return elapsed }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := make(chan error)
		go func() { ended <- r.wait(ctx, &rtloop.Loop{}, over) }()
		for range 5 {
			<-asked
			if slow {
				r.stage.Add(1)
			}
			elapsed <- time.Time{}
		}
		<-asked
		if stuck := r.stuck.Load(); (stuck == nil) != slow || !slow && !errors.Is(stuck, errStuck) {
			t.Errorf("slow %t: %v", slow, stuck)
		}
		over <- nil
		if err := <-ended; err != nil || r.threadLost {
			t.Errorf("slow %t: %v, thread lost: %t", slow, err, r.threadLost)
		}
	}
}
