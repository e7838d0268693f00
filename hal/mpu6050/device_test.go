package mpu6050

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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

var testConfig = Config{Bus: "/dev/i2c-1"}

// bench is a chip on a bus, a clock, and the driver.
type bench struct {
	*i2cbustest.Bus
	chip  *i2cbustest.MPU6050
	clock int64
	slept time.Duration
	imu   *Device
	value []float64
}

func (b *bench) open(cfg Config) (err error) {
	b.imu, err = open(b, cfg, func() int64 { b.clock++; return b.clock }, func(d time.Duration) { b.slept += d })
	return err
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	chip := i2cbustest.NewMPU6050()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x68: &chip.Chip})
	b := &bench{Bus: bus, chip: chip, value: make([]float64, len(inputs))}
	fatal.If(t, b.open(cfg))
	return b
}

func TestDevice(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, _ float64) devicetest.Rig {
		b := newBench(t, testConfig)
		return devicetest.Rig{
			Device: b.imu,
			Again:  func() (hal.Device, error) { err := b.open(testConfig); return b.imu, err },
			Faults: b.Faults(&b.chip.Chip),
		}
	})
}

func TestNew_FollowsRegisterMap(t *testing.T) {
	tx := func(w []byte, r ...byte) i2ctest.IO { return i2ctest.IO{Addr: 0x69, W: w, R: r} }
	bus := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
		tx([]byte{0x75}, 0x68),
		tx([]byte{0x6B, 0x80}), // reset
		tx([]byte{0x6B, 0x01}), // awake, clock of the gyroscope
		tx([]byte{0x19, 4}),    // 1000 / (1 + 4) = 200 Hz
		tx([]byte{0x1A, 4}),    // DLPF_CFG 4: 20 Hz
		tx([]byte{0x1B, 0x18}), // FS_SEL 3
		tx([]byte{0x1C, 0x10}), // AFS_SEL 2
		tx([]byte{0x38, 1}),    // data ready
		tx([]byte{0x6B}, 0x01), tx([]byte{0x19}, 4), tx([]byte{0x1A}, 4),
		tx([]byte{0x1B}, 0x18), tx([]byte{0x1C}, 0x10), tx([]byte{0x38}, 1),
	}}
	var waits []time.Duration
	cfg := Config{Bus: "x", Address: 0x69, GyroDPS: 2000, AccelG: 8, BandwidthHz: 20, RateHz: 200}
	fatal.If(t, errtest.Of(open(bus, cfg, nil, func(d time.Duration) { waits = append(waits, d) })))
	errtest.Nil(t, bus.Close())
	if !slices.Equal(waits, []time.Duration{100 * time.Millisecond, 30 * time.Millisecond}) {
		t.Errorf("waited %v", waits)
	}
}

// The sensitivities of sections 4.17 and 4.19, and the formula of 4.18.
func TestRead_Sensitivities(t *testing.T) {
	for i, perDegree := range []float64{131, 65.5, 32.8, 16.4} {
		perG := []float64{16384, 8192, 4096, 2048}[i]
		b := newBench(t, Config{Bus: "x", GyroDPS: gyroScales[i], AccelG: accelScales[i]})
		b.chip.Big(0x3B, 1000, -2000, 32767, -521, 131, -32768, 7)
		fatal.If(t, errtest.Of(b.imu.Read(b.value)))
		for j, want := range []float64{
			1000 / perG * 9.80665, -2000 / perG * 9.80665, 32767 / perG * 9.80665,
			-521.0/340 + 36.53 + 273.15,
			131 / perDegree * math.Pi / 180, -32768 / perDegree * math.Pi / 180, 7 / perDegree * math.Pi / 180,
		} {
			if math.Abs(b.value[j]-want) > 1e-9*max(1, math.Abs(want)) {
				t.Errorf("±%d g, ±%d °/s: %s is %g, want %g",
					accelScales[i], gyroScales[i], inputs[j].Name, b.value[j], want)
			}
		}
	}
}

func TestRead_RefusesAFlippedBitOfARate(t *testing.T) {
	b := newBench(t, testConfig)
	read := func() error { _, err := b.imu.Read(b.value); return err }
	b.chip.Big(0x43, 100, -100, 50)
	fatal.If(t, read())
	for _, reg := range []byte{0x43, 0x45, 0x47} {
		for _, bit := range []byte{0x80, 0x40} {
			b.chip.Flip[reg] = bit
			if err := read(); !errors.Is(err, hal.ErrProtocol) || !errors.Is(err, errSpike) {
				t.Errorf("bit %#02x of register %#02x: %v", bit, reg, err)
			}
			b.chip.Flip[reg] = 0
			if err := read(); err != nil {
				t.Errorf("after bit %#02x of register %#02x: %v", bit, reg, err)
			}
		}
	}
	b.chip.Big(0x43, 20_000) // a blow turns it
	if first, second := read(), read(); !errors.Is(first, errSpike) || second != nil {
		t.Errorf("a rate that stays: %v, then %v", first, second)
	}
	b.chip.Big(0x3B, 32767, -32768, 0) // and accelerates it
	errtest.Nil(t, read(), "an impact")
}

func TestRead_SampleTime(t *testing.T) {
	b := newBench(t, testConfig)
	first, err := b.imu.Read(b.value)
	fatal.If(t, err)
	b.chip.Frozen = true
	again, err := b.imu.Read(b.value)
	if err != nil || again != first {
		t.Errorf("no new sample: time %d after %d, %v", again, first, err)
	}
	b.chip.Frozen = false
	if next, err := b.imu.Read(b.value); err != nil || next <= first {
		t.Errorf("a new sample: time %d after %d, %v", next, first, err)
	}
}

func TestArm_RefusesChipAfterPowerLoss(t *testing.T) {
	b := newBench(t, testConfig)
	first, err := b.imu.Read(b.value)
	fatal.If(t, err)
	b.chip.PowerCycle()
	for range 3 {
		if at, err := b.imu.Read(b.value); err != nil || at != first {
			t.Fatalf("time %d, want the last sample's %d: %v", at, first, err)
		}
	}
	errtest.Is(t, b.imu.Arm(), hal.ErrDevice, "arm")
	errtest.Nil(t, b.open(testConfig), "opened again")
}

func TestRead_FailsWithoutSample(t *testing.T) {
	b := newBench(t, testConfig)
	b.chip.Frozen = true
	if _, err := b.imu.Read(b.value); !errors.Is(err, hal.ErrStale) || !errors.Is(err, ErrNoSample) {
		t.Error(err)
	}
}

func TestNew_RefusesOtherChip(t *testing.T) {
	b := newBench(t, testConfig)
	for _, id := range []byte{0x70, 0x71, 0xFF, 0x00} {
		b.chip.Registers[0x75] = id
		err := b.open(testConfig)
		if !errors.Is(err, hal.ErrProtocol) || !strings.Contains(err.Error(), fmt.Sprintf("identity 0x%02x", id)) {
			t.Errorf("id %#x: %v", id, err)
		}
	}
}

func TestNew_VerifiesSettings(t *testing.T) {
	b := newBench(t, testConfig)
	b.chip.Flip[0x1B] = 0x08
	if err := b.open(testConfig); !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "0x1b") {
		t.Error(err)
	}
}

func TestConfig_NamesUnsupportedKey(t *testing.T) {
	devicetest.Refuses(t, func(c Config) error { _, err := New(nil, c, nil); return err }, map[string]Config{
		"bus is empty":                 {},
		"address":                      {Bus: "x", Address: 0x70},
		"gyro_dps":                     {Bus: "x", GyroDPS: 300},
		"accel_g":                      {Bus: "x", AccelG: 3},
		"bandwidth_hz":                 {Bus: "x", BandwidthHz: 44},
		"rate_hz (333)":                {Bus: "x", RateHz: 333},
		"rate_hz is out of range (3)":  {Bus: "x", RateHz: 3},
		"rate_hz is out of range (-1)": {Bus: "x", RateHz: -1},
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, 14))
	f.Add(slices.Repeat([]byte{0x80, 0}, 7))
	f.Add(slices.Repeat([]byte{0x7F, 0xFF}, 7))
	d := &Device{
		accel: standardGravity * 16 / (1 << 15), gyro: math.Pi / 180 / 16.4, next: make([]float64, len(inputs)),
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 14 {
			return
		}
		d.decode(raw)
		for i, v := range d.next {
			limit := []float64{157, 157, 157, 407, 35, 35, 35}[i]
			if math.Abs(v) > limit {
				t.Errorf("%s is %g, beyond what the chip measures", inputs[i].Name, v)
			}
			if i != 3 && (v < 0) != (int16(binary.BigEndian.Uint16(raw[2*i:])) < 0) {
				t.Errorf("%s has the wrong sign", inputs[i].Name)
			}
		}
	})
}
