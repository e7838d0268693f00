// Package mit drives CAN motors with the frames of the MIT mini cheetah. One frame commands
// position, velocity, torque and the gains between them; the motor answers with its state.
//
// Config.Dialect is one of two:
//
//   - mit is the original firmware and its copies. The first byte of an answer is the motor's ID.
//     Answers of 8 bytes (T-Motor and CubeMars AK) add temperature and an error code.
//   - damiao is DaMiao's DM series. The first byte also has the motor's status. Registers can be
//     read, and Open compares the ranges with the motor's (registers 21 to 23).
//
// Numbers are codes of 12 and 16 bits over a range that both sides must have in common: Motor.PMax,
// VMax and TMax. A wrong range scales every torque: see the motor's manual. Codes are rounded to
// the nearest, halves down, so that 0 is 7FFF and 7FF as published; the motors' own examples
// truncate.
//
// # Modes
//
// A motor NAME has the inputs NAME_position (rad), NAME_velocity (rad/s) and NAME_torque (N·m). Its
// outputs depend on its mode:
//
//	position   NAME_position_goal; the gains are Kp and Kd
//	velocity   NAME_velocity_goal; the gain is Kd
//	torque     NAME_torque_goal; no gains
//	impedance  all three; the gains are Kp and Kd
//
// # A tick
//
// A motor only answers commands. Write sends one frame to each motor. Read collects the answers,
// which have arrived in the meantime; the time of the sample is that of the Write. Without a Write
// since the last Read, Read sends the previous commands again and waits. It repeats the command
// once for motors without an answer. Answers have no number: after a missing one Read waits up to T
// for an answer to every command, and uses the newest. With T = Config.TimeoutMs, Read takes at most
// 2T, Write T, Halt and Relax 4T and Arm 11T per motor, also on a faulty bus. A frame takes up to
// 0.13 ms at 1 Mbit/s.
//
// # Deadman
//
// With damiao, Config.DeadmanMs sets the motors' CAN timeout (register 9, in steps of 50 µs), and
// Arm reads it back. The mit dialect has no register for it: the timeout is fixed in the motor,
// Deadman returns 0, and a strict posture requires an external deadman.
//
// # Where motion begins
//
// NAME_position measures NAME_position_goal. The first command of a motor is:
//
//	power-up        no gains and no torque: Write and Read send this for the answer, and the motor
//	                is out of motor mode
//	Open            no gains and no torque, then Exit: a motor that a dead program left in motor
//	                mode goes limp, and a robot that stands on it falls
//	Arm             Enter, then the position of the answer to it, whatever was written before
//	Halt            its position (hal.Hold) or the failsafe, which motors out of motor mode
//	                ignore; with Config.HaltExit as Relax
//	Relax           no gains and no torque, then Exit, until Arm
//	interface lost  none: Arm opens it again
//
// Between Halt and Arm the motors hold their failsafe, and Write has no effect on motors that
// follow positions. In an answer of damiao, Relax reads back that a motor has left motor mode; the
// mit dialect does not report it.
//
// Some firmware (CAN_com, below) keeps its latest command over Exit and continues it after Enter,
// until the next command arrives. The command without gains before each Exit prevents this. A
// damiao motor leaves motor mode at its timeout without this command: with such firmware it then
// pulls to its old goal after Enter, until the first command arrives (one answer later).
//
// Arm refuses a motor without an answer, or whose position is at the end of its range: that code
// stands for every position beyond. Some firmware does not limit the code, and reports a position
// beyond the range as one inside: choose PMax larger than the joint's range of motion. Torque and
// velocity begin with the latest Write or Halt, and 0 after Relax.
//
// # Halt
//
// Halt commands the failsafe to every motor. For hal.Hold it is the position of the latest answer,
// or that of the latest command if the motor is not armed or does not answer; velocity and torque
// are the failsafe's. With Config.HaltExit it instead takes the motors out of motor mode: they turn
// freely. [HaltAll] halts motors whose program died. Without Config.HaltExit it does not take them
// out of motor mode, and works in any state.
//
// Warning: without Config.HaltExit and hal.Hold, Halt pulls a motor that follows positions to its
// failsafe goal with the torque Kp (goal - position), up to the motor's limit.
//
// Sources: B. Katz, "A low cost modular actuator for dynamic robots" (MIT, 2018) and its firmware's
// CAN_com; CubeMars AK series manual, section on MIT mode; DaMiao DM-J4310-2EC manual, sections on
// MIT mode and registers. Package mittest has fake motors.
package mit
