package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/hal/assembly"
	"optibfm/internal/cli/calibration"
)

func newCalibrateCommand() *cobra.Command {
	o := calibration.Options{Interval: 500 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Calibrate a BNO055 orientation sensor while you move it",
		Long: `Show the progress of a BNO055 that calibrates itself while you move it, and write
the calibration to a file when it is complete. The key bno055.calibration_file
then loads it at each start. The command opens no other device of the robot. The
robot must not be running.

  gyro    put the sensor down for some seconds
  accel   hold it in six positions for some seconds each, one for each side
  mag     (mode ndof) move it in figures of eight`,
		Example: `  optibfm calibrate --config myrobot.yaml -o /etc/optibfm/imu.calibration`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return calibration.Run(ctx, o, assembly.LocalHardware, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&o.Config, "config", "c", "", "the robot's `CONFIG`: a file, or a name (optibfm config list)")
	fl.StringVar(&o.Device, "device", "", "name of the device (default: the only BNO055)")
	fl.StringVarP(&o.Out, "out", "o", "", "file to write, which must not exist")
	fl.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "the time for the whole calibration")
	for _, flag := range []string{"config", "out"} {
		if err := cmd.MarkFlagRequired(flag); err != nil {
			panic(err) // no such flag
		}
	}
	return cmd
}
