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
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
	"optibfm/hal/shadow"
	"optibfm/internal/link"
	"optibfm/internal/npz"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/scripted"
)

// InputDevices is where an evdev source looks; a test has its own.
var InputDevices evdev.System = evdev.Kernel{}

// OpenRobot opens the robot of a session, halted, and compares its channels with the model's. In a
// shadow run the robot is wrapped: nothing reaches its actuators. now is the robot's clock; nil is
// simulated time.
func OpenRobot(ctx context.Context, s *Session, now func() int64) (hal.Robot, error) {
	robot, err := OpenDriver(ctx, s.File, now)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%w)", link.ErrInterrupted, err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkRobotChannels(s.File, robot.Spec(), s.Model); err != nil {
		return nil, errors.Join(err, CloseRobot(robot))
	}
	if s.File.Run.Shadow {
		return shadow.Wrap(robot), nil
	}
	return robot, nil
}

func OpenDriver(ctx context.Context, f configs.File, now func() int64) (hal.Robot, error) {
	switch r := f.Robot; r.Driver {
	case configs.DriverRover:
		r.Rover.Now = now
		return rover.New(r.Rover)
	case configs.DriverBridge:
		return bridge.Dial(ctx, r.Bridge)
	case configs.DriverComposite:
		robot, err := OpenDevices(ctx, LocalHardware, r.Composite, f.Loop.Period(), now)
		if err != nil { // a nil *composed in a Robot interface is not nil
			return nil, err
		}
		return robot, nil
	}
	return nil, fmt.Errorf("robot.driver: unknown (%q): use %s, %s or %s", f.Robot.Driver, configs.DriverRover, configs.DriverBridge, configs.DriverComposite)
}

// RepositoryAdvice is what to do where a relative path of a ready-made configuration does not exist.
const RepositoryAdvice = "run this command in the folder of optibfm's repository, which has models/ and scripts/"

// checkPaths reports a model and a script of a bridge that do not exist.
func checkPaths(f configs.File) error {
	var missing []error
	relative := false
	look := func(key, path string) {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", key, err))
			relative = relative || !filepath.IsAbs(path)
		}
	}
	if f.Model.Bundle != configs.EmbeddedRover {
		look("model.bundle", f.Model.Bundle)
	}
	if script := BridgeScript(f.Robot); script != "" {
		look("robot.bridge.command", script)
	}
	switch {
	case len(missing) == 0:
		return nil
	case relative:
		return fmt.Errorf("%w; %s, or give absolute paths", errors.Join(missing...), RepositoryAdvice)
	}
	return fmt.Errorf("%w; correct the path", errors.Join(missing...))
}

// BridgeScript is the script of [bridge.Scripts] that an interpreter of this computer runs as the
// bridge's command, "" where there is none. Other commands may start a server elsewhere.
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

// ResetsInOneTick reports whether the robot starts an episode fast enough for
// the control thread; another process need not.
func ResetsInOneTick(r hal.Robot) bool {
	_, remote := r.(*bridge.Robot)
	return !remote
}

// OpenScripted makes the simulated operator of a configuration.
func OpenScripted(o configs.Operator) (rewardsrc.Source, error) {
	return scripted.New(o.Scripted)
}

// NoOperator is the source of a run without an operator.
type NoOperator struct{}

func (NoOperator) Ask(rewardsrc.Request)      {}
func (NoOperator) Poll([]rewardsrc.Label) int { return 0 }
func (NoOperator) Halt() error                { return nil }

// WarmStart are the labels that model.warm_start names; none where it is empty.
type WarmStart struct {
	Path   string
	Dim    int
	Phi    []float64 // [n, dim]
	Reward []float64 // [n]
}

// LoadWarmStart reads the session's labels, before any device is open.
func (s *Session) LoadWarmStart() (err error) {
	s.Warm, err = LoadWarmStart(s.File.Model, s.Model.Dims().Latent)
	return err
}

func LoadWarmStart(m configs.Model, dim int) (w WarmStart, err error) {
	if m.WarmStart == "" {
		return w, nil
	}
	archive, err := npz.ReadFile(m.WarmStart)
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %w", err)
	}
	phi, err := archive.Shaped("phi", -1, dim)
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %s: %w", m.WarmStart, err)
	}
	reward, err := archive.Shaped("reward", phi.Shape()[0])
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %s: %w", m.WarmStart, err)
	}
	return WarmStart{Path: m.WarmStart, Dim: dim, Phi: phi.Float64s(), Reward: reward.Float64s()}, nil
}

// warmBlock is the number of labels that are learnt between two looks at the
// context: some 10 ms. It is a multiple of the four that the belief takes at a time,
// so that the blocks change no bit of the belief.
const warmBlock = 1 << 10

// Teach gives the labels to a learner, until ctx ends.
func (w WarmStart) Apply(ctx context.Context, l *controller.Learner) error {
	for first := 0; first < len(w.Reward); first += warmBlock {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("model.warm_start: %s: interrupted: %w", w.Path, err)
		}
		end := min(first+warmBlock, len(w.Reward))
		if err := l.WarmStart(w.Phi[first*w.Dim:end*w.Dim], w.Reward[first:end]); err != nil {
			return fmt.Errorf("model.warm_start: %s: labels from %d on: %w", w.Path, first, err)
		}
	}
	return nil
}
