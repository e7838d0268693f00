// Package composite makes a [hal.Robot] of devices: IMUs, encoders, servos and motor controllers,
// each with its driver. Two lists map device inputs to elements of the observation, and elements of
// the action to device outputs. They are part of a robot's configuration file:
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
//	    action:
//	      - {name: left_wheel, to: base.left, scale: 500, offset: 1500, min: -1, max: 1}
//	      - {name: right_wheel, to: base.right, scale: -500, offset: 1500, min: -1, max: 1}
//
// # Numbers and units
//
// An observation is scale times the source in the observation's unit, plus offset; an output is
// scale times the action in the output's unit, plus offset. Known units are converted (deg to rad,
// rpm to rad/s, g to m/s^2, ms to s, ...), and units of different dimensions are refused. If one
// side has no unit, scale is required and defines the conversion: with unit "" and a source in m/s,
// scale 0.5 is 0.5 for each m/s. An action in rad drives a pulse output in us with a scale in
// us/rad.
//
// # History
//
// A model that reads earlier ticks or its previous action has observation groups: model.groups, of
// which the controller keeps the history. The source action.NAME is the latest command in its unit:
// after Act the action, after Arm the first command, after Disarm the disarmed values, after Halt
// the failsafe values. Held positions keep theirs.
//
// # A tick
//
// Sense reads the devices one after the other: first those with a stop input, then the others in
// their order. The time of the sample is the oldest device's. Act writes the devices in their
// order. Neither allocates. Both end at the first device that fails, so that a blocked bus costs
// one device's worst case, which its package states. Halt tries every device, beginning with those
// whose latest transaction succeeded. A failure is an [*Error] that names the device and wraps a
// kind of package hal; [Robot.Faults] counts failures by device and kind.
//
// A device is stale when its newest sample is older than its stale time. It is frozen when a number
// of new samples have the same bits in all inputs, which noise makes impossible for a working
// sensor.
//
// # Measured positions
//
// An action that commands a position names what measures it: the drivers of servos and motors do
// so, other actions have the key measured. Arm begins there; Disarm keeps the last command. New and
// Disarm of a robot that is not armed write nothing to a device with measured outputs; a board with
// such outputs gets all of them at Arm. Actions without a measurement begin at the disarmed output.
//
// # Disarmed and failsafe
//
// The failsafe output stops a moving robot: Halt commands it. A servo or CAN motor that follows
// positions stays where it is instead ([Action].Halt). The disarmed output is for a stopped robot
// that waits to be armed: New, Disarm, and Arm before it arms the devices, command it. A
// [hal.FailsafeHolder] is halted instead and has the failsafe output. The packages of the devices
// state whether outputs are effective while a device is not armed.
//
// # Adding a driver
//
// A driver is a [hal.Device] and a configuration type whose methods Inputs and Outputs do not need
// the device. Add the configuration to package configs and the opening to the program; both have
// one line per driver.
package composite
