package calibration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/bno055"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

const statusRegister = 0x35 // two bits each of system, gyro, accel, mag

func TestRun_WaitsForTheChipAndWritesItsCalibration(t *testing.T) {
	r := rigtest.NewRig()
	reads := 0
	before := r.Imu.Before
	r.Imu.Before = func(c *i2cbustest.Chip, reg byte) {
		before(c, reg)
		if reads++; reg == statusRegister {
			c.Registers[statusRegister] = 0b00_11_00_00
			if reads > 40 {
				c.Registers[statusRegister] = 0b00_11_11_00 // mode imu uses no magnetometer
			}
		}
		for i := range byte(22) {
			c.Registers[0x55+i] = i
		}
	}
	path := filepath.Join(t.TempDir(), "imu.calibration")
	var out bytes.Buffer
	o := Options{Config: "composite", Out: path, Timeout: time.Minute, Interval: time.Millisecond}
	if err := Run(t.Context(), o, r.Hardware(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const want = "gyro 3 of 3, accel 0 of 3, mag 0 of 3\ngyro 3 of 3, accel 3 of 3, mag 0 of 3\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed:\n%s", out.String())
	}
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	profile, err := bno055.ParseProfile(string(text))
	if err != nil || profile[21] != 21 {
		t.Errorf("%v: %s", err, text)
	}
	errtest.Contains(t, Run(t.Context(), o, r.Hardware(), &out), "does not exist", "over a file")
	if after, _ := os.ReadFile(path); !bytes.Equal(after, text) {
		t.Error("the existing file was changed")
	}
}

func TestRun_OpensNoDeviceOfARobotThatIsHeld(t *testing.T) {
	dir := t.TempDir()
	socket, config := filepath.Join(dir, "s"), filepath.Join(dir, "robot.yaml")
	file, err := configs.Load("composite", "safety.socket="+socket)
	fatal.If(t, err)
	text, err := file.YAML()
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(config, text, 0o600))
	held, err := control.Listen(file.Safety)
	fatal.If(t, err)
	defer func() { _ = held.Close() }()
	r := rigtest.NewRig()
	r.Imu.Before = func(*i2cbustest.Chip, byte) { t.Error("it opened the device") }
	o := Options{Config: config, Out: filepath.Join(dir, "imu.calibration"), Timeout: time.Minute}
	errtest.Is(t, Run(t.Context(), o, r.Hardware(), &bytes.Buffer{}), control.ErrSocketInUse)
}

func TestRun_LeavesNoFileOnAnError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rigtest.Rig, *Options)
		want   string
	}{
		"not moved": {func(r *rigtest.Rig, _ *Options) {
			before := r.Imu.Before
			r.Imu.Before = func(c *i2cbustest.Chip, reg byte) {
				before(c, reg)
				c.Registers[statusRegister] = 0
			}
		}, "not calibrated"},
		"unplugged":      {func(r *rigtest.Rig, _ *Options) { r.Imu.Unplugged = true }, "calibrate: imu: bno055"},
		"another device": {func(_ *rigtest.Rig, o *Options) { o.Device = "base" }, "name one with the driver bno055"},
		"another robot":  {func(_ *rigtest.Rig, o *Options) { o.Config = "rover" }, "name one with the driver bno055"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rigtest.NewRig()
			o := Options{
				Config: "composite", Out: filepath.Join(t.TempDir(), "imu"),
				Timeout: 20 * time.Millisecond, Interval: time.Millisecond,
			}
			c.change(r, &o)
			err := Run(t.Context(), o, r.Hardware(), &bytes.Buffer{})
			errtest.Contains(t, err, c.want)
			errtest.NotNil(t, errtest.Of(os.Stat(o.Out)), "a file is left")
		})
	}
}
