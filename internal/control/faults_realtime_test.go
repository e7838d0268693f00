package control

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// hangingRobot is a robot whose driver hangs or panics, and that has a second
// path to its failsafe output.
type hangingRobot struct {
	*brokenRobot
	act    func()
	beside atomic.Int64
}

func (h *hangingRobot) Act(action []float32) error {
	if h.act != nil {
		h.act()
	}
	return h.brokenRobot.Act(action)
}

func (h *hangingRobot) HaltBeside() { h.beside.Add(1) }

func newHanging(t *testing.T, afterStop string) (*hangingRobot, *twoEnds) {
	t.Helper()
	broken, _ := newBroken(t)
	robot := &hangingRobot{brokenRobot: broken}
	e := newTwoEndsWith(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Safety.AfterStop, f.Safety.Socket, f.Run.HostTimeoutS = afterStop, "unused", 60
		f.Controller.MaxPlanAge = 1 << 40
	}), robot)
	if err := e.agent.Arm(); err != nil {
		t.Fatal(err)
	}
	return robot, e
}

func TestADriverThatPanicsHaltsTheRobotAlsoWhereStopsAreHeld(t *testing.T) {
	for name, spoil := range map[string]func(*hangingRobot){
		"sense": func(r *hangingRobot) { r.sense = func() { panic("a driver's mistake") } },
		"act":   func(r *hangingRobot) { r.act = func() { panic("a driver's mistake") } },
	} {
		t.Run(name, func(t *testing.T) {
			robot, e := newHanging(t, configs.AfterStopHold)
			spoil(robot)
			err := runBroken(t, e, rtloop.NoLimit)
			var panicked *rtloop.PanicError
			if !errors.As(err, &panicked) || robot.halts.Load() == 0 {
				t.Errorf("%v, %d halts", err, robot.halts.Load())
			}
		})
	}
}

func TestADriverThatHangsIsHaltedBesideItAlsoWhereStopsAreHeld(t *testing.T) {
	for name, spoil := range map[string]func(*hangingRobot, func()){
		"sense": func(r *hangingRobot, hang func()) { r.sense = hang },
		"act":   func(r *hangingRobot, hang func()) { r.act = hang },
	} {
		t.Run(name, func(t *testing.T) {
			robot, e := newHanging(t, configs.AfterStopHold)
			release := make(chan struct{})
			spoil(robot, func() { <-release })
			wantFault(t, runBroken(t, e, rtloop.NoLimit), controller.FaultStuck)
			if n := robot.beside.Load(); n != 1 {
				t.Errorf("the second path was taken %d times", n)
			}
			close(release)
			for robot.halts.Load() == 0 { // the loop's own, once it came loose
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func TestMissedTicksAreHeldAndTheLoopGoesOn(t *testing.T) {
	robot, e := newHanging(t, configs.AfterStopHold)
	ctx, cancel := context.WithCancel(context.Background())
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
	if err := runLoop(ctx, t, e, rtloop.Config{PeriodMS: 5, MaxMissed: 20}); err != nil {
		t.Fatalf("the run ended: %v", err)
	}
	stop := e.mailbox.cause.Load()
	if stop == nil || stop.Fault != controller.FaultOverrun || !errors.Is(stop, rtloop.ErrOverrun) {
		t.Errorf("the stop is %v", stop)
	}
	if e.agent.Mode() != controller.Stopped || robot.halts.Load() < 2 { // the stop's, and the end's
		t.Errorf("%v, %d halts", e.agent.Mode(), robot.halts.Load())
	}
}

func TestARobotThatTakesSomePeriodsToArmIsNotStoppedForThem(t *testing.T) {
	robot, e := newHanging(t, configs.AfterStopHold)
	if err := e.agent.Disarm(); err != nil {
		t.Fatal(err)
	}
	robot.arm = func() error { time.Sleep(150 * time.Millisecond); return robot.Rover.Arm() } // 30 periods
	e.hasPlan = true
	e.mailbox.request.Store(1<<8 | uint64(commandArm))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	senses := 0
	armed := false
	robot.sense = func() {
		if senses++; senses == 20 {
			armed = e.agent.Armed()
			cancel()
		}
	}
	if err := runLoop(ctx, t, e, rtloop.Config{PeriodMS: 5, MaxMissed: 20}); err != nil {
		t.Fatal(err)
	}
	if !armed {
		t.Errorf("%v by %v", e.agent.Mode(), e.agent.Cause())
	}
}
