// Package feetech drives a chain of Feetech STS servos, such as the STS3215.
//
// A [Device] is one half-duplex bus. A servo NAME in mode position or velocity (register 33: the driver
// compares it and does not set it) has three inputs and one output:
//
//	NAME_position  rad    0 at the middle (raw 2048), 4096 steps a turn
//	NAME_velocity  rad/s
//	NAME_current   A
//
//	NAME_goal      rad or rad/s
//
// Numbers of two bytes are little-endian, with the sign in bit 15 and the magnitude below it. The SCS
// series (potentiometers, big-endian, no sync read) is not supported: Open refuses its model numbers.
//
// # A tick
//
// Read is one sync read of registers 56 to 70 of all servos. It repeats the request once for servos
// without a valid answer (package servobus). Write is one sync write for each mode in use, to the servos with
// torque: some firmware switches the torque on when a goal arrives. Before the first Arm or Halt, Write only
// stores the goals: a program that died may have left the servos with torque.
//
// With T = [Device.Timeout], by default the time on the line plus 5 ms, Read takes at most 2T, Write T,
// Halt 6T and Arm 12T, for any behaviour of the bus.
//
// # No watchdog
//
// These servos do not stop when the line goes silent: a position servo holds its last goal, and a velocity
// servo continues to turn. Device therefore does not implement hal.Guarded. Add a relay in the servos'
// supply that the control process must keep closed, or use servos with a watchdog.
//
// # Halt
//
// Halt reads which servos have torque, writes the failsafe goals to them, reads them back, and repeats once
// if a servo does not confirm. Servos without torque stay limp. With Config.HaltTorqueOff it also switches the
// torque off, and reads that back. It opens a lost port again ([serial.Port.Recover]). [HaltAll] halts a
// chain whose program died, in any state of its servos. A servo whose status reports a fault of
// voltage, sensor, heat, current, angle or overload makes Read fail with hal.ErrDevice.
//
// Sources: Feetech "Communication Protocol User Manual" (Waveshare, Communication_Protocol_User_Manual-EN,
// 191218-0923) and the memory table of the STS3215. Package feetechtest has a fake chain.
package feetech
