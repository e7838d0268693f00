package bno055

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c/i2ctest"

	"optibfm/hal"
	"optibfm/hal/devicetest"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// bench is a chip on a bus, a clock, and the driver.
type bench struct {
	*i2cbustest.Bus
	chip  *i2cbustest.BNO055
	clock int64
	slept time.Duration
	imu   *Device
	value []float64
}

func (b *bench) open(cfg Config) (err error) {
	cfg.Bus = "x"
	now := func() int64 { b.clock++; return b.clock }
	b.imu, err = open(context.Background(), b, cfg, now, func(d time.Duration) { b.slept += d })
	if err == nil {
		b.value = make([]float64, len(b.imu.Inputs()))
	}
	return err
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	chip := i2cbustest.NewBNO055()
	b := &bench{Bus: i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &chip.Chip}), chip: chip}
	fatal.If(t, b.open(cfg))
	return b
}

func (b *bench) read(t *testing.T) map[string]float64 {
	t.Helper()
	fatal.If(t, errtest.Of(b.imu.Read(b.value)))
	values := map[string]float64{}
	for i, s := range b.imu.Inputs() {
		values[s.Name] = b.value[i]
	}
	return values
}

func want(t *testing.T, got map[string]float64, wanted map[string]float64) {
	t.Helper()
	for name, v := range wanted {
		if math.Abs(got[name]-v) > 1e-4 {
			t.Errorf("%s is %g, want %g", name, got[name], v)
		}
	}
}

func TestDevice(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, _ float64) devicetest.Rig {
		cfg := Config{Read: allInputs}
		b := newBench(t, cfg)
		return devicetest.Rig{
			Device: b.imu,
			Again:  func() (hal.Device, error) { err := b.open(cfg); return b.imu, err },
			Faults: append(b.Faults(&b.chip.Chip), devicetest.Fault{
				Name: "wrong orientation", Break: func() { b.chip.Flip[0x21] = 0x20 }, Read: hal.ErrProtocol,
			}),
		}
	})
}

var allInputs = []string{"quaternion", "heading", "euler", "gyro", "accel", "linear_accel", "gravity", "calibration"}

func TestNew_FollowsDatasheet(t *testing.T) {
	tx := func(w []byte, r ...byte) i2ctest.IO { return i2ctest.IO{Addr: 0x29, W: w, R: r} }
	running := make([]byte, 6) // 0x35 to 0x3A
	running[1], running[4] = 0x0F, 5
	profile := make([]byte, 22)
	for i := range profile {
		profile[i] = byte(i)
	}
	file := filepath.Join(t.TempDir(), "imu.cal")
	fatal.If(t, os.WriteFile(file, []byte(Profile(profile).String()+"\n"), 0o600))
	bus := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
		tx([]byte{0x00}, 0xA0),
		tx([]byte{0x3D, 0x00}), // CONFIGMODE
		tx([]byte{0x3F, 0x20}), // RST_SYS
		tx([]byte{0x00}, 0xA0),
		tx([]byte{0x07, 0}), tx([]byte{0x3E, 0}), tx([]byte{0x3B, 0x86}),
		tx([]byte{0x41, 0x21}), tx([]byte{0x42, 0x04}), // P0
		tx([]byte{0x3F, 0x80}), // external crystal
		tx(append([]byte{0x55}, profile...)),
		tx([]byte{0x3D, 0x0C}), // NDOF
		tx([]byte{0x07}, 0), tx([]byte{0x3E}, 0), tx([]byte{0x3B}, 0x86),
		tx([]byte{0x41}, 0x21), tx([]byte{0x42}, 0x04), tx([]byte{0x3D}, 0x1C), // a reserved bit is set
		tx([]byte{0x35}, running...),
	}}
	var waits []time.Duration
	_, err := open(t.Context(), bus, Config{
		Bus: "x", Address: 0x29, Mode: NDOF, Read: []string{"calibration"}, AxisMap: "P0",
		ExternalCrystal: true, CalibrationFile: file,
	},
		func() int64 { return 1 }, func(d time.Duration) { waits = append(waits, d) })
	fatal.If(t, err)
	errtest.Nil(t, bus.Close())
	if !slices.Equal(waits, []time.Duration{19 * time.Millisecond, 650 * time.Millisecond, 7 * time.Millisecond}) {
		t.Errorf("waited %v", waits)
	}
}

// The representations of tables 3-22, 3-29, 3-31, 3-33 and 3-35.
func TestRead_ConvertsUnits(t *testing.T) {
	b := newBench(t, Config{Read: allInputs})
	b.chip.Little(0x08, 100, -981, 3)
	b.chip.Little(0x14, 900, -1800, 9)
	b.chip.Little(0x1A, 2827, -900, 450)
	b.chip.Little(0x20, 8192, -8192, 8192, -8192)
	b.chip.Little(0x28, -100, 50, 0)
	b.chip.Little(0x2E, 0, 0, 981)
	b.chip.Registers[0x35] = 0b11_10_01_00
	want(t, b.read(t), map[string]float64{
		"accel_x": 1, "accel_y": -9.81, "accel_z": 0.03, "gyro_x": 1, "gyro_y": -2, "gyro_z": 0.01,
		"euler_heading": 3.14111, "euler_roll": -1, "euler_pitch": 0.5,
		"quaternion_w": 0.5, "quaternion_x": -0.5, "quaternion_y": 0.5, "quaternion_z": -0.5,
		"linear_accel_x": -1, "linear_accel_y": 0.5, "gravity_z": 9.81,
		"calibration_system": 3, "calibration_gyro": 2, "calibration_accel": 1, "calibration_mag": 0,
	})
}

func TestRead_HeadingIsYaw(t *testing.T) {
	b := newBench(t, Config{})
	for _, yaw := range []float64{0, 1, -1, math.Pi / 2, 3, -3} {
		b.chip.Turn(yaw, 0.5)
		want(t, b.read(t), map[string]float64{
			"heading": yaw, "heading_cos": math.Cos(yaw), "heading_sin": math.Sin(yaw), "tilt": 0, "gyro_z": 0.5,
		})
	}
	// Rolled by 0.4 rad about its own x axis after a turn by 1 rad.
	q := [4]float64{
		math.Cos(0.5) * math.Cos(0.2), math.Cos(0.5) * math.Sin(0.2),
		math.Sin(0.5) * math.Sin(0.2), math.Sin(0.5) * math.Cos(0.2),
	}
	for i, v := range q {
		b.chip.Little(byte(0x20+2*i), int16(math.Round(v*16384)))
	}
	for name, v := range map[string]float64{"heading": 1, "tilt": 0.4} {
		if got := b.read(t)[name]; math.Abs(got-v) > 1e-3 {
			t.Errorf("rolled: %s is %g, want %g", name, got, v)
		}
	}
}

func TestRead_ReadsOnlyNeededRegisters(t *testing.T) {
	for name, length := range map[string]int{
		"accel": 51, "gyro": 39, "quaternion": 27, "gravity": 13, "calibration": 6,
	} {
		if got := len(newBench(t, Config{Read: []string{name}}).imu.raw); got != length {
			t.Errorf("%s: %d bytes, want %d", name, got, length)
		}
	}
}

func TestInputs_InChipOrder(t *testing.T) {
	a := Config{Read: []string{"calibration", "gyro"}}.Inputs()
	b := Config{Read: []string{"gyro", "calibration"}}.Inputs()
	if !slices.Equal(a, b) || a[0].Name != "gyro_x" {
		t.Errorf("%v and %v", a, b)
	}
}

func TestRead_RefusesImpossibleData(t *testing.T) {
	b := newBench(t, Config{})
	for name, c := range map[string]struct {
		reg, flip   byte
		kind, cause error
	}{
		"a bit of the orientation":  {0x21, 0x20, hal.ErrProtocol, errNorm},
		"the self-test":             {0x36, 0x04, hal.ErrDevice, errSelfTest},
		"the fusion stands":         {0x39, 0x05, hal.ErrDevice, errIdle},
		"the fusion is switched":    {0x39, 0x03, hal.ErrDevice, errIdle},
		"the system has an error":   {0x39, 0x04, hal.ErrDevice, systemErrors[0]},
		"an undriven wire":          {0x39, 0xFA, hal.ErrDevice, errIdle},
		"the wire is held at zeros": {0x39, 0x05, hal.ErrDevice, errIdle},
	} {
		b.chip.Flip[c.reg] = c.flip
		if _, err := b.imu.Read(b.value); !errors.Is(err, c.kind) || !errors.Is(err, c.cause) {
			t.Errorf("%s: %v", name, err)
		}
		b.chip.Flip[c.reg] = 0
	}
	b.chip.Flip[0x39] = 4
	for code := range 256 {
		b.chip.Registers[0x3A] = byte(code)
		errtest.Is(t, errtest.Of(b.imu.Read(b.value)), systemErrors[min(code, 11)], "system error ", code)
	}
}

func TestRead_RefusesAFlippedHighBit(t *testing.T) {
	b := newBench(t, Config{Read: allInputs})
	read := func() error { _, err := b.imu.Read(b.value); return err }
	for name, c := range map[string]struct {
		reg, bit byte // the high byte of a number
		cause    error
	}{
		"the sign of a rate":    {0x15, 0x80, errRange}, // 36 rad/s
		"a rate of turn":        {0x19, 0x40, errSpike}, // 18 rad/s
		"an acceleration":       {0x09, 0x20, errRange},
		"an angle":              {0x1B, 0x20, errRange},
		"a linear acceleration": {0x29, 0x20, errRange},
		"gravity":               {0x33, 0x08, errRange},
	} {
		b.chip.Flip[c.reg] = c.bit
		if err := read(); !errors.Is(err, hal.ErrProtocol) || !errors.Is(err, c.cause) {
			t.Errorf("%s: %v", name, err)
		}
		b.chip.Flip[c.reg] = 0
		errtest.Nil(t, read(), "after ", name)
	}
	b.chip.Little(0x14, 31_400) // 2000 °/s
	if first, second := read(), read(); !errors.Is(first, errSpike) || second != nil {
		t.Errorf("a rate that stays: %v, then %v", first, second)
	}
}

func TestRead_DetectsPowerLoss(t *testing.T) {
	b := newBench(t, Config{})
	b.chip.PowerCycle()
	errtest.Is(t, errtest.Of(b.imu.Read(b.value)), hal.ErrDevice)
	errtest.Is(t, b.imu.Arm(), hal.ErrDevice, "arm")
	errtest.Nil(t, b.open(Config{}), "opened again")
}

func TestNew_WaitsForStartingChip(t *testing.T) {
	chip := i2cbustest.NewBNO055()
	chip.Boot = 20
	chip.PowerCycle()
	b := &bench{Bus: i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &chip.Chip}), chip: chip}
	fatal.If(t, b.open(Config{}))
	if b.slept < 850*time.Millisecond || b.imu.Faults() != (hal.Faults{}) {
		t.Errorf("waited %v, counted %+v", b.slept, b.imu.Faults())
	}
}

func TestNew_RefusesWrongOrMissingChip(t *testing.T) {
	b := newBench(t, Config{})
	b.slept = 0
	b.chip.Flip[0] = 1
	if err := b.open(Config{}); !errors.Is(err, hal.ErrProtocol) || !strings.Contains(err.Error(), "0xa1") {
		t.Error(err)
	}
	b.chip.Unplugged = true
	errtest.Is(t, b.open(Config{}), hal.ErrBus)
	if b.slept > 3*patience {
		t.Errorf("waited %v", b.slept)
	}
}

func TestArm_RequiresConfiguredCalibration(t *testing.T) {
	for _, c := range []struct {
		mode   string
		status byte
		ok     bool
	}{
		{IMU, 0b00_11_00_00, true}, {IMU, 0b11_10_11_11, false},
		{NDOF, 0b11_11_00_00, true}, {NDOF, 0b10_11_11_11, false},
	} {
		b := newBench(t, Config{Mode: c.mode, ArmCalibration: 3})
		b.chip.Registers[0x35] = c.status
		if err := b.imu.Arm(); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "not calibrated") {
			t.Errorf("%s, status %08b: %v", c.mode, c.status, err)
		}
	}
}

func TestProfile_RoundTrip(t *testing.T) {
	b := newBench(t, Config{})
	for i := range 22 {
		b.chip.Registers[0x55+i] = byte(0xF0 ^ i)
	}
	p, err := b.imu.Profile()
	fatal.If(t, err)
	errtest.Nil(t, errtest.Of(b.imu.Read(b.value)), "the fusion does not run any more")
	file := filepath.Join(t.TempDir(), "imu.cal")
	fatal.If(t, os.WriteFile(file, []byte(p.String()), 0o600))
	for _, cfg := range []Config{{CalibrationFile: file}, {Calibration: p.String()}} {
		other := newBench(t, cfg)
		if !slices.Equal(other.chip.Registers[0x55:0x6B], b.chip.Registers[0x55:0x6B]) {
			t.Errorf("% x, want % x", other.chip.Registers[0x55:0x6B], b.chip.Registers[0x55:0x6B])
		}
	}
}

func TestParseProfile_RefusesInvalid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "imu.cal")
	b := newBench(t, Config{})
	errtest.Is(t, b.open(Config{CalibrationFile: file}), os.ErrNotExist)
	for _, text := range []string{"", "hello", profileMark + "00", profileMark + strings.Repeat("x", 44)} {
		fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
		errtest.Contains(t, b.open(Config{CalibrationFile: file}), file, text)
	}
}

func TestConfig_NamesUnsupportedKey(t *testing.T) {
	open := func(c Config) error { _, err := New(t.Context(), nil, c, nil); return err }
	devicetest.Refuses(t, open, map[string]Config{
		"bus is empty":            {},
		"address is out of range": {Bus: "x", Address: 0x40},
		"mode is unknown":         {Bus: "x", Mode: "m4g"},
		"axis_map":                {Bus: "x", AxisMap: "P8"},
		"arm_calibration":         {Bus: "x", ArmCalibration: 4},
		"calibration: not a":      {Bus: "x", Calibration: "00"},
		"calibration_file":        {Bus: "x", Calibration: Profile{}.String(), CalibrationFile: "imu.cal"},
		"read[1] is unkno":        {Bus: "x", Read: []string{"gyro", "giro"}},
		"read[1] is a duplicate":  {Bus: "x", Read: []string{"gyro", "gyro"}},
	})
}

func FuzzRead(f *testing.F) {
	good := make([]byte, 51)
	good[0x21-8], good[0x36-8], good[0x39-8] = 0x40, 0x0F, 5
	f.Add(good)
	f.Add(slices.Repeat([]byte{0xFF}, 51))
	cfg := Config{Bus: "x", Read: allInputs}.withDefaults()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 51 {
			return
		}
		d := &Device{cfg: cfg, groups: cfg.groups(), inputs: cfg.Inputs(), first: 0x08, raw: raw[:51]}
		if _, cause := d.examine(); cause != nil {
			return
		}
		for _, g := range d.groups {
			dst := make([]float64, len(g.inputs))
			if g.decode != nil {
				g.decode(d, g, dst)
			} else {
				d.numbers(g, dst)
			}
			for i, v := range dst {
				if math.IsNaN(v) || math.Abs(v) > 328 {
					t.Errorf("%s is %g", g.inputs[i].Name, v)
				}
			}
		}
	})
}

func FuzzParseProfile(f *testing.F) {
	f.Add(Profile{1, 2, 3}.String())
	f.Add(profileMark)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProfile(text)
		if err != nil {
			return
		}
		if again, err := ParseProfile(p.String()); err != nil || again != p {
			t.Errorf("%q reads back as %v, %v", p, again, err)
		}
	})
}

func TestNew_EndsWithItsContext(t *testing.T) {
	chip := i2cbustest.NewBNO055()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &chip.Chip})
	for _, end := range []int{1, 2} { // of the sleeps: after the mode's change; after the reset
		ctx, cancel := context.WithCancel(t.Context())
		sleeps := 0
		_, err := open(ctx, bus, Config{Bus: "x"}, func() int64 { return 1 }, func(time.Duration) {
			if sleeps++; sleeps == end {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || sleeps != end {
			t.Errorf("ended at sleep %d: %d sleeps, error %v", end, sleeps, err)
		}
	}
	chip.Unplugged = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errtest.Is(t, errtest.Of(New(ctx, bus, Config{Bus: "x"}, nil)), context.Canceled)
}
