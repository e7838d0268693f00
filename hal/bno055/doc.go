// Package bno055 drives Bosch's BNO055 on an I²C bus: a nine-axis sensor with a
// processor that computes the orientation:
//
//	imu, err := bno055.New(ctx, bus, bno055.Config{Bus: "/dev/i2c-1", Mode: bno055.IMU}, rtloop.Now)
//	...
//	at, err := imu.Read(values)
//
// Sections and tables are those of the data sheet BST-BNO055-DS000, revision
// 1.4.
//
// # Modes
//
// In "imu" (section 3.3.3.1) the heading is relative to the heading at the start
// and drifts slowly. In "ndof" (3.3.3.5) it is relative to magnetic north, which
// motors and steel disturb. Indoors, near motors, use imu.
//
// # Reading
//
// One transaction reads the registers from the first needed one up to 0x3A, the
// sensor's status and error. Orientation and status are 27 bytes, 0.7 ms at
// 400 kHz; everything is 51 bytes, 1.3 ms. The chip stretches the clock (section
// 4.6), which some adapters handle badly: see the fault counters. Read returns an
// error if the fusion does not run or the chip reports an error, as after a dip of
// its supply, if its self-test has failed, if the orientation is not a unit
// quaternion, if a value is beyond the chip's range, and if a rate of turn jumps by half
// of its range, until the next reading confirms it. The last three checks find flipped
// high bits; I²C has no checksum.
//
// # The time of a sample
//
// The fusion makes 100 samples a second (table 3-14) without a time. The time of a
// sample is that before the transaction; the sample may be 10 ms older. At rates
// above 100 Hz some ticks read the same sample again.
//
// # Calibration
//
// The chip calibrates itself in motion and loses the calibration without power
// (section 3.11). The inputs calibration_* are its status, 0 to 3. Read a [Profile]
// from a calibrated chip with [Device.Profile] and store it in a file or in the
// configuration: New restores it. With Config.ArmCalibration, Arm requires a
// minimum status.
package bno055
