package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/rtloop"
)

// checkOneCause checks that everything that reports the end of a run has one cause.
func checkOneCause(t *testing.T, e *twoEnds, err error, want controller.Fault) {
	t.Helper()
	wantFault(t, err, want)
	if got := e.link.Ended.Load(); got != 1+uint64(want) {
		t.Errorf("the host was told the fault %d, want %d (%v)", got-1, want, want)
	}
	status := &Server{mailbox: &e.mailbox, live: func() rtloop.Live { return rtloop.Live{} }}
	report, fresh := e.host.NewestStop()
	if !fresh || report.Final != 1 {
		t.Fatalf("the host got no report of the end: %v", report.String())
	}
	if got := status.status(nil); got.Cause != want.String() || got.Found != report.Found() {
		t.Errorf("the status says %s (%s), the host was told %s", got.Cause, got.Found, report.String())
	}
	if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, report.String()) {
		t.Errorf("the error is\n%v\nand the host was told\n%s", err, report.String())
	}
}

// TestRun_HasOneCauseWhereSomethingFollowsIt stops a robot for a reason and lets its
// Halt hang, so that the watchdog finds the control thread stuck.
func TestRun_HasOneCauseWhereSomethingFollowsIt(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(*hangingRobot, *twoEnds)
		want controller.Fault
	}{
		{"the host dies", func(_ *hangingRobot, e *twoEnds) { e.hostGone.Store(true) }, controller.FaultHost},
		{"the driver panics", func(r *hangingRobot, _ *twoEnds) {
			r.sense = func() { panic("a driver's mistake") }
		}, controller.FaultPanic},
		{"the socket's goroutine panics", func(_ *hangingRobot, e *twoEnds) {
			e.mailbox.serverPanic.Store(&errServerPanic)
		}, controller.FaultPanic},
	} {
		t.Run(c.name, func(t *testing.T) {
			robot, e := newHanging(t, configs.AfterStopEnd)
			c.stop(robot, e)
			robot.halt = func() { // until the watchdog has noticed
				for e.stuck.Load() == nil {
					time.Sleep(time.Millisecond)
				}
			}
			err := runBroken(t, e, rtloop.NoLimit)
			checkOneCause(t, e, err, c.want)
			_, after, _ := strings.Cut(err.Error(), "\n")
			if !strings.Contains(after, "then: ") || !strings.Contains(after, "in Halt of rover, for ") {
				t.Errorf("what followed is not listed: %v", err)
			}
		})
	}
}

func TestRun_HasOneCauseWhereAStuckThreadComesLooseWithAnother(t *testing.T) {
	robot, e := newHanging(t, configs.AfterStopEnd)
	robot.act = func() {
		for e.stuck.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		if err := robot.brokenRobot.Halt(); err != nil { // its second path: the act that comes loose fails
			t.Error(err)
		}
	}
	err := runBroken(t, e, rtloop.NoLimit)
	checkOneCause(t, e, err, controller.FaultStuck)
	last := controller.FaultNone
	for {
		tick, err := e.host.NextTick()
		if err != nil || tick == nil {
			break
		}
		last = tick.Fault
		e.host.ReleaseTick()
	}
	if last != controller.FaultStuck {
		t.Errorf("the record of the last tick says %v", last)
	}
}

func TestRun_StuckThreadIsReportedWithItsStage(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*hangingRobot, func())
		want  string
	}{
		{"sense", func(r *hangingRobot, hang func()) { r.sense = hang }, "control thread stuck: in Sense of rover, for "},
		{"act", func(r *hangingRobot, hang func()) { r.act = hang }, "control thread stuck: in Act of rover, for "},
		{"reset", func(r *hangingRobot, hang func()) {
			r.reset = func() error { hang(); return nil }
		}, "control thread stuck: in Reset of rover, for "},
	} {
		t.Run(c.name, func(t *testing.T) {
			robot, e := newHanging(t, configs.AfterStopEnd)
			c.spoil(robot, func() {
				for e.stuck.Load() == nil {
					time.Sleep(time.Millisecond)
				}
			})
			err := runBroken(t, e, rtloop.NoLimit)
			checkOneCause(t, e, err, controller.FaultStuck)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error does not say %q: %v", c.want, err)
			}
		})
	}
}

func TestStuckError_NamesTheStage(t *testing.T) {
	for stage, want := range map[controller.Stage]string{
		controller.StageBetweenTicks: "between two ticks, for 1s",
		controller.StageAct:          "in Act of bridge, for 1s",
		controller.StagePolicy:       "in the model's policy, for 1s",
		1 << 40:                      "in Stage(1099511627776), for 1s", // anybody may write to the segment
	} {
		if got := (&stuckError{stage, "bridge", rtloop.Stall{For: time.Second}}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestControl_WaitsForASlowThreadAfterASignal turns the time by hand.
func TestControl_WaitsForASlowThreadAfterASignal(t *testing.T) {
	for _, slow := range []bool{true, false} {
		_, e := newHanging(t, configs.AfterStopEnd)
		asked, elapsed, over := make(chan bool), make(chan time.Time), make(chan error, 1)
		e.after = func(time.Duration) <-chan time.Time { asked <- true; return elapsed }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		awaited := make(chan error)
		go func() { awaited <- e.wait(ctx, &rtloop.Loop{}, over) }()
		for range 5 {
			<-asked
			if slow {
				e.link.Stage.Add(1)
			}
			elapsed <- time.Time{}
		}
		<-asked
		if hung := e.stuck.Load(); (hung == nil) != slow || !slow && !errors.Is(hung, errStuck) {
			t.Errorf("slow %t: %v", slow, hung)
		}
		over <- nil
		if err := <-awaited; err != nil || e.threadLost {
			t.Errorf("slow %t: %v, given up: %t", slow, err, e.threadLost)
		}
	}
}
