package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bno055"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	config, device, out string
	timeout, interval   time.Duration
}

func newCalibrateCommand() *cobra.Command {
	f := calibrateFlags{interval: 500 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Calibrate a BNO055 by moving it, and keep what it has found",
		Long: `Show how far a BNO055 has calibrated itself while you move it, and write its
calibration to a file when it is done. Nothing else of the robot is opened. Put
the file's path into bno055.calibration_file; the chip is then given it at every
start. The robot must not be running.

  gyro    lay it still for some seconds
  accel   hold it still in six positions, each for some seconds, standing on
          each of its sides
  mag     (mode ndof) move it in figures of eight`,
		Example: `  optibfm calibrate --config myrover.yaml -o /etc/optibfm/imu.calibration`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return calibrate(ctx, f, setup.LocalHardware, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "the robot's configuration: a ready-made one or a file")
	fl.StringVar(&f.device, "device", "", "name of the device (default: the only BNO055)")
	fl.StringVarP(&f.out, "out", "o", "", "file to write, which must not exist")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Minute, "the time for all of it")
	for _, name := range []string{"config", "out"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

func calibrate(ctx context.Context, f calibrateFlags, h setup.Hardware, out io.Writer) (err error) {
	cfg, err := configs.Load(f.config)
	if err != nil {
		return err
	}
	d, err := findBNO055(cfg, f.device)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("calibrate: %w: give a file that does not exist", err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(f.out)
		}
	}()
	// What the chip was given before shall not stand for what it finds now.
	d.BNO055.Read, d.BNO055.Calibration, d.BNO055.CalibrationFile = []string{"calibration"}, "", ""
	o := setup.NewDeviceOpener(h, cfg.Robot.Composite, rtloop.Now)
	defer func() { err = errors.Join(err, o.Close()) }()
	device, err := o.Open(ctx, d)
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", d.Name, err)
	}
	imu := device.(*bno055.Device)
	defer func() { err = errors.Join(err, imu.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := awaitCalibration(ctx, imu, d.BNO055.Mode, f.interval, out); err != nil {
		return fmt.Errorf("calibrate: %s: %w", d.Name, err)
	}
	profile, err := imu.Profile()
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", d.Name, err)
	}
	if _, err := fmt.Fprintln(file, profile); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	fmt.Fprintf(out, "written: set the device's bno055.calibration_file to %s\n", f.out)
	return nil
}

// findBNO055 finds the device of a name, or the only BNO055 of a robot.
func findBNO055(cfg configs.File, name string) (found configs.Device, err error) {
	n := 0
	for _, d := range cfg.Robot.Composite.Devices {
		if _, ok := d.Section().(bno055.Config); ok && (name == "" || d.Name == name) {
			found = d
			n++
		}
	}
	if cfg.Robot.Driver != configs.DriverComposite || n != 1 {
		return found, fmt.Errorf("calibrate: robot.composite.devices: %d of them fit (--device %q): name one with the driver bno055", n, name)
	}
	return found, nil
}

const calibrated = 3 // of 0 to 3

// awaitCalibration shows how far the chip is until all sensors that its mode
// uses are calibrated.
func awaitCalibration(ctx context.Context, imu hal.Device, mode string, interval time.Duration, out io.Writer) error {
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
			return fmt.Errorf("not calibrated: %w: move it as `optibfm help calibrate` says", ctx.Err())
		case <-time.After(interval):
		}
	}
}
