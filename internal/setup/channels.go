package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/registry"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// Simulated reports whether a robot has no actuators.
func Simulated(r configs.Robot) bool { return registry.IsSimulated(r.Chosen()) }

// NewAssembler returns the assembler of a model's observations; nil for a model without groups, and
// for one whose observation has the robot's channels, in their order.
func NewAssembler(f configs.File, robot hal.Spec, model Model) (*controller.Assembler, error) {
	groups := Groups(model)
	switch {
	case len(groups) > 0 && len(f.Model.Groups) == 0 && observes(model, robot):
		return nil, nil
	case len(groups) > 0:
		return controller.NewAssembler(f.Model.Groups, groups, robot)
	case len(f.Model.Groups) > 0:
		return nil, fmt.Errorf("model.groups: %s has no groups; remove the key", f.Model.Bundle)
	}
	return nil, nil
}

// observes reports whether a model's observation has the names of a robot's channels.
func observes(model Model, robot hal.Spec) bool {
	observation, _ := model.Channels()
	return slices.EqualFunc(observation, robot.Obs, func(m tflite.Channel, r hal.Channel) bool { return m.Name == r.Name })
}

// Groups returns the observation groups of a model, if any.
func Groups(model Model) []tflite.Group {
	if native, ok := model.(NativeModel); ok {
		return native.Architecture.Groups
	}
	return nil
}

// Observed returns the description of a robot with the channels of the ticks' observations.
func Observed(robot hal.Spec, a *controller.Assembler) hal.Spec {
	if a == nil {
		return robot
	}
	return a.Spec()
}

// checkRobotChannels compares the channels of a robot with those of its model.
func checkRobotChannels(f configs.File, spec hal.Spec, model Model) error {
	assembler, err := NewAssembler(f, spec, model)
	if err != nil {
		return err
	}
	observation, action := model.Channels()
	if err := controller.CheckChannels(Observed(spec, assembler), observation, action); err != nil {
		return fmt.Errorf("model.bundle: %s: %w", f.Model.Bundle, err)
	}
	return nil
}

// checkNamed returns a warning for a model without channel names. With loop.posture: strict it is
// an error.
func checkNamed(f configs.File, model Model) (warning string, err error) {
	observation, action := model.Channels()
	var unnamed []string
	if !controller.Named(observation) && len(Groups(model)) == 0 { // model.groups names those of groups
		unnamed = append(unnamed, "observation")
	}
	if !controller.Named(action) {
		unnamed = append(unnamed, "action")
	}
	if len(unnamed) == 0 {
		return "", nil
	}
	warning = fmt.Sprintf("model.bundle: %s: the %s channels have no names, so their order cannot be checked; "+
		"name them in bfm.json (tflite/FORMAT.md), or import the model with --obs-channels and --action-channels",
		f.Model.Bundle, strings.Join(unnamed, " and "))
	if f.Loop.Posture == rtloop.Strict {
		return "", fmt.Errorf("%s, or set loop.posture: %s", warning, rtloop.Warn)
	}
	return warning, nil
}

// CheckChannels is checkRobotChannels and checkNamed without opening the robot. known is false for
// a robot that describes itself when it is opened: only the model is checked.
func CheckChannels(f configs.File, model Model) (known bool, warning string, err error) {
	spec, known, err := specUnopened(f)
	if err == nil && known {
		err = checkRobotChannels(f, spec, model)
	}
	if err != nil {
		return known, "", err
	}
	warning, err = checkNamed(f, model)
	return known, warning, err
}

func specUnopened(f configs.File) (spec hal.Spec, known bool, err error) {
	d, known := f.Robot.Chosen().(registry.Describer)
	if !known {
		return hal.Spec{}, false, nil
	}
	spec, err = d.Describe(f.Loop.Period())
	return spec, true, err
}

// CheckChannelsOfFile is checkFitUnopened for a configuration whose model may be on another
// computer.
func CheckChannelsOfFile(f configs.File) (warning string, err error) {
	_, err = os.Stat(f.Model.Bundle)
	if _, embedded := registry.Model(f.Model.Bundle); !embedded && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	model, err := OpenModel(f.Model.Bundle)
	if err != nil {
		return "", fmt.Errorf("model.bundle: %w", err)
	}
	_, warning, err = CheckChannels(f, model)
	return warning, err
}
