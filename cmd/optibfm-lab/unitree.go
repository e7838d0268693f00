package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"optibfm/hal/bridge"
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/simulator"
)

func newUnitreeRobotCommand() *cobra.Command {
	var o unitreeRobot
	cmd := &cobra.Command{
		Use:   "unitree-robot",
		Short: "Be a Unitree robot on the loopback interface",
		Long: `Be a Unitree Go2 or G1 on the loopback interface: read commands (rt/lowcmd) and
send states (rt/lowstate) at 500 Hz, as the robot does. Without --physics each
joint is an inertia, and the body hangs. With "python3 scripts/go2_motors.py --lie"
it is a Go2 in MuJoCo that lies on the floor.

Standard input is the remote control: a line has buttons, and for how many seconds they are pressed.`,
		Example: `  optibfm-lab unitree-robot --model go2
  L1+start 1.5     arms
  A 0.1            good
  L2+B 0.2         stops`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.model, "model", unitree.Go2, "go2 or g1")
	flags.IntVar(&o.domain, "domain", 0, "DDS domain")
	flags.StringVar(&o.library, "library", "", "file or folder of libddsc 0.10")
	flags.StringVar(&o.physics, "physics", "", "`COMMAND` of a bridge's server with the channels of scripts/go2_motors.py")
	flags.StringVar(&o.controller, "controller", "", "`NAME` of the robot's own controller, which is active at the start")
	return cmd
}

// unitreeRobot has the flags of the command.
type unitreeRobot struct {
	model, library, physics, controller string
	domain                              int
}

func (o *unitreeRobot) run(ctx context.Context, in io.Reader, out io.Writer) error {
	library, err := dds.Open(o.library)
	if err != nil {
		return err
	}
	p, err := library.Join(uint32(o.domain), dds.Loopback)
	if err != nil {
		return err
	}
	defer p.Close()
	physics, err := o.openPhysics(ctx)
	if err != nil {
		return err
	}
	robot, err := simulator.New(p, o.model, physics)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s on lo, domain %d; Cyclone DDS %s\n", o.model, o.domain, library.Version)
	go o.remoteControl(in, out, robot)
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- o.serveController(ctx, p) }()
	err = robot.Run(ctx)
	cancel()
	return errors.Join(err, <-served)
}

func (o *unitreeRobot) openPhysics(ctx context.Context) (simulator.Physics, error) {
	if o.physics == "" {
		pose := make([]float64, len(unitree.Joints(o.model)))
		for i, j := range unitree.Joints(o.model) {
			pose[i] = min(max(0, j.Min), j.Max)
		}
		return &simulator.Springs{Pose: pose}, nil
	}
	robot, err := bridge.Dial(ctx, bridge.Config{Command: strings.Fields(o.physics), Mode: bridge.Lockstep})
	if err != nil {
		return nil, err
	}
	return simulator.NewBridged(robot, o.model)
}

// serveController is the service that releases the robot's own controller.
func (o *unitreeRobot) serveController(ctx context.Context, p *dds.Participant) error {
	active := o.controller
	return dds.Serve(ctx, p, dds.MotionSwitcher, func(api int64, _ string) (int, string) {
		switch api {
		case dds.CheckMode:
			return 0, fmt.Sprintf(`{"form":"0","name":%q}`, active)
		case dds.ReleaseMode:
			active = ""
			return 0, ""
		}
		return 3203, ""
	})
}

// remoteControl presses buttons for a while, as the lines of its input say.
func (o *unitreeRobot) remoteControl(in io.Reader, out io.Writer, robot *simulator.Robot) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		buttons, seconds, err := parsePress(lines.Text())
		if err != nil {
			fmt.Fprintln(out, err)
			continue
		}
		robot.Set(func(f *simulator.Faults) { f.Buttons = buttons })
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		robot.Set(func(f *simulator.Faults) { f.Buttons = 0 })
	}
}

func parsePress(line string) (b unitree.Buttons, seconds float64, err error) {
	names, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if b, err = unitree.ParseButtons(names); err != nil {
		return 0, 0, err
	}
	if text == "" {
		return b, 0.1, nil
	}
	seconds, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(seconds > 0 && seconds < 60) {
		return 0, 0, fmt.Errorf("%q is not a number of seconds from 0 to 60", text)
	}
	return b, seconds, nil
}
