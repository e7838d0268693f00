// Package mit drives CAN motors with the frames of the MIT mini cheetah. One frame commands position,
// velocity, torque and the gains between them; the motor answers with its state.
//
// Config.Dialect is one of two:
//
//   - mit is the original firmware and its copies. The first byte of an answer is the motor's ID. Answers of
//     8 bytes (T-Motor and CubeMars AK) add temperature and an error code.
//   - damiao is DaMiao's DM series. The first byte also has the motor's status. Registers can be read, and
//     Open compares the ranges with the motor's (registers 21 to 23).
//
// Numbers are codes of 12 and 16 bits over a range that both sides must have in common: Motor.PMax, VMax and
// TMax. A wrong range scales every torque: see the motor's manual. Codes are rounded to the nearest, halves
// down, so that 0 is 7FFF and 7FF as published; the motors' own examples truncate.
//
// # Modes
//
// A motor NAME has the inputs NAME_position (rad), NAME_velocity (rad/s) and NAME_torque (N·m). Its outputs
// depend on its mode:
//
//	position   NAME_position_goal; the gains are Kp and Kd
//	velocity   NAME_velocity_goal; the gain is Kd
//	torque     NAME_torque_goal; no gains
//	impedance  all three; the gains are Kp and Kd
//
// # A tick
//
// A motor only answers commands. Write sends one frame to each motor. Read collects the answers, which have
// arrived in the meantime; the time of the sample is that of the Write. Without a Write since the last Read,
// Read sends the previous commands again and waits. It repeats the command once for motors without an
// answer. With T = Config.TimeoutMs, Read takes at most 2T, Write T, Halt 4T and Arm 11T per motor, whatever
// the bus does. A frame takes up to 0.13 ms at 1 Mbit/s.
//
// # Deadman
//
// With damiao, Config.DeadmanMs sets the motors' CAN timeout (register 9, in steps of 50 µs), and Arm reads
// it back. The mit dialect has no register for it: the timeout is fixed in the motor, Deadman returns 0, and
// a strict posture requires an external deadman.
//
// # Arm and Halt
//
// Open takes every motor out of motor mode, and finds it by its answer. Arm enters motor mode and commands
// at once: the latest Write, or before the first the present position. Halt commands the failsafe to every
// motor, and with Config.HaltExit then leaves motor mode: the motors turn freely. [HaltAll] halts motors
// whose program died. It does not take them out of motor mode first, and works in any state.
//
// Sources: B. Katz, "A low cost modular actuator for dynamic robots" (MIT, 2018) and its firmware's CAN_com;
// CubeMars AK series manual, section on MIT mode; DaMiao DM-J4310-2EC manual, sections on MIT mode and
// registers. Package mittest has fake motors.
package mit
