package eval

import (
	"fmt"
	"slices"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/unitree/body"
	"optibfm/tflite"
)

// go2Config is the configuration with the groups of the Go2's model.
const go2Config = "go2-sim"

// carrying is the force reading, N, of a foot that carries a Go2.
const carrying = 30

// go2Task is the task with which the Go2's bridge starts; the client chooses another.
const go2Task = "stand"

// go2 is a variant of the simulated Unitree Go2.
type go2 struct {
	// exact selects the nominal robot with exact sensors, without pushes. Otherwise each episode
	// has a different robot.
	exact bool
	// estimated gives the model estimates of velocity and height, not the simulator's true values.
	estimated bool
}

var go2s = map[string]go2{
	Go2:               {},
	Go2Exact:          {exact: true},
	Go2Estimated:      {estimated: true},
	Go2ExactEstimated: {exact: true, estimated: true},
}

// estimated is a simulated Go2 whose velocity and height are estimates from the readings of a
// robot.
type estimated struct {
	Simulator
	estimates *body.Estimates
	measured  body.Measured
}

// go2Readings returns the channels of scripts/go2_bridge.py that a robot measures. In the bridge's
// observation, velocity and height of the base follow these channels.
func go2Readings() (names []string) {
	for _, kind := range []string{"position_", "velocity_"} {
		for _, joint := range body.Go2().Joints {
			names = append(names, kind+joint)
		}
	}
	for _, kind := range []string{"gravity_", "gyro_", "accelerometer_"} {
		names = append(names, kind+"x", kind+"y", kind+"z")
	}
	return append(names, "foot_force_FR", "foot_force_FL", "foot_force_RR", "foot_force_RL")
}

// newEstimated returns a simulated Go2 with estimates in place of its last readings.
func newEstimated(s Simulator) (*estimated, error) {
	e := &estimated{Simulator: s, estimates: body.NewGo2(carrying)}
	want := go2Readings()
	for _, c := range e.estimates.Channels() {
		want = append(want, c.Name)
	}
	var have []string
	for _, c := range s.Spec().Obs {
		have = append(have, c.Name)
	}
	if !slices.Equal(have, want) {
		return nil, fmt.Errorf("eval: estimates: the readings differ from those of a Go2 (%v)", have)
	}
	return e, nil
}

// Sense fills obs with the readings, in the order of go2Readings, and the estimates from them.
func (e *estimated) Sense(obs []float32) (at int64, err error) {
	if at, err = e.Simulator.Sense(obs); err != nil {
		return at, err
	}
	m := &e.measured
	m.At, m.Position, m.Velocity = at, obs[:12], obs[12:24]
	m.Down, m.Gyro, m.Accelerometer = [3]float32(obs[24:]), [3]float32(obs[27:]), [3]float32(obs[30:])
	m.Foot = [4]float32(obs[33:])
	e.estimates.Fill(obs[37:], m)
	return at, nil
}

// Reset starts an episode with a new estimator.
func (e *estimated) Reset(seed uint64) error {
	e.estimates = body.NewGo2(carrying)
	return e.Simulator.Reset(seed)
}

// Close closes the simulator.
func (e *estimated) Close() error { return closeSimulator(e.Simulator) }

// newAssembler returns the assembler of a bundle's observations, nil for a model without groups.
func newAssembler(env string, bundle *tflite.Bundle, robot hal.Spec) (*controller.Assembler, error) {
	groups := bundle.Architecture.Groups
	if len(groups) == 0 {
		return nil, nil
	}
	if _, ok := go2s[env]; !ok {
		return nil, fmt.Errorf("eval: model: %s does not describe the groups of a model's observation; "+
			"use one without groups", env)
	}
	file, err := configs.Load(go2Config)
	if err != nil {
		return nil, err
	}
	return controller.NewAssembler(file.Model.Groups, groups, robot)
}
