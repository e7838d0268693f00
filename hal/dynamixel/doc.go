// Package dynamixel drives a chain of ROBOTIS X series servos over Protocol 2.0.
//
// A [Device] is one half-duplex bus. Each servo has a name and one of the modes position,
// extended_position, velocity, current and pwm. The mode must be set in the servo (register 11):
// the driver compares it and does not change it. A servo NAME has three inputs and one output:
//
//	NAME_position  rad    0 at the middle (raw 2048), 4096 steps a turn
//	NAME_velocity  rad/s
//	NAME_current   A      or NAME_load, of full load, for a model without a current sensor (XL430;
//	                      name it in Servo.Model, so that the configuration determines the inputs)
//
//	NAME_goal      rad, rad/s, A or duty -1 to 1, by mode
//
// # A tick
//
// Read is one sync read of registers 126 to 135 of all servos. It repeats the request once for
// servos without a valid answer (package servobus). Write is one sync write for each mode in use,
// usually one. Goals are limited to the servo's own limits (registers 36 to 52, read by Open): the
// servo silently ignores a goal beyond them.
//
// # Time
//
// With T = [Device.Timeout], by default the time on the line plus 5 ms, Read takes at most 2T,
// Write T, Relax 4T, Halt 7T and Arm 14T, with any number of dead servos. At 1 Mbit/s with a return
// delay of 0, Read of twelve servos takes 2.8 ms on the line and T is 10.4 ms: T has room for the
// longest answers, those of Halt. Open refuses a T that is too short for them. The return delay
// (register 9) is 500 µs per servo from the factory; set it to 0.
//
// # Where motion begins
//
// NAME_position measures NAME_goal of a servo in a position mode. The first command of such a servo
// is:
//
//	power-up   none: the servo has no torque
//	Open       none, also if a program that died left the servo with torque: it holds its old goal
//	Write      none before Arm, after Halt and after Relax
//	Arm        the position that Arm reads, whatever was written before
//	Halt       its position (hal.Hold) or the failsafe goal; a servo without torque only stores it
//	Relax      torque off, until Arm
//	port lost  none: Halt and Arm open it again
//
// Arm refuses a servo without a fresh answer, or outside of its limits (registers 48 and 52). A
// limp servo counts full turns, but forgets them when its torque is switched on in position mode: a
// joint that was turned by more than a turn is outside. Turn it back, or power-cycle the servo. A
// servo in extended position mode forgets its full turns when it loses power, and its position
// changes by them: check its limits in the robot's configuration. Between Arm and Halt such a jump,
// of more than half a turn within 0.2 s, makes Read fail with hal.ErrDevice.
//
// In the other modes Arm begins with the goal of the latest Write or Halt, and 0 after Relax. Write
// sends these goals after Halt too, but not before the first Arm or Halt.
//
// # Watchdog
//
// Config.DeadmanMs sets the bus watchdog (register 98, in steps of 20 ms): a servo that receives no
// instruction for that time stops. Arm sets it and reads it back. A tripped servo ignores goals
// until Halt or Arm clears its watchdog; as a sync write has no answer, Write fails after a silence
// of nine tenths of that time.
//
// # Halt
//
// Halt writes the failsafe goals to all servos, reads them back, and repeats once if a servo does
// not confirm. It clears and sets again the watchdog of tripped servos, and opens a lost port again
// ([serial.Port.Recover]). For hal.Hold the goal of a servo is its position at the first Halt since
// Open, Arm or Relax: it stops there, also where something blocks its way to its former goal. With
// Config.HaltTorqueOff it also switches the torque off, and reads that back. [HaltAll] halts a
// chain whose program died, in any state of its servos.
//
// Warning: without Config.HaltTorqueOff and hal.Hold, Halt moves a servo in a position mode to its
// failsafe goal with its profile velocity (register 112), from the factory as fast as the servo
// can.
//
// After a hardware error (register 70: overload, overheating, shock) Read fails with hal.ErrDevice;
// the servo has switched its torque off. Only a power cycle clears it.
//
// Sources: ROBOTIS e-manual, "Protocol 2.0" (emanual.robotis.com/docs/en/dxl/protocol2) and the
// control tables of XL330-M077, XL330-M288, XL430-W250, XM430-W210 and XM430-W350. Package
// dynamixeltest has a fake chain.
package dynamixel
