// Package simulator is a Unitree robot on the network: it reads commands and sends
// states at 500 Hz as the robot does, with any physics. Tests and the command
// `optibfm-lab unitree-robot` use it, on the loopback interface.
//
// Its fields inject the faults of a robot.
package simulator
