package mpu6050

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/hal"
	"optibfm/hal/i2cbus"
)

// Registers; RM-MPU-6000A-00 revision 4.2, section 3.
const (
	regRateDivider = 0x19
	regConfig      = 0x1A
	regGyroConfig  = 0x1B
	regAccelConfig = 0x1C
	regIntEnable   = 0x38
	regIntStatus   = 0x3A
	regPower       = 0x6B
	regWhoAmI      = 0x75
)

const (
	chipID    = 0x68 // independent of AD0; register 117
	dataReady = 0x01
	reset     = 0x80
	clockGyro = 0x01 // the gyroscope's oscillator, steadier than the internal one; register 107

	burst = 15 // bytes from regIntStatus: status, accelerations, temperature, rates of turn

	resetTime = 100 * time.Millisecond // register 107; specified for a reset over SPI only
	startTime = 30 * time.Millisecond  // of the gyroscope; PS-MPU-6000A-00, section 6.1

	standardGravity = 9.80665
)

// Device is an MPU-6050. It implements [hal.Device], [hal.FaultCounter] and [hal.Bounder].
type Device struct {
	conn  *i2cbus.Conn
	now   func() int64
	setup []i2cbus.Setting
	accel float64 // m/s^2 for a bit
	gyro  float64 // rad/s for a bit
	raw   []byte
	check []byte
	next  []float64 // a sample in progress
	value []float64 // the newest sample
	at    int64     // its time, ns; 0: no sample yet

	spikes *i2cbus.Spikes // of the rates of turn
}

var (
	_ hal.Device       = (*Device)(nil)
	_ hal.FaultCounter = (*Device)(nil)
	_ hal.Bounder      = (*Device)(nil)
)

// New resets and configures the chip and reads back the settings, which takes
// about 150 ms. now is CLOCK_MONOTONIC in nanoseconds.
func New(bus i2c.Bus, cfg Config, now func() int64) (*Device, error) {
	return open(bus, cfg, now, time.Sleep)
}

func open(bus i2c.Bus, cfg Config, now func() int64, sleep func(time.Duration)) (*Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	gyro, accel := slices.Index(gyroScales, cfg.GyroDPS), slices.Index(accelScales, cfg.AccelG)
	d := &Device{
		conn: i2cbus.NewConn(bus, uint16(cfg.Address), "mpu6050"), now: now,
		setup: []i2cbus.Setting{
			{Reg: regPower, Value: clockGyro},
			{Reg: regRateDivider, Value: byte(1000/cfg.RateHz - 1)},
			{Reg: regConfig, Value: byte(1 + slices.Index(bandwidths, cfg.BandwidthHz))},
			{Reg: regGyroConfig, Value: byte(gyro << 3)},
			{Reg: regAccelConfig, Value: byte(accel << 3)},
			{Reg: regIntEnable, Value: dataReady},
		},
		// Sections 4.17 and 4.19: 16 bits, two's complement, full scale.
		accel: standardGravity * float64(cfg.AccelG) / (1 << 15),
		gyro:  math.Pi / 180 / gyroSensitivity[gyro],
		raw:   make([]byte, burst), check: make([]byte, 1),
		next: make([]float64, len(inputs)), value: make([]float64, len(inputs)),
	}
	d.spikes = i2cbus.NewSpikes(3, d.gyro*(1<<15))
	if err := d.start(sleep); err != nil {
		return nil, err
	}
	return d, nil
}

// gyroSensitivity is in bits for a degree per second, as rounded in section 4.19.
var gyroSensitivity = []float64{131, 65.5, 32.8, 16.4}

func (d *Device) start(sleep func(time.Duration)) error {
	if err := d.identify(); err != nil {
		return err
	}
	if err := d.conn.Write(regPower, reset); err != nil {
		return err
	}
	sleep(resetTime)
	for _, s := range d.setup {
		if err := d.conn.Write(s.Reg, s.Value); err != nil {
			return err
		}
	}
	sleep(startTime)
	return d.conn.Verify(d.setup...)
}

var errOther = errors.New("another chip")

func (d *Device) identify() error {
	if err := d.conn.Read(regWhoAmI, d.check); err != nil {
		return err
	}
	if id := d.check[0]; id != chipID {
		return d.conn.Fail(hal.ErrProtocol, fmt.Errorf("%w: identity %#02x, want %#02x", errOther, id, chipID))
	}
	return nil
}

// Inputs lists the inputs; see [Config.Inputs].
func (d *Device) Inputs() []hal.Signal { return inputs }

// Outputs is empty.
func (d *Device) Outputs() []hal.Signal { return nil }

var errSpike = errors.New("a rate of turn jumped by half of its range: a bit error, unless it stays there")

const firstGyro = 4 // among the inputs

// ErrNoSample is the cause of Read's error before the first sample.
var ErrNoSample = errors.New("no sample yet")

// Read fills dst [7] in the order and units of [Device.Inputs]; at is CLOCK_MONOTONIC in
// nanoseconds. Without a new sample it returns the last one with its time. It makes one transaction
// of 15 bytes, at most twice.
func (d *Device) Read(dst []float64) (at int64, err error) {
	asked := d.now()
	if err := d.conn.Read(regIntStatus, d.raw); err != nil {
		return 0, err
	}
	if d.raw[0]&dataReady != 0 {
		d.decode(d.raw[1:])
		if d.spikes.Reject(d.next[firstGyro:], asked) {
			return 0, d.conn.Fail(hal.ErrProtocol, errSpike)
		}
		copy(d.value, d.next)
		d.at = asked
	}
	if d.at == 0 {
		return 0, d.conn.Fail(hal.ErrStale, ErrNoSample)
	}
	copy(dst, d.value)
	return d.at, nil
}

// decode reads the 14 bytes of a sample.
func (d *Device) decode(raw []byte) {
	for i := range d.next {
		bits := float64(int16(binary.BigEndian.Uint16(raw[2*i:])))
		switch {
		case i < 3:
			d.next[i] = bits * d.accel
		case i == 3:
			d.next[i] = bits/340 + 36.53 + 273.15 // section 4.18, in kelvin
		default:
			d.next[i] = bits * d.gyro
		}
	}
}

// Write does nothing: the device has no outputs.
func (d *Device) Write([]float64) error { return nil }

// Arm checks the identity and the settings of the chip.
func (d *Device) Arm() error {
	if err := d.identify(); err != nil {
		return err
	}
	return d.conn.Verify(d.setup...)
}

// Bounds implements [hal.Bounder]: see [Config.Bounds].
func (d *Device) Bounds() hal.Bounds { return Config{}.Bounds(d.conn.Timeout()) }

// Halt does nothing: a sensor has no actuators.
func (d *Device) Halt([]float64) error { return nil }

// Close does nothing: the caller owns the bus.
func (d *Device) Close() error { return nil }

// Faults returns the fault counts.
func (d *Device) Faults() hal.Faults { return d.conn.Faults() }
