package control

import (
	"errors"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// openOnRig opens the ready-made robot of devices on a rig, and both ends of its
// segment.
func openOnRig(t *testing.T) (*rigtest.Rig, *twoEnds) {
	t.Helper()
	file, err := configs.Load("composite", append([]string{"operator.source=none"}, rigtest.AutoArmSettings...)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := setup.OpenSession(file, false)
	if err != nil {
		t.Fatal(err)
	}
	r := rigtest.NewRig()
	robot, err := setup.OpenDevices(t.Context(), r.Hardware(), s.File.Robot.Composite, s.File.Loop.Period(), rtloop.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = setup.CloseRobot(robot) })
	return r, newTwoEndsWith(t, s, robot)
}

func TestARobotMadeOfDevicesIsControlledAndNothingIsAllocated(t *testing.T) {
	r, e := openOnRig(t)
	for range 50 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if !e.agent.Armed() || r.Seen.OE || r.Pwm.Ticks(0) == 0 {
		t.Fatalf("armed %v, OE %v, %d ticks", e.agent.Armed(), r.Seen.OE, r.Pwm.Ticks(0))
	}
	for _, a := range allocationsOf(func() {
		for range 200 {
			if err := e.Tick(); err != nil {
				t.Fatal(err)
			}
		}
	}) {
		t.Errorf("allocated in 200 ticks: %s", a)
	}
	if err := e.robot.Halt(); err != nil || !r.Seen.OE || r.Pwm.Ticks(0) != 0 {
		t.Errorf("halted: OE %v, %d ticks, %v", r.Seen.OE, r.Pwm.Ticks(0), err)
	}
}

// A fault of a device is to halt the robot within max_bad_ticks and one more
// tick (sensing) or at once (acting), whatever broke.
func TestEveryFaultOfADeviceDisablesTheMotors(t *testing.T) {
	const maxBadTicks = 2
	for name, c := range map[string]struct {
		fault controller.Fault
		ticks int
		kind  error
	}{
		"bus held":           {controller.FaultAct, 1, hal.ErrTimeout}, // the last action cannot be repeated
		"bus noisy":          {controller.FaultAct, 1, hal.ErrBus},
		"imu unplugged":      {controller.FaultSense, maxBadTicks + 1, hal.ErrBus},
		"imu frozen":         {controller.FaultSense, 40 + maxBadTicks + 1, hal.ErrDevice},
		"imu lost its power": {controller.FaultSense, maxBadTicks + 1, hal.ErrDevice},
		"imu's bits flip":    {controller.FaultSense, maxBadTicks + 1, hal.ErrProtocol},
		"pwm unplugged":      {controller.FaultAct, 1, hal.ErrBus},
		"pwm lost its power": {controller.FaultAct, 1, hal.ErrDevice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := openOnRig(t)
			for range 20 {
				if err := e.Tick(); err != nil {
					t.Fatal(err)
				}
			}
			r.Fault = name
			r.Fail()
			var err error
			ticks := 0
			for ; err == nil && ticks < 100; ticks++ {
				err = e.Tick()
			}
			wantFault(t, err, c.fault)
			if !errors.Is(err, c.kind) || ticks > c.ticks {
				t.Errorf("after %d ticks, want at most %d: %v", ticks, c.ticks, err)
			}
			if !r.Seen.OE {
				t.Error("OE is low: the motors are enabled")
			}
			total := uint64(0)
			for _, d := range e.robot.(*setup.CompositeRobot).Faults(nil) {
				total += d.Faults.Timeout + d.Faults.Bus + d.Faults.Device + d.Faults.Protocol
			}
			if total == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

func TestTheWatchdogsPathDisablesTheMotorsOfARobotMadeOfDevices(t *testing.T) {
	r, e := openOnRig(t)
	for range 20 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	e.robot.(hal.Backstop).HaltBeside()
	if !r.Seen.OE {
		t.Error("OE is low")
	}
	var fault *controller.FaultError
	if err := e.Tick(); !errors.As(err, &fault) || !errors.Is(err, hal.ErrHalted) {
		t.Errorf("the next tick: %v", err)
	}
}
