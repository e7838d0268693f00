package halt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"optibfm/configs"
	"optibfm/internal/control"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/rtloop"
)

// Robot brings the robot of a configuration to its failsafe output. It prints the
// halted devices to out, with notes on those that do not hold their failsafe output.
// It returns when ctx is done, even if a device hangs.
func Robot(ctx context.Context, out, warnings io.Writer, file configs.File) (err error) {
	if reason := nothingToHalt(file); reason != "" {
		_, err := fmt.Fprintf(out, "nothing to halt: %s\n", reason)
		return err
	}
	socket, err := lock(warnings, file.Safety)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	lines, err := plan(ctx, file)
	if err != nil {
		return fmt.Errorf("halt: %w", err)
	}
	results := haltLines(ctx, lines)
	printResults(out, results)
	var errs []error
	for _, r := range results {
		errs = append(errs, r.err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("halt: %w; look at the robot before you do anything else", err)
	}
	return nil
}

// lock takes the control lock. It returns an error if another process has it. If it cannot create
// the lock, it prints a warning and returns nil.
func lock(warnings io.Writer, s configs.Safety) (*control.Server, error) {
	if s.Socket == "" {
		fmt.Fprint(warnings, plaintext.Wrap("warning: safety.socket is empty, so a control process "+
			"that holds the robot is not detected; make sure that none runs"))
		return nil, nil
	}
	s.Group = "" // the socket answers no caller
	socket, err := control.Listen(s)
	if errors.Is(err, control.ErrSocketInUse) {
		return nil, fmt.Errorf("halt: another process holds the robot (socket %s); "+
			"run `%s`, or end it", s.Socket, shell.ThisProgram().Command("stop", "--socket", s.Socket))
	}
	if err != nil {
		fmt.Fprint(warnings, plaintext.Wrap(fmt.Sprintf("warning: %v: a control process can still "+
			"take the robot; make sure that none starts", err)))
		return nil, nil
	}
	return socket, nil
}

// nothingToHalt returns the reason why there is no robot to halt, "" if there is one.
func nothingToHalt(file configs.File) string {
	switch {
	case file.Run.Shadow:
		return "run.shadow is true: another program moves the robot"
	case file.Run.Lockstep:
		return "run.lockstep is true: the robot is simulated"
	case setup.Simulated(file.Robot) && !registry.HasOwnTime(file.Robot.Chosen()):
		return fmt.Sprintf("robot.driver is %s: it is simulated", file.Robot.Driver)
	}
	return ""
}

// task halts one device, or a robot that has no separate devices.
type task struct {
	name string
	key  string // in the configuration
	do   func(*result) error
}

// result is the outcome of a task.
type result struct {
	name  string
	notes []string // deviations from the failsafe output
	err   error
}

// plan returns the tasks of a robot, grouped by line or bus.
func plan(ctx context.Context, file configs.File) ([][]task, error) {
	key := "robot." + file.Robot.Driver
	parts, ok := file.Robot.Chosen().(registry.Halting)
	if !ok {
		return [][]task{{{
			name: file.Robot.Driver, key: key,
			do: func(r *result) error { return haltWhole(ctx, file, r) },
		}}}, nil
	}
	tasks, err := parts.HaltTasks(file.Loop.Period(), rtloop.Now)
	if err != nil {
		return nil, err
	}
	var lines [][]task
	index := map[string]int{}
	for _, t := range tasks {
		line, known := index[t.Line]
		if !known {
			line = len(lines)
			index[t.Line] = line
			lines = append(lines, nil)
		}
		lines[line] = append(lines[line], task{
			name: t.Name, key: key + "." + t.Key,
			do: func(r *result) (err error) {
				r.notes, err = t.Halt(ctx)
				return err
			},
		})
	}
	return lines, nil
}

// haltLines runs all tasks, the lines concurrently, and returns the results in order.
// When ctx is done, the remaining tasks get an error; a line that hangs ends with the
// process.
func haltLines(ctx context.Context, lines [][]task) []result {
	var results []result
	var ended []<-chan result
	for _, line := range lines {
		for _, t := range line {
			results = append(results, result{name: t.name, err: fmt.Errorf("%s: not finished", t.key)})
		}
		c := make(chan result, len(line))
		ended = append(ended, c)
		go func() {
			for _, t := range line {
				c <- t.run()
			}
		}()
	}
	next := 0
	for i, line := range lines {
		for range line {
			r := &results[next]
			next++
			select {
			case *r = <-ended[i]:
				continue
			case <-ctx.Done():
			}
			select {
			case *r = <-ended[i]: // it ended at the same time as ctx
			default:
				r.err = fmt.Errorf("%w: %w", r.err, context.Cause(ctx))
			}
		}
	}
	return results
}

// run runs a task and returns a panic of the driver as an error.
func (t task) run() (r result) {
	r.name = t.name
	defer func() {
		if value := recover(); value != nil {
			r.err = fmt.Errorf("%s: panic: %v", t.key, value)
		}
	}()
	if err := t.do(&r); err != nil {
		r.err = fmt.Errorf("%s: %w", t.key, err)
	}
	return r
}

// printResults lists the halted devices and the notes.
func printResults(out io.Writer, results []result) {
	var halted []string
	for _, r := range results {
		if r.err == nil {
			halted = append(halted, r.name)
		}
	}
	if len(halted) > 0 {
		fmt.Fprintf(out, "halted: %s\n", strings.Join(halted, ", "))
	}
	for _, r := range results {
		for _, note := range r.notes {
			fmt.Fprintf(out, "%s: %s\n", r.name, note)
		}
	}
}

// haltWhole opens a robot that has no separate devices, and halts it.
func haltWhole(ctx context.Context, file configs.File, r *result) error {
	robot, err := setup.OpenDriver(ctx, file, rtloop.Now)
	if err != nil {
		return err
	}
	r.name = robot.Spec().Name
	if d, ok := robot.(interface{ Damp() error }); ok { // a process that died may have armed it
		err = d.Damp()
	}
	return errors.Join(err, setup.CloseRobot(robot))
}
