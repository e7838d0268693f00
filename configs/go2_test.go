package configs

import (
	"errors"
	"os"
	"slices"
	"testing"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/unitree"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/sections"
	"optibfm/tflite"
)

// go2 returns the robot that scripts/go2_bridge.py serves, with the legs in an order.
func go2(legs ...string) hal.Spec {
	spec := hal.Spec{Name: "unitree go2"}
	for _, leg := range legs {
		for _, part := range []string{"_hip", "_thigh", "_calf"} {
			spec.Action = append(spec.Action, hal.Channel{Name: leg + part, Unit: "rad"})
		}
	}
	add := func(unit string, names ...string) {
		for _, name := range names {
			spec.Obs = append(spec.Obs, hal.Channel{Name: name, Unit: unit})
		}
	}
	for _, c := range spec.Action {
		add("rad", "position_"+c.Name)
	}
	for _, c := range spec.Action {
		add("rad/s", "velocity_"+c.Name)
	}
	add("", "gravity_x", "gravity_y", "gravity_z")
	add("rad/s", "gyro_x", "gyro_y", "gyro_z")
	add("m/s^2", "accelerometer_x", "accelerometer_y", "accelerometer_z")
	for _, leg := range legs {
		add("N", "foot_force_"+leg)
	}
	add("m/s", "base_velocity_x", "base_velocity_y", "base_velocity_z")
	add("m", "base_height")
	return spec
}

func go2Model(t *testing.T) *tflite.Bundle {
	t.Helper()
	model, err := tflite.LoadDir("../models/go2")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no models/go2")
	}
	fatal.If(t, err)
	return model
}

// The legs of the robot and of MuJoCo's model have different orders.
func TestGo2_ModelRefusesSwappedLegs(t *testing.T) {
	model := go2Model(t)
	for _, name := range []string{"go2-sim", "go2-sim-human"} {
		f, err := Load(name)
		fatal.If(t, err)
		check := func(robot hal.Spec) error {
			assembler, err := controller.NewAssembler(f.Model.Groups, model.Architecture.Groups, robot)
			fatal.If(t, err)
			return controller.CheckChannels(assembler.Spec(), model.Observation, model.Action)
		}
		errtest.Nil(t, check(go2("FR", "FL", "RR", "RL")), name)
		if err := check(go2("FL", "FR", "RL", "RR")); !errors.Is(err, controller.ErrMismatch) {
			t.Errorf("%s: the order of MuJoCo's model: %v", name, err)
		}
	}
}

// The driver of the robot has all channels that the model reads, in its order; a body without
// estimates has not.
func TestGo2_ModelFitsTheRobotsDriver(t *testing.T) {
	model := go2Model(t)
	f, err := Load("go2")
	fatal.If(t, err)
	driver := sections.Get[unitree.Config](f.Robot.Sections)
	check := func(c unitree.Config) error {
		spec, err := c.Describe(f.Loop.Period())
		fatal.If(t, err)
		assembler, err := controller.NewAssembler(f.Model.Groups, model.Architecture.Groups, spec)
		if err != nil {
			return err
		}
		return controller.CheckChannels(assembler.Spec(), model.Observation, model.Action)
	}
	errtest.Nil(t, check(driver))
	driver.BodyEstimates = false
	errtest.Is(t, check(driver), controller.ErrConfig, "without body_estimates")
}

func TestGo2_PhiReadsTheBaseAndThePolicyDoesNot(t *testing.T) {
	model := go2Model(t)
	if got := model.Architecture.B.Inputs; !slices.Equal(got, []string{"base", "imu"}) {
		t.Errorf("B reads %v", got)
	}
	if slices.Contains(model.Architecture.Actor.Inputs, "base") {
		t.Errorf("the actor reads what a robot does not measure (%v)", model.Architecture.Actor.Inputs)
	}
}

// The driver of a G1 has what all networks of BFM-Zero read: phi and psi are evaluated on the
// robot.
func TestG1Robot_DriverHasAllGroupsOfBFMZero(t *testing.T) {
	f, err := Load("g1-robot")
	fatal.If(t, err)
	groups := []tflite.Group{
		{Name: "state", Size: 64}, {Name: "privileged_state", Size: 463}, {Name: "last_action", Size: 29},
		{Name: "history_actor", Size: 372},
	}
	driver := sections.Get[unitree.Config](f.Robot.Sections)
	for _, estimates := range []bool{true, false} {
		driver.BodyEstimates = estimates
		spec, err := driver.Describe(f.Loop.Period())
		fatal.If(t, err)
		assembler, err := controller.NewAssembler(f.Model.Groups, groups, spec)
		switch {
		case !estimates && !errors.Is(err, controller.ErrConfig):
			t.Errorf("without body_estimates: %v", err)
		case estimates && err != nil:
			t.Error(err)
		case estimates && len(assembler.Spec().Obs) != 64+463+29+372:
			t.Errorf("%d elements", len(assembler.Spec().Obs))
		}
	}
}
