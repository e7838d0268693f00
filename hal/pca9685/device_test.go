package pca9685

import (
	"errors"
	"math"
	"testing"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/gpio/gpiotest"
	"periph.io/x/conn/v3/i2c/i2ctest"

	"optibfm/hal"
	"optibfm/hal/devicetest"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var twoWheels = []Channel{{Name: "left", Pin: 2}, {Name: "right", Pin: 4}}

// bench is a chip on a bus with its OE line, and the driver.
type bench struct {
	*i2cbustest.Bus
	chip *i2cbustest.PCA9685
	oe   *gpiotest.Pin
	pwm  hal.Device
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	chip := i2cbustest.NewPCA9685()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x40: &chip.Chip})
	b := &bench{Bus: bus, chip: chip, oe: &gpiotest.Pin{N: "OE"}}
	b.open(t, cfg)
	return b
}

func (b *bench) open(t *testing.T, cfg Config) {
	t.Helper()
	cfg.Bus = "x"
	if cfg.Channels == nil {
		cfg.Channels = twoWheels
	}
	var err error
	if b.pwm, err = New(b, b.oe, cfg); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) wantTicks(t *testing.T, when string, left, right int) {
	t.Helper()
	if l, r := b.chip.Ticks(2), b.chip.Ticks(4); l != left || r != right {
		t.Errorf("%s: %d and %d ticks, want %d and %d", when, l, r, left, right)
	}
}

// Section 7.3.5: an output frequency of 200 Hz with the internal oscillator of
// 25 MHz needs the prescale value 30, 1Eh, which is the reset value; the ends of
// the range are 03h at 1526 Hz and FFh at 24 Hz, which is 23.85 Hz rounded up.
func TestPrescaler_MatchesDatasheet(t *testing.T) {
	for frequency, want := range map[float64]float64{200: 0x1E, 24: 0xFD, 1526: 0x03, 50: 121, 23.85: 0xFF} {
		if got := prescale(25e6, frequency); got != want {
			t.Errorf("%g Hz: %g, want %g", frequency, got, want)
		}
	}
}

func TestDevice(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, _ float64) devicetest.Rig {
		b := newBench(t, Config{})
		r := devicetest.Rig{
			Device: b.pwm, Goals: []float64{1500, 1400}, Stop: []float64{1000, 1000},
			Moves:  func() bool { return b.oe.L == gpio.Low && b.chip.Ticks(2) == 307 },
			Again:  func() (hal.Device, error) { return New(b, b.oe, Config{Bus: "x", Channels: twoWheels}) },
			Faults: b.Faults(&b.chip.Chip),
		}
		for i, f := range r.Faults { // the outputs are off: only Halt and Arm use the bus
			r.Faults[i].Halt, r.Faults[i].Read = f.Read, nil
		}
		return r
	})
}

func TestNew_TurnsAllOff(t *testing.T) {
	tx := func(w []byte, r ...byte) i2ctest.IO { return i2ctest.IO{Addr: 0x41, W: w, R: r} }
	bus := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
		tx([]byte{0xFD, 0x10}),             // ALL_LED_OFF_H: full off
		tx([]byte{0x00, 0x30}),             // asleep, auto-increment
		tx([]byte{0xFE, 0x1E}),             // 200 Hz
		tx([]byte{0x01, 0x04}),             // totem pole
		tx([]byte{0x00, 0x20}),             // awake
		tx([]byte{0x00}, 0xA0),             // it was asleep with an output running
		tx([]byte{0x00, 0xA0}),             // restart
		tx([]byte{0x00}, 0x20),             // as set
		tx([]byte{0x01}, 0x04),             //
		tx([]byte{0xFE}, 0x1E),             //
		tx([]byte{0x00}, 0x20),             // Arm: as set
		tx([]byte{0x01}, 0x04),             //
		tx([]byte{0xFE}, 0x1E),             //
		tx([]byte{0x0A, 0, 0, 0xBA, 0x04}), // 1.5 ms: 1210 ticks of 31/25 µs
		tx([]byte{0x00}, 0x20),             //
	}}
	servo := []Channel{{Name: "servo", Pin: 1}}
	pwm, err := New(bus, nil, Config{Bus: "x", Address: 0x41, FrequencyHz: 200, Channels: servo})
	fatal.If(t, err)
	fatal.If(t, pwm.Write([]float64{1500}))
	fatal.If(t, pwm.Arm())
	fatal.If(t, bus.Close())
}

func TestWrite_ConvertsToTicks(t *testing.T) {
	channels := []Channel{{Name: "servo", Pin: 15}, {Name: "motor", Pin: 1, Kind: Duty}}
	b := newBench(t, Config{FrequencyHz: 50, Channels: channels})
	fatal.If(t, b.pwm.Arm())
	perTick := 122 / 25.0 // µs, with the prescaler at 121
	for _, c := range []struct {
		pulse, duty  float64
		servo, motor int
	}{
		{1500, 0.5, int(math.Round(1500 / perTick)), 2048},
		{1000, 0.25, int(math.Round(1000 / perTick)), 1024},
		{0, 0, 0, 0},
		{4095 * perTick, 1, 4095, 4096},
		{perTick, 1.0 / 4096, 1, 1},
	} {
		fatal.If(t, b.pwm.Write([]float64{c.pulse, c.duty}))
		if servo, motor := b.chip.Ticks(15), b.chip.Ticks(1); servo != c.servo || motor != c.motor {
			t.Errorf("%g us and %g: %d and %d ticks, want %d and %d", c.pulse, c.duty, servo, motor, c.servo, c.motor)
		}
	}
	for pin := 2; pin < 15; pin++ {
		if n := b.chip.Ticks(pin); n != 0 {
			t.Errorf("pin %d, which is not used, has %d ticks", pin, n)
		}
	}
}

func TestOutputs_Units(t *testing.T) {
	got := Config{Channels: []Channel{{Name: "a"}, {Name: "b", Kind: Duty}, {Name: "c", Kind: Pulse}}}.Outputs()
	for i, want := range []hal.Signal{{Name: "a", Unit: "us"}, {Name: "b"}, {Name: "c", Unit: "us"}} {
		if got[i] != want {
			t.Errorf("found %+v, want %+v", got[i], want)
		}
	}
}

func TestWrite_RefusesOutOfRange(t *testing.T) {
	b := newBench(t, Config{})
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	fatal.If(t, b.pwm.Arm())
	before := b.Transactions()
	for _, bad := range []float64{-1, 20000, math.NaN(), math.Inf(1)} {
		errtest.Contains(t, b.pwm.Write([]float64{1000, bad}), `"right" is out of range`, bad)
	}
	if b.Transactions() != before {
		t.Error("something was written")
	}
	b.wantTicks(t, "after", 307, 307)
}

func TestFailsafeOff_PulsesOnlyWhileArmed(t *testing.T) {
	b := newBench(t, Config{})
	wantOE := func(when string, want gpio.Level) {
		t.Helper()
		if b.oe.L != want {
			t.Errorf("%s: OE is %v", when, b.oe.L)
		}
	}
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	b.wantTicks(t, "before Arm", 0, 0)
	wantOE("before Arm", gpio.High)
	fatal.If(t, b.pwm.Arm())
	b.wantTicks(t, "armed", 307, 307)
	wantOE("armed", gpio.Low)
	fatal.If(t, b.pwm.Halt([]float64{1000, 1000}))
	b.wantTicks(t, "halted", 0, 0)
	wantOE("halted", gpio.High)
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	b.wantTicks(t, "written to after the halt", 0, 0)
	fatal.If(t, b.pwm.Halt([]float64{1000, 1000}))
}

func TestFailsafePulses_HoldWhileDisarmed(t *testing.T) {
	b := newBench(t, Config{WhenDisarmed: Pulses})
	b.wantTicks(t, "opened", 0, 0)
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	b.wantTicks(t, "before Arm", 307, 307)
	fatal.If(t, b.pwm.Arm())
	fatal.If(t, b.pwm.Write([]float64{2000, 1000}))
	fatal.If(t, b.pwm.Halt([]float64{1500, 1500}))
	b.wantTicks(t, "halted", 307, 307)
	if b.oe.L != gpio.Low {
		t.Error("OE is high: the outputs do not hold")
	}
}

func TestHalt_DrivesOEOnDeadBus(t *testing.T) {
	for _, disarmed := range []string{Off, Pulses} {
		b := newBench(t, Config{WhenDisarmed: disarmed})
		fatal.If(t, b.pwm.Arm())
		b.Hold(time.Microsecond)
		before := b.Transactions()
		errtest.Is(t, b.pwm.Halt([]float64{1500, 1500}), hal.ErrTimeout, disarmed)
		if b.oe.L != gpio.High {
			t.Errorf("%s: OE is low", disarmed)
		}
		if n := b.Transactions() - before; n > 2 {
			t.Errorf("%s: %d transactions on a held bus", disarmed, n)
		}
	}
}

func TestHalt_UsesBusWhenOEIsStuck(t *testing.T) {
	b := newBench(t, Config{})
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	fatal.If(t, b.pwm.Arm())
	b.pwm.(*Enabled).enable = stuckPin{b.oe}
	if err := b.pwm.Halt([]float64{1500, 1500}); !errors.Is(err, hal.ErrDevice) || !errors.Is(err, errStuckPin) {
		t.Error(err)
	}
	b.wantTicks(t, "halted", 0, 0)
}

var errStuckPin = errors.New("the line is used by somebody else")

type stuckPin struct{ Line }

func (stuckPin) Out(gpio.Level) error { return errStuckPin }

func TestBackstop_NeedsOE(t *testing.T) {
	b := newBench(t, Config{})
	fatal.If(t, b.pwm.Arm())
	b.pwm.(hal.Backstop).HaltBeside()
	if b.oe.L != gpio.High {
		t.Error("OE is low")
	}
	without, err := New(b, nil, Config{Bus: "x", Channels: twoWheels})
	fatal.If(t, err)
	if _, ok := without.(hal.Backstop); ok {
		t.Error("a backstop without OE")
	}
	for _, d := range []hal.Device{b.pwm, without} {
		if d.(hal.DeadmanTimer).Deadman() != 0 {
			t.Error("the chip has no deadman")
		}
	}
}

func TestWrite_DetectsPowerLoss(t *testing.T) {
	b := newBench(t, Config{})
	fatal.If(t, b.pwm.Arm())
	fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
	b.chip.PowerCycle()
	errtest.Is(t, b.pwm.Write([]float64{1500, 1500}), hal.ErrDevice)
	errtest.Is(t, b.pwm.Arm(), hal.ErrDevice, "arm")
	if f := b.pwm.(hal.FaultCounter).Faults(); f.Device != 2 {
		t.Errorf("counted %+v", f)
	}
}

func TestNew_RefusesOtherChipAtAddress(t *testing.T) {
	imu := i2cbustest.NewMPU6050()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x40: &imu.Chip})
	imu.Written = func(*i2cbustest.Chip, byte, byte) {}
	errtest.Is(t, errtest.Of(New(bus, nil, Config{Bus: "x", Channels: twoWheels})), hal.ErrDevice)
}

func TestConfig_NamesUnsupportedKey(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := Config{Bus: "x", Channels: twoWheels}
		change(&c)
		return c
	}
	open := func(c Config) error { _, err := New(nil, nil, c); return err }
	devicetest.Refuses(t, open, map[string]Config{
		"bus is empty":                   with(func(c *Config) { c.Bus = "" }),
		"address is invalid":             with(func(c *Config) { c.Address = 0x70 }),
		"use 24 to 1525":                 with(func(c *Config) { c.FrequencyHz = 20 }),
		"frequency_hz is out":            with(func(c *Config) { c.FrequencyHz = math.NaN() }),
		"oscillator_hz":                  with(func(c *Config) { c.OscillatorHz = 1 }),
		"when_disarmed":                  with(func(c *Config) { c.WhenDisarmed = "limp" }),
		"channels is empty":              with(func(c *Config) { c.Channels = nil }),
		"channels[0].name is empty":      with(func(c *Config) { c.Channels = []Channel{{}} }),
		"channels[0].pin is out":         with(func(c *Config) { c.Channels = []Channel{{Name: "a", Pin: 16}} }),
		"channels[1].pin is a duplicate": with(func(c *Config) { c.Channels = []Channel{{Name: "a"}, {Name: "b"}} }),
		"channels[1].name is a duplicate": with(func(c *Config) {
			c.Channels = []Channel{{Name: "a"}, {Name: "a", Pin: 1}}
		}),
		"channels[0].kind": with(func(c *Config) { c.Channels = []Channel{{Name: "a", Kind: "ppm"}} }),
	})
}

// A killed program leaves the chip with pulses: the next one turns them off. Its first pulses are
// those of Write.
func TestArm_BeginsWithTheLatestWriteAfterRestart(t *testing.T) {
	for _, c := range []struct {
		disarmed string
		written  int // ticks after Write, before Arm
	}{{Off, 0}, {Pulses, 307}} {
		b := newBench(t, Config{WhenDisarmed: c.disarmed})
		fatal.If(t, b.pwm.Arm())
		b.wantTicks(t, "armed without a Write", 0, 0)
		fatal.If(t, b.pwm.Write([]float64{2000, 2000}))
		b.open(t, Config{WhenDisarmed: c.disarmed})
		b.wantTicks(t, "started again", 0, 0)
		fatal.If(t, b.pwm.Write([]float64{1500, 1500}))
		b.wantTicks(t, "written before Arm", c.written, c.written)
		fatal.If(t, b.pwm.Arm())
		b.wantTicks(t, "armed", 307, 307)
	}
}

// A chip that lost its power stays off: Arm does not continue with the pulses from before.
func TestArm_RefusesChipThatLostItsPower(t *testing.T) {
	b := newBench(t, Config{})
	fatal.If(t, b.pwm.Arm())
	fatal.If(t, b.pwm.Write([]float64{2000, 2000}))
	fatal.If(t, b.pwm.Halt([]float64{1500, 1500}))
	b.chip.PowerCycle()
	errtest.Is(t, b.pwm.Arm(), hal.ErrDevice)
	b.wantTicks(t, "refused", 0, 0)
	if b.oe.L != gpio.High {
		t.Error("OE is low")
	}
}
