// Package bno055 drives Bosch's BNO055, nine axes and a processor that fuses
// them to an orientation, on an I²C bus:
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
// In "imu" (section 3.3.3.1) the heading is relative to that at the start and
// drifts slowly; in "ndof" (3.3.3.5) it is relative to magnetic north, and
// motors and steel move it. Indoors, near motors, use imu.
//
// # What a read is
//
// One transaction takes the registers from the first that an input needs up to
// 0x3A, which are the sensor's status and error. Orientation and status are 27
// bytes, 0.7 ms at 400 kHz; everything is 51, 1.3 ms. The chip stretches the
// clock (section 4.6), which some adapters bear badly: see the fault counters.
// An answer is refused where the chip says that its fusion does not run or that
// it has an error, which is also what a dip of its supply looks like, where its
// self-test has failed, and where an orientation is no unit quaternion. The
// last finds flipped high bits; I²C itself has no checksum.
//
// # The time of a sample
//
// The fusion makes 100 samples a second (table 3-14) and does not say when.
// A sample is dated to the moment before the transaction and may be 10 ms
// older. At rates above 100 Hz some ticks see the same sample again.
//
// # Calibration
//
// The chip calibrates itself in motion and forgets it without power (section
// 3.11). The inputs calibration_* tell how far it is, 0 to 3. A [Profile] that
// was read from a calibrated chip with [Device.Profile] and kept in a file, or in
// the configuration, is given back at every start; Config.ArmCalibration makes Arm wait for nothing
// less.
package bno055
