// Package feetech drives a chain of Feetech STS servos, such as the STS3215.
//
// A [Device] is one half-duplex bus. A servo NAME in mode position or velocity (register 33: the
// driver compares it and does not set it) has three inputs and one output:
//
//	NAME_position  rad    0 at the middle (raw 2048), 4096 steps a turn
//	NAME_velocity  rad/s
//	NAME_current   A
//
//	NAME_goal      rad or rad/s
//
// The encoder jumps between 4095 and 0. NAME_position continues across this wrap-around from its
// first sample, as do the turns of a wheel. A servo in position mode cannot: it would turn the long
// way to its goal. Arm refuses a joint that was moved across the wrap-around while limp, and Read
// and Write fail with hal.ErrDevice if one crosses it between Arm and Halt. After 0.5 s without a
// sample a joint begins at its raw position again.
//
// Numbers of two bytes are little-endian, with the sign in bit 15 and the magnitude below it. The
// SCS series (potentiometers, big-endian, no sync read) is not supported: Open refuses its model
// numbers.
//
// # A tick
//
// Read is one sync read of registers 56 to 70 of all servos. It repeats the request once for servos
// without a valid answer (package servobus). Write is one sync write for each mode in use, to the
// servos with torque: some firmware switches the torque on when a goal arrives.
//
// With T = [Device.Timeout], by default the time on the line plus 5 ms, Read takes at most 2T,
// Write T, Relax 4T, Halt 6T and Arm 12T, for any behaviour of the bus.
//
// # Where motion begins
//
// NAME_position measures NAME_goal of a servo in position mode. The first command of such a servo
// is:
//
//	power-up   none: the servo has no torque
//	Open       none, also if a program that died left the servo with torque: it holds its old goal
//	Write      none before Arm, after Halt and after Relax
//	Arm        the position that Arm reads, whatever was written before
//	Halt       its position (hal.Hold) or the failsafe goal, if the servo has torque
//	Relax      torque off, until Arm
//	port lost  none: Halt and Arm open it again
//
// Arm refuses a servo without a fresh answer, or outside of its angle limits (registers 9 and 11).
// Limp servos can leave the limits when moved by hand: move them back inside. In velocity mode Arm
// begins with the velocity of the latest Write or Halt, and 0 after Relax. Write sends velocities
// after Halt too, but not before the first Arm or Halt.
//
// # No watchdog
//
// These servos do not stop when the line goes silent: a position servo holds its last goal, and a
// velocity servo continues to turn. Device therefore does not implement hal.DeadmanTimer. Add a
// relay in the servos' supply that the control process must keep closed, or use servos with a
// watchdog.
//
// # Halt
//
// Halt reads which servos have torque, writes the failsafe goals to them, reads them back, and
// repeats once if a servo does not confirm. For hal.Hold the goal of a servo is its position at the
// first Halt since Open, Arm or Relax: it stops there, also where something blocks its way to its
// former goal. A position where it cannot be, an eighth of a turn from a reading of the last 0.5 s,
// is ignored. Servos without torque stay limp. With Config.HaltTorqueOff it also switches the
// torque off, and reads that back. It opens a lost port again ([serial.Port.Recover]). [HaltAll]
// halts a chain whose program died, in any state of its servos. A servo whose status reports a
// fault of voltage, sensor, temperature, current, angle or overload makes Read fail with
// hal.ErrDevice.
//
// Warning: without Config.HaltTorqueOff and hal.Hold, Halt moves a servo in position mode to its
// failsafe goal as fast as the servo can.
//
// Sources: Feetech "Communication Protocol User Manual" (Waveshare,
// Communication_Protocol_User_Manual-EN, 191218-0923) and the memory table of the STS3215. Package
// feetechtest has a fake chain.
package feetech
