package main

import (
	"errors"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/rewardsrc"
)

const (
	period = 50 * time.Millisecond
	half   = 2.0 // m, half the side of the arena
)

// vehicleConfig is the section robot.vehicle of the configuration.
type vehicleConfig struct {
	TopSpeedMPS float64 `yaml:"top_speed_mps" rule:"[0.1, 3]" doc:"Speed of a wheel at command 1."`
	TrackM      float64 `yaml:"track_m" rule:"[0.1, 2]" doc:"Distance between the wheels."`
}

// vehicle is a simulated robot with two wheels. It implements hal.Robot, and hal.Rewarder for the
// simulated operator.
type vehicle struct {
	config        vehicleConfig
	x, y, heading float64 // m, m, rad
	left, right   float64 // m/s
	armed         bool
}

var (
	_ hal.Robot    = (*vehicle)(nil)
	_ hal.Rewarder = (*vehicle)(nil)
)

// Spec names the channels. The model must have the same names and units in the same order.
func (v *vehicle) Spec() hal.Spec {
	obs := func(name string) hal.Channel { return hal.Channel{Name: name, Min: -2, Max: 2} }
	wheel := func(name string) hal.Channel { return hal.Channel{Name: name, Min: -1, Max: 1} }
	return hal.Spec{
		Name: "vehicle", Period: period,
		Obs: []hal.Channel{
			obs("x"), obs("y"), obs("heading_cos"), obs("heading_sin"), obs("speed"), obs("yaw_rate"),
		},
		Action: []hal.Channel{wheel("left_wheel"), wheel("right_wheel")},
	}
}

// Sense fills obs and returns the time of the sample. It must return within a small part of a
// period.
func (v *vehicle) Sense(obs []float32) (int64, error) {
	sin, cos := math.Sincos(v.heading)
	for i, x := range [...]float64{v.x / half, v.y / half, cos, sin, v.speed() / v.config.TopSpeedMPS, v.yaw()} {
		obs[i] = float32(x)
	}
	return rewardsrc.Monotonic(), nil
}

// Act commands the wheels. This simulation moves one period here.
func (v *vehicle) Act(action []float32) error {
	if !v.armed {
		return hal.ErrHalted
	}
	if len(action) != 2 {
		return errors.New("vehicle: act: want 2 actions")
	}
	v.left, v.right = v.config.TopSpeedMPS*float64(action[0]), v.config.TopSpeedMPS*float64(action[1])
	dt := period.Seconds()
	v.heading += v.yawRate() * dt
	sin, cos := math.Sincos(v.heading)
	v.x = min(max(v.x+v.speed()*cos*dt, -half), half)
	v.y = min(max(v.y+v.speed()*sin*dt, -half), half)
	return nil
}

// Arm and Halt: the robot starts halted, and Halt stops the wheels until the next Arm.
func (v *vehicle) Arm() error  { v.armed = true; return nil }
func (v *vehicle) Halt() error { v.armed, v.left, v.right = false, 0, 0; return nil }

// Reward is the task of the simulated operator, which the controller has to infer.
func (v *vehicle) Reward() (float64, bool) { return v.yaw(), true }

func (v *vehicle) speed() float64   { return (v.left + v.right) / 2 }
func (v *vehicle) yawRate() float64 { return (v.right - v.left) / v.config.TrackM }
func (v *vehicle) yaw() float64     { return (v.right - v.left) / (2 * v.config.TopSpeedMPS) } // 1: as fast as it can
