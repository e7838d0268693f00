package bno055

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"optibfm/hal"
	"optibfm/internal/keys"
)

// The modes.
const (
	IMU  = "imu"  // accelerometer and gyroscope: a heading relative to the start
	NDOF = "ndof" // the magnetometer too: a heading relative to magnetic north
)

// Config selects the chip and the inputs. Zero values mean the defaults.
type Config struct {
	// Bus is the I²C bus, such as /dev/i2c-1.
	Bus string `yaml:"bus"`
	// Address is 0x28 (default), or 0x29 if the pin COM3 is high.
	Address int `yaml:"address" rule:"0|0x28|0x29"`
	// Mode is imu (default) or ndof.
	Mode string `yaml:"mode" rule:"imu|ndof|"`
	// Read lists the groups of inputs: quaternion, heading, euler, gyro, accel,
	// linear_accel, gravity, calibration. Empty: heading, gyro and calibration.
	Read []string `yaml:"read"`
	// AxisMap is the mounting of the chip, P0 to P7, P1 by default; section 3.4.
	AxisMap string `yaml:"axis_map"`
	// ExternalCrystal is true if the board has one; many do.
	ExternalCrystal bool `yaml:"external_crystal"`
	// Calibration is a profile for the chip, in the format of Profile.String.
	// Empty: none.
	Calibration string `yaml:"calibration"`
	// CalibrationFile is a file with the profile instead. It must exist.
	CalibrationFile string `yaml:"calibration_file"`
	// ArmCalibration is the lowest calibration status, 0 (default) to 3, of the
	// gyroscope, and in ndof of the system too, with which Arm succeeds.
	ArmCalibration int `yaml:"arm_calibration" rule:"[0, 3]"`
}

// group is a set of inputs of consecutive registers.
type group struct {
	name   string
	first  byte // register
	signed int  // 16-bit numbers from first on
	scale  float64
	limit  float64 // of a number times scale; 0: none
	inputs []hal.Signal
	decode func(d *Device, g *group, dst []float64) // nil: the numbers, scaled
}

func xyz(name, unit string) []hal.Signal {
	return signals(unit, name+"_x", name+"_y", name+"_z")
}

func signals(unit string, names ...string) []hal.Signal {
	list := make([]hal.Signal, len(names))
	for i, name := range names {
		list[i] = hal.Signal{Name: name, Unit: unit}
	}
	return list
}

const (
	gyroLimit = 35.3          // rad/s
	gyroRange = 32768.0 / 900 // rad/s, of the register
)

// The groups, in the order of their registers; section 4.2. Scales are those of
// tables 3-17 (100 bits for m/s²), 3-22 (900 for rad/s), 3-29 (900 for rad) and
// 3-31 (2^14 for a quaternion's 1). Limits are a little above the ranges of the fusion
// modes, ±4 g and ±2000 °/s; section 3.3.3.
var groups = []group{
	{name: "accel", first: 0x08, signed: 3, scale: 1.0 / 100, limit: 41, inputs: xyz("accel", "m/s^2")},
	{name: "gyro", first: 0x14, signed: 3, scale: 1.0 / 900, limit: gyroLimit, inputs: xyz("gyro", "rad/s")},
	{name: "euler", first: 0x1A, signed: 3, scale: 1.0 / 900, limit: 6.4,
		inputs: signals("rad", "euler_heading", "euler_roll", "euler_pitch")},
	{name: "quaternion", first: 0x20, signed: 4, scale: 1.0 / (1 << 14),
		inputs: signals("", "quaternion_w", "quaternion_x", "quaternion_y", "quaternion_z")},
	{name: "heading", first: 0x20, signed: 4, scale: 1.0 / (1 << 14), decode: decodeHeading,
		inputs: []hal.Signal{
			{Name: "heading", Unit: "rad"}, {Name: "heading_cos"}, {Name: "heading_sin"}, {Name: "tilt", Unit: "rad"},
		}},
	{name: "linear_accel", first: 0x28, signed: 3, scale: 1.0 / 100, limit: 51, inputs: xyz("linear_accel", "m/s^2")},
	{name: "gravity", first: 0x2E, signed: 3, scale: 1.0 / 100, limit: 10.5, inputs: xyz("gravity", "m/s^2")},
	{name: "calibration", first: regCalibration, decode: decodeCalibration,
		inputs: signals("", "calibration_system", "calibration_gyro", "calibration_accel", "calibration_mag")},
}

var (
	defaultRead = []string{"heading", "gyro", "calibration"}
	addresses   = []int{0x28, 0x29} // section 4.6
	modes       = map[string]byte{IMU: 0x08, NDOF: 0x0C}
)

// axisMaps are AXIS_MAP_CONFIG and AXIS_MAP_SIGN of the placements of section
// 3.4.
var axisMaps = map[string][2]byte{
	"P0": {0x21, 0x04}, "P1": {0x24, 0x00}, "P2": {0x24, 0x06}, "P3": {0x21, 0x02},
	"P4": {0x24, 0x03}, "P5": {0x21, 0x01}, "P6": {0x21, 0x07}, "P7": {0x24, 0x05},
}

// Inputs lists the inputs in the order of the chip's registers, independent of the
// order in Config.Read:
//
//	accel_x, _y, _z                   m/s^2, including the reaction to gravity
//	gyro_x, _y, _z                    rad/s
//	euler_heading, _roll, _pitch      rad, by the chip's own convention; section 3.6.5.4
//	quaternion_w, _x, _y, _z          from the body's axes to the world's
//	heading, heading_cos, heading_sin rad in [-π, π], counter-clockwise seen from above
//	tilt                              rad in [0, π], between the body's z axis and up
//	linear_accel_x, _y, _z            m/s^2, without gravity
//	gravity_x, _y, _z                 m/s^2
//	calibration_system, _gyro, _accel, _mag   0 (not calibrated) to 3
//
// AxisMap must match the mounting of the chip, or all axes are wrong.
func (c Config) Inputs() []hal.Signal {
	var all []hal.Signal
	for _, g := range c.withDefaults().groups() {
		all = append(all, g.inputs...)
	}
	return all
}

// Outputs is empty.
func (Config) Outputs() []hal.Signal { return nil }

// groups returns the groups in Config.Read.
func (c Config) groups() []*group {
	var read []*group
	for i := range groups {
		if slices.Contains(c.Read, groups[i].name) {
			read = append(read, &groups[i])
		}
	}
	return read
}

// Place is the address of the device; two devices cannot share it.
func (c Config) Place() string {
	return fmt.Sprintf("%s, address %#02x", c.Bus, c.withDefaults().Address)
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{keys.Check("bno055", c)}
	c = c.withDefaults()
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("bno055: "+format, args...)) }
	if c.Bus == "" {
		wrong("bus is empty; set one, such as /dev/i2c-1")
	}
	if _, err := ParseProfile(c.Calibration); c.Calibration != "" && err != nil {
		wrong("calibration: %w", err)
	}
	if c.Calibration != "" && c.CalibrationFile != "" {
		wrong("calibration and calibration_file are both set; remove one")
	}
	for i, name := range c.Read {
		if slices.Contains(c.Read[:i], name) {
			wrong("read[%d] is a duplicate (%q); remove it", i, name)
		}
	}
	return errors.Join(errs...)
}

// Choices lists the values of a key that has choices. "" is the default.
func (Config) Choices(key string) []string {
	switch key {
	case "axis_map":
		return append(slices.Sorted(maps.Keys(axisMaps)), "")
	case "read":
		names := make([]string, len(groups))
		for i, g := range groups {
			names[i] = g.name
		}
		return names
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Address = cmp.Or(c.Address, addresses[0])
	c.Mode = cmp.Or(c.Mode, IMU)
	c.AxisMap = cmp.Or(c.AxisMap, "P1")
	if len(c.Read) == 0 {
		c.Read = defaultRead
	}
	return c
}

// Bounds returns the bounds of calls if t bounds a transaction
// (i2cbus.Conn.Timeout): one for a sample; Arm reads back five settings, the mode
// and the calibration.
func (c Config) Bounds(t time.Duration) hal.Bounds { return hal.Bounds{Sense: t, Arm: 7 * t} }
