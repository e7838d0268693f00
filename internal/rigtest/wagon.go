package rigtest

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/assembly"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/mit"
	"optibfm/hal/mit/mittest"
	"optibfm/internal/fatal"
	"optibfm/internal/sections"
	_ "optibfm/standard" // the drivers of configurations
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// WagonFile is the configuration of a Wagon.
var WagonFile = testdata("wagon.yaml")

// GripperFile is the configuration of two Feetech servos.
var GripperFile = testdata("gripper.yaml")

// Failsafe outputs of the wagon.
const (
	PanFailsafe      = 2048 + 171 // 15 degrees in steps of a 4096th of a turn
	shoulderFailsafe = 0.25
)

// Wagon is the hardware of WagonFile: the IMU of a Rig, a board and servos on ptys, and motors on a
// fake CAN bus.
type Wagon struct {
	*Rig
	Base   *mcutest.Board
	Neck   *dynamixeltest.Chain
	Arm    *mittest.Motors
	Closed map[string]bool // unplugged devices
	Set    []string        // settings with the addresses of the fakes
}

// NewWagon starts the devices of a wagon.
func NewWagon(t *testing.T) *Wagon {
	t.Helper()
	cfg, err := configs.Load(WagonFile)
	fatal.If(t, err)
	w := &Wagon{Rig: NewRig(), Closed: map[string]bool{}}
	if w.Base, err = mcutest.New(mcutest.Rover()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Unplug("base") })
	w.Neck, err = dynamixeltest.New(dynamixeltest.NewServo(1, 1020, 3), dynamixeltest.NewServo(2, 1060, 3))
	fatal.If(t, err)
	t.Cleanup(func() { w.Unplug("neck") })
	if w.Arm, err = mittest.New(sections.Get[mit.Config](DevicesOf(cfg)[3].Sections)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Unplug("arm") })
	const devices = "robot.composite.devices"
	w.Set = []string{
		devices + "[1].mcu.port.path=" + w.Base.Path,
		devices + "[2].dynamixel.port.path=" + w.Neck.Path,
		devices + "[3].mit.interface=" + w.Arm.Address,
	}
	return w
}

// DevicesOf returns the devices of a composite robot.
func DevicesOf(f configs.File) []assembly.Device { return Section[assembly.Config](f).Devices }

// Unplug unplugs base, neck or arm.
func (w *Wagon) Unplug(device string) {
	if w.Closed[device] {
		return
	}
	w.Closed[device] = true
	_ = map[string]interface{ Close() error }{"base": w.Base, "neck": w.Neck, "arm": w.Arm}[device].Close()
}

// WagonBundle writes an untrained model for the wagon and returns its folder.
func WagonBundle(t *testing.T) string {
	t.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: 9, Action: 6, Latent: 8, Ensemble: 2})
	dir := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)))
	return dir
}

// Stopped returns an error unless a device holds its failsafe output or stopped by its deadman.
func (w *Wagon) Stopped(device string) error {
	switch device {
	case "base":
		if outputs, armed := w.Base.Outputs(); armed || outputs[0] != 0 || outputs[1] != 0 {
			return fmt.Errorf("the base is armed (%v) or turns its wheels (%v)", armed, outputs)
		}
	case "neck":
		goal := w.Neck.Get(1, dynamixeltest.GoalPosition, 4)
		tripped := w.Neck.Get(1, dynamixeltest.Watchdog, 1) == -1
		if goal != PanFailsafe && !tripped {
			return fmt.Errorf("the neck's goal is %d, not %d, and its watchdog has not tripped", goal, PanFailsafe)
		}
	case "arm":
		goal, on := w.Arm.Goal(3)
		if on && math.Abs(goal.Position-shoulderFailsafe) > 0.001 {
			return fmt.Errorf("the shoulder is on and goes to %v", goal.Position)
		}
		if goal, on = w.Arm.Goal(4); on && math.Abs(goal.Velocity) > 0.02 {
			return fmt.Errorf("the elbow is on and turns with %v", goal.Velocity)
		}
	}
	return nil
}

// WaitStopped waits until devices are stopped and returns how long that took. It fails after limit.
func (w *Wagon) WaitStopped(t *testing.T, limit time.Duration, devices ...string) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		var errs []error
		for _, d := range devices {
			errs = append(errs, w.Stopped(d))
		}
		err := errors.Join(errs...)
		if err == nil {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			t.Fatalf("after %v: %v", limit, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// LongDeadman is the deadman in LongTimeouts.
const LongDeadman = 2500 * time.Millisecond

// LongTimeouts returns settings for a busy machine: unlike devices, fakes need its processors. A
// sample may have this age and a reply may take a quarter of it, so that one repeated request does
// not make the samples of other devices stale.
func LongTimeouts(age time.Duration) []string {
	ms := func(key string, d time.Duration) string {
		return fmt.Sprintf("robot.composite.devices%s=%d", key, d.Milliseconds())
	}
	set := []string{
		"loop.watchdog_ms=20000",
		// Else Arm refuses positions older than 100 ms.
		fmt.Sprintf("safety.max_sample_age_ms=%d", 2*age.Milliseconds()),
		ms("[0].stale_ms", age), ms("[1].mcu.stale_ms", age),
	}
	for i, driver := range []string{"mcu", "dynamixel", "mit"} {
		device := fmt.Sprintf("[%d].", i+1)
		set = append(set, ms(device+"stale_ms", age),
			ms(device+driver+".timeout_ms", age/4), ms(device+driver+".deadman_ms", LongDeadman))
	}
	return set
}

// WaitMoving waits until the program has armed the wagon and moves it.
func (w *Wagon) WaitMoving(t *testing.T, cmd *exec.Cmd, output *strings.Builder) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		outputs, armed := w.Base.Outputs()
		if armed && outputs[0] != 0 && w.Neck.Get(1, dynamixeltest.TorqueEnable, 1) == 1 {
			return
		}
		if time.Since(begun) > HangGuard {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("it never moved:\n%s", output)
		}
	}
}
