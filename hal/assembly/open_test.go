package assembly_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/assembly"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

func TestOpenDevices_NamesTheFaultyDeviceAndClosesTheBus(t *testing.T) {
	for name, c := range map[string]struct {
		inject func(*rigtest.Rig)
		want   string
	}{
		"no IMU": {
			func(r *rigtest.Rig) { r.Imu.Unplugged = true }, "robot.composite.devices[0] (imu): bno055 at 0x28",
		},
		"no PWM": {
			func(r *rigtest.Rig) { r.Pwm.Unplugged = true }, "robot.composite.devices[1] (base): pca9685 at 0x40",
		},
		"bus held":     {func(r *rigtest.Rig) { r.Bus.Hold(time.Microsecond) }, "did not answer in time"},
		"another chip": {func(r *rigtest.Rig) { r.Imu.Flip[0] = 1 }, "identity 0xa1"},
		"faulty PWM":   {func(r *rigtest.Rig) { r.Pwm.Flip[0xFE] = 1 }, "register 0xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigtest.NewRig()
			c.inject(r)
			f, err := configs.Load("composite")
			fatal.If(t, err)
			section := rigtest.Section[assembly.Config](f)
			_, err = assembly.OpenDevices(t.Context(), r.Hardware(), section, f.Loop.Period(), rtloop.Now)
			errtest.Contains(t, err, c.want)
			if !r.Bus.Closed() {
				t.Error("the bus is still open")
			}
		})
	}
}

func TestOpenDevices_HaltsOpenDevicesAfterAnError(t *testing.T) {
	for name, inject := range map[string]func(*rigtest.Wagon, context.CancelFunc){
		"motor missing": func(w *rigtest.Wagon, _ context.CancelFunc) { w.Arm.Mute(4, -1) },
		"signal": func(w *rigtest.Wagon, cancel context.CancelFunc) {
			w.Arm.Mute(3, -1)
			go func() {
				rigtest.WaitUntil(rigtest.HangGuard, func() bool { return w.Arm.Frames(3) > 0 })
				cancel()
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := rigtest.NewWagon(t)
			f, err := configs.Load(rigtest.WagonFile, w.Set...)
			fatal.If(t, err)
			w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1) // as after the death of a program
			w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			inject(w, cancel)
			_, err = assembly.OpenDevices(ctx, w.Hardware(), rigtest.Section[assembly.Config](f), f.Loop.Period(), rtloop.Now)
			if err == nil || !strings.Contains(err.Error(), "devices[3] (arm)") ||
				errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
				t.Errorf("error %v", err)
			}
			for _, device := range []string{"base", "neck"} {
				errtest.Nil(t, w.Stopped(device))
			}
		})
	}
}
