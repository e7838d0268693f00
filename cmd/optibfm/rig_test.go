package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/i2c"

	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/rtloop"
)

// rigOrders tells the program, where the tests are it, to have a rig instead of
// this computer's hardware, and what that shall do.
const rigOrders = "OPTIBFM_TEST_RIG"

// rig is the rover of configs/composite.yaml: chips on a bus, and a body that
// moves as its motors are told, whenever its IMU is asked.
type rig struct {
	Report string // file for what was seen at the end
	Fault  string // one of rigFaults, "" for none
	After  int    // samples of the IMU before it

	bus    *i2cbustest.Bus
	imu    *i2cbustest.BNO055
	pwm    *i2cbustest.PCA9685
	frozen bool
	yaw    float64
	moved  int64 // when
	noise  int16

	mu   sync.Mutex
	seen rigReport
}

// rigReport is what a rig saw.
type rigReport struct {
	Reads      int
	Turned     float64 // rad, altogether
	Left       int     // ticks of the pulse at the end
	OE         bool    // at the end
	FaultAt    int64   // CLOCK_MONOTONIC ns
	DisabledAt int64   // since when OE is high
}

// rigFaults are the ways in which the rig breaks.
var rigFaults = map[string]func(*rig){
	"bus held":           func(r *rig) { r.bus.Hold(10 * time.Millisecond) },
	"bus noisy":          func(r *rig) { r.bus.Nack(1 << 30) },
	"imu unplugged":      func(r *rig) { r.imu.Unplugged = true },
	"imu frozen":         func(r *rig) { r.frozen = true },
	"imu lost its power": func(r *rig) { r.imu.PowerCycle() },
	"imu's bits flip":    func(r *rig) { r.imu.Flip[0x21] = 0x30 },
	"pwm unplugged":      func(r *rig) { r.pwm.Unplugged = true },
	"pwm lost its power": func(r *rig) { r.pwm.PowerCycle() },
}

func newRig() *rig {
	r := &rig{imu: i2cbustest.NewBNO055(), pwm: i2cbustest.NewPCA9685()}
	r.bus = i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &r.imu.Chip, 0x40: &r.pwm.Chip})
	before := r.imu.Before
	r.imu.Before = func(c *i2cbustest.Chip, reg byte) {
		before(c, reg)
		if reg == 0x14 && c.Registers[0x39] == 5 && !r.frozen {
			r.move()
		}
	}
	return r
}

func rigFromOrders(text string) *rig {
	r := newRig()
	if err := json.Unmarshal([]byte(text), r); err != nil {
		panic(err)
	}
	return r
}

// move turns the body as the speed controllers tell its wheels, 0.5 m apart.
func (r *rig) move() {
	const track, topSpeed = 0.5, 1.5
	now := rtloop.Now()
	left, right := r.wheel(0), -r.wheel(1)
	rate := (right - left) * topSpeed / track
	if r.moved != 0 {
		turned := rate * float64(now-r.moved) / 1e9
		r.yaw = math.Remainder(r.yaw+turned, 2*math.Pi)
		r.seen.Turned += math.Abs(turned)
	}
	r.moved = now
	r.imu.Turn(r.yaw, rate)
	r.noise = 1 - r.noise // no sensor is without
	r.imu.Little(0x14, r.noise)
}

// wheel is a wheel's command in [-1, 1] as its pulse has it.
func (r *rig) wheel(pin int) float64 {
	ticks := r.pwm.Ticks(pin)
	if ticks == 0 {
		return 0
	}
	return (float64(ticks)*122/25 - 1500) / 500
}

// hardware opens the rig.
func (r *rig) hardware() hardware {
	return hardware{
		i2c: func(path string, timeout time.Duration) (i2c.BusCloser, error) {
			if path != "/dev/i2c-1" && path != "/dev/i2c-7" || timeout != 10*time.Millisecond {
				return nil, fmt.Errorf("rig: found %s, %v", path, timeout)
			}
			return &rigBus{r.bus, r}, nil
		},
		line: func(name string, level gpio.Level) (outputLine, error) {
			if name != "GPIO17" {
				return nil, errors.New("rig: found the line " + name)
			}
			return &rigLine{r}, r.drive(level)
		},
	}
}

// drive is OE.
func (r *rig) drive(level gpio.Level) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bool(level) && !r.seen.OE {
		r.seen.DisabledAt = rtloop.Now()
	}
	r.seen.OE = bool(level)
	return nil
}

// rigBus is the bus, on which the fault comes when it is due.
type rigBus struct {
	*i2cbustest.Bus
	rig *rig
}

func (b *rigBus) Tx(addr uint16, w, r []byte) error {
	if addr == 0x28 && w[0] == 0x14 {
		if b.rig.seen.Reads++; b.rig.seen.Reads == b.rig.After {
			b.rig.fail()
		}
	}
	return b.Bus.Tx(addr, w, r)
}

func (r *rig) fail() {
	r.seen.FaultAt = rtloop.Now()
	rigFaults[r.Fault](r)
}

// Timeout is what hardware wants it to be.
func (b *rigBus) Timeout() time.Duration { return 10 * time.Millisecond }

// Close writes the report.
func (b *rigBus) Close() error {
	r := b.rig
	if r.Report == "" {
		return b.Bus.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Left = r.pwm.Ticks(0)
	text, err := json.Marshal(r.seen)
	if err != nil {
		return err
	}
	return os.WriteFile(r.Report, text, 0o600)
}

// rigLine is the line to OE.
type rigLine struct{ rig *rig }

func (l *rigLine) Out(level gpio.Level) error { return l.rig.drive(level) }
func (l *rigLine) String() string             { return "GPIO17" }
func (l *rigLine) Close() error               { return nil }
