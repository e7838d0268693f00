package bno055

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/hal"
	"optibfm/hal/i2cbus"
	"optibfm/internal/safefile"
)

// Registers of page 0; section 4.2.1.
const (
	regChipID      = 0x00
	regPage        = 0x07
	regGyro        = 0x14
	regQuaternion  = 0x20
	regCalibration = 0x35
	regSelfTest    = 0x36
	regStatus      = 0x39
	regError       = 0x3A
	regUnits       = 0x3B
	regMode        = 0x3D
	regPower       = 0x3E
	regTrigger     = 0x3F
	regAxisMap     = 0x41
	regAxisSign    = 0x42
	regProfile     = 0x55
)

const (
	chipID          = 0xA0
	modeConfig      = 0x00
	units           = 0x86 // m/s², rad/s, rad, °C, orientation as after a reset; section 3.6.1
	triggerReset    = 0x20 // section 4.3.63
	triggerCrystal  = 0x80
	selfTestsPassed = 0x0F // of accelerometer, magnetometer, gyroscope and processor; section 4.3.55
	statusError     = 1    // section 4.3.58
	statusFusion    = 5

	resetTime    = 650 * time.Millisecond // table 0-2, power-on reset
	toConfigTime = 19 * time.Millisecond  // table 3-6
	toModeTime   = 7 * time.Millisecond
	pollTime     = 10 * time.Millisecond
	patience     = time.Second
)

// Device is a BNO055. It implements [hal.Device], [hal.FaultCounter] and [hal.Bounder].
type Device struct {
	conn   *i2cbus.Conn
	now    func() int64
	sleep  func(time.Duration)
	cfg    Config
	groups []*group
	inputs []hal.Signal
	setup  []i2cbus.Setting
	first  byte // register at raw[0]
	raw    []byte
	check  []byte
	spikes *i2cbus.Spikes // of the rates of turn
}

var (
	_ hal.Device       = (*Device)(nil)
	_ hal.FaultCounter = (*Device)(nil)
	_ hal.Bounder      = (*Device)(nil)
)

// New resets and configures the chip, restores its calibration and waits until its
// fusion runs, which takes about 0.8 s, or until ctx ends. now is CLOCK_MONOTONIC
// in nanoseconds.
func New(ctx context.Context, bus i2c.Bus, cfg Config, now func() int64) (*Device, error) {
	return open(ctx, bus, cfg, now, func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	})
}

func open(ctx context.Context, bus i2c.Bus, cfg Config, now func() int64, sleep func(time.Duration)) (*Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	profile, err := cfg.profile()
	if err != nil {
		return nil, err
	}
	axes := axisMaps[cfg.AxisMap]
	d := &Device{
		now: now, sleep: sleep, cfg: cfg, groups: cfg.groups(), inputs: cfg.Inputs(),
		setup: []i2cbus.Setting{
			{Reg: regPage}, {Reg: regPower}, {Reg: regUnits, Value: units},
			{Reg: regAxisMap, Value: axes[0]}, {Reg: regAxisSign, Value: axes[1]},
		},
		check: make([]byte, 1), spikes: i2cbus.NewSpikes(3, gyroRange),
	}
	d.first = d.groups[0].first
	for _, g := range d.groups {
		d.first = min(d.first, g.first)
	}
	d.raw = make([]byte, regError+1-int(d.first))
	if err := d.start(ctx, bus, profile); err != nil {
		return nil, err
	}
	// Do not count the faults of a starting chip.
	d.conn = i2cbus.NewConn(bus, uint16(cfg.Address), "bno055")
	return d, nil
}

func (d *Device) start(ctx context.Context, bus i2c.Bus, profile *Profile) error {
	d.conn = i2cbus.NewConn(bus, uint16(d.cfg.Address), "bno055")
	awaitChip := func() error { return d.until(ctx, d.identify) }
	steps := []func() error{
		awaitChip,
		func() error { return d.change(modeConfig, toConfigTime) },
		func() error { return d.conn.Write(regTrigger, triggerReset) },
		func() error { d.sleep(resetTime); return awaitChip() },
		d.configure,
		func() error { return d.restore(profile) },
		func() error { return d.change(modes[d.cfg.Mode], toModeTime) },
		d.verify,
		func() error { return d.awaitFusion(ctx) },
	}
	for _, step := range steps {
		if err := d.interrupted(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// until repeats try until it succeeds, for at most patience, or until ctx ends.
func (d *Device) until(ctx context.Context, try func() error) error {
	for waited := time.Duration(0); ; waited += pollTime {
		if err := d.interrupted(ctx); err != nil {
			return err
		}
		err := try()
		if err == nil || waited >= patience {
			return err
		}
		d.sleep(pollTime)
	}
}

func (d *Device) interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: interrupted: %w", d.conn.Name(), ctx.Err())
}

// identify fails while the chip starts.
func (d *Device) identify() error {
	if err := d.conn.Read(regChipID, d.check); err != nil {
		return err
	}
	if id := d.check[0]; id != chipID {
		err := fmt.Errorf("another chip, or not started: identity %#02x, want %#02x", id, chipID)
		return d.conn.Fail(hal.ErrProtocol, err)
	}
	return nil
}

// change changes the mode and waits.
func (d *Device) change(mode byte, wait time.Duration) error {
	err := d.conn.Write(regMode, mode)
	d.sleep(wait)
	return err
}

func (d *Device) configure() error {
	for _, s := range d.setup {
		if err := d.conn.Write(s.Reg, s.Value); err != nil {
			return err
		}
	}
	if d.cfg.ExternalCrystal {
		return d.conn.Write(regTrigger, triggerCrystal)
	}
	return nil
}

// verify reads the settings back.
func (d *Device) verify() error {
	mode := i2cbus.Setting{Reg: regMode, Value: modes[d.cfg.Mode], Ignore: 0xF0}
	return d.conn.Verify(append(d.setup, mode)...)
}

func (d *Device) awaitFusion(ctx context.Context) error {
	values := make([]float64, len(d.inputs))
	return d.until(ctx, func() error {
		_, err := d.Read(values)
		return err
	})
}

// Inputs lists the inputs; see [Config.Inputs].
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs is empty.
func (d *Device) Outputs() []hal.Signal { return nil }

// Read fills dst, [len(Inputs())]. It makes one transaction, at most twice.
func (d *Device) Read(dst []float64) (at int64, err error) {
	at = d.now()
	if err := d.conn.Read(d.first, d.raw); err != nil {
		return 0, err
	}
	if kind, cause := d.examine(); cause != nil {
		return 0, d.conn.Fail(kind, cause)
	}
	for _, g := range d.groups {
		n := len(g.inputs)
		if g.decode != nil {
			g.decode(d, g, dst[:n])
		} else {
			d.numbers(g, dst[:n])
		}
		if cause := d.checkValues(g, dst[:n], at); cause != nil {
			return 0, d.conn.Fail(hal.ErrProtocol, cause)
		}
		dst = dst[n:]
	}
	return at, nil
}

// checkValues refuses values that the sensors cannot measure.
func (d *Device) checkValues(g *group, values []float64, at int64) error {
	for _, v := range values {
		if g.limit > 0 && math.Abs(v) > g.limit {
			return errRange
		}
	}
	if g.first == regGyro && d.spikes.Reject(values, at) {
		return errSpike
	}
	return nil
}

var (
	errSelfTest = errors.New("the self-test failed: replace the chip")
	errIdle     = errors.New("the fusion does not run: the chip lost its settings in a power failure")
	errRange    = errors.New("a value beyond the range of the chip: bit errors on the wire")
	errSpike    = errors.New("a rate of turn jumped by half of its range: a bit error, unless it stays there")
	errNorm     = errors.New("the orientation is not a unit quaternion: bit errors on the wire")
)

// systemErrors are the values of the register SYS_ERR; section 4.3.59.
var systemErrors = [...]error{
	errors.New("system error without a cause"),
	errors.New("system error 1: peripherals could not be initialised"),
	errors.New("system error 2: the system could not be initialised"),
	errors.New("system error 3: the self-test failed"),
	errors.New("system error 4: a register map value was out of range"),
	errors.New("system error 5: a register map address was out of range"),
	errors.New("system error 6: a register map write failed"),
	errors.New("system error 7: low-power mode is not available in this mode"),
	errors.New("system error 8: the accelerometer's power mode is not available"),
	errors.New("system error 9: the fusion could not be configured"),
	errors.New("system error 10: a sensor could not be configured"),
	errors.New("system error of an unknown number"),
}

// examine returns the fault in an answer.
func (d *Device) examine() (kind, cause error) {
	switch status := d.at(regStatus); {
	case status == statusError:
		return hal.ErrDevice, systemErrors[min(int(d.at(regError)), len(systemErrors)-1)]
	case status != statusFusion:
		return hal.ErrDevice, errIdle
	case d.at(regSelfTest)&selfTestsPassed != selfTestsPassed:
		return hal.ErrDevice, errSelfTest
	case d.first <= regQuaternion && !d.upright():
		return hal.ErrProtocol, errNorm
	}
	return nil, nil
}

// at returns the value of a register.
func (d *Device) at(reg byte) byte { return d.raw[reg-d.first] }

// upright reports whether the orientation is a unit quaternion, to 1 %.
func (d *Device) upright() bool {
	sum := 0.0
	for i := range 4 {
		v := d.number(regQuaternion + byte(2*i))
		sum += v * v
	}
	const one = 1 << 28
	return math.Abs(sum-one) <= 0.02*one
}

// number returns a 16-bit number, low byte first.
func (d *Device) number(reg byte) float64 {
	return float64(int16(binary.LittleEndian.Uint16(d.raw[reg-d.first:])))
}

func (d *Device) numbers(g *group, dst []float64) {
	for i := range g.signed {
		dst[i] = d.number(g.first+byte(2*i)) * g.scale
	}
}

// decodeHeading splits the orientation into a rotation about the vertical and a
// tilt.
func decodeHeading(d *Device, g *group, dst []float64) {
	var q [4]float64
	d.numbers(g, q[:])
	w, x, y, z := q[0], q[1], q[2], q[3]
	cos, sin := w*w+x*x-y*y-z*z, 2*(w*z+x*y)
	dst[0] = math.Atan2(sin, cos)
	dst[2], dst[1] = math.Sincos(dst[0])
	dst[3] = math.Atan2(2*math.Hypot(x*z+w*y, y*z-w*x), w*w-x*x-y*y+z*z)
}

// decodeCalibration extracts the four fields of CALIB_STAT; section 4.3.54.
func decodeCalibration(d *Device, _ *group, dst []float64) {
	status := d.at(regCalibration)
	for i := range dst {
		dst[i] = float64(status >> (6 - 2*i) & 3)
	}
}

// Write does nothing: the device has no outputs.
func (d *Device) Write([]float64) error { return nil }

// Arm reads back the settings and checks the calibration status against
// Config.ArmCalibration.
func (d *Device) Arm() error {
	if err := d.verify(); err != nil {
		return err
	}
	if err := d.conn.Read(regCalibration, d.check); err != nil {
		return err
	}
	system, gyro := int(d.check[0]>>6&3), int(d.check[0]>>4&3)
	if d.cfg.Mode == IMU {
		system = 3 // needs the magnetometer
	}
	if least := d.cfg.ArmCalibration; gyro < least || system < least {
		return fmt.Errorf("%s: not calibrated (gyroscope %d, system %d, arm_calibration %d); "+
			"keep it still for some seconds, in ndof then move it in figures of eight, or set calibration_file",
			d.conn.Name(), gyro, system, least)
	}
	return nil
}

// Bounds implements [hal.Bounder]: see [Config.Bounds].
func (d *Device) Bounds() hal.Bounds { return d.cfg.Bounds(d.conn.Timeout()) }

// Halt does nothing: a sensor has no actuators.
func (d *Device) Halt([]float64) error { return nil }

// Close does nothing: the caller owns the bus.
func (d *Device) Close() error { return nil }

// Faults returns the fault counts since New.
func (d *Device) Faults() hal.Faults { return d.conn.Faults() }

// profile returns the configured calibration, nil for none.
func (c Config) profile() (*Profile, error) {
	text := c.Calibration
	if c.CalibrationFile != "" {
		content, err := safefile.Read(c.CalibrationFile, 4<<10)
		if err != nil {
			return nil, fmt.Errorf("bno055: calibration_file: %w", err)
		}
		text = string(content)
	} else if text == "" {
		return nil, nil
	}
	p, err := ParseProfile(text)
	if err != nil {
		return nil, fmt.Errorf("bno055: calibration_file: %s: %w", c.CalibrationFile, err)
	}
	return &p, nil
}

// restore writes the calibration to the chip; section 3.11.4.
func (d *Device) restore(p *Profile) error {
	if p == nil {
		return nil
	}
	return d.conn.Write(regProfile, p[:]...)
}
