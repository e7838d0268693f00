package calibration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/assembly"
	"optibfm/hal/bno055"
	"optibfm/internal/control"
	"optibfm/internal/sections"
	"optibfm/internal/shell"
	"optibfm/rtloop"
)

// Options select the device and the file.
type Options struct {
	Config   string        // name or file of the robot's configuration
	Device   string        // name of the device; "" for the only BNO055
	Out      string        // file to write, which must not exist
	Timeout  time.Duration // for the whole calibration
	Interval time.Duration // between two reads of the status
}

// Run waits until the device is calibrated and writes the calibration to a file. On
// an error it leaves no file.
func Run(ctx context.Context, o Options, h assembly.Hardware, out io.Writer) (err error) {
	cfg, err := configs.Load(o.Config)
	if err != nil {
		return err
	}
	d, err := findDevice(cfg, o.Device)
	if err != nil {
		return err
	}
	release, err := control.Hold(cfg.Safety)
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	file, err := os.OpenFile(o.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("calibrate: %w; give a file that does not exist", err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(o.Out)
		}
	}()
	profile, err := calibrate(ctx, o, h, cfg, d, out)
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", d.Name, err)
	}
	if _, err := fmt.Fprintln(file, profile); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	fmt.Fprintf(out, "written; set the device's bno055.calibration_file to %s\n", o.Out)
	return nil
}

// findDevice returns the BNO055 of a name, or the only BNO055 of a robot.
func findDevice(cfg configs.File, name string) (found assembly.Device, err error) {
	n := 0
	robot, _ := cfg.Robot.Chosen().(assembly.Config)
	for _, d := range robot.Devices {
		if _, ok := d.Chosen().(bno055.Config); ok && (name == "" || d.Name == name) {
			found = d
			n++
		}
	}
	if n != 1 {
		return found, fmt.Errorf("calibrate: robot.composite.devices: %d devices match (--device %q); "+
			"name one with the driver bno055", n, name)
	}
	return found, nil
}

// calibrate opens the device, waits until it is calibrated and returns its calibration.
func calibrate(
	ctx context.Context, o Options, h assembly.Hardware, cfg configs.File, d assembly.Device, out io.Writer,
) (profile bno055.Profile, err error) {
	// A calibration from the configuration would make the chip report itself as calibrated.
	sections.Edit(&d.Sections, func(c *bno055.Config) {
		c.Read, c.Calibration, c.CalibrationFile = []string{"calibration"}, "", ""
	})
	opener := assembly.NewOpener(h, cfg.Robot.Chosen().(assembly.Config), rtloop.Now)
	defer func() { err = errors.Join(err, opener.Close()) }()
	device, err := opener.Open(ctx, d)
	if err != nil {
		return profile, err
	}
	imu := device.(*bno055.Device)
	defer func() { err = errors.Join(err, imu.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := wait(ctx, imu, sections.Get[bno055.Config](d.Sections).Mode, o.Interval, out); err != nil {
		return profile, err
	}
	return imu.Profile()
}

const calibrated = 3 // of 0 to 3

// wait prints the status of the chip until all sensors that its mode uses are calibrated.
func wait(ctx context.Context, imu hal.Device, mode string, interval time.Duration, out io.Writer) error {
	status := make([]float64, len(imu.Inputs())) // system, gyro, accel, mag
	var shown [3]float64
	for first := true; ; first = false {
		if _, err := imu.Read(status); err != nil {
			return err
		}
		now := [3]float64(status[1:4])
		if first || now != shown {
			fmt.Fprintf(out, "gyro %g of 3, accel %g of 3, mag %g of 3\n", now[0], now[1], now[2])
			shown = now
		}
		if now[0] == calibrated && now[1] == calibrated && (mode != bno055.NDOF || now[2] == calibrated) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not calibrated: %w; `%s` describes the movements",
				ctx.Err(), shell.ThisProgram().Command("help", "calibrate"))
		case <-time.After(interval):
		}
	}
}
