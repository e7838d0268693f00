package dynamixel_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/dynamixel"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
)

var (
	_ hal.Device   = (*dynamixel.Device)(nil)
	_ hal.Guarded  = (*dynamixel.Device)(nil)
	_ hal.Counting = (*dynamixel.Device)(nil)
)

const (
	xm430 = 1020
	xl330 = 1200
	xl430 = 1060
)

// chain is a leg (position), a wheel (velocity), a gripper (current) and a fan
// (pwm, without a current sensor).
func chain(t *testing.T) (*dynamixeltest.Chain, dynamixel.Config) {
	t.Helper()
	c, err := dynamixeltest.New(
		dynamixeltest.NewServo(1, xm430, 3), dynamixeltest.NewServo(2, xm430, 1),
		dynamixeltest.NewServo(3, xl330, 0), dynamixeltest.NewServo(4, xl430, 16))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, dynamixel.Config{
		Port: serial.Config{Path: c.Path},
		Servos: []dynamixel.Servo{
			{Name: "leg", ID: 1}, {Name: "wheel", ID: 2, Mode: dynamixel.Velocity},
			{Name: "gripper", ID: 3, Mode: dynamixel.Current}, {Name: "fan", ID: 4, Mode: dynamixel.PWM},
		},
		TimeoutMs: 300, DeadmanMs: 2000,
	}
}

func open(t *testing.T, c dynamixel.Config) *dynamixel.Device {
	t.Helper()
	d, err := dynamixel.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestTheSignalsAreNamedAfterTheServos(t *testing.T) {
	_, config := chain(t)
	d := open(t, config)
	var names []string
	for _, s := range append(d.Inputs(), d.Outputs()...) {
		names = append(names, s.Name+" "+s.Unit)
	}
	want := "leg_position rad,leg_velocity rad/s,leg_current A,wheel_position rad,wheel_velocity rad/s,wheel_current A," +
		"gripper_position rad,gripper_velocity rad/s,gripper_current A,fan_position rad,fan_velocity rad/s,fan_load ," +
		"leg_goal rad,wheel_goal rad/s,gripper_goal A,fan_goal "
	if got := strings.Join(names, ","); got != want {
		t.Errorf("%s", got)
	}
}

func TestAConfigurationThatNamesItsModelsKnowsTheSignals(t *testing.T) {
	_, config := chain(t)
	config.Servos[3].Model = "XL430-W250" // the only one that gives its load
	d := open(t, config)
	if !slices.Equal(config.Inputs(), d.Inputs()) || !slices.Equal(config.Outputs(), d.Outputs()) {
		t.Errorf("%v %v, the device has %v %v", config.Inputs(), config.Outputs(), d.Inputs(), d.Outputs())
	}
	config.Servos[0].Model = "XL430-W250"
	_ = d.Close()
	if _, err := dynamixel.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "the configuration says XL430-W250") {
		t.Errorf("another model: %v", err)
	}
	for model, says := range map[string]string{"XL430-W250": "has no current mode", "XM430": "choose one of"} {
		config.Servos[2].Model = model
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", model, err)
		}
	}
}

func TestRegistersAreReadInUnits(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	c.Set(1, dynamixeltest.PresentPlace, 4, 2048+1024)
	c.Set(1, dynamixeltest.PresentSpeed, 4, -100)
	c.Set(1, dynamixeltest.PresentLoad, 2, 100)
	c.Set(3, dynamixeltest.PresentLoad, 2, -250)
	c.Set(4, dynamixeltest.PresentLoad, 2, -500)
	c.Set(2, dynamixeltest.PresentPlace, 4, -1)
	before := monotonic.Now()
	got := make([]float64, 12)
	at, err := d.Read(got)
	if err != nil {
		t.Fatal(err)
	}
	if at < before || at > monotonic.Now() {
		t.Error("the sample is not of now")
	}
	// e-manual: 0.088° a step, 0.229 rev/min, 2.69 mA (XM430), 1 mA (XL330), 0.1 % (XL430).
	want := []float64{math.Pi / 2, -22.9 * 2 * math.Pi / 60, 0.269, -2049 * 2 * math.Pi / 4096, 0, 0, 0, 0, -0.25, 0, 0, -0.5}
	for i := range want {
		if !near(got[i], want[i]) {
			t.Errorf("%s: %v, want %v", d.Inputs()[i].Name, got[i], want[i])
		}
	}
}

func TestGoalsAreWrittenInTheServosUnits(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	if err := d.Write([]float64{-math.Pi / 2, 22.9 * 2 * math.Pi / 60, -0.5, 1}); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	for _, g := range []struct {
		id             byte
		register, size int
		want           int32
	}{{1, dynamixeltest.GoalPosition, 4, 1024}, {2, dynamixeltest.GoalVelocity, 4, 100}, {3, dynamixeltest.GoalCurrent, 2, -500}, {4, dynamixeltest.GoalPWM, 2, 885}} {
		if got := c.Get(g.id, g.register, g.size); got != g.want {
			t.Errorf("servo %d: %d, want %d", g.id, got, g.want)
		}
	}
}

// settle waits until the chain has handled what was written: it answers in
// order.
func settle(t *testing.T, d *dynamixel.Device) {
	t.Helper()
	if _, err := d.Read(make([]float64, len(d.Inputs()))); err != nil {
		t.Fatal(err)
	}
}

func TestGoalsStayWithinTheServosOwnLimits(t *testing.T) {
	c, config := chain(t)
	c.Set(1, 48, 4, 3000)
	c.Set(1, 52, 4, 1000)
	d := open(t, config)
	for _, test := range []struct{ goal, want float64 }{{9, 3000}, {-9, 1000}} {
		if err := d.Write([]float64{test.goal, 1e9, -1e9, 5}); err != nil {
			t.Fatal(err)
		}
		settle(t, d)
		if got := c.Get(1, dynamixeltest.GoalPosition, 4); float64(got) != test.want {
			t.Errorf("position %d, want %v", got, test.want)
		}
	}
	if v := c.Get(2, dynamixeltest.GoalVelocity, 4); v != 350 {
		t.Errorf("velocity %d", v)
	}
	if v := c.Get(3, dynamixeltest.GoalCurrent, 2); v != -1193 {
		t.Errorf("current %d", v)
	}
	if err := d.Write([]float64{math.NaN(), 0, 0, 0}); err == nil {
		t.Error("NaN was sent")
	}
}

func TestArmSetsAndVerifiesTorqueAndWatchdog(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	if d.Deadman() != 0 {
		t.Error("a deadman before Arm")
	}
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	for id := byte(1); id <= 4; id++ {
		if torque, dog := c.Get(id, dynamixeltest.TorqueEnable, 1), c.Get(id, dynamixeltest.Watchdog, 1); torque != 1 || dog != 100 {
			t.Errorf("servo %d: torque %d, watchdog %d", id, torque, dog)
		}
	}
	if d.Deadman() != 2*time.Second {
		t.Error(d.Deadman())
	}
}

func TestArmWithoutAWriteKeepsThePositionThatThereIs(t *testing.T) {
	c, config := chain(t)
	c.Set(1, dynamixeltest.PresentPlace, 4, 1500)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if got := c.Get(1, dynamixeltest.GoalPosition, 4); got != 1500 {
		t.Errorf("goal %d", got)
	}
}

func TestArmFailsWithTheTorqueOffWhenAServoDoesNotObey(t *testing.T) {
	for name, break1 := range map[string]func(*dynamixeltest.Chain){
		"refuses":        func(c *dynamixeltest.Chain) { c.Refuse(2) },
		"dead":           func(c *dynamixeltest.Chain) { c.Miss(2, -1) },
		"hardware error": func(c *dynamixeltest.Chain) { c.Set(2, dynamixeltest.HardwareError, 1, 0x20) },
	} {
		t.Run(name, func(t *testing.T) {
			c, config := chain(t)
			d := open(t, config)
			break1(c)
			if err := d.Arm(); err == nil {
				t.Fatal("armed")
			}
			c.Set(2, dynamixeltest.HardwareError, 1, 0)
			if d.Deadman() != 0 {
				t.Error("it claims a deadman")
			}
			_, _ = d.Read(make([]float64, 12)) // what was sent is handled
			for id := byte(1); id <= 4; id++ {
				if c.Get(id, dynamixeltest.TorqueEnable, 1) != 0 {
					t.Errorf("servo %d has torque", id)
				}
			}
		})
	}
}

func TestSilenceTripsTheServosAndThenWriteRefusesUntilArm(t *testing.T) {
	c, config := chain(t)
	config.DeadmanMs = 200
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	goals := []float64{0.1, 1, 0, 0}
	if err := d.Write(goals); err != nil {
		t.Fatal(err)
	}
	time.Sleep(320 * time.Millisecond)
	if got := c.Get(2, dynamixeltest.Watchdog, 1); got != -1 {
		t.Errorf("watchdog %d: the fake did not trip", got)
	}
	_, _ = d.Read(make([]float64, 12))
	if err := d.Write(goals); !errors.Is(err, hal.ErrDevice) {
		t.Errorf("write after the silence: %v", err)
	}
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(goals); err != nil {
		t.Errorf("write after arming again: %v", err)
	}
	settle(t, d)
	if c.Get(2, dynamixeltest.GoalVelocity, 4) == 0 {
		t.Error("the goal was not taken")
	}
}

func TestADamagedAnswerIsCountedAndMendedByTheSecondTry(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault func(*dynamixeltest.Chain)
		want  hal.Faults
	}{
		{"checksum", func(c *dynamixeltest.Chain) { c.Garble(2, 1) }, hal.Faults{Checksum: 1, Mended: 1}},
		{"short", func(c *dynamixeltest.Chain) { c.Cut(3, 1) }, hal.Faults{Short: 1, Mended: 1}},
		{"the last one silent", func(c *dynamixeltest.Chain) { c.Mute(4, 1) }, hal.Faults{Timeout: 1, Mended: 1}},
		{"one silent, and two behind it", func(c *dynamixeltest.Chain) { c.Mute(2, 1) }, hal.Faults{Timeout: 3, Mended: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, config := chain(t)
			d := open(t, config)
			test.fault(c)
			if _, err := d.Read(make([]float64, 12)); err != nil {
				t.Fatal(err)
			}
			if d.Faults() != test.want {
				t.Errorf("%+v, want %+v", d.Faults(), test.want)
			}
		})
	}
}

func TestADeadServoIsNamedAndTheOthersAreStillAsked(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	c.Miss(1, -1)
	heard := c.Heard()
	_, err := d.Read(make([]float64, 12))
	if !errors.Is(err, hal.ErrTimeout) || !strings.Contains(err.Error(), "leg") {
		t.Error(err)
	}
	if n := c.Heard() - heard; n != 2 {
		t.Errorf("%d requests", n)
	}
	// All four were silent behind the dead one; asked last, it does not hide them.
	if want := (hal.Faults{Timeout: 5, Mended: 3}); d.Faults() != want {
		t.Errorf("%+v, want %+v", d.Faults(), want)
	}
}

func TestAHardwareErrorIsADeviceErrorAndGoesWithAReboot(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	c.Set(3, dynamixeltest.HardwareError, 1, 0x04)
	if _, err := d.Read(make([]float64, 12)); !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "gripper") {
		t.Error(err)
	}
	if err := d.Reboot("gripper"); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	if err := d.Reboot("nobody"); err == nil {
		t.Error("rebooted nobody")
	}
}

func TestHaltCommandsEveryServoAlsoWithOneDead(t *testing.T) {
	for _, limp := range []bool{false, true} {
		c, config := chain(t)
		config.HaltTorqueOff = limp
		d := open(t, config)
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		if err := d.Write([]float64{1, 1, 0.5, 0.5}); err != nil {
			t.Fatal(err)
		}
		c.Miss(1, -1)
		if err := d.Halt([]float64{0, 0, 0, 0}); !errors.Is(err, hal.ErrTimeout) || !strings.Contains(err.Error(), "ID ") {
			t.Errorf("limp %v: %v", limp, err)
		}
		if d.Deadman() != 0 {
			t.Error("still armed")
		}
		for id := byte(2); id <= 4; id++ {
			if v := c.Get(id, dynamixeltest.TorqueEnable, 1); (v == 0) != limp {
				t.Errorf("limp %v: torque of %d is %d", limp, id, v)
			}
		}
		for what, got := range map[string]int32{"velocity": c.Get(2, dynamixeltest.GoalVelocity, 4), "current": c.Get(3, dynamixeltest.GoalCurrent, 2), "pwm": c.Get(4, dynamixeltest.GoalPWM, 2)} {
			if got != 0 {
				t.Errorf("limp %v: %s is still %d", limp, what, got)
			}
		}
	}
}

func TestHaltRepeatsWhatAServoMissed(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write([]float64{1, 1, 0.5, 0.5}); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	c.Miss(2, 1)
	if err := d.Halt([]float64{0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if v := c.Get(2, dynamixeltest.GoalVelocity, 4); v != 0 || d.Faults().Mended != 1 {
		t.Errorf("velocity %d, %+v", v, d.Faults())
	}
}

func TestAPulledPlugIsABusErrorAndEverythingReturns(t *testing.T) {
	c, config := chain(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, readErr := d.Read(make([]float64, 12))
	for name, err := range map[string]error{
		"read": readErr, "write": d.Write(make([]float64, 4)), "halt": d.Halt(make([]float64, 4)), "arm": d.Arm(),
	} {
		if !errors.Is(err, hal.ErrBus) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.Faults().Bus < 4 {
		t.Errorf("%+v", d.Faults())
	}
}

func TestAnAdapterThatEchoesWorksWithTheOptionAndWithout(t *testing.T) {
	for _, echo := range []bool{true, false} {
		c, config := chain(t)
		c.Echo()
		config.Port.Echo = echo
		d := open(t, config)
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		settle(t, d)
		if d.Faults() != (hal.Faults{}) {
			t.Errorf("option %v: %+v", echo, d.Faults())
		}
	}
}

func TestServosThatAreNotSetUpAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, says string
		how        func(*dynamixeltest.Chain, *dynamixel.Config)
	}{
		{"operating mode", "register 11", func(c *dynamixeltest.Chain, _ *dynamixel.Config) { c.Set(1, 11, 1, 1) }},
		{"torque by goal", "bit 3", func(c *dynamixeltest.Chain, _ *dynamixel.Config) { c.Set(1, 10, 1, 8) }},
		{"no answers to writes", "register 68", func(c *dynamixeltest.Chain, _ *dynamixel.Config) { c.Set(1, 68, 1, 1) }},
		{"unknown model", "model number", func(c *dynamixeltest.Chain, _ *dynamixel.Config) { c.Set(1, 0, 2, 29) }},
		{"no current mode", "current", func(c *dynamixeltest.Chain, n *dynamixel.Config) { c.Set(4, 11, 1, 0); n.Servos[3].Mode = "current" }},
		{"absent", "ping", func(c *dynamixeltest.Chain, _ *dynamixel.Config) { c.Miss(3, -1) }},
		{"slow to answer", "return delay", func(c *dynamixeltest.Chain, n *dynamixel.Config) { c.Set(1, 9, 1, 250); n.TimeoutMs = 4 }},
		{"same name", "twice", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.Servos[1].Name = "leg" }},
		{"same id", "twice", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.Servos[1].ID = 1 }},
		{"mode", "mode", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.Servos[1].Mode = "servo" }},
		{"deadman", "multiple of 20", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.DeadmanMs = 50 }},
		{"deadman too long", "multiple of 20", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.DeadmanMs = 2560 }},
		{"timeout", "timeout_ms", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.TimeoutMs = math.NaN() }},
		{"no servos", "servos", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.Servos = nil }},
		{"no port", "path", func(_ *dynamixeltest.Chain, n *dynamixel.Config) { n.Port.Path = "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, config := chain(t)
			test.how(c, &config)
			d, err := dynamixel.Open(t.Context(), config)
			if err == nil {
				_ = d.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v does not say %q", err, test.says)
			}
		})
	}
}

func TestATickAllocatesNothing(t *testing.T) {
	_, config := chain(t)
	d := open(t, config)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	in, out := make([]float64, 12), []float64{0.1, 1, 0, 0}
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
	c, config := chain(t)
	config.TimeoutMs = 100
	d := open(t, config)
	c.Miss(2, -1)
	in, out := make([]float64, 12), make([]float64, 4)
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
	var servos []*dynamixeltest.Servo
	config := dynamixel.Config{TimeoutMs: 100}
	for i := range 12 {
		servos = append(servos, dynamixeltest.NewServo(byte(i), xm430, 3))
		config.Servos = append(config.Servos, dynamixel.Servo{Name: string(rune('a' + i)), ID: i})
	}
	c, err := dynamixeltest.New(servos...)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	config.Port.Path = c.Path
	d, err := dynamixel.Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	in, out := make([]float64, 36), make([]float64, 12)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Read(in); err != nil {
			b.Fatal(err)
		}
		if err := d.Write(out); err != nil {
			b.Fatal(err)
		}
	}
}

func TestHaltAllStopsEveryServoThatHearsWhateverIsWrongWithTheOthers(t *testing.T) {
	goals := map[byte]struct{ register, size int }{
		1: {dynamixeltest.GoalPosition, 4}, 2: {dynamixeltest.GoalVelocity, 4}, 3: {dynamixeltest.GoalCurrent, 2}, 4: {dynamixeltest.GoalPWM, 2},
	}
	for name, how := range map[string]func(*dynamixeltest.Chain){
		"dead":          func(c *dynamixeltest.Chain) { c.Miss(2, -1) },
		"mute":          func(c *dynamixeltest.Chain) { c.Mute(2, -1) },
		"garbled":       func(c *dynamixeltest.Chain) { c.Garble(2, 1<<30) },
		"wrong mode":    func(c *dynamixeltest.Chain) { c.Set(2, dynamixeltest.OperatingMode, 1, 16) },
		"unknown model": func(c *dynamixeltest.Chain) { c.Set(2, 0, 2, 9999) },
	} {
		for _, limp := range []bool{false, true} {
			c, config := chain(t)
			config.HaltTorqueOff, config.TimeoutMs, config.DeadmanMs = limp, 100, 0
			for id, goal := range goals { // a program that died has left them so
				c.Set(id, dynamixeltest.TorqueEnable, 1, 1)
				c.Set(id, goal.register, goal.size, 100)
			}
			how(c)
			if d, err := dynamixel.Open(t.Context(), config); err == nil {
				_ = d.Close()
				t.Errorf("%s: this shows nothing: it can be opened", name)
			}
			_, err := dynamixel.HaltAll(config, []float64{0, 0, 0, 0})
			if err == nil || !strings.Contains(err.Error(), `"wheel"`) || strings.Contains(err.Error(), `"leg"`) || strings.Contains(err.Error(), `"fan"`) {
				t.Errorf("%s: %v", name, err)
			}
			for id, goal := range goals {
				want := int32(0)
				if id == 1 {
					want = 2048
				}
				got, torque := c.Get(id, goal.register, goal.size), c.Get(id, dynamixeltest.TorqueEnable, 1)
				deaf := name == "dead" && id == 2
				if !deaf && torque != 0 && (got != want || limp) || id != 2 && (torque == 0) != limp {
					t.Errorf("%s, limp %v: servo %d has the goal %d, torque %d", name, limp, id, got, torque)
				}
			}
		}
	}
}

func TestHaltAllLeavesWhatRestsAlreadyAndSaysSo(t *testing.T) {
	c, config := chain(t)
	for id := byte(1); id <= 4; id++ {
		c.Set(id, dynamixeltest.TorqueEnable, 1, int32(id%2))
	}
	c.Set(3, dynamixeltest.Watchdog, 1, 255)
	c.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	notes, err := dynamixel.HaltAll(config, []float64{0, 0, 0, 0})
	want := []string{"wheel: it has no torque: it is limp", "gripper: its own watchdog has stopped it: it stays where it is", "fan: it has no torque: it is limp"}
	if err != nil || !slices.Equal(notes, want) || c.Get(1, dynamixeltest.GoalPosition, 4) != 2048 {
		t.Errorf("%q, %v", notes, err)
	}
	if _, err := dynamixel.HaltAll(config, nil); err == nil {
		t.Error("no goals for four servos")
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
	_, c := chain(t)
	c.Port.Path, c.TimeoutMs = line.Path, 1000
	if _, err := dynamixel.Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
