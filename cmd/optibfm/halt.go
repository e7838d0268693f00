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
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/internal/control"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// haltPatience bounds a halt as a whole, whatever hangs: a server that has to answer a
// bridge is the slowest that may still do it.
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
one with outputs is halted by itself, and those on different lines and buses at the same time,
so that one that is broken, or a sensor, keeps no other from being halted or waiting. Of servos
and CAN motors each is told by itself, also where another one is silent. Those that do not
answer, and a board that does not, are told blindly.

What is told of a device behind "halted" is what it does other than hold its failsafe output:
servos without torque, and CAN motors out of motor mode, are limp. A motor that was in motor
mode holds its failsafe goal, until its own timeout passes, where it has one.

It is refused while a control process holds the robot, which answers at safety.socket: then
say stop. Where that key is empty, or no socket can be made there, nothing is refused, which
is said. It ends after 20 s, or a SIGTERM, whatever hangs. It is no emergency stop: use the
button that cuts the power.`,
		Example: "  optibfm halt --config /etc/optibfm/robot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config == "" {
				return errors.New("halt: --config: it is missing: name the configuration that the robot ran with")
			}
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
			return halt(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), setup.LocalHardware, file)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&config, "config", "c", "", "the `CONFIG` that the robot ran with; required")
	fl.StringArrayVar(&set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	fl.BoolVar(&ifFailed, "if-failed", false, "do nothing where the service manager says that the service ended well ("+serviceResult+")")
	return cmd
}

// halt brings the robot that a configuration describes to its failsafe output.
func halt(ctx context.Context, out, warnings io.Writer, h setup.Hardware, file configs.File) (err error) {
	if why := nothingToHalt(file); why != "" {
		_, err := fmt.Fprintf(out, "nothing to halt: %s\n", why)
		return err
	}
	socket, err := claim(warnings, file.Safety)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	lines, err := linesToHalt(ctx, h, file)
	if err != nil {
		return fmt.Errorf("halt: %w", err)
	}
	ended := haltLines(ctx, lines)
	tellEnds(out, ended)
	var errs []error
	for _, e := range ended {
		errs = append(errs, e.err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("halt: %w: look at the robot before anything else", err)
	}
	return nil
}

// claim keeps every other process from taking the robot meanwhile. It refuses only
// where one has it: what keeps the lock from being made keeps no robot from being
// halted.
func claim(warnings io.Writer, s configs.Safety) (*control.Server, error) {
	if s.Socket == "" {
		fmt.Fprint(warnings, plaintext.Wrap("warning: safety.socket is empty: nobody can tell whether a control process holds the robot: see to it that none does"))
		return nil, nil
	}
	s.Group = "" // nobody is answered here
	socket, err := control.Listen(s)
	if errors.Is(err, control.ErrSocketInUse) {
		return nil, fmt.Errorf("halt: refused: a control process holds the robot (it answers at %s): say `optibfm stop`, or end it", s.Socket)
	}
	if err != nil {
		fmt.Fprint(warnings, plaintext.Wrap(fmt.Sprintf("warning: %v: nothing keeps a control process from taking the robot meanwhile: see to it that none does", err)))
		return nil, nil
	}
	return socket, nil
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

// haltTask halts a device, or a robot that is not made of devices.
type haltTask struct {
	name string
	key  string // of the configuration
	do   func(*haltEnd) error
}

// haltEnd is what became of a task.
type haltEnd struct {
	name  string
	notes []string // what it does other than hold its failsafe output
	err   error
}

// linesToHalt are the tasks of a robot. Those of one line or bus are done one after
// the other.
func linesToHalt(ctx context.Context, h setup.Hardware, file configs.File) ([][]haltTask, error) {
	if file.Robot.Driver != configs.DriverComposite {
		return [][]haltTask{{{name: file.Robot.Driver, key: "robot." + file.Robot.Driver, do: func(end *haltEnd) error { return haltRobot(ctx, file, end) }}}}, nil
	}
	c := file.Robot.Composite
	failsafe, err := c.Failsafe(file.Loop.Period())
	if err != nil {
		return nil, err
	}
	var lines [][]haltTask
	at := map[string]int{}
	for i, d := range c.Devices {
		if len(failsafe[i]) == 0 {
			continue
		}
		line, known := at[setup.BusOf(d)]
		if !known {
			line = len(lines)
			at[setup.BusOf(d)] = line
			lines = append(lines, nil)
		}
		lines[line] = append(lines[line], haltTask{
			name: d.Name, key: fmt.Sprintf("robot.composite.devices[%d] (%s)", i, d.Name),
			do: func(end *haltEnd) (err error) {
				end.notes, err = haltDevice(ctx, h, c, d, failsafe[i])
				return err
			},
		})
	}
	return lines, nil
}

// haltLines does all tasks, those of different lines at the same time, until the
// context ends: a line that hangs keeps nobody waiting, and dies with the process.
func haltLines(ctx context.Context, lines [][]haltTask) []haltEnd {
	var ends []haltEnd
	var open []<-chan haltEnd
	for _, line := range lines {
		for _, task := range line {
			ends = append(ends, haltEnd{name: task.name, err: fmt.Errorf("%s: it has not ended", task.key)})
		}
		done := make(chan haltEnd, len(line))
		open = append(open, done)
		go func() {
			for _, task := range line {
				done <- task.run()
			}
		}()
	}
	next := 0
	for i, line := range lines {
		for k := range line {
			select {
			case ends[next+k] = <-open[i]:
				continue
			case <-ctx.Done():
			}
			select {
			case ends[next+k] = <-open[i]: // it had ended by then
			default:
				ends[next+k].err = fmt.Errorf("%w: %w", ends[next+k].err, context.Cause(ctx))
			}
		}
		next += len(line)
	}
	return ends
}

// run does a task. A driver that panics keeps no other device from being halted.
func (t haltTask) run() (end haltEnd) {
	end.name = t.name
	defer func() {
		if value := recover(); value != nil {
			end.err = fmt.Errorf("%s: panic: %v", t.key, value)
		}
	}()
	if err := t.do(&end); err != nil {
		end.err = fmt.Errorf("%s: %w", t.key, err)
	}
	return end
}

// tellEnds says who was halted, and what is to be known of each.
func tellEnds(out io.Writer, ends []haltEnd) {
	var halted []string
	for _, e := range ends {
		if e.err == nil {
			halted = append(halted, e.name)
		}
	}
	if len(halted) > 0 {
		fmt.Fprintf(out, "halted: %s\n", strings.Join(halted, ", "))
	}
	for _, e := range ends {
		for _, note := range e.notes {
			fmt.Fprintf(out, "%s: %s\n", e.name, note)
		}
	}
}

// haltRobot opens a robot, which has a name of its own, and halts it.
func haltRobot(ctx context.Context, file configs.File, end *haltEnd) error {
	robot, err := setup.OpenDriver(ctx, file, rtloop.Now)
	if err != nil {
		return err
	}
	end.name = robot.Spec().Name
	return setup.CloseRobot(robot)
}

// haltDevice halts a device. Servos, CAN motors and boards need not be opened, for which
// each of them would have to be there and well.
func haltDevice(
	ctx context.Context, h setup.Hardware, c configs.Composite, d configs.Device, failsafe []float64,
) (notes []string, err error) {
	switch section := d.Section().(type) {
	case dynamixel.Config:
		return dynamixel.HaltAll(section, failsafe)
	case feetech.Config:
		return feetech.HaltAll(section, failsafe)
	case mit.Config:
		return mit.HaltAll(section, failsafe)
	case mcu.Config:
		return nil, mcu.HaltBoard(section, failsafe)
	}
	o := setup.NewDeviceOpener(h, c, rtloop.Now)
	defer func() { err = errors.Join(err, o.Close()) }()
	device, err := o.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(device.Halt(failsafe), device.Close())
}
