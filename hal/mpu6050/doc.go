// Package mpu6050 drives InvenSense's MPU-6050, a three-axis accelerometer and
// gyroscope, on an I²C bus:
//
//	imu, err := mpu6050.New(bus, mpu6050.Config{GyroDPS: 500, AccelG: 4}, rtloop.Now)
//	...
//	at, err := imu.Read(values) // accel_x, ..., gyro_z, temperature
//
// # Reading
//
// One transaction reads 15 registers, 0x3A to 0x48: the interrupt status, then
// accelerations, temperature and rates, which the chip does not change during the
// read (register map RM-MPU-6000A-00, revision 4.2, sections 4.16 to 4.19). That
// takes 0.4 ms at 400 kHz. The status marks a new sample. A chip that has lost its
// settings in a dip of the supply sleeps and has no new samples, so the age of the
// last one reveals it.
//
// # The time of a sample
//
// The chip samples by its own clock. The time of a sample is that before the
// transaction. The sample may be older by one sample period, 1 ms at
// [DefaultRateHz], and by the delay of the low-pass filter, which depends on
// Config.BandwidthHz: 4.9 ms at 42 Hz, 8.5 ms at 20 Hz (section 4.3).
//
// # Undetected faults
//
// I²C has no checksum: a flipped bit in a sample is a wrong sample. Read rejects a rate
// of turn that jumps by half of its range, until the next sample confirms it. It does
// not reject jumps of an acceleration, which impacts cause. The limits of the
// observation's channels and the averaging of the model must tolerate the rest.
// Settings are read back in New and Arm.
package mpu6050
