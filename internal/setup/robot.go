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
	"optibfm/hal/shadow"
	"optibfm/internal/ipc"
	"optibfm/internal/registry"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// OpenRobot opens the robot of a session, halted, and compares its channels with those of the
// model. In a shadow run no action reaches its actuators. now is the clock of the robot in ns; nil
// means simulated time.
func OpenRobot(ctx context.Context, s *Session, now func() int64) (hal.Robot, error) {
	robot, err := OpenDriver(ctx, s.File, now)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%w)", ipc.ErrInterrupted, err)
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
	return registry.OpenRobot(ctx, f.Robot.Driver, f.Robot.Chosen(), registry.Opening{
		Period: f.Loop.Period(), Now: now,
		SimulatorWait: time.Duration(f.Run.SimulatorWaitS * float64(time.Second)),
	})
}

// imported are the models that the ready-made configurations name and this repository does not
// contain.
var imported = []string{"models/g1", "models/s1"}

// templateModel is the model of `optibfm config init robot`.
const templateModel = "models/myrobot"

// MissingModel returns the fix for model.bundle where nothing has its path.
func MissingModel(bundle string) string {
	switch parent, err := os.Stat(filepath.Dir(bundle)); {
	case strings.HasPrefix(bundle, "embedded:"):
		return "the embedded models are: " + strings.Join(registry.Models(), ", ")
	case bundle == templateModel:
		return "this is a template: write it to a file with `optibfm config init robot -o myrobot.yaml`, " +
			"then edit its lines marked CHANGE"
	case slices.Contains(imported, bundle):
		return "download and import this model (docs/public-models.md), or correct model.bundle"
	case !filepath.IsAbs(bundle) && (err != nil || !parent.IsDir()):
		return registry.RepositoryAdvice
	}
	return "train a model (docs/training.md), import one (docs/models.md), or correct model.bundle"
}

// checkPaths checks that the model and the files that the robot's section names exist.
func checkPaths(f configs.File) error {
	errs := []error{checkBundle(f.Model.Bundle)}
	if named, ok := f.Robot.Chosen().(registry.Filed); ok {
		for key, path := range named.Files() {
			key = "robot." + f.Robot.Driver + "." + key
			errs = append(errs, checkPath(key, path, func(path string) string { return registry.MissingFile(key, path) }))
		}
	}
	return errors.Join(errs...)
}

func checkBundle(path string) error {
	if _, embedded := registry.Model(path); embedded {
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

// CloseRobot halts a robot and releases what it holds.
func CloseRobot(r hal.Robot) error {
	err := r.Halt()
	if c, ok := r.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// ResetsInOneTick reports whether the robot starts an episode within a tick. A slow one may not.
func ResetsInOneTick(r hal.Robot) bool {
	_, slow := r.(hal.SlowResetter)
	return !slow
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
