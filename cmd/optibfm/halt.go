package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/rtloop"
)

// haltPatience is for a server that has to answer a bridge.
const haltPatience = 20 * time.Second

// serviceResult is how the service manager tells what is run after a service how
// that ended: systemd.exec(5).
const serviceResult = "SERVICE_RESULT"

func newHaltCommand() *cobra.Command {
	var config string
	var set []string
	var ifFailed bool
	cmd := &cobra.Command{
		Use: "halt", Args: cobra.NoArgs,
		Short: "Halt a robot whose controller died",
		Long: `Bring the robot of a configuration to its failsafe output, and exit. For a robot that
nobody controls any more: its control process was killed. Of a robot made of devices, each
one with outputs is opened and halted by itself, so that one that is broken, or a sensor,
keeps no other from being halted. It is refused while a control process holds the robot: then
say stop. It is no emergency stop: use the button that cuts the power.`,
		Example: "  optibfm halt --config /etc/optibfm/robot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ifFailed && os.Getenv(serviceResult) == "success" {
				return nil // its own Halt was the last thing that it did
			}
			file, err := configs.Load(config, set...)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, haltPatience)
			defer cancel()
			return halt(ctx, cmd.OutOrStdout(), attached, file)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&config, "config", "c", embeddedConfig, "the `CONFIG` that the robot ran with")
	fl.StringArrayVar(&set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	fl.BoolVar(&ifFailed, "if-failed", false, "do nothing where the service manager says that the service ended well ("+serviceResult+")")
	return cmd
}

// halt brings the robot that a configuration describes to its failsafe output.
func halt(ctx context.Context, out io.Writer, h hardware, file configs.File) (err error) {
	if why := nothingToHalt(file); why != "" {
		_, err := fmt.Fprintf(out, "nothing to halt: %s\n", why)
		return err
	}
	// No other process may take the robot meanwhile, as no other may have it now.
	socket, err := listenControl(file.Safety)
	if errors.Is(err, errSocketTaken) {
		return fmt.Errorf("halt: refused: a control process holds the robot (it answers at %s): say `optibfm stop`, or end it", file.Safety.Socket)
	}
	if err != nil {
		return fmt.Errorf("halt: %w", err)
	}
	defer func() { err = errors.Join(err, socket.close()) }()
	var halted []string
	if file.Robot.Driver == configs.DriverComposite {
		halted, err = haltDevices(h, file)
	} else {
		halted, err = haltRobot(ctx, file)
	}
	if len(halted) > 0 {
		fmt.Fprintf(out, "halted: %s\n", strings.Join(halted, ", "))
	}
	if err != nil {
		return fmt.Errorf("halt: %w: look at the robot before anything else", err)
	}
	return nil
}

// nothingToHalt says why a configuration moves nothing, "" where it may.
func nothingToHalt(file configs.File) string {
	switch {
	case file.Run.Shadow:
		return "run.shadow is true: this program moved nothing, and may not stop what does"
	case file.Run.Lockstep:
		return "run.lockstep is true: the robot is simulated"
	case file.Robot.Driver == configs.DriverRover:
		return "robot.driver is rover: it is simulated"
	}
	return ""
}

// haltRobot opens a robot and halts it.
func haltRobot(ctx context.Context, file configs.File) (halted []string, err error) {
	robot, err := openDriver(ctx, file, rtloop.Now)
	if err != nil {
		return nil, err
	}
	if err := closeRobot(robot); err != nil {
		return nil, err
	}
	return []string{robot.Spec().Name}, nil
}

// haltDevices halts the devices of a robot that have outputs one by one, whatever
// becomes of the others.
func haltDevices(h hardware, file configs.File) (halted []string, err error) {
	c := file.Robot.Composite
	failsafe, err := c.Failsafe(file.Loop.Period())
	if err != nil {
		return nil, err
	}
	o := newOpener(h, c, rtloop.Now)
	var errs []error
	for i, d := range c.Devices {
		if len(failsafe[i]) == 0 {
			continue
		}
		if err := haltDevice(o, d, failsafe[i]); err != nil {
			errs = append(errs, fmt.Errorf("robot.composite.devices[%d] (%s): %w", i, d.Name, err))
			continue
		}
		halted = append(halted, d.Name)
	}
	return halted, errors.Join(append(errs, o.close())...)
}

func haltDevice(o *opener, d configs.Device, failsafe []float64) error {
	device, err := o.open(d)
	if err != nil {
		return err
	}
	return errors.Join(haltOutputs(device, failsafe), device.Close())
}

// haltOutputs refuses a board that turns out to have others than the
// configuration says.
func haltOutputs(device hal.Device, failsafe []float64) error {
	if n := len(device.Outputs()); n != len(failsafe) {
		return fmt.Errorf("it has %d outputs, the configuration names %d: make them the same", n, len(failsafe))
	}
	return device.Halt(failsafe)
}
