package rigtest

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

// RigVariable is an environment variable for a test binary that acts as the program: the JSON of a
// Rig that replaces the hardware of this computer.
const RigVariable = "OPTIBFM_TEST_RIG"

// Rig is the rover of configs/composite.yaml: chips on a bus, and a body that turns as its motors
// command, whenever its IMU is read.
type Rig struct {
	Report string // file for the RigReport
	Fault  string // one of rigFaults, "" for none
	After  int    // samples of the IMU before the fault

	Bus    *i2cbustest.Bus
	Imu    *i2cbustest.BNO055
	Pwm    *i2cbustest.PCA9685
	frozen bool
	yaw    float64
	moved  int64 // when
	noise  int16

	mu   sync.Mutex
	Seen RigReport
}

// RigReport is what happened to a rig.
type RigReport struct {
	Reads      int
	Turned     float64 // rad, in total
	Left       int     // ticks of the pulse at the end
	OE         bool    // at the end
	FaultAt    int64   // CLOCK_MONOTONIC ns
	DisabledAt int64   // when OE went high
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

// RigFromJSON returns a rig with the fields of the JSON of RigVariable.
func RigFromJSON(text string) *Rig {
	r := NewRig()
	if err := json.Unmarshal([]byte(text), r); err != nil {
		panic(err)
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
		turned := rate * float64(now-r.moved) / 1e9
		r.yaw = math.Remainder(r.yaw+turned, 2*math.Pi)
		r.Seen.Turned += math.Abs(turned)
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
			return &rigBus{r.Bus, r}, nil
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
	if bool(level) && !r.Seen.OE {
		r.Seen.DisabledAt = rtloop.Now()
	}
	r.Seen.OE = bool(level)
	return nil
}

// rigBus is the bus. It injects the fault when it is due.
type rigBus struct {
	*i2cbustest.Bus
	rig *Rig
}

func (b *rigBus) Tx(addr uint16, w, r []byte) error {
	if addr == 0x28 && w[0] == 0x14 {
		if b.rig.Seen.Reads++; b.rig.Seen.Reads == b.rig.After {
			b.rig.Fail()
		}
	}
	return b.Bus.Tx(addr, w, r)
}

// Fail injects the fault.
func (r *Rig) Fail() {
	r.Seen.FaultAt = rtloop.Now()
	rigFaults[r.Fault](r)
}

// Timeout returns the timeout that Hardware expects.
func (b *rigBus) Timeout() time.Duration { return 10 * time.Millisecond }

// Close writes the report.
func (b *rigBus) Close() error {
	r := b.rig
	if r.Report == "" {
		return b.Bus.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Seen.Left = r.Pwm.Ticks(0)
	text, err := json.Marshal(r.Seen)
	if err != nil {
		return err
	}
	return os.WriteFile(r.Report, text, 0o600)
}

// rigLine is the line to OE.
type rigLine struct{ rig *Rig }

func (l *rigLine) Out(level gpio.Level) error { return l.rig.drive(level) }
func (l *rigLine) String() string             { return "GPIO17" }
func (l *rigLine) Close() error               { return nil }
