// Package standard registers every driver of this repository. Import it for that effect:
//
//	import _ "optibfm/standard"
//
// A program that needs only some of them calls their functions Register instead, such as
// [bridge.Register].
package standard

import (
	"optibfm/hal/assembly"
	"optibfm/hal/bno055"
	"optibfm/hal/bridge"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/pca9685"
	"optibfm/hal/rover"
	"optibfm/hal/unitree/probe"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/tflite/tensorflow"
)

// init registers the drivers and sources in the order of their keys in a configuration.
func init() {
	rover.Register()
	bridge.Register()
	assembly.Register()
	probe.Register()
	bno055.Register()
	mpu6050.Register()
	pca9685.Register()
	mcu.Register()
	dynamixel.Register()
	feetech.Register()
	mit.Register()
	evdev.Register()
	gpio.Register()
	tensorflow.Register()
}
