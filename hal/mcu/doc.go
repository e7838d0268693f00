// Package mcu drives a microcontroller on a serial line that speaks the framed
// protocol of PROTOCOL.md: wheel encoders, motors, an IMU, a battery, whatever
// channels the firmware declares.
//
// Open asks the firmware for its channel lists; Inputs and Outputs are those. A
// robot's configuration names them too (Config.DeclaredInputs), so that the robot can
// be checked without the board; Open refuses a board that has others. The
// firmware sends samples at its own rate. Read takes what has arrived, without
// waiting, and gives the newest one, with the firmware's time mapped onto
// CLOCK_MONOTONIC; the same sample again where nothing new has come, and
// hal.ErrStale when it is older than Config.StaleMs.
//
// Write sends one command frame with the deadman time in it. The firmware
// enforces it, and echoes in each sample which one it enforces: Write refuses
// with hal.ErrDevice once the samples say that the firmware is not armed any more,
// and [Device.Cause] tells why. Arm and Halt are answered; they take at most two
// tries of Config.TimeoutMs. Read and Write do not wait; Write only for room in the
// kernel's buffer, at most Config.TimeoutMs.
//
// The firmware's side is firmware/optibfm_mcu.h: C99, no allocation, nothing of
// libc but string.h and stdint.h. The tests compile it and talk to it. Package
// mcutest is a board in Go.
package mcu
