// Package feetech drives a chain of Feetech STS servos, such as the STS3215.
//
// A [Device] is one half-duplex bus. A servo NAME in mode position or velocity
// (register 33; the driver compares and does not set it) gives three inputs and takes
// one output:
//
//	NAME_position  rad    0 at the middle (raw 2048), 4096 steps a turn
//	NAME_velocity  rad/s
//	NAME_current   A
//
//	NAME_goal      rad or rad/s
//
// Numbers of two bytes are little-endian with the sign in bit 15 and the magnitude
// below it. The SCS series (potentiometers, big-endian, no sync read) is not known
// here: Open refuses its model numbers.
//
// # A tick
//
// Read is one sync read of registers 56 to 70 of all servos; whoever did not answer,
// or answered damaged, is counted and asked once more (package servobus). Write is
// one sync write for each mode in use. Before Arm, and after Halt with
// Config.HaltTorqueOff, Write keeps the goals to itself: some firmware switches the
// torque on when a goal arrives.
//
// With T = [Device.Timeout], by default the time on the line plus 5 ms: Read takes
// at most 2T, Write T, Halt 6T, Arm 12T, whatever the bus does.
//
// # These servos do not stop by themselves
//
// They have no watchdog for the bus: when the line goes silent, a position servo
// holds its last goal and a velocity servo turns on. Device is therefore no
// hal.Guarded. Put a relay that the control process must keep alive into their
// supply, or use servos that have one.
//
// Halt sends the failsafe goals to all, reads back from each, and repeats once for
// whoever does not confirm; with Config.HaltTorqueOff it also switches the torque off,
// and reads that back. A servo that reports voltage, sensor, heat, current, angle or
// overload in its answers makes Read fail with hal.ErrDevice.
//
// [HaltAll] does so with a chain whose program died, and needs no servo to be well.
//
// Facts: Feetech "Communication Protocol User Manual" (Waveshare,
// Communication_Protocol_User_Manual-EN, 191218-0923) and the memory table of the
// STS3215. Package feetechtest has a chain without hardware.
package feetech
