// Package dynamixel drives a chain of ROBOTIS X series servos over Protocol 2.0.
//
// A [Device] is one half-duplex bus. Each servo has a name and one of the modes
// position, extended_position, velocity, current and pwm; the mode must already
// be set in the servo (register 11), the driver only compares. A servo NAME gives
// three inputs and takes one output:
//
//	NAME_position  rad    0 at the middle (raw 2048), 4096 steps a turn
//	NAME_velocity  rad/s
//	NAME_current   A      or NAME_load, of full load, where the model has no current sensor (XL430,
//	                      to be named as Servo.Model, so that it is known without the servo)
//
//	NAME_goal      rad, rad/s, A or duty -1 to 1, after the mode
//
// # A tick
//
// Read is one sync read of registers 126 to 135 of all servos. Whoever did not
// answer, or answered damaged, is counted and asked once more, in one second
// sync read; the first of the missing comes last in it, because servos answer
// in turn and those behind a dead one may wait for it. Write is one sync write
// for each mode in use, usually one. Goals are held within the limits that the
// servo itself has (registers 36 to 52, read by Open): a goal beyond them would be
// refused by the servo without a word.
//
// # Time
//
// With T = [Device.Timeout], by default the time on the line plus 5 ms: Read
// takes at most 2T, Write T, Halt 6T, Arm 14T, whatever the bus does and however
// many servos are dead. At 1 Mbit/s with a return delay of 0, twelve servos need
// 2.8 ms on the line for a Read, and T is 10 ms: it has room for the longest
// answers, those that Halt asks for. Open refuses a T that the answers do not fit
// into, and says to set the return delay (register 9, factory setting 500 µs a
// servo) to 0.
//
// # Stopping by itself
//
// Config.DeadmanMs sets the bus watchdog (register 98, steps of 20 ms): a servo
// that hears no instruction for so long stops. Arm sets it and reads it back. A
// servo that has tripped refuses goals until it is armed again; as a sync write
// has no answer, Write refuses after a silence of nine tenths of that time.
//
// Halt sends the failsafe goals to all, reads back from each, and repeats once for
// whoever does not confirm. With Config.HaltTorqueOff it also switches the torque
// off, and that is what it reads back. [HaltAll] does so with a chain whose program
// died, and needs no servo to be well. A hardware error (register 70: overload,
// overheating, shock) makes Read fail with hal.ErrDevice; the servo has then
// switched its torque off. It stays so until [Device.Reboot], which nothing here
// calls by itself.
//
// Facts: ROBOTIS e-manual, "Protocol 2.0" (emanual.robotis.com/docs/en/dxl/protocol2)
// and the control tables of XL330-M077, XL330-M288, XL430-W250, XM430-W210 and
// XM430-W350. Package dynamixeltest has a chain without hardware.
package dynamixel
