package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
	"optibfm/hal/shadow"
	"optibfm/hal/unitree"
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
		r.Bridge.SimulatorWait = time.Duration(f.Run.SimulatorWaitS * float64(time.Second))
		return bridge.Dial(ctx, r.Bridge)
	case configs.DriverComposite:
		robot, err := OpenDevices(ctx, LocalHardware, r.Composite, f.Loop.Period(), now)
		if err != nil { // a nil *CompositeRobot in a Robot interface is not nil
			return nil, err
		}
		return robot, nil
	case configs.DriverUnitree:
		robot, err := unitree.Open(ctx, r.Unitree, f.Loop.Period())
		if err != nil {
			return nil, err
		}
		return robot, nil
	}
	return nil, fmt.Errorf("robot.driver: unknown (%q); use %s, %s, %s or %s",
		f.Robot.Driver, configs.DriverRover, configs.DriverBridge, configs.DriverComposite, configs.DriverUnitree)
}

// repositoryAdvice is the fix for a relative path outside the folder that the ready-made configurations expect.
const repositoryAdvice = "run this command in the folder of the repository, which has models/ and scripts/, " +
	"or give an absolute path"

// imported are the models that the ready-made configurations name and this repository does not contain.
var imported = []string{"models/g1", "models/s1"}

// templateModel is the model of `optibfm config init robot`.
const templateModel = "models/myrobot"

// MissingModel returns the fix for model.bundle where nothing has its path.
func MissingModel(bundle string) string {
	switch parent, err := os.Stat(filepath.Dir(bundle)); {
	case strings.HasPrefix(bundle, "embedded:"):
		return "the only embedded model is " + configs.EmbeddedRover
	case bundle == templateModel:
		return "this is a template: write it to a file with `optibfm config init robot -o myrobot.yaml`, " +
			"then edit its lines marked CHANGE"
	case slices.Contains(imported, bundle):
		return "download and import this model (docs/public-models.md), or correct model.bundle"
	case !filepath.IsAbs(bundle) && (err != nil || !parent.IsDir()):
		return repositoryAdvice
	}
	return "train a model (docs/training.md), import one (docs/models.md), or correct model.bundle"
}

// MissingScript returns the fix for the script of robot.bridge.command where nothing has its path.
func MissingScript(path string) string {
	if filepath.IsAbs(path) {
		return "correct robot.bridge.command"
	}
	return repositoryAdvice + " in robot.bridge.command"
}

// checkPaths checks that the model and the script of a bridge exist.
func checkPaths(f configs.File) error {
	var script error
	if path := BridgeScript(f.Robot); path != "" {
		script = checkPath("robot.bridge.command", path, MissingScript)
	}
	return errors.Join(checkBundle(f.Model.Bundle), script)
}

func checkBundle(path string) error {
	if path == configs.EmbeddedRover {
		return nil
	}
	return checkPath("model.bundle", path, MissingModel)
}

// checkPath returns an error with a fix if the path of a key cannot be used.
func checkPath(key, path string, fix func(path string) string) error {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %s: %w; %s", key, path, fs.ErrNotExist, fix(path))
	}
	return fmt.Errorf("%s: %w; correct the path", key, err)
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
