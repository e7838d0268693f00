package rigtest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/i2c"

	"optibfm/hal/assembly"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/rtloop"
)

// AutoArmSettings configure a robot of devices that arms automatically and whose run ends with a
// stop.
var AutoArmSettings = []string{
	"loop.posture=warn", "safety.arm=automatic", "safety.after_stop=end", "safety.socket=",
	"safety.external_deadman=the test's",
}

// RigVariable is an environment variable for a test binary that acts as the program: unless it is
// empty, a Rig replaces the hardware of this computer.
const RigVariable = "OPTIBFM_TEST_RIG"

// Rig is the rover of configs/composite.yaml: chips on a bus, and a body that turns as its motors
// command, whenever its IMU is read.
type Rig struct {
	Bus    *i2cbustest.Bus
	Imu    *i2cbustest.BNO055
	Pwm    *i2cbustest.PCA9685
	frozen bool
	yaw    float64
	moved  int64 // when
	noise  int16

	mu sync.Mutex
	OE bool // the level of the line: true disables the motors
}

var rigFaults = map[string]func(*Rig){
	"bus held":           func(r *Rig) { r.Bus.Hold(10 * time.Millisecond) },
	"bus noisy":          func(r *Rig) { r.Bus.Nack(1 << 30) },
	"imu unplugged":      func(r *Rig) { r.Imu.Unplugged = true },
	"imu frozen":         func(r *Rig) { r.frozen = true },
	"imu lost its power": func(r *Rig) { r.Imu.PowerCycle() },
	"imu's bits flip":    func(r *Rig) { r.Imu.Flip[0x21] = 0x30 },
	"pwm unplugged":      func(r *Rig) { r.Pwm.Unplugged = true },
	"pwm lost its power": func(r *Rig) { r.Pwm.PowerCycle() },
}

// NewRig returns a rig without a fault.
func NewRig() *Rig {
	r := &Rig{Imu: i2cbustest.NewBNO055(), Pwm: i2cbustest.NewPCA9685()}
	r.Bus = i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &r.Imu.Chip, 0x40: &r.Pwm.Chip})
	before := r.Imu.Before
	r.Imu.Before = func(c *i2cbustest.Chip, reg byte) {
		before(c, reg)
		if reg == 0x14 && c.Registers[0x39] == 5 && !r.frozen {
			r.move()
		}
	}
	return r
}

// move turns the body as its wheels command, which are 0.5 m apart.
func (r *Rig) move() {
	const track, topSpeed = 0.5, 1.5
	now := rtloop.Now()
	left, right := r.wheel(0), -r.wheel(1)
	rate := (right - left) * topSpeed / track
	if r.moved != 0 {
		r.yaw = math.Remainder(r.yaw+rate*float64(now-r.moved)/1e9, 2*math.Pi)
	}
	r.moved = now
	r.Imu.Turn(r.yaw, rate)
	r.noise = 1 - r.noise // a constant sample would count as frozen
	r.Imu.Little(0x14, r.noise)
}

// wheel returns the command of a wheel in [-1, 1] from its pulse.
func (r *Rig) wheel(pin int) float64 {
	ticks := r.Pwm.Ticks(pin)
	if ticks == 0 {
		return 0
	}
	return (float64(ticks)*122/25 - 1500) / 500
}

// Hardware returns the hardware of the rig.
func (r *Rig) Hardware() assembly.Hardware {
	return assembly.Hardware{
		OpenI2C: func(path string, timeout time.Duration) (i2c.BusCloser, error) {
			if path != "/dev/i2c-1" && path != "/dev/i2c-7" || timeout != 10*time.Millisecond {
				return nil, fmt.Errorf("rig: found %s, %v", path, timeout)
			}
			return rigBus{r.Bus}, nil
		},
		OpenLine: func(name string, level gpio.Level) (assembly.OutputLine, error) {
			if name != "GPIO17" {
				return nil, errors.New("rig: found the line " + name)
			}
			return &rigLine{r}, r.drive(level)
		},
	}
}

// drive sets the OE line.
func (r *Rig) drive(level gpio.Level) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.OE = bool(level)
	return nil
}

// rigBus is the bus, with the timeout that Hardware expects.
type rigBus struct{ *i2cbustest.Bus }

// Fail injects one of rigFaults.
func (r *Rig) Fail(fault string) { rigFaults[fault](r) }

// Timeout returns the adapter's timeout.
func (rigBus) Timeout() time.Duration { return 10 * time.Millisecond }

// rigLine is the line to OE.
type rigLine struct{ rig *Rig }

func (l *rigLine) Out(level gpio.Level) error { return l.rig.drive(level) }
func (l *rigLine) String() string             { return "GPIO17" }
func (l *rigLine) Close() error               { return nil }
