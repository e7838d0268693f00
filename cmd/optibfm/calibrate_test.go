package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/hal/bno055"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/internal/rigtest"
)

const calibrationStatus = 0x35 // register: two bits each of system, gyro, accel, mag

func TestAnIMUIsCalibratedByMovingItAndWhatItFoundIsKept(t *testing.T) {
	r := rigtest.NewRig()
	reads := 0
	before := r.Imu.Before
	r.Imu.Before = func(c *i2cbustest.Chip, reg byte) {
		before(c, reg)
		if reads++; reg == calibrationStatus {
			c.Registers[calibrationStatus] = 0b00_11_00_00
			if reads > 40 {
				c.Registers[calibrationStatus] = 0b00_11_11_00 // in mode imu there is no magnetometer
			}
		}
		for i := range byte(22) {
			c.Registers[0x55+i] = i
		}
	}
	path := filepath.Join(t.TempDir(), "imu.calibration")
	var out bytes.Buffer
	f := calibrateFlags{config: "composite", out: path, timeout: 10 * time.Second, interval: time.Millisecond}
	if err := calibrate(context.Background(), f, r.Hardware(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if want := "gyro 3 of 3, accel 0 of 3, mag 0 of 3\ngyro 3 of 3, accel 3 of 3, mag 0 of 3\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("shown:\n%s", out.String())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := bno055.ParseProfile(string(text))
	if err != nil || profile[21] != 21 {
		t.Errorf("%v: %s", err, text)
	}
	if err := calibrate(context.Background(), f, r.Hardware(), &out); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("over a file: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, text) {
		t.Error("the file was changed")
	}
}

func TestACalibrationThatDoesNotHappenLeavesNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rigtest.Rig, *calibrateFlags)
		says   string
	}{
		"nobody moves it": {func(r *rigtest.Rig, _ *calibrateFlags) {
			before := r.Imu.Before
			r.Imu.Before = func(c *i2cbustest.Chip, reg byte) {
				before(c, reg)
				c.Registers[calibrationStatus] = 0
			}
		}, "not calibrated"},
		"it is unplugged": {func(r *rigtest.Rig, _ *calibrateFlags) { r.Imu.Unplugged = true }, "calibrate: imu: bno055"},
		"another device":  {func(_ *rigtest.Rig, f *calibrateFlags) { f.device = "base" }, "name one with the driver bno055"},
		"another robot":   {func(_ *rigtest.Rig, f *calibrateFlags) { f.config = "rover" }, "name one with the driver bno055"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rigtest.NewRig()
			f := calibrateFlags{config: "composite", out: filepath.Join(t.TempDir(), "imu"), timeout: 20 * time.Millisecond, interval: time.Millisecond}
			c.change(r, &f)
			var out bytes.Buffer
			if err := calibrate(context.Background(), f, r.Hardware(), &out); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q: %v", c.says, err)
			}
			if _, err := os.Stat(f.out); err == nil {
				t.Error("there is a file")
			}
		})
	}
}
