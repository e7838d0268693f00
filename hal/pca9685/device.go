package pca9685

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/i2c"

	"optibfm/hal"
	"optibfm/hal/i2cbus"
)

// Registers; data sheet revision 4, section 7.3, table 4.
const (
	regMode1     = 0x00
	regMode2     = 0x01
	regFirst     = 0x06 // four for each output: on low, on high, off low, off high
	regAllOffTop = 0xFD
	regPrescale  = 0xFE
)

const (
	modeRestart   = 0x80 // MODE1, table 5
	modeIncrement = 0x20
	modeSleep     = 0x10
	mode2         = 0x04 // totem pole, low while OE is high, change at the stop; table 6
	full          = 0x10 // in on high and off high; tables 7 and 8

	wakeTime = 500 * time.Microsecond // of the oscillator; section 7.3.1.1
)

// Line is a GPIO line that drives OE, such as periph.io's gpio.PinOut.
type Line interface {
	Out(gpio.Level) error
	String() string
}

// Device is a PCA9685. It implements [hal.Device], [hal.DeadmanTimer] and
// [hal.FaultCounter].
type Device struct {
	conn     *i2cbus.Conn
	outputs  []hal.Signal
	places   []place
	prescale byte
	hold     bool // outputs carry pulses while disarmed
	first    byte // register of the lowest pin in use
	regs     []byte
	check    []byte
	armed    bool
	enable   Line // nil: none
}

// place is the position of an output's registers in regs, and the conversion of its
// value to 4096ths of the period.
type place struct {
	at     int
	scale  float64
	most   float64 // value
	refuse error
}

// Enabled is a Device with a connected line OE. It also implements [hal.Backstop].
type Enabled struct{ *Device }

var (
	_ hal.DeadmanTimer = (*Device)(nil)
	_ hal.FaultCounter = (*Device)(nil)
	_ hal.Bounder      = (*Device)(nil)
	_ hal.Backstop     = (*Enabled)(nil)
)

// New turns all outputs off and configures the chip, which takes a millisecond.
// enable is the line that is connected to OE (active low), nil for none. The result
// is an [*Enabled] with the line, and a [*Device] without.
func New(bus i2c.Bus, enable Line, cfg Config) (hal.Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d := &Device{
		conn: i2cbus.NewConn(bus, uint16(cfg.Address), "pca9685"), outputs: cfg.Outputs(), enable: enable,
		prescale: byte(prescale(cfg.OscillatorHz, cfg.FrequencyHz)), hold: cfg.WhenDisarmed == Pulses,
		check: make([]byte, 1),
	}
	d.assignRegisters(cfg)
	if err := d.start(); err != nil {
		return nil, err
	}
	if enable == nil {
		return d, nil
	}
	return &Enabled{d}, nil
}

// assignRegisters places the outputs. Unused outputs between them are full off.
func (d *Device) assignRegisters(cfg Config) {
	low, high := pins, 0
	for _, ch := range cfg.Channels {
		low, high = min(low, ch.Pin), max(high, ch.Pin)
	}
	d.first = byte(regFirst + 4*low)
	d.regs = make([]byte, 4*(high-low+1))
	for i := 3; i < len(d.regs); i += 4 {
		d.regs[i] = full
	}
	ticksPerSecond := cfg.OscillatorHz / float64(d.prescale+1)
	for _, ch := range cfg.Channels {
		p := place{at: 4 * (ch.Pin - low), scale: resolution, most: 1}
		if ch.Kind != Duty {
			p.scale, p.most = ticksPerSecond/1e6, (resolution-1)/ticksPerSecond*1e6
		}
		p.refuse = fmt.Errorf("%s: output %q is out of range; use 0 to %g", d.conn.Name(), ch.Name, p.most)
		d.places = append(d.places, p)
	}
}

// start follows sections 7.3.1 and 7.3.1.1. It turns the outputs off first: the
// chip may still execute an earlier command.
func (d *Device) start() error {
	steps := []func() error{
		func() error { return d.setEnable(false) },
		d.allOff,
		func() error { return d.conn.Write(regMode1, modeSleep|modeIncrement) }, // unlocks the prescaler
		func() error { return d.conn.Write(regPrescale, d.prescale) },
		func() error { return d.conn.Write(regMode2, mode2) },
		d.wake,
		d.verify,
		func() error { return d.setEnable(d.hold) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// wake starts the oscillator, and clears RESTART if an output was running before
// the sleep.
func (d *Device) wake() error {
	if err := d.conn.Write(regMode1, modeIncrement); err != nil {
		return err
	}
	time.Sleep(wakeTime)
	if err := d.conn.Read(regMode1, d.check); err != nil {
		return err
	}
	if d.check[0]&modeRestart == 0 {
		return nil
	}
	return d.conn.Write(regMode1, modeRestart|modeIncrement)
}

func (d *Device) allOff() error { return d.conn.Write(regAllOffTop, full) }

// setEnable drives OE, which is active low.
func (d *Device) setEnable(on bool) error {
	if d.enable == nil {
		return nil
	}
	if err := d.enable.Out(gpio.Level(!on)); err != nil {
		return d.conn.Fail(hal.ErrDevice, fmt.Errorf("the line %s to OE: %w", d.enable, err))
	}
	return nil
}

// verify reads the settings back.
func (d *Device) verify() error {
	return d.conn.Verify(i2cbus.Setting{Reg: regMode1, Value: modeIncrement},
		i2cbus.Setting{Reg: regMode2, Value: mode2}, i2cbus.Setting{Reg: regPrescale, Value: d.prescale})
}

// Inputs is empty.
func (d *Device) Inputs() []hal.Signal { return nil }

// Outputs lists the outputs.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Read does nothing: the device has no inputs.
func (d *Device) Read([]float64) (int64, error) { return 0, nil }

// Write commands the outputs: pulse lengths in µs or duties, both from 0. With one
// value out of range it writes nothing. It makes two transactions, each at most
// twice, and none while the outputs are off.
func (d *Device) Write(outputs []float64) error {
	if err := d.put(outputs); err != nil {
		return err
	}
	if !d.armed && !d.hold {
		return nil
	}
	return d.send()
}

// put converts values to registers.
func (d *Device) put(outputs []float64) error {
	for i, v := range outputs {
		if p := &d.places[i]; !(v >= 0 && v <= p.most) { // also NaN
			return p.refuse
		}
	}
	for i, v := range outputs {
		p := &d.places[i]
		r := d.regs[p.at:][:4]
		r[0], r[1], r[2], r[3] = 0, 0, 0, 0
		switch ticks := int(math.Round(v * p.scale)); ticks {
		case 0:
			r[3] = full
		case resolution:
			r[1] = full
		default:
			r[2], r[3] = byte(ticks), byte(ticks>>8)
		}
	}
	return nil
}

var errAsleep = errors.New("the chip lost its settings in a power failure: its outputs are off")

// send writes the registers and checks that the chip still runs.
func (d *Device) send() error {
	if err := d.conn.Write(d.first, d.regs...); err != nil {
		return err
	}
	if err := d.conn.Read(regMode1, d.check); err != nil {
		return err
	}
	if d.check[0] != modeIncrement {
		return d.conn.Fail(hal.ErrDevice, errAsleep)
	}
	return nil
}

// Arm reads back the settings, sends the last command and enables the outputs.
func (d *Device) Arm() error {
	if err := d.verify(); err != nil {
		return err
	}
	if err := d.send(); err != nil {
		return err
	}
	if err := d.setEnable(true); err != nil {
		return err
	}
	d.armed = true
	return nil
}

// Halt commands the failsafe outputs. With WhenDisarmed off it first drives OE high,
// which needs no bus, and finally turns all outputs off; with pulses it drives OE
// high if the bus fails. It tries every step, also after errors: at most three
// transactions, each at most twice.
func (d *Device) Halt(failsafe []float64) error {
	d.armed = false
	var enableErr, offErr error
	if !d.hold {
		enableErr = d.setEnable(false)
	}
	err := d.put(failsafe)
	if err == nil {
		err = d.send()
	}
	if !d.hold {
		offErr = d.allOff()
	} else if err != nil {
		enableErr = d.setEnable(false)
	}
	return cmp.Or(enableErr, err, offErr)
}

// Bounds implements [hal.Bounder]: see [Config.Bounds].
func (d *Device) Bounds() hal.Bounds { return Config{}.Bounds(d.conn.Timeout()) }

// Deadman is 0: the chip has no watchdog.
func (d *Device) Deadman() time.Duration { return 0 }

// Faults returns the fault counts.
func (d *Device) Faults() hal.Faults { return d.conn.Faults() }

// Close does nothing: the caller owns the bus and the line.
func (d *Device) Close() error { return nil }

// HaltBeside drives OE high, which turns all outputs off without the bus. Any
// goroutine may call it. Only Arm drives OE low again.
func (e *Enabled) HaltBeside() { _ = e.enable.Out(gpio.High) }
