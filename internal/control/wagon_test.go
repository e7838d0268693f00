package control

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// openWagon opens the wagon in this process, and both ends of its segment.
func openWagon(t *testing.T, w *rigtest.Wagon, set ...string) *twoEnds {
	t.Helper()
	own := []string{"operator.source=none", "model.bundle=" + rigtest.WagonBundle(t), "log.dir=" + t.TempDir()}
	file, err := configs.Load(rigtest.WagonFile, slices.Concat(w.Set, own, set)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := setup.OpenSession(file, false)
	if err != nil {
		t.Fatal(err)
	}
	robot, err := setup.OpenDevices(t.Context(), w.Hardware(), s.File.Robot.Composite, s.File.Loop.Period(), rtloop.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = setup.CloseRobot(robot) })
	return newTwoEndsWith(t, s, robot)
}

func TestWhatAConfigurationSaysOfADeviceIsWhatTheDeviceHas(t *testing.T) {
	w := rigtest.NewWagon(t)
	e := openWagon(t, w)
	cfg, err := configs.Load(rigtest.WagonFile)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := cfg.Robot.Composite.Spec(cfg.Loop.Period())
	if err != nil {
		t.Fatal(err)
	}
	got := e.robot.Spec()
	if fmt.Sprint(got) != fmt.Sprint(spec) {
		t.Errorf("opened\n%v\nwithout devices\n%v", got, spec)
	}
}

func TestARobotOfAllKindsOfDevicesHasADeadmanOnceItIsArmed(t *testing.T) {
	w := rigtest.NewWagon(t)
	e := openWagon(t, w)
	robot := e.robot.(*setup.CompositeRobot)
	if got := robot.Deadman(); got != 0 {
		t.Errorf("before it is armed: %v", got)
	}
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if got := robot.Deadman(); !e.agent.Armed() || got != 400*time.Millisecond || robot.Unguarded() != nil {
		t.Errorf("armed %v: %v, unguarded %v", e.agent.Armed(), got, robot.Unguarded())
	}
	if got := w.Neck.Get(2, dynamixeltest.Watchdog, 1); got != 20 {
		t.Errorf("the servo's own watchdog is %d of 20 ms", got)
	}
}

func TestATickOfAllKindsOfDevicesAllocatesNothing(t *testing.T) {
	w := rigtest.NewWagon(t)
	e := openWagon(t, w)
	for _, a := range allocationsOf(func() {
		for range 50 {
			if err := e.Tick(); err != nil {
				t.Fatal(err)
			}
		}
	}) {
		t.Errorf("allocated in 50 ticks: %s", a)
	}
}

// A fault halts the robot within the stated ticks. Of the other devices every
// one gets its failsafe output, and the one that is broken stops by itself where
// it still can.
func TestEveryFaultOnALineOrABusHaltsAllDevices(t *testing.T) {
	// max_bad_ticks and one more; a CAN motor answers to the last tick's command.
	const sensed = 2 + 1
	const age = 600 * time.Millisecond
	const stale = int(age/(20*time.Millisecond)) + 1
	sense, act := controller.FaultSense, controller.FaultAct
	for name, c := range map[string]struct {
		fail   func(*rigtest.Wagon)
		faults []controller.Fault
		ticks  int
		kind   error
		broken string // cannot be told any more: it has to stop by itself
	}{
		"imu unplugged":                  {func(w *rigtest.Wagon) { w.Imu.Unplugged = true }, []controller.Fault{sense}, sensed, hal.ErrBus, ""},
		"I²C held":                       {func(w *rigtest.Wagon) { w.Bus.Hold(10 * time.Millisecond) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, ""},
		"board unplugged":                {func(w *rigtest.Wagon) { w.Unplug("base") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"board silent":                   {func(w *rigtest.Wagon) { w.Base.Mute(true) }, []controller.Fault{sense}, stale + sensed, hal.ErrStale, ""},
		"board's bits flip":              {func(w *rigtest.Wagon) { w.Base.Garble(1 << 30) }, []controller.Fault{sense}, stale + sensed, hal.ErrStale, ""},
		"board reset":                    {func(w *rigtest.Wagon) { w.Base.Restart() }, []controller.Fault{act, sense}, sensed, hal.ErrDevice, ""},
		"board's emergency stop pressed": {func(w *rigtest.Wagon) { w.Base.Fault(mcutest.CauseEStop) }, []controller.Fault{act}, 2, hal.ErrDevice, ""},
		"servo chain unplugged":          {func(w *rigtest.Wagon) { w.Unplug("neck") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"servo silent":                   {func(w *rigtest.Wagon) { w.Neck.Mute(1, -1) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, ""},
		"servo dead":                     {func(w *rigtest.Wagon) { w.Neck.Miss(1, -1) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, "neck"},
		"servo's bits flip":              {func(w *rigtest.Wagon) { w.Neck.Garble(1, 1<<30) }, []controller.Fault{sense}, sensed, hal.ErrChecksum, ""},
		"servo overloaded":               {func(w *rigtest.Wagon) { w.Neck.Set(1, dynamixeltest.HardwareError, 1, 0x20) }, []controller.Fault{sense}, sensed, hal.ErrDevice, ""},
		"CAN bus-off":                    {func(w *rigtest.Wagon) { w.Arm.Bus.Report(unix.CAN_ERR_BUSOFF, 0) }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "arm"},
		"CAN interface down":             {func(w *rigtest.Wagon) { w.Unplug("arm") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"motor silent":                   {func(w *rigtest.Wagon) { w.Arm.Mute(3, -1) }, []controller.Fault{sense}, 1 + sensed, hal.ErrTimeout, ""},
		"motor's answers short":          {func(w *rigtest.Wagon) { w.Arm.Short(4, 1<<30) }, []controller.Fault{sense}, 1 + sensed, hal.ErrShort, ""},
		"motor overheated":               {func(w *rigtest.Wagon) { w.Arm.Fail(3, 0xB) }, []controller.Fault{sense}, 1 + sensed, hal.ErrDevice, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rigtest.NewWagon(t)
			e := openWagon(t, w, rigtest.LongTimeouts(age)...)
			for range 10 {
				if err := pacedTick(w, e); err != nil {
					t.Fatal(err)
				}
			}
			c.fail(w)
			var err error
			ticks := 0
			for ; err == nil && ticks < 50; ticks++ {
				err = pacedTick(w, e)
			}
			var fault *controller.FaultError
			if !errors.As(err, &fault) || !slices.Contains(c.faults, fault.Fault) || !errors.Is(err, c.kind) || ticks > c.ticks {
				t.Errorf("after %d ticks (want at most %d): %v", ticks, c.ticks, err)
			}
			for _, device := range []string{"base", "neck", "arm"} {
				if w.Closed[device] {
					continue
				}
				limit := time.Duration(0)
				if device == c.broken {
					limit = 2 * rigtest.LongDeadman
				}
				if after := w.WaitStopped(t, limit, device); device == c.broken {
					t.Logf("%s stopped by itself, %v after the halt", device, after)
				}
			}
		})
	}
}

// pacedTick is a tick at the robot's rate: ages are in real time.
func pacedTick(w *rigtest.Wagon, e *twoEnds) error {
	time.Sleep(e.robot.Spec().Period)
	return e.Tick()
}

func TestASingleDamagedAnswerIsMendedAndTheRobotGoesOn(t *testing.T) {
	t.Parallel()
	w := rigtest.NewWagon(t)
	e := openWagon(t, w, rigtest.LongTimeouts(time.Second)...)
	for i := range 40 {
		switch i % 10 {
		case 2:
			w.Neck.Garble(1, 1)
		case 4:
			w.Neck.Mute(2, 1)
		case 6:
			w.Base.Garble(1)
		case 8:
			w.Arm.Mute(3, 1)
		}
		if err := pacedTick(w, e); err != nil {
			t.Fatal(err)
		}
	}
	mended := uint64(0)
	for _, d := range e.robot.(*setup.CompositeRobot).Faults(nil) {
		mended += d.Faults.Mended
	}
	if mended < 8 || !e.agent.Armed() {
		t.Errorf("%d mended, armed %v", mended, e.agent.Armed())
	}
}
