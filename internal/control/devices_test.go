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
	"optibfm/hal/assembly"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// openDevices opens a robot of devices on fake hardware, and both ends of its segment.
func openDevices(t *testing.T, h assembly.Hardware, config string, set ...string) *testRun {
	t.Helper()
	file, err := configs.Load(config, append([]string{"operator.source=none"}, set...)...)
	fatal.If(t, err)
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	section := rigtest.Section[assembly.Config](s.File)
	robot, err := assembly.OpenDevices(t.Context(), h, section, s.File.Loop.Period(), rtloop.Now)
	fatal.If(t, err)
	t.Cleanup(func() { _ = setup.CloseRobot(robot) })
	return newRun(t, s, robot)
}

func openRig(t *testing.T) (*rigtest.Rig, *testRun) {
	t.Helper()
	rig := rigtest.NewRig()
	return rig, openDevices(t, rig.Hardware(), "composite", rigtest.AutoArmSettings...)
}

func openWagon(t *testing.T, set ...string) (*rigtest.Wagon, *testRun) {
	t.Helper()
	w := rigtest.NewWagon(t)
	own := []string{"model.bundle=" + rigtest.WagonBundle(t), "log.dir=" + t.TempDir()}
	return w, openDevices(t, w.Hardware(), rigtest.WagonFile, slices.Concat(w.Set, own, set)...)
}

func TestDevices_RunWithoutAllocationsAndHalt(t *testing.T) {
	rig, r := openRig(t)
	r.ticks(50)
	if !r.agent.Armed() || rig.OE || rig.Pwm.Ticks(0) == 0 {
		t.Fatalf("armed %v, OE %v, %d ticks", r.agent.Armed(), rig.OE, rig.Pwm.Ticks(0))
	}
	wantNoAllocations(t, func() { r.ticks(200) })
	if err := r.robot.Halt(); err != nil || !rig.OE || rig.Pwm.Ticks(0) != 0 {
		t.Errorf("halted: OE %v, %d ticks, %v", rig.OE, rig.Pwm.Ticks(0), err)
	}
}

// A fault of a sensor stops the robot after max_bad_ticks and one more tick, one of an actuator at
// once.
func TestDevices_EveryFaultDisablesTheMotors(t *testing.T) {
	const sensed = 2 + 1
	for name, c := range map[string]struct {
		fault controller.Fault
		ticks int
		kind  error
	}{
		"bus held":           {controller.FaultAct, 1, hal.ErrTimeout}, // the last action cannot be repeated
		"bus noisy":          {controller.FaultAct, 1, hal.ErrBus},
		"imu unplugged":      {controller.FaultSense, sensed, hal.ErrBus},
		"imu frozen":         {controller.FaultSense, 40 + sensed, hal.ErrDevice},
		"imu lost its power": {controller.FaultSense, sensed, hal.ErrDevice},
		"imu's bits flip":    {controller.FaultSense, sensed, hal.ErrProtocol},
		"pwm unplugged":      {controller.FaultAct, 1, hal.ErrBus},
		"pwm lost its power": {controller.FaultAct, 1, hal.ErrDevice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig, r := openRig(t)
			r.ticks(20)
			rig.Fail(name)
			ticks, err := r.ticksUntilFault(100)
			wantFault(t, err, c.fault)
			if !errors.Is(err, c.kind) || ticks > c.ticks {
				t.Errorf("after %d ticks, want at most %d: %v", ticks, c.ticks, err)
			}
			if !rig.OE {
				t.Error("OE is low: the motors are enabled")
			}
			total := uint64(0)
			for _, d := range r.robot.(*assembly.Robot).Faults(nil) {
				total += d.Faults.Timeout + d.Faults.Bus + d.Faults.Device + d.Faults.Protocol
			}
			if total == 0 {
				t.Error("no fault was counted")
			}
		})
	}
}

func TestDevices_HaltBesideDisablesTheMotors(t *testing.T) {
	rig, r := openRig(t)
	r.ticks(20)
	r.robot.(hal.Backstop).HaltBeside()
	if !rig.OE {
		t.Error("OE is low")
	}
	var fault *controller.FaultError
	if err := r.Tick(); !errors.As(err, &fault) || !errors.Is(err, hal.ErrHalted) {
		t.Errorf("the next tick: %v", err)
	}
}

func TestDevices_OpenedSpecIsThatOfTheConfiguration(t *testing.T) {
	_, r := openWagon(t)
	cfg, err := configs.Load(rigtest.WagonFile)
	fatal.If(t, err)
	spec, err := rigtest.Section[assembly.Config](cfg).Describe(cfg.Loop.Period())
	fatal.If(t, err)
	if got := r.robot.Spec(); fmt.Sprint(got) != fmt.Sprint(spec) {
		t.Errorf("opened\n%v\nwithout devices\n%v", got, spec)
	}
}

func TestDevices_ArmSetsTheDeadmen(t *testing.T) {
	w, r := openWagon(t)
	robot := r.robot.(*assembly.Robot)
	if got := robot.Deadman(); got != 0 {
		t.Errorf("before it is armed: %v", got)
	}
	r.ticks(5)
	if got := robot.Deadman(); !r.agent.Armed() || got != 400*time.Millisecond || robot.Unguarded() != nil {
		t.Errorf("armed %v: %v, unguarded %v", r.agent.Armed(), got, robot.Unguarded())
	}
	if got := w.Neck.Get(2, dynamixeltest.Watchdog, 1); got != 20 {
		t.Errorf("the watchdog of the servo is %d of 20 ms", got)
	}
}

func TestDevices_TickOfAllKindsAllocatesNothing(t *testing.T) {
	_, r := openWagon(t, rigtest.LongTimeouts(4*time.Second)...) // the memory profile delays the ticks
	wantNoAllocations(t, func() { r.ticks(50) })
}

func TestDevices_StuckErrorNamesTheDevice(t *testing.T) {
	_, r := openRig(t)
	r.ticks(20)
	r.stage.Store(uint64(controller.StageAct))
	r.haltStuck(rtloop.Stall{For: time.Second})
	errtest.Contains(t, r.stuck.Load(), "in Act of composite (base), for 1s")
}

// wagonFault is a fault on a line or bus of the wagon.
type wagonFault struct {
	inject func(*rigtest.Wagon)
	ticks  int // at most
	kind   error
	alone  string             // this device gets no command any more and must stop by its deadman
	faults []controller.Fault // default: FaultSense
}

const (
	wagonAge   = 2400 * time.Millisecond // fakes answer late on a busy computer
	wagonSense = 2 + 1                   // max_bad_ticks and one more
	wagonStale = int(wagonAge/(20*time.Millisecond)) + 1 + wagonSense
	wagonNews  = wagonStale     // until a sample reports an event: its error is not that of an old sample
	wagonMotor = 1 + wagonSense // a CAN motor answers to the command of the last tick
)

var senseOrAct = []controller.Fault{controller.FaultSense, controller.FaultAct}

var wagonFaults = map[string]wagonFault{
	"imu unplugged": {inject: func(w *rigtest.Wagon) { w.Imu.Unplugged = true }, ticks: wagonSense, kind: hal.ErrBus},
	"I²C held": {
		inject: func(w *rigtest.Wagon) { w.Bus.Hold(10 * time.Millisecond) }, ticks: wagonSense, kind: hal.ErrTimeout,
	},
	"board unplugged": {
		inject: func(w *rigtest.Wagon) { w.Unplug("base") }, ticks: wagonSense, kind: hal.ErrBus, faults: senseOrAct,
	},
	"board silent": {inject: func(w *rigtest.Wagon) { w.Base.Mute(true) }, ticks: wagonStale, kind: hal.ErrStale},
	"board's bits flip": {
		inject: func(w *rigtest.Wagon) { w.Base.Garble(1 << 30) }, ticks: wagonStale, kind: hal.ErrStale,
	},
	"board reset": {
		inject: func(w *rigtest.Wagon) { w.Base.Restart() }, ticks: wagonNews, kind: hal.ErrDevice, faults: senseOrAct,
	},
	"board's emergency stop pressed": {
		inject: func(w *rigtest.Wagon) { w.Base.Fault(mcutest.CauseEStop) }, ticks: wagonNews, kind: hal.ErrDevice,
		faults: []controller.Fault{controller.FaultAct},
	},
	"servo chain unplugged": {
		inject: func(w *rigtest.Wagon) { w.Unplug("neck") }, ticks: wagonSense, kind: hal.ErrBus, faults: senseOrAct,
	},
	"servo silent": {inject: func(w *rigtest.Wagon) { w.Neck.Mute(1, -1) }, ticks: wagonSense, kind: hal.ErrTimeout},
	"servo dead": {
		inject: func(w *rigtest.Wagon) { w.Neck.Miss(1, -1) }, ticks: wagonSense, kind: hal.ErrTimeout, alone: "neck",
	},
	"servo's bits flip": {
		inject: func(w *rigtest.Wagon) { w.Neck.Garble(1, 1<<30) }, ticks: wagonSense, kind: hal.ErrChecksum,
	},
	"servo overloaded": {
		inject: func(w *rigtest.Wagon) { w.Neck.Set(1, dynamixeltest.HardwareError, 1, 0x20) },
		ticks:  wagonSense, kind: hal.ErrDevice,
	},
	"CAN bus-off": {
		inject: func(w *rigtest.Wagon) { w.Arm.Bus.Report(unix.CAN_ERR_BUSOFF) },
		ticks:  wagonSense, kind: hal.ErrBus, alone: "arm", faults: senseOrAct,
	},
	"CAN interface down": {
		inject: func(w *rigtest.Wagon) { w.Unplug("arm") }, ticks: wagonSense, kind: hal.ErrBus, faults: senseOrAct,
	},
	"motor silent": {inject: func(w *rigtest.Wagon) { w.Arm.Mute(3, -1) }, ticks: wagonMotor, kind: hal.ErrTimeout},
	"motor's answers short": {
		inject: func(w *rigtest.Wagon) { w.Arm.Short(4, 1<<30) }, ticks: wagonMotor, kind: hal.ErrShort,
	},
	"motor overheated": {inject: func(w *rigtest.Wagon) { w.Arm.Fail(3, 0xB) }, ticks: wagonMotor, kind: hal.ErrDevice},
}

// Every other device gets its failsafe output, and the faulty one stops by its deadman if it can.
func TestDevices_EveryFaultOnALineOrBusHaltsAll(t *testing.T) {
	for name, c := range wagonFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := openWagon(t, rigtest.LongTimeouts(wagonAge)...)
			for range 10 {
				fatal.If(t, r.pacedTick())
			}
			c.inject(w)
			var err error
			ticks := 0
			for ; err == nil && ticks <= c.ticks; ticks++ {
				err = r.pacedTick()
			}
			if c.faults == nil {
				c.faults = senseOrAct[:1]
			}
			var fault *controller.FaultError
			found := errors.As(err, &fault) && slices.Contains(c.faults, fault.Fault) && errors.Is(err, c.kind)
			if !found || ticks > c.ticks {
				t.Errorf("after %d ticks (want at most %d): %v", ticks, c.ticks, err)
			}
			for _, device := range []string{"base", "neck", "arm"} {
				if w.Closed[device] {
					continue
				}
				limit := time.Duration(0)
				if device == c.alone {
					limit = 2 * rigtest.LongDeadman
				}
				w.WaitStopped(t, limit, device)
			}
		})
	}
}

// pacedTick runs a tick at the rate of the robot: drivers measure ages in real time.
func (r *testRun) pacedTick() error {
	time.Sleep(r.robot.Spec().Period)
	return r.Tick()
}

func TestDevices_SingleDamagedAnswersAreRepeated(t *testing.T) {
	t.Parallel()
	w, r := openWagon(t, rigtest.LongTimeouts(wagonAge)...)
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
		fatal.If(t, r.pacedTick())
	}
	repeated := uint64(0)
	for _, d := range r.robot.(*assembly.Robot).Faults(nil) {
		repeated += d.Faults.Recovered
	}
	if repeated < 8 || !r.agent.Armed() {
		t.Errorf("%d repeated, armed %v", repeated, r.agent.Armed())
	}
}
