// Package composite makes a [hal.Robot] of devices: IMUs, encoders, servos,
// motor controllers, each behind its driver, and two lists that say which input
// fills which element of the observation and which element of the action drives
// which output. On a robot the lists stand in its configuration file:
//
//	robot:
//	  driver: composite
//	  composite:
//	    name: rover
//	    devices:
//	      - {name: imu, driver: bno055, stale_ms: 60, bno055: {bus: /dev/i2c-1}}
//	      - name: base
//	        driver: pca9685
//	        pca9685: {bus: /dev/i2c-1, channels: [{name: left, pin: 0}, {name: right, pin: 1}]}
//	    observation:
//	      - {name: yaw_rate, unit: rad/s, from: imu.gyro_z}
//	      - {name: last_left, previous_action: left_wheel}
//	    action:
//	      - {name: left_wheel, to: base.left, scale: 500, offset: 1500, min: -1, max: 1}
//	      - {name: right_wheel, to: base.right, scale: -500, offset: 1500, min: -1, max: 1}
//
// # Numbers and units
//
// An observation is scale times the source in the observation's unit, plus
// offset; an output is scale times the action in the output's unit, plus offset.
// Units that are known by name are converted (deg to rad, rpm to rad/s, g to
// m/s^2, ms to s, ...), units of different dimensions are refused. A number
// without a unit on one side needs a scale, which then says what it means: with
// unit "" and a source in m/s, scale 0.5 is 0.5 for each m/s.
//
// # History
//
// With history k the observation is that of k ticks, each with all elements in
// their order, the oldest tick first and the newest last. Their channels are
// called NAME@-2, NAME@-1, NAME. Ticks in which sensing failed are left out; at
// the start all are the first.
//
// # A tick
//
// Sense reads the devices one after the other, in their order but for that of the
// stop input, which comes first; so those on one bus do not meet. The time of the sample is the oldest device's. Act writes
// them in the same order. Neither allocates. Sense ends with the first device
// that fails, and Act too, so that a bus that is held costs each of them one
// device's worst case, which their packages state; Halt tries every device, those
// whose last transaction succeeded first. What fails is an [*Error] that names
// the device and wraps a kind of package hal; [Robot.Faults] counts them by
// device and kind.
//
// A device is stale when its newest sample is older than its stale time, and
// frozen when a number of new samples have the same bits in all inputs, which
// noise makes impossible for a sensor that works.
//
// # Disarmed and failsafe
//
// Two different things. The failsafe output stops a robot that moves: Halt
// commands it. The disarmed output suits one that rests and is waiting to be
// armed: it is commanded when the robot is opened, by Disarm, and by Arm before
// the devices are armed. Whether the devices make any of it effective while they
// are not armed is theirs: see their packages.
//
// The previous action, as a source, is the one that was commanded last, in its
// unit: after Act that action, after Arm the default, after Disarm and Halt the
// disarmed and the failsafe values.
//
// # Adding a driver
//
// A driver is a [hal.Device] and a configuration type that can say its Inputs
// and Outputs before there is a device. Configurations are in package configs,
// opening in cmd/optibfm/devices.go; both have one line for each driver.
package composite
