package main

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
	"optibfm/internal/npz"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// openRobot opens the robot of a session, halted, and compares its channels with the model's. In a
// shadow run the robot is wrapped: nothing reaches its actuators. now is the robot's clock; nil is
// simulated time.
func openRobot(ctx context.Context, s *session, now func() int64) (hal.Robot, error) {
	robot, err := openDriver(ctx, s.file, now)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%w)", errInterrupted, err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkFit(s.file, robot.Spec(), s.model); err != nil {
		return nil, errors.Join(err, closeRobot(robot))
	}
	if s.file.Run.Shadow {
		return shadow.Wrap(robot), nil
	}
	return robot, nil
}

func openDriver(ctx context.Context, f configs.File, now func() int64) (hal.Robot, error) {
	switch r := f.Robot; r.Driver {
	case configs.DriverRover:
		r.Rover.Now = now
		return rover.New(r.Rover)
	case configs.DriverBridge:
		return bridge.Dial(ctx, r.Bridge)
	case configs.DriverComposite:
		robot, err := openDevices(ctx, attached, r.Composite, f.Loop.Period(), now)
		if err != nil { // a nil *composed in a Robot interface is not nil
			return nil, err
		}
		return robot, nil
	}
	return nil, fmt.Errorf("robot.driver: unknown (%q): use %s, %s or %s", f.Robot.Driver, configs.DriverRover, configs.DriverBridge, configs.DriverComposite)
}

// inRepository is what to do where a relative path of a ready-made configuration does not exist.
const inRepository = "run this command in the folder of optibfm's repository, which has models/ and scripts/"

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
	if script := bridgeScript(f.Robot); script != "" {
		look("robot.bridge.command", script)
	}
	switch {
	case len(missing) == 0:
		return nil
	case relative:
		return fmt.Errorf("%w; %s, or give absolute paths", errors.Join(missing...), inRepository)
	}
	return fmt.Errorf("%w; correct the path", errors.Join(missing...))
}

// bridgeScript is the script of [bridge.Scripts] that an interpreter of this computer runs as the
// bridge's command, "" where there is none. Other commands may start a server elsewhere.
func bridgeScript(r configs.Robot) string {
	c := r.Bridge.Command
	if r.Driver != configs.DriverBridge || len(c) < 2 || !slices.Contains(bridge.Scripts, filepath.Base(c[1])) {
		return ""
	}
	return c[1]
}

// closeRobot halts a robot and releases what it holds.
func closeRobot(r hal.Robot) error {
	err := r.Halt()
	if c, ok := r.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// resetsWithinATick reports whether the robot starts an episode fast enough for
// the control thread; another process need not.
func resetsWithinATick(r hal.Robot) bool {
	_, remote := r.(*bridge.Robot)
	return !remote
}

// openScripted makes the simulated operator of a configuration.
func openScripted(o configs.Operator) (rewardsrc.Source, error) {
	return scripted.New(o.Scripted)
}

// silent is the source of a run without an operator.
type silent struct{}

func (silent) Ask(rewardsrc.Request)      {}
func (silent) Poll([]rewardsrc.Label) int { return 0 }
func (silent) Halt() error                { return nil }

// warmStart are the labels that model.warm_start names; none where it is empty.
type warmStart struct {
	path   string
	dim    int
	phi    []float64 // [n, dim]
	reward []float64 // [n]
}

// readWarmStart reads the session's labels, before any device is open.
func (s *session) readWarmStart() (err error) {
	s.warm, err = openWarmStart(s.file.Model, s.model.Dims().Latent)
	return err
}

func openWarmStart(m configs.Model, dim int) (w warmStart, err error) {
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
	return warmStart{path: m.WarmStart, dim: dim, phi: phi.Float64s(), reward: reward.Float64s()}, nil
}

// warmBlock is the number of labels that are learnt between two looks at the
// context: some 10 ms. It is a multiple of the four that the belief takes at a time,
// so that the blocks change no bit of the belief.
const warmBlock = 1 << 10

// teach gives the labels to a learner, until ctx ends.
func (w warmStart) teach(ctx context.Context, l *controller.Learner) error {
	for first := 0; first < len(w.reward); first += warmBlock {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("model.warm_start: %s: interrupted: %w", w.path, err)
		}
		end := min(first+warmBlock, len(w.reward))
		if err := l.WarmStart(w.phi[first*w.dim:end*w.dim], w.reward[first:end]); err != nil {
			return fmt.Errorf("model.warm_start: %s: labels from %d on: %w", w.path, first, err)
		}
	}
	return nil
}
