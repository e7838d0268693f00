package setup_test

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/assembly"
	"optibfm/hal/feetech"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/haltest"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/serial"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// slowRobot is a robot with bounds.
type slowRobot struct {
	hal.Robot
	shares []hal.Share
}

func (r slowRobot) Shares() []hal.Share { return r.shares }

func (r slowRobot) Bounds() (sum hal.Bounds) {
	for _, s := range r.shares {
		sum = sum.Plus(s.Bounds)
	}
	return sum
}

const ms = time.Millisecond

var boundsCases = []struct {
	name           string
	bounds         hal.Bounds
	watchdogMS     float64
	strict, always bool // an error with posture strict, and always
	want           []string
}{
	{"short calls", hal.Bounds{Sense: 10 * ms, Act: 10 * ms, Arm: 80 * ms, Halt: 80 * ms}, 100, false, false, nil},
	{"unknown bounds", hal.Bounds{}, 100, false, false, nil},
	{
		"tick beyond the period", hal.Bounds{Sense: 15 * ms, Act: 6 * ms}, 100, true, false,
		[]string{"loop.period_ms: found 20ms", "21ms", "neck 21ms"},
	},
	{
		"tick beyond the watchdog", hal.Bounds{Sense: 60 * ms, Act: 41 * ms}, 100, true, true,
		[]string{"loop.watchdog_ms: found 100ms", "101ms"},
	},
	{
		"the same without a watchdog", hal.Bounds{Sense: 60 * ms, Act: 41 * ms}, 0, true, false,
		[]string{"loop.period_ms"},
	},
	{
		"Arm beyond the watchdog", hal.Bounds{Sense: 5 * ms, Act: 5 * ms, Arm: 91 * ms}, 100, true, false,
		[]string{"loop.watchdog_ms: found 100ms", "a tick with Arm may take 101ms", "neck 101ms"},
	},
	{
		"Halt beyond the watchdog", hal.Bounds{Sense: 5 * ms, Act: 5 * ms, Halt: 91 * ms}, 100, true, false,
		[]string{"a tick with Halt may take 101ms"},
	},
}

func TestCheckBounds_ComparesTheRobotWithTheLoop(t *testing.T) {
	for _, c := range boundsCases {
		t.Run(c.name, func(t *testing.T) {
			shares := []hal.Share{{Name: "eye"}, {Name: "neck", Bounds: c.bounds}}
			robot := slowRobot{haltest.New(haltest.Spec(1, 1)), shares}
			file := configs.Default()
			file.Loop.PeriodMS, file.Loop.WatchdogMS, file.Loop.Posture = 20, c.watchdogMS, rtloop.Strict
			var printed bytes.Buffer
			err := setup.CheckBounds(&printed, robot, file)
			if (err != nil) != c.strict {
				t.Errorf("strict: %v", err)
			}
			for _, words := range c.want {
				errtest.Contains(t, err, words)
			}
			if err != nil && strings.Contains(err.Error(), "eye") {
				t.Errorf("it names a device that takes no time: %v", err)
			}
			file.Loop.Posture = rtloop.Warn
			err = setup.CheckBounds(&printed, robot, file)
			if warned := printed.Len() > 0; (err != nil) != c.always || warned != (c.strict && !c.always) {
				t.Errorf("warn: %v, %q", err, printed.String())
			}
			file.Run.Shadow = true
			errtest.Nil(t, setup.CheckBounds(&printed, robot, file), "shadow run")
		})
	}
}

func TestCheckBounds_EmbeddedConfigurationsAreStrict(t *testing.T) {
	board, err := mcutest.New(mcutest.Rover())
	fatal.If(t, err)
	defer board.Close()
	var servos []*feetechtest.Servo
	for id := range byte(6) {
		servos = append(servos, feetechtest.NewServo(id+1, 0))
	}
	chain, err := feetechtest.New(servos...)
	fatal.If(t, err)
	defer chain.Close()
	for name, set := range map[string][]string{
		"composite": nil, "rover-mcu": {"robot.composite.devices[0].mcu.port.path=" + board.Path},
		"servo-arm": {"robot.composite.devices[0].feetech.port.path=" + chain.Path},
	} {
		file, err := configs.Load(name, set...)
		fatal.If(t, err)
		hardware, c := rigtest.NewRig().Hardware(), rigtest.Section[assembly.Config](file)
		robot, err := assembly.OpenDevices(t.Context(), hardware, c, file.Loop.Period(), rtloop.Now)
		fatal.If(t, err)
		defer func() { _ = setup.CloseRobot(robot) }()
		var printed bytes.Buffer
		if err := setup.CheckBounds(&printed, robot, file); err != nil || file.Loop.Posture != rtloop.Strict {
			t.Errorf("%s (%s): %v", name, file.Loop.Posture, err)
		}
		if opened := robot.Shares(); !slices.Equal(opened, rigtest.Section[assembly.Config](file).Shares()) {
			t.Errorf("%s: bounds %v, in the configuration %v", name, opened, rigtest.Section[assembly.Config](file).Shares())
		}
		t.Logf("%s: %+v", name, robot.Bounds())
	}
}

// costlyBus is a bus whose transactions take time and may fail. It sums the time.
type costlyBus struct {
	i2c.BusCloser
	how   func(n int) (time.Duration, error) // of the nth try; nil: the inner bus
	tries int
	spent time.Duration
}

func (b *costlyBus) Timeout() time.Duration { return 10 * time.Millisecond }

func (b *costlyBus) Tx(addr uint16, w, r []byte) error {
	if b.how == nil {
		return b.BusCloser.Tx(addr, w, r)
	}
	takes, err := b.how(b.tries)
	b.tries++
	b.spent += takes
	time.Sleep(takes)
	return errors.Join(err, b.BusCloser.Tx(addr, w, r))
}

// busFaults return the time and the error of the nth try of a transaction.
var busFaults = func() map[string]func(n int) (time.Duration, error) {
	const held, slow, quick = 10 * time.Millisecond, 9 * time.Millisecond, time.Millisecond
	type outcome struct {
		takes time.Duration
		err   error
	}
	faults := map[string]func(n int) (time.Duration, error){}
	for name, outcomes := range map[string][]outcome{ // one after the other
		"held":                          {{held, syscall.ETIMEDOUT}},
		"slow":                          {{held, nil}},
		"refuses late":                  {{slow, syscall.EREMOTEIO}},
		"refuses at once, then held":    {{quick, syscall.EREMOTEIO}, {held, syscall.ETIMEDOUT}},
		"refuses at once, then slow":    {{quick, syscall.EREMOTEIO}, {held, nil}},
		"refuses late, then slow":       {{slow, syscall.EREMOTEIO}, {held, nil}},
		"refuses at once and then late": {{quick, syscall.EREMOTEIO}, {slow, syscall.EREMOTEIO}},
	} {
		faults[name] = func(n int) (time.Duration, error) {
			o := outcomes[n%len(outcomes)]
			return o.takes, o.err
		}
	}
	return faults
}()

func TestBounds_HoldForEveryBusFault(t *testing.T) {
	for name, how := range busFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus, h := &costlyBus{}, rigtest.NewRig().Hardware()
			open := h.OpenI2C
			h.OpenI2C = func(path string, timeout time.Duration) (_ i2c.BusCloser, err error) {
				bus.BusCloser, err = open(path, timeout)
				return bus, err
			}
			file, err := configs.Load("composite")
			fatal.If(t, err)
			section := rigtest.Section[assembly.Config](file)
			robot, err := assembly.OpenDevices(t.Context(), h, section, file.Loop.Period(), rtloop.Now)
			fatal.If(t, err)
			defer func() { bus.how = nil; _ = setup.CloseRobot(robot) }()
			bounds, obs := robot.Bounds(), make([]float32, len(robot.Spec().Obs))
			for _, call := range []struct {
				name  string
				do    func() error
				bound time.Duration
			}{
				{"Arm", robot.Arm, bounds.Arm},
				{"Sense", func() error { _, err := robot.Sense(obs); return err }, bounds.Sense},
				{"Act", func() error { return robot.Act([]float32{0, 0}) }, bounds.Act},
				{"Halt", robot.Halt, bounds.Halt},
			} {
				if call.name == "Act" { // needs an armed robot
					bus.how = nil
					fatal.If(t, robot.Arm())
				}
				bus.how, bus.tries, bus.spent = how, 0, 0
				err := call.do()
				if bus.spent > call.bound || bus.tries == 0 {
					t.Errorf("%s: %d tries took %v of %v (%v)", call.name, bus.tries, bus.spent, call.bound, err)
				}
			}
		})
	}
}

var boundsRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `\\w+`(?: × 1.2)? \\| (.+) \\| (.+) \\| (.+) \\| (.+) \\|$")

// TestBounds_AreThoseOfTheManual compares the table of docs/hazards.md with the drivers.
func TestBounds_AreThoseOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/hazards.md")
	fatal.If(t, err)
	stated := map[string][]string{}
	for _, row := range boundsRow.FindAllStringSubmatch(string(text), -1) {
		stated[row[1]] = row[2:]
	}
	for driver, found := range driverBounds(t) {
		row, ok := stated[driver]
		if !ok {
			t.Errorf("%s: docs/hazards.md does not state its times", driver)
			continue
		}
		for i, limit := range []time.Duration{found.Sense, found.Act, found.Arm, found.Halt} {
			if unit := timeOut(driver); limit != timesT(t, row[i])*unit {
				t.Errorf("%s: docs/hazards.md says %q, the driver %v of a T of %v", driver, row[i], limit, unit)
			}
		}
		delete(stated, driver)
	}
	if len(stated) != 1 || stated["bridge"] == nil { // tested in hal/bridge
		t.Errorf("docs/hazards.md states the times of %v", stated)
	}
}

// timeOut returns the T of a driver: 1.2 times the timeout of the rig's bus, or that of
// LongTimeouts.
func timeOut(driver string) time.Duration {
	if slices.Contains([]string{"bno055", "mpu6050", "pca9685"}, driver) {
		return 12 * time.Millisecond
	}
	return time.Second
}

// timesT returns the factor of T in a cell, for a driver with one motor.
func timesT(t *testing.T, cell string) time.Duration {
	t.Helper()
	switch words := strings.Fields(cell); {
	case cell == "0":
		return 0
	case words[0] == "T":
		return 1
	case len(words) > 1 && words[1] == "T":
		n, err := strconv.Atoi(words[0])
		if err == nil {
			return time.Duration(n)
		}
	}
	t.Fatalf("docs/hazards.md: %q is not a multiple of T", cell)
	return 0
}

// driverBounds opens a device of every driver.
func driverBounds(t *testing.T) map[string]hal.Bounds {
	t.Helper()
	w := rigtest.NewWagon(t)
	file, err := configs.Load(rigtest.WagonFile, append(w.Set, rigtest.LongTimeouts(4*time.Second)...)...)
	fatal.If(t, err)
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	base, err := configs.Load("composite")
	fatal.If(t, err)
	servo := feetech.Config{
		Port: serial.Config{Path: chain.Path}, Servos: []feetech.Servo{{Name: "s", ID: 1}}, TimeoutMs: 1000,
	}
	arm := assembly.Device{Driver: "feetech"}
	sections.Edit(&arm.Sections, func(c *feetech.Config) { *c = servo })
	devices := append(rigtest.DevicesOf(file), rigtest.DevicesOf(base)[1],
		arm)
	o := assembly.NewOpener(w.Hardware(), rigtest.Section[assembly.Config](base), rtloop.Now)
	t.Cleanup(func() { _ = o.Close() })
	found := map[string]hal.Bounds{}
	for _, d := range devices {
		if d.Driver == "mit" {
			sections.Edit(&d.Sections, func(c *mit.Config) { c.Motors = c.Motors[:1] })
		}
		device, err := o.Open(t.Context(), d)
		if err != nil {
			t.Fatalf("%s: %v", d.Driver, err)
		}
		t.Cleanup(func() { _ = device.Close() })
		found[d.Driver] = hal.BoundsOf(device)
	}
	bus := &costlyBus{BusCloser: i2cbustest.New(map[uint16]*i2cbustest.Chip{0x68: &i2cbustest.NewMPU6050().Chip})}
	imu, err := mpu6050.New(bus, mpu6050.Config{Bus: "fake"}, rtloop.Now)
	fatal.If(t, err)
	found["mpu6050"] = imu.Bounds()
	return found
}
