package simulator

import (
	"fmt"
	"slices"

	"optibfm/hal"
	"optibfm/hal/unitree"
)

// Bridged is the physics of a robot whose channels are motors, such as that of
// scripts/go2_motors.py in lockstep: the actions q_J, dq_J, tau_J, kp_J and kd_J of each joint J;
// the readings position_J, velocity_J, torque_J, orientation_w ..., gyro_x ..., accelerometer_x ...
// and, if it has them, foot_force_L.
type Bridged struct {
	robot  hal.Robot
	action []float32
	obs    []float32
	limits []hal.Channel
	places [5][]int // of q, dq, tau, kp, kd in the action
	reads  []reading
}

// reading is the place of one number of the observation.
type reading struct {
	at  int
	put func(*State, float64)
}

// NewBridged finds the channels by their names.
func NewBridged(robot hal.Robot, model string) (*Bridged, error) {
	spec := robot.Spec()
	if spec.Period != Period {
		return nil, fmt.Errorf("simulator: %s has a period of %v; the robot's is %v", spec.Name, spec.Period, Period)
	}
	b := &Bridged{
		robot: robot, action: make([]float32, len(spec.Action)), obs: make([]float32, len(spec.Obs)), limits: spec.Action,
	}
	var missing []string
	find := func(channels []hal.Channel, name string) int {
		i := slices.IndexFunc(channels, func(c hal.Channel) bool { return c.Name == name })
		if i < 0 {
			missing = append(missing, name)
		}
		return i
	}
	read := func(name string, put func(*State, float64)) {
		b.reads = append(b.reads, reading{find(spec.Obs, name), put})
	}
	for i, j := range unitree.Joints(model) {
		for k, kind := range []string{"q_", "dq_", "tau_", "kp_", "kd_"} {
			b.places[k] = append(b.places[k], find(spec.Action, kind+j.Name))
		}
		read("position_"+j.Name, func(s *State, v float64) { s.Q[i] = v })
		read("velocity_"+j.Name, func(s *State, v float64) { s.Dq[i] = v })
		read("torque_"+j.Name, func(s *State, v float64) { s.Tau[i] = v })
	}
	for i, axis := range []string{"w", "x", "y", "z"} {
		read("orientation_"+axis, func(s *State, v float64) { s.Quaternion[i] = v })
	}
	for i, axis := range []string{"x", "y", "z"} {
		read("gyro_"+axis, func(s *State, v float64) { s.Gyro[i] = v })
		read("accelerometer_"+axis, func(s *State, v float64) { s.Accelerometer[i] = v })
	}
	if model == unitree.Go2 {
		for i, leg := range []string{"FR", "FL", "RR", "RL"} {
			read("foot_force_"+leg, func(s *State, v float64) { s.Foot[i] = v })
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("simulator: %s has no channels %v", spec.Name, missing)
	}
	return b, robot.Arm()
}

// Step implements Physics.
func (b *Bridged) Step(c *Command, s *State) error {
	for k, values := range [][]float64{c.Q, c.Dq, c.Tau, c.Kp, c.Kd} {
		for i, v := range values {
			at := b.places[k][i]
			b.action[at] = float32(min(max(v, b.limits[at].Min), b.limits[at].Max))
		}
	}
	if err := b.robot.Act(b.action); err != nil {
		return err
	}
	if _, err := b.robot.Sense(b.obs); err != nil {
		return err
	}
	for _, r := range b.reads {
		r.put(s, float64(b.obs[r.at]))
	}
	return nil
}
