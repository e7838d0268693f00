// Package mcu drives a microcontroller on a serial line that speaks the framed protocol of
// PROTOCOL.md: wheel encoders, motors, an IMU, a battery, or any other channels that the firmware
// declares.
//
// Open asks the firmware for its channels, which are Inputs and Outputs. A robot's configuration
// names them too (Config.DeclaredInputs), so that it can be checked without the board; Open refuses
// a board with different channels. The firmware sends samples at its own rate. Read processes what
// has arrived, without waiting, and returns the newest sample, with the firmware's time mapped onto
// CLOCK_MONOTONIC. It returns the same sample again if none is newer, and hal.ErrStale for one
// older than Config.StaleMs.
//
// Write sends one command frame, which contains the deadman time. The firmware enforces it, and
// each sample reports the deadman in force: Write fails with hal.ErrDevice once a sample reports
// that the firmware is not armed, and [Device.Cause] returns the reason. The firmware answers
// Arm and Halt, which take at most two tries of Config.TimeoutMs. Write waits only for room in the
// kernel's buffer, at most Config.TimeoutMs.
//
// # Where motion begins
//
// The firmware ignores commands while it is not armed. Its outputs are then those of the last HALT,
// the failsafe, and 0 before the first one. The first message that changes outputs is:
//
//	power-up   none: the outputs are 0
//	Open       none: a board that a dead program left armed holds its last command until its
//	           deadman
//	Write      none before Arm and after Halt
//	Arm        HALT with the failsafe ([hal.FailsafeHolder]), then ARM; then the first Write decides
//	Halt       HALT with the failsafe
//	port lost  none: Halt and Arm open it again, and the board halts by its deadman
//
// The driver does not know what measures an output: name it in the configuration of the robot. With
// the firmware of this repository, a power stage that is off while the board is halted stays off
// until the first Write after Arm. A board whose failsafe holds its joints with power moves them
// there at Arm.
//
// The firmware's side is firmware/optibfm_mcu.h: C99, no allocation, and of libc only string.h and
// stdint.h. The tests compile and run it. Package mcutest has a board in Go.
package mcu
