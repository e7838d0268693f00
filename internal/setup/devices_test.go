package setup_test

import (
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

func TestADeviceThatCannotBeOpenedIsNamedAndNothingStaysOpen(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*rigtest.Rig)
		says    string
	}{
		"no IMU":           {func(r *rigtest.Rig) { r.Imu.Unplugged = true }, "robot.composite.devices[0] (imu): bno055 at 0x28"},
		"no PWM":           {func(r *rigtest.Rig) { r.Pwm.Unplugged = true }, "robot.composite.devices[1] (base): pca9685 at 0x40"},
		"a bus held down":  {func(r *rigtest.Rig) { r.Bus.Hold(time.Microsecond) }, "did not answer in time"},
		"another chip":     {func(r *rigtest.Rig) { r.Imu.Flip[0] = 1 }, "it says 0xa1"},
		"a PWM that fails": {func(r *rigtest.Rig) { r.Pwm.Flip[0xFE] = 1 }, "register 0xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigtest.NewRig()
			c.breakIt(r)
			cfg, err := configs.Load("composite")
			if err != nil {
				t.Fatal(err)
			}
			_, err = setup.OpenDevices(t.Context(), r.Hardware(), cfg.Robot.Composite, cfg.Loop.Period(), rtloop.Now)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q: %v", c.says, err)
			}
			if !r.Bus.Closed() {
				t.Error("the bus is still open")
			}
		})
	}
}
