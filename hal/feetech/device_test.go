package feetech_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/feetech"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
)

var (
	_ hal.Device   = (*feetech.Device)(nil)
	_ hal.Counting = (*feetech.Device)(nil)
)

// arm is a shoulder and an elbow (position) on a wheel (velocity).
func arm(t *testing.T) (*feetechtest.Chain, feetech.Config) {
	t.Helper()
	c, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 0), feetechtest.NewServo(3, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, feetech.Config{
		Port:      serial.Config{Path: c.Path},
		Servos:    []feetech.Servo{{Name: "shoulder", ID: 1}, {Name: "elbow", ID: 2}, {Name: "wheel", ID: 3, Mode: feetech.Velocity}},
		TimeoutMs: 300,
	}
}

func open(t *testing.T, c feetech.Config) *feetech.Device {
	t.Helper()
	d, err := feetech.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func read(t *testing.T, d *feetech.Device) []float64 {
	t.Helper()
	sample := make([]float64, len(d.Inputs()))
	if _, err := d.Read(sample); err != nil {
		t.Fatal(err)
	}
	return sample
}

const step = 2 * math.Pi / 4096

func TestItIsNoGuardedDevice(t *testing.T) {
	var d hal.Device = (*feetech.Device)(nil)
	if _, guarded := d.(hal.Guarded); guarded {
		t.Error("these servos have no deadman")
	}
}

func TestRegistersAreReadInUnits(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	c.Set(1, feetechtest.Place, 2, 3072)
	c.Set(1, feetechtest.Speed, 2, -500)
	c.Set(2, feetechtest.Place, 2, -100)
	c.Set(3, feetechtest.Current, 2, 200)
	before := monotonic.Now()
	sample := make([]float64, 9)
	at, err := d.Read(sample)
	if err != nil || at < before || at > monotonic.Now() {
		t.Fatalf("%d, %v", at, err)
	}
	want := []float64{math.Pi / 2, -500 * step, 0, -2148 * step, 0, 0, 0, 0, 1.3}
	for i := range want {
		if math.Abs(sample[i]-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", d.Inputs()[i].Name, sample[i], want[i])
		}
	}
	if d.Outputs()[2] != (hal.Signal{Name: "wheel_goal", Unit: "rad/s"}) || d.Inputs()[8] != (hal.Signal{Name: "wheel_current", Unit: "A"}) {
		t.Errorf("%v, %v", d.Outputs(), d.Inputs())
	}
}

func TestGoalsAreSentOnlyOnceArmed(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	if err := d.Write([]float64{0.5, -0.5, 2}); err != nil {
		t.Fatal(err)
	}
	read(t, d)
	if c.Get(1, feetechtest.Torque, 1) != 0 {
		t.Fatal("a Write before Arm switched the torque on")
	}
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[byte]int{1: 2048 + 326, 2: 2048 - 326} {
		if got := c.Get(id, feetechtest.Goal, 2); got != want || c.Get(id, feetechtest.Torque, 1) != 1 {
			t.Errorf("servo %d: goal %d, want %d", id, got, want)
		}
	}
	if err := d.Write([]float64{99, -99, -3}); err != nil {
		t.Fatal(err)
	}
	read(t, d)
	if a, b, v := c.Get(1, feetechtest.Goal, 2), c.Get(2, feetechtest.Goal, 2), c.Get(3, feetechtest.GoalSpeed, 2); a != 4095 || b != 0 || v != -1956 {
		t.Errorf("%d, %d, %d: not held to the limits", a, b, v)
	}
	if d.Write([]float64{0, math.NaN(), 0}) == nil {
		t.Error("NaN was sent")
	}
}

func TestArmWithoutAWriteKeepsThePositionThatThereIs(t *testing.T) {
	c, config := arm(t)
	c.Set(2, feetechtest.Place, 2, 1000)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if goal := c.Get(2, feetechtest.Goal, 2); goal != 1000 {
		t.Errorf("goal %d", goal)
	}
}

func TestArmFailsWithTheTorqueOff(t *testing.T) {
	for name, how := range map[string]func(*feetechtest.Chain){
		"refuses": func(c *feetechtest.Chain) { c.Refuse(2) },
		"dead":    func(c *feetechtest.Chain) { c.Miss(2, -1) },
		"fault":   func(c *feetechtest.Chain) { c.Set(2, feetechtest.Status, 1, 0x04) },
	} {
		c, config := arm(t)
		d := open(t, config)
		how(c)
		if d.Arm() == nil {
			t.Errorf("%s: armed", name)
		}
		_, _ = d.Read(make([]float64, 9))
		for _, id := range []byte{1, 3} {
			if c.Get(id, feetechtest.Torque, 1) != 0 {
				t.Errorf("%s: servo %d has torque", name, id)
			}
		}
	}
}

func TestADamagedAnswerIsCountedAndMendedByTheSecondTry(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault func(*feetechtest.Chain)
		want  hal.Faults
		err   error
	}{
		{"checksum", func(c *feetechtest.Chain) { c.Garble(2, 1) }, hal.Faults{Checksum: 1, Mended: 1}, nil},
		{"short", func(c *feetechtest.Chain) { c.Cut(3, 1) }, hal.Faults{Short: 1, Mended: 1}, nil},
		{"one silent, and two behind it", func(c *feetechtest.Chain) { c.Mute(1, 1) }, hal.Faults{Timeout: 3, Mended: 3}, nil},
		{"dead", func(c *feetechtest.Chain) { c.Miss(1, -1) }, hal.Faults{Timeout: 4, Mended: 2}, hal.ErrTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, config := arm(t)
			d := open(t, config)
			heard := c.Heard()
			test.fault(c)
			if _, err := d.Read(make([]float64, 9)); !errors.Is(err, test.err) {
				t.Fatal(err)
			}
			if d.Faults() != test.want {
				t.Errorf("%+v, want %+v", d.Faults(), test.want)
			}
			if n := c.Heard() - heard; n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAServosFaultIsADeviceError(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	c.Set(3, feetechtest.Status, 1, 0x20)
	if _, err := d.Read(make([]float64, 9)); !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "wheel") {
		t.Error(err)
	}
}

func TestHaltReachesEveryServoAlsoWithOneDead(t *testing.T) {
	for _, limp := range []bool{false, true} {
		c, config := arm(t)
		config.HaltTorqueOff = limp
		d := open(t, config)
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		if err := d.Write([]float64{1, 1, 1}); err != nil {
			t.Fatal(err)
		}
		c.Miss(1, -1)
		if err := d.Halt([]float64{0, 0, 0}); !errors.Is(err, hal.ErrTimeout) {
			t.Error(err)
		}
		for id := byte(2); id <= 3; id++ {
			if torque := c.Get(id, feetechtest.Torque, 1); (torque == 0) != limp {
				t.Errorf("limp %v: servo %d has torque %d", limp, id, torque)
			}
		}
		if goal, speed := c.Get(2, feetechtest.Goal, 2), c.Get(3, feetechtest.GoalSpeed, 2); goal != 2048 || speed != 0 {
			t.Errorf("limp %v: goal %d, speed %d", limp, goal, speed)
		}
	}
}

func TestHaltRepeatsWhatAServoMissed(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write([]float64{1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	read(t, d)
	c.Miss(3, 1)
	if err := d.Halt([]float64{0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if speed := c.Get(3, feetechtest.GoalSpeed, 2); speed != 0 || d.Faults().Mended != 1 {
		t.Errorf("speed %d, %+v", speed, d.Faults())
	}
}

func TestHaltSwitchesNoTorqueOnAndStopsWhatWasLeftOn(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	if err := d.Halt([]float64{1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	if c.Get(1, feetechtest.Torque, 1) != 0 {
		t.Error("halting a limp robot switched its torque on")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for id := byte(1); id <= 3; id++ { // a program that died has left them on
		c.Set(id, feetechtest.Torque, 1, 1)
	}
	c.Set(3, feetechtest.GoalSpeed, 2, 700)
	if err := open(t, config).Halt([]float64{0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if speed := c.Get(3, feetechtest.GoalSpeed, 2); speed != 0 {
		t.Errorf("it still turns with %d", speed)
	}
}

// wheels are two that turn; a program that died has left them so.
func wheels(t *testing.T) (*feetechtest.Chain, feetech.Config) {
	t.Helper()
	c, err := feetechtest.New(feetechtest.NewServo(1, 1), feetechtest.NewServo(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for id := byte(1); id <= 2; id++ {
		c.Set(id, feetechtest.Torque, 1, 1)
		c.Set(id, feetechtest.GoalSpeed, 2, 700)
	}
	return c, feetech.Config{
		Port:      serial.Config{Path: c.Path},
		Servos:    []feetech.Servo{{Name: "left", ID: 1, Mode: feetech.Velocity}, {Name: "right", ID: 2, Mode: feetech.Velocity}},
		TimeoutMs: 100,
	}
}

func TestHaltAllStopsEveryServoThatHearsWhateverIsWrongWithTheOther(t *testing.T) {
	for name, how := range map[string]func(*feetechtest.Chain){
		"dead":          func(c *feetechtest.Chain) { c.Miss(1, -1) },
		"mute":          func(c *feetechtest.Chain) { c.Mute(1, -1) },
		"garbled":       func(c *feetechtest.Chain) { c.Garble(1, 1<<30) },
		"wrong mode":    func(c *feetechtest.Chain) { c.Set(1, feetechtest.Mode, 1, 0) },
		"unknown model": func(c *feetechtest.Chain) { c.Set(1, 3, 2, 5013) },
	} {
		for _, limp := range []bool{false, true} {
			c, config := wheels(t)
			config.HaltTorqueOff = limp
			how(c)
			if d, err := feetech.Open(t.Context(), config); err == nil {
				_ = d.Close()
				t.Errorf("%s: this shows nothing: it can be opened", name)
			}
			_, err := feetech.HaltAll(config, []float64{0, 0})
			if err == nil || !strings.Contains(err.Error(), "left") || strings.Contains(err.Error(), "right") {
				t.Errorf("%s: %v", name, err)
			}
			for id, one := range map[byte]string{1: name, 2: "well"} {
				speed, torque := c.Get(id, feetechtest.GoalSpeed, 2), c.Get(id, feetechtest.Torque, 1)
				if one != "dead" && speed != 0 && torque != 0 || one == "well" && (torque == 0) != limp {
					t.Errorf("limp %v: one is %s, and the %s one turns with %d, torque %d", limp, name, one, speed, torque)
				}
			}
		}
	}
}

func TestHaltAllSaysWhoIsLimpAndSwitchesNobodyOn(t *testing.T) {
	c, config := wheels(t)
	c.Set(1, feetechtest.Torque, 1, 0)
	notes, err := feetech.HaltAll(config, []float64{0, 0})
	if err != nil || len(notes) != 1 || notes[0] != "left: it has no torque: it is limp" || c.Get(1, feetechtest.Torque, 1) != 0 || c.Get(2, feetechtest.GoalSpeed, 2) != 0 {
		t.Errorf("%q, %v", notes, err)
	}
	if _, err := feetech.HaltAll(config, []float64{0}); err == nil {
		t.Error("one goal for two servos")
	}
}

func TestAPulledPlugIsABusError(t *testing.T) {
	c, config := arm(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_, readErr := d.Read(make([]float64, 9))
	for name, err := range map[string]error{"read": readErr, "write": d.Write(make([]float64, 3)), "halt": d.Halt(make([]float64, 3)), "arm": d.Arm()} {
		if !errors.Is(err, hal.ErrBus) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAdapterThatEchoesWorksWithTheOption(t *testing.T) {
	c, config := arm(t)
	c.Echo()
	config.Port.Echo = true
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	read(t, d)
	if d.Faults() != (hal.Faults{}) {
		t.Errorf("%+v", d.Faults())
	}
}

func TestServosThatAreNotSetUpAreRefused(t *testing.T) {
	for name, how := range map[string]func(*feetechtest.Chain, *feetech.Config){
		"register 33":  func(c *feetechtest.Chain, _ *feetech.Config) { c.Set(1, feetechtest.Mode, 1, 1) },
		"model number": func(c *feetechtest.Chain, _ *feetech.Config) { c.Set(1, 3, 2, 5013) }, // an SCS0009
		"ping":         func(c *feetechtest.Chain, _ *feetech.Config) { c.Miss(2, -1) },
		"return delay": func(c *feetechtest.Chain, n *feetech.Config) { c.Set(1, 7, 1, 250); n.TimeoutMs = 2 },
		"name":         func(_ *feetechtest.Chain, n *feetech.Config) { n.Servos[1].Name = "shoulder" },
		"id":           func(_ *feetechtest.Chain, n *feetech.Config) { n.Servos[1].ID = 254 },
		"mode":         func(_ *feetechtest.Chain, n *feetech.Config) { n.Servos[1].Mode = "pwm" },
		"timeout_ms":   func(_ *feetechtest.Chain, n *feetech.Config) { n.TimeoutMs = -1 },
		"servos":       func(_ *feetechtest.Chain, n *feetech.Config) { n.Servos = nil },
		"path":         func(_ *feetechtest.Chain, n *feetech.Config) { n.Port.Path = "" },
	} {
		c, config := arm(t)
		how(c, &config)
		d, err := feetech.Open(t.Context(), config)
		if err == nil {
			_ = d.Close()
			t.Errorf("%s: accepted", name)
			continue
		}
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
}

func TestATickAllocatesNothing(t *testing.T) {
	_, config := arm(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	in, out := make([]float64, 9), []float64{0.1, 0.2, 1}
	n := testing.AllocsPerRun(50, func() {
		if err := d.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Read(in); err != nil {
			t.Fatal(err)
		}
		if err := d.Halt(out); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestADeadServoMakesNoTickAllocate(t *testing.T) {
	c, config := arm(t)
	config.TimeoutMs = 100
	d := open(t, config)
	c.Miss(2, -1)
	in, out := make([]float64, 9), make([]float64, 3)
	n := testing.AllocsPerRun(5, func() {
		if _, err := d.Read(in); err == nil {
			t.Fatal("a dead servo answered")
		}
		if err := d.Write(out); err != nil {
			t.Fatal(err)
		}
		if err := d.Halt(out); err == nil {
			t.Fatal("a dead servo answered")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTick(b *testing.B) {
	var servos []*feetechtest.Servo
	config := feetech.Config{TimeoutMs: 100}
	for i := range 12 {
		servos = append(servos, feetechtest.NewServo(byte(i), 0))
		config.Servos = append(config.Servos, feetech.Servo{Name: string(rune('a' + i)), ID: i})
	}
	c, err := feetechtest.New(servos...)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	config.Port.Path = c.Path
	d, err := feetech.Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	in := make([]float64, 36)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Read(in); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	line, err := serialtest.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = line.Read(make([]byte, 1)) // the first request, which has no answer
		cancel()
	}()
	_, c := arm(t)
	c.Port.Path, c.TimeoutMs = line.Path, 1000
	if _, err := feetech.Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
