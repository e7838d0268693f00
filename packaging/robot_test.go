package packaging_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/cp2112test"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/mit"
	"optibfm/hal/mit/mittest"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rtloop"
)

const (
	imuLink      = "/dev/i2c-imu"
	imuAddress   = 0x28
	topSpeed     = 15.0 // rad/s, of a wheel
	wheelRadius  = 0.1  // m
	worldPeriod  = 20 * time.Millisecond
	goodKey      = 304 // BTN_A
	badKey       = 305
	goodLine     = 1 << 3 // of the GPIO chip
	badLine      = 1 << 4
	levelsAtRest = goodLine | badLine
)

// world is a rover outside the program: motors on a CAN bus of the kernel, an IMU and buttons on
// USB adapters, a gamepad. It also is the operator, who judges the rover's speed.
type world struct {
	t       *testing.T
	body    *rover.Rover
	seen    [6]float32 // the body's state
	motors  *mittest.Motors
	chip    *i2cbustest.BNO055
	buttons *cp2112test.Adapter

	mu      sync.Mutex
	bus     *i2cbustest.Bus // nil: unplugged
	frozen  bool            // the IMU
	turned  bool            // by hand
	pad     *evdevtest.Uinput
	onLines bool // the operator uses the buttons in place of the gamepad
	teaches bool
	presses []int64   // CLOCK_MONOTONIC, ns
	moved   time.Time // when the motors were last driven
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cfg := rover.DefaultConfig()
	cfg.Task, cfg.PeriodMS, cfg.Seed = "spin", float64(worldPeriod)/float64(time.Millisecond), 5
	w := &world{t: t, chip: i2cbustest.NewBNO055()}
	err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE) // devices do not wait for a disk
	fatal.If(t, err)
	if w.body, err = rover.New(cfg); err != nil {
		t.Fatal(err)
	}
	_ = w.body.Arm()
	w.sense()
	span := mit.Motor{PMax: 12.5, VMax: 30, TMax: 10}
	left, right := span, span
	left.Name, left.ID, left.ReplyID = "left", 1, 17
	right.Name, right.ID, right.ReplyID = "right", 2, 18
	if w.motors, err = mittest.New(mit.Config{Dialect: mit.Damiao, Motors: []mit.Motor{left, right}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.motors.Close() })
	w.motors.Drive()
	if w.buttons, err = cp2112test.New(nil); err != nil {
		t.Fatal(err)
	}
	w.buttons.Set(levelsAtRest)
	fatal.If(t, w.buttons.KeepPolling())
	w.plugIMU()
	w.plugPad()
	go w.run()
	go w.operate()
	return w
}

// config returns the robot's configuration for this world.
func (w *world) config(source string) string {
	return os.Expand(read(w.t, "testdata/robot.yaml"), func(name string) string {
		return map[string]string{
			"SOURCE": source, "CHIP": w.buttons.Chip,
			"X": strconv.FormatFloat(2*float64(w.seen[0]), 'f', 3, 64),
			"Y": strconv.FormatFloat(2*float64(w.seen[1]), 'f', 3, 64),
		}[name]
	})
}

func (w *world) plugIMU() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bus = i2cbustest.New(map[uint16]*i2cbustest.Chip{imuAddress: &w.chip.Chip})
	_ = os.Remove(imuLink) // as udev does
	errtest.Nil(w.t, os.Symlink(w.bus.Path(), imuLink))
}

// unplugIMU removes the adapter. The kernel waits until the program has closed its bus.
func (w *world) unplugIMU() {
	w.mu.Lock()
	bus := w.bus
	w.bus = nil
	w.mu.Unlock()
	go func() { _ = bus.Close() }()
}

// set changes the world between two of its steps.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) plugPad() {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := evdev.Info{Bus: 3, Vendor: 0x045E, Product: 0x028E, Name: "Gamepad"}
	info.Keys.Set(goodKey)
	info.Keys.Set(badKey)
	w.pad = evdevtest.PlugKernel(info, nil)
}

func (w *world) unplugPad() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pad.Unplug()
	w.pad = nil
}

// run moves the body.
func (w *world) run() {
	for now := range time.Tick(worldPeriod) {
		var action [2]float32
		driven := false
		for i := range action {
			goal, on := w.motors.Goal(i + 1)
			if on && math.Abs(goal.Velocity) > 0.1 { // the code for 0 is half a step beside it
				action[i] = float32(min(max(goal.Velocity/topSpeed, -1), 1))
				driven = true
			}
		}
		w.mu.Lock()
		if driven {
			w.moved = now
		}
		_ = w.body.Act(action[:])
		w.sense()
		w.show()
		w.mu.Unlock()
	}
}

func (w *world) sense() { errtest.Nil(w.t, errtest.Of(w.body.Sense(w.seen[:]))) }

// show copies the body's motion to the sensors.
func (w *world) show() {
	cfg := rover.DefaultConfig()
	forward := float64(w.seen[4]) * cfg.MaxSpeedMPS
	rate := float64(w.seen[5]) * 2 * cfg.MaxSpeedMPS / cfg.TrackM
	for i, side := range []float64{-1, 1} {
		w.motors.Put(i+1, mit.Answer{Velocity: (forward + side*rate*cfg.TrackM/2) / wheelRadius})
	}
	if w.turned {
		rate = 12
	}
	if w.bus != nil && !w.frozen {
		heading := math.Atan2(float64(w.seen[3]), float64(w.seen[2]))
		w.bus.With(imuAddress, func(*i2cbustest.Chip) { w.chip.Turn(heading, rate) })
	}
}

// operate presses good or bad every few seconds.
func (w *world) operate() {
	rng := rand.New(rand.NewPCG(7, 7))
	for {
		time.Sleep(1500*time.Millisecond + time.Duration(rng.IntN(1500))*time.Millisecond)
		w.mu.Lock()
		reward, _ := w.body.Reward()
		good := reward > 0.3
		lines := w.teaches && w.onLines
		if w.teaches && !lines && w.pad != nil {
			w.presses = append(w.presses, rtloop.Now())
			w.pad.Press(map[bool]uint16{true: goodKey, false: badKey}[good])
		}
		w.mu.Unlock()
		if lines {
			w.pressLine(map[bool]byte{true: goodLine, false: badLine}[good])
		}
	}
}

func (w *world) pressLine(line byte) {
	w.set(func() { w.presses = append(w.presses, rtloop.Now()) })
	for _, levels := range []byte{levelsAtRest &^ line, levelsAtRest} {
		w.buttons.Set(levels)
		time.Sleep(400 * time.Millisecond) // the kernel polls this chip
	}
}

// stoppedAfter waits until the motors have not been driven for 0.5 s, and returns how long they
// were driven after a moment.
func (w *world) stoppedAfter(since time.Time) (time.Duration, error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(worldPeriod) {
		var moved time.Time
		w.set(func() { moved = w.moved })
		if time.Since(moved) > 500*time.Millisecond && time.Since(since) > 500*time.Millisecond {
			return max(0, moved.Sub(since)), nil
		}
	}
	return 0, fmt.Errorf("the motors are still driven")
}

// busOff reports a CAN controller that left the bus.
func (w *world) busOff() { w.motors.Bus.Report(canBusOff) }

const canBusOff = 0x40 // CAN_ERR_BUSOFF, include/uapi/linux/can/error.h
