// Package mpu6050 drives InvenSense's MPU-6050, an accelerometer and gyroscope
// of three axes each, on an I²C bus:
//
//	imu, err := mpu6050.New(bus, mpu6050.Config{GyroDPS: 500, AccelG: 4})
//	...
//	at, err := imu.Read(values) // accel_x, ..., gyro_z, temperature
//
// # What a read is
//
// One transaction takes 15 registers, 0x3A to 0x48: the interrupt status, then
// accelerations, temperature and rates, which the chip holds still meanwhile
// (register map RM-MPU-6000A-00, revision 4.2, sections 4.16 to 4.19).
// That is 0.4 ms at 400 kHz. The status tells whether the sample is a new one:
// a chip that has lost its settings to a dip of the supply sleeps, has no new
// samples, and is found out by the age of its last.
//
// # The time of a sample
//
// The chip samples by its own clock, and Read asks when it is called. A sample
// is dated to the moment before the transaction; it may be older by one sample
// period, 1 ms at [DefaultRateHz], and by the delay of the low-pass filter,
// which is that of Config.BandwidthHz: 4.9 ms at 42 Hz, 8.5 ms at 20 Hz (section
// 4.3).
//
// # What cannot be seen
//
// I²C has no checksum. A flipped bit in a sample is a wrong sample; the limits
// of the observation's channels and the averaging of the model have to bear it.
// Settings are read back when the device is opened and armed.
package mpu6050
