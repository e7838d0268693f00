// Package mit drives CAN motors with the frames of the MIT mini cheetah: one
// frame commands position, velocity, torque and the gains between them, and is
// answered by one with what the motor has.
//
// Two dialects are known, chosen by Config.Dialect. mit is the original firmware
// and what copies it: an answer's first byte is the motor's ID; motors that add
// temperature and an error code (answers of 8 bytes, T-Motor and CubeMars AK) are
// understood. damiao is that of DaMiao's DM series: the first byte also has the
// motor's status, registers can be read, and Open compares the ranges with the
// motor's own (registers 21 to 23).
//
// Numbers are codes of 12 and 16 bits over a range that both sides must agree on:
// Motor.PMax, VMax and TMax. A wrong one scales every torque: see the motor's
// manual. Codes are rounded to the nearest, halves down, so that 0 is 7FFF and
// 7FF, as published; the motors' own examples truncate.
//
// # Modes
//
// A motor NAME gives NAME_position (rad), NAME_velocity (rad/s) and NAME_torque
// (N·m), and takes, after its mode,
//
//	position   NAME_position_goal; the gains are Kp and Kd
//	velocity   NAME_velocity_goal; the gain is Kd
//	torque     NAME_torque_goal; no gains
//	impedance  all three; the gains are Kp and Kd
//
// # A tick
//
// A motor only speaks when spoken to. Write sends one frame to each motor; Read
// takes the answers to it, which have come in the meantime, and their time is that
// of the Write. Where there has been none since the last Read, it sends each motor
// its last command again and waits. Whoever has not answered is asked once more.
// With T = Config.TimeoutMs, Read takes at most 2T, Write T, Halt 4T, whatever the
// bus does; Arm 11T for each motor. At 1 Mbit/s a frame takes up to 0.13 ms.
//
// # Stopping by itself
//
// With damiao, Config.DeadmanMs sets the motors' CAN timeout (register 9, steps of
// 50 µs), and Arm reads it back. The mit dialect has no register for it: the timeout
// is compiled into or set on the motor, Deadman says 0, and a strict posture wants
// another one.
//
// Open brings every motor out of motor mode, and finds it by that. Arm enters
// motor mode, commands at once (the last Write; before any, to stay where it is),
// and Halt commands the failsafe to every motor, then leaves motor mode where
// Config.HaltExit says so: the motors then turn freely. [HaltAll] does so with motors
// whose program died: it opens nothing that would take them out of motor mode first,
// and needs no motor to be well.
//
// Facts: B. Katz, "A low cost modular actuator for dynamic robots" (MIT, 2018)
// and its firmware's CAN_com; CubeMars AK series manual, section on MIT mode;
// DaMiao DM-J4310-2EC manual, sections on MIT mode and registers. Package mittest
// has motors without hardware.
package mit
