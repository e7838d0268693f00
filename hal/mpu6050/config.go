package mpu6050

import (
	"errors"
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/internal/keys"
)

// Config selects the chip and its settings. Zero values mean the defaults.
type Config struct {
	// Bus is the I²C bus, such as /dev/i2c-1.
	Bus string `yaml:"bus"`
	// Address is 0x68 (default), or 0x69 if the pin AD0 is high.
	Address int `yaml:"address" rule:"0|0x68|0x69"`
	// GyroDPS is the full scale of the gyroscope in degrees per second: 250,
	// 500 (default), 1000 or 2000.
	GyroDPS int `yaml:"gyro_dps" rule:"0|250|500|1000|2000"`
	// AccelG is the full scale of the accelerometer in g: 2, 4 (default), 8
	// or 16.
	AccelG int `yaml:"accel_g" rule:"0|2|4|8|16"`
	// BandwidthHz is the bandwidth of the low-pass filter: 5, 10, 20, 42
	// (default), 98 or 188. Choose less than half of the control rate.
	BandwidthHz int `yaml:"bandwidth_hz" rule:"0|5|10|20|42|98|188"`
	// RateHz is the sample rate, 1000 (default) divided by a whole number.
	// Choose at least the control rate.
	RateHz int `yaml:"rate_hz" rule:"0|[4, 1000]"`
}

// DefaultRateHz is the default of Config.RateHz.
const DefaultRateHz = 1000

// The settings of the chip, in the order of their codes.
var (
	gyroScales  = []int{250, 500, 1000, 2000}   // FS_SEL, section 4.4
	accelScales = []int{2, 4, 8, 16}            // AFS_SEL, section 4.5
	bandwidths  = []int{188, 98, 42, 20, 10, 5} // DLPF_CFG 1 to 6, section 4.3
	addresses   = []int{0x68, 0x69}             // product specification PS-MPU-6000A-00, section 9.2
	inputs      = []hal.Signal{                 // in the order of the registers
		{Name: "accel_x", Unit: "m/s^2"}, {Name: "accel_y", Unit: "m/s^2"}, {Name: "accel_z", Unit: "m/s^2"},
		{Name: "temperature", Unit: "K"},
		{Name: "gyro_x", Unit: "rad/s"}, {Name: "gyro_y", Unit: "rad/s"}, {Name: "gyro_z", Unit: "rad/s"},
	}
)

// Inputs lists the inputs: accel_x, accel_y, accel_z (m/s^2, including the reaction
// to gravity: +9.81 along the upward axis of a chip that does not move),
// temperature (K, of the chip), gyro_x, gyro_y, gyro_z (rad/s).
func (Config) Inputs() []hal.Signal { return inputs }

// Outputs is empty.
func (Config) Outputs() []hal.Signal { return nil }

// Place is the address of the device; two devices cannot share it.
func (c Config) Place() string {
	return fmt.Sprintf("%s, address %#02x", c.Bus, c.withDefaults().Address)
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{keys.Check("mpu6050", c)}
	c = c.withDefaults()
	if c.Bus == "" {
		errs = append(errs, errors.New("mpu6050: bus is empty; set one, such as /dev/i2c-1"))
	}
	if c.RateHz > 0 && 1000%c.RateHz != 0 {
		errs = append(errs, fmt.Errorf("mpu6050: rate_hz (%d) does not divide 1000; use 1000, 500 or 250",
			c.RateHz))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		key   *int
		value int
	}{{&c.Address, addresses[0]}, {&c.GyroDPS, 500}, {&c.AccelG, 4}, {&c.BandwidthHz, 42}, {&c.RateHz, DefaultRateHz}} {
		if *d.key == 0 {
			*d.key = d.value
		}
	}
	return c
}

// Bounds returns the bounds of calls if t bounds a transaction
// (i2cbus.Conn.Timeout): one for a sample; Arm reads back the identity and six
// settings.
func (c Config) Bounds(t time.Duration) hal.Bounds { return hal.Bounds{Sense: t, Arm: 7 * t} }
