package setup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

func TestOpenDevices_HaltsOpenDevicesAfterAnError(t *testing.T) {
	for name, fail := range map[string]func(*rigtest.Wagon, context.CancelFunc){
		"a motor is missing": func(w *rigtest.Wagon, _ context.CancelFunc) { w.Arm.Mute(4, -1) },
		"a signal comes":     func(w *rigtest.Wagon, cancel context.CancelFunc) { w.Arm.Mute(3, -1); go onFrame(w, 3, cancel) },
	} {
		t.Run(name, func(t *testing.T) {
			w := rigtest.NewWagon(t)
			file, err := configs.Load(rigtest.WagonFile, w.Set...)
			if err != nil {
				t.Fatal(err)
			}
			w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1) // as a program that died has left it
			w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fail(w, cancel)
			_, err = setup.OpenDevices(ctx, w.Hardware(), file.Robot.Composite, file.Loop.Period(), rtloop.Now)
			if err == nil || !strings.Contains(err.Error(), "devices[3] (arm)") ||
				errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
				t.Errorf("error %v", err)
			}
			for _, device := range []string{"base", "neck"} {
				if err := w.Stopped(device); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// onFrame does something when a motor of the arm has been sent a frame.
func onFrame(w *rigtest.Wagon, motor int, do func()) {
	rigtest.WaitUntil(20*time.Second, func() bool { return w.Arm.Frames(motor) > 0 })
	do()
}
