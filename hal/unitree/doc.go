// Package unitree drives a Unitree Go2 or G1 through two writer processes.
//
// A [Robot] belongs to the control thread. It exchanges goals and reports with the writers through
// shared memory ([Shared]). The writers (package writer, program optibfm-unitree) send rt/lowcmd
// over Cyclone DDS 0.10. They damp the motors after a fault, and when the control process or the
// other writer ends or hangs.
//
// [Config] is the section robot.unitree of the configuration. docs/unitree.md describes the first
// start and lists the parts that are not verified on a robot.
package unitree
