// Package writer is the process that commands a Unitree robot, and its deadman.
//
// The primary writer takes the robot's states and sends a command every 2 ms. It
// interpolates the goals of the control process and limits value, rate and torque.
// It damps the motors (kp 0, damping_kd) when the control process is silent for
// deadman_ms, halts or ends, and after each fault of package unitree.
//
// The standby writer damps when the primary dies or is silent for standby_ms, and
// then for good: a primary that continues never writes again. It is the second of two
// processes that can act when the control process cannot.
//
// Both lie outside of the control process: it has no threads of DDS.
package writer
