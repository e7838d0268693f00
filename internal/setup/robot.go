package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
	"optibfm/hal/shadow"
	"optibfm/internal/link"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/scripted"
)

// InputDevices is the input system of an evdev source. Tests replace it.
var InputDevices evdev.System = evdev.Kernel{}

// OpenRobot opens the robot of a session, halted, and compares its channels with those of the model. In a
// shadow run no action reaches its actuators. now is the clock of the robot in ns; nil means simulated time.
func OpenRobot(ctx context.Context, s *Session, now func() int64) (hal.Robot, error) {
	robot, err := OpenDriver(ctx, s.File, now)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%w)", link.ErrInterrupted, err)
	}
	if err != nil {
		return nil, err
	}
	err = errors.Join(checkRobotChannels(s.File, robot.Spec(), s.Model), checkHold(s.File, robot.Spec()))
	if err != nil {
		return nil, errors.Join(err, CloseRobot(robot))
	}
	if s.File.Run.Shadow {
		return shadow.Wrap(robot), nil
	}
	return robot, nil
}

// OpenDriver opens the robot of a configuration, halted, without a model.
func OpenDriver(ctx context.Context, f configs.File, now func() int64) (hal.Robot, error) {
	switch r := f.Robot; r.Driver {
	case configs.DriverRover:
		r.Rover.Now = now
		return rover.New(r.Rover)
	case configs.DriverBridge:
		return bridge.Dial(ctx, r.Bridge)
	case configs.DriverComposite:
		robot, err := OpenDevices(ctx, LocalHardware, r.Composite, f.Loop.Period(), now)
		if err != nil { // a nil *CompositeRobot in a Robot interface is not nil
			return nil, err
		}
		return robot, nil
	}
	return nil, fmt.Errorf("robot.driver: unknown (%q); use %s, %s or %s",
		f.Robot.Driver, configs.DriverRover, configs.DriverBridge, configs.DriverComposite)
}

// RepositoryAdvice is the fix for a missing relative path in an embedded configuration.
const RepositoryAdvice = "run this command in the folder of the repository, which has models/ and scripts/"

// checkPaths checks that the model and the script of a bridge exist.
func checkPaths(f configs.File) error {
	var missing []error
	relative := false
	check := func(key, path string) {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", key, err))
			relative = relative || !filepath.IsAbs(path)
		}
	}
	if f.Model.Bundle != configs.EmbeddedRover {
		check("model.bundle", f.Model.Bundle)
	}
	if script := BridgeScript(f.Robot); script != "" {
		check("robot.bridge.command", script)
	}
	switch {
	case len(missing) == 0:
		return nil
	case relative:
		return fmt.Errorf("%w; %s, or give absolute paths", errors.Join(missing...), RepositoryAdvice)
	}
	return fmt.Errorf("%w; correct the path", errors.Join(missing...))
}

// BridgeScript returns the script of [bridge.Scripts] that an interpreter of this computer runs as the
// command of the bridge, or "". Other commands may start a server on another computer.
func BridgeScript(r configs.Robot) string {
	c := r.Bridge.Command
	if r.Driver != configs.DriverBridge || len(c) < 2 || !slices.Contains(bridge.Scripts, filepath.Base(c[1])) {
		return ""
	}
	return c[1]
}

// CloseRobot halts a robot and releases what it holds.
func CloseRobot(r hal.Robot) error {
	err := r.Halt()
	if c, ok := r.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// ResetsInOneTick reports whether the robot starts an episode within a tick. A remote one may not.
func ResetsInOneTick(r hal.Robot) bool {
	_, remote := r.(*bridge.Robot)
	return !remote
}

// OpenScripted returns the simulated operator of a configuration.
func OpenScripted(o configs.Operator) (rewardsrc.Source, error) {
	return scripted.New(o.Scripted)
}

// NoOperator is the label source of a run without an operator.
type NoOperator struct{}

func (NoOperator) Ask(rewardsrc.Request)      {}
func (NoOperator) Poll([]rewardsrc.Label) int { return 0 }
func (NoOperator) Halt() error                { return nil }
