package dynamixel_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/dynamixel"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus/servobustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var (
	_ hal.Device       = (*dynamixel.Device)(nil)
	_ hal.Relaxer      = (*dynamixel.Device)(nil)
	_ hal.DeadmanTimer = (*dynamixel.Device)(nil)
	_ hal.FaultCounter = (*dynamixel.Device)(nil)
)

const (
	xm430 = 1020
	xl330 = 1200
	xl430 = 1060
)

// rig is the chain and the driver of the common test suite.
type rig struct{ *dynamixeltest.Chain }

func (r rig) Torque(id byte) bool { return r.Get(id, dynamixeltest.TorqueEnable, 1) == 1 }

func (r rig) SetTorque(id byte, on bool) { r.Set(id, dynamixeltest.TorqueEnable, 1, int32(flag(on))) }

func (r rig) Goal(id byte) int { return int(r.Get(id, goalRegister(id), 4)) }

func (r rig) SetGoal(id byte, goal int) { r.Set(id, goalRegister(id), 4, int32(goal)) }

func (r rig) SetPosition(id byte, steps int) { r.Set(id, dynamixeltest.PresentPlace, 4, int32(steps)) }

func (r rig) SetLimits(id byte, low, high int) {
	r.Set(id, 52, 4, int32(low))
	r.Set(id, 48, 4, int32(high))
}

func (r rig) SetFault(id byte, on bool) { r.Set(id, dynamixeltest.HardwareError, 1, int32(flag(on))) }

func (r rig) SetMode(id byte) { r.Set(id, dynamixeltest.OperatingMode, 1, 16) }

func (r rig) SetModel(id byte) { r.Set(id, 0, 2, 29) }

func (r rig) SetReturnDelay(id byte) { r.Set(id, 9, 1, 250) }

func (r rig) Open(ctx context.Context, s servobustest.Settings) (hal.Device, error) {
	return dynamixel.Open(ctx, r.config(s))
}

func (r rig) HaltAll(s servobustest.Settings, failsafe []float64) ([]string, error) {
	return dynamixel.HaltAll(r.config(s), failsafe)
}

func (r rig) config(s servobustest.Settings) dynamixel.Config {
	s.Port.Path = cmp.Or(s.Port.Path, r.Path)
	return dynamixel.Config{
		Port: s.Port, TimeoutMs: s.TimeoutMs, HaltTorqueOff: s.HaltTorqueOff,
		Servos: []dynamixel.Servo{
			{Name: "shoulder", ID: 1}, {Name: "elbow", ID: 2}, {Name: "wheel", ID: 3, Mode: dynamixel.Velocity},
		},
	}
}

func goalRegister(id byte) int {
	if id == 3 {
		return dynamixeltest.GoalVelocity
	}
	return dynamixeltest.GoalPosition
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

func newChain(t *testing.T, servos ...*dynamixeltest.Servo) *dynamixeltest.Chain {
	t.Helper()
	c, err := dynamixeltest.New(servos...)
	fatal.If(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServos(t *testing.T) {
	servobustest.Run(t, func(t *testing.T) servobustest.Rig {
		return rig{newChain(t, dynamixeltest.NewServo(1, xm430, 3), dynamixeltest.NewServo(2, xm430, 3),
			dynamixeltest.NewServo(3, xm430, 1))}
	})
}

// fourModes is a leg (position), a wheel (velocity), a gripper (current) and a fan (pwm, without a
// current sensor).
func fourModes(t *testing.T) (*dynamixeltest.Chain, dynamixel.Config) {
	t.Helper()
	c := newChain(t, dynamixeltest.NewServo(1, xm430, 3), dynamixeltest.NewServo(2, xm430, 1),
		dynamixeltest.NewServo(3, xl330, 0), dynamixeltest.NewServo(4, xl430, 16))
	return c, dynamixel.Config{
		Port: serial.Config{Path: c.Path},
		Servos: []dynamixel.Servo{
			{Name: "leg", ID: 1}, {Name: "wheel", ID: 2, Mode: dynamixel.Velocity},
			{Name: "gripper", ID: 3, Mode: dynamixel.Current}, {Name: "fan", ID: 4, Mode: dynamixel.PWM},
		},
		TimeoutMs: servobustest.TimeoutMs, DeadmanMs: 2000,
	}
}

func open(t *testing.T, c dynamixel.Config) *dynamixel.Device {
	t.Helper()
	d, err := dynamixel.Open(t.Context(), c)
	fatal.If(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// settle waits until the chain has executed all writes: it executes in order.
func settle(t *testing.T, d *dynamixel.Device) {
	t.Helper()
	fatal.If(t, errtest.Of(d.Read(make([]float64, len(d.Inputs())))))
}

func TestConfig_NamesSignals(t *testing.T) {
	_, config := fourModes(t)
	config.Servos[3].Model = "XL430-W250" // the only model here that measures load
	var names []string
	for _, s := range append(config.Inputs(), config.Outputs()...) {
		names = append(names, s.Name+" "+s.Unit)
	}
	want := "leg_position rad,leg_velocity rad/s,leg_current A," +
		"wheel_position rad,wheel_velocity rad/s,wheel_current A," +
		"gripper_position rad,gripper_velocity rad/s,gripper_current A,fan_position rad,fan_velocity rad/s,fan_load ," +
		"leg_goal rad,wheel_goal rad/s,gripper_goal A,fan_goal "
	if got := strings.Join(names, ","); got != want {
		t.Errorf("%s", got)
	}
	d := open(t, config)
	if !slices.Equal(config.Inputs(), d.Inputs()) || !slices.Equal(config.Outputs(), d.Outputs()) {
		t.Errorf("the device has %v and %v", d.Inputs(), d.Outputs())
	}
}

func TestDevice_ReadsRegistersInUnits(t *testing.T) {
	c, config := fourModes(t)
	d := open(t, config)
	c.Set(1, dynamixeltest.PresentPlace, 4, 2048+1024)
	c.Set(1, dynamixeltest.PresentSpeed, 4, -100)
	c.Set(1, dynamixeltest.PresentLoad, 2, 100)
	c.Set(3, dynamixeltest.PresentLoad, 2, -250)
	c.Set(4, dynamixeltest.PresentLoad, 2, -500)
	c.Set(2, dynamixeltest.PresentPlace, 4, -1)
	got := make([]float64, 12)
	fatal.If(t, errtest.Of(d.Read(got)))
	// e-manual: 0.088° a step, 0.229 rev/min, 2.69 mA (XM430), 1 mA (XL330), 0.1 % (XL430).
	want := []float64{
		math.Pi / 2, -22.9 * 2 * math.Pi / 60, 0.269,
		-2049 * 2 * math.Pi / 4096, 0, 0,
		0, 0, -0.25,
		0, 0, -0.5,
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", d.Inputs()[i].Name, got[i], want[i])
		}
	}
}

// goals are the goal registers of fourModes.
var goals = []struct {
	id             byte
	register, size int
}{
	{1, dynamixeltest.GoalPosition, 4}, {2, dynamixeltest.GoalVelocity, 4},
	{3, dynamixeltest.GoalCurrent, 2}, {4, dynamixeltest.GoalPWM, 2},
}

func TestDevice_WritesGoalsWithinServoLimits(t *testing.T) {
	c, config := fourModes(t)
	c.Set(1, 48, 4, 3000)
	c.Set(1, 52, 4, 1000)
	d := open(t, config)
	fatal.If(t, d.Arm())
	for _, test := range []struct {
		outputs []float64
		want    []int32
	}{
		{[]float64{-math.Pi / 4, 22.9 * 2 * math.Pi / 60, -0.5, 1}, []int32{1536, 100, -500, 885}},
		{[]float64{9, 1e9, -1e9, 5}, []int32{3000, 350, -1193, 885}},
		{[]float64{-9, -1e9, 1e9, -5}, []int32{1000, -350, 1193, -885}},
	} {
		fatal.If(t, d.Write(test.outputs))
		settle(t, d)
		for i, g := range goals {
			if got := c.Get(g.id, g.register, g.size); got != test.want[i] {
				t.Errorf("%v: servo %d: goal %d, want %d", test.outputs, g.id, got, test.want[i])
			}
		}
	}
}

func TestDevice_ArmSetsWatchdog(t *testing.T) {
	c, config := fourModes(t)
	d := open(t, config)
	if d.Deadman() != 0 {
		t.Error("a deadman before Arm")
	}
	fatal.If(t, d.Arm())
	for id := byte(1); id <= 4; id++ {
		torque, watchdog := c.Get(id, dynamixeltest.TorqueEnable, 1), c.Get(id, dynamixeltest.Watchdog, 1)
		if torque != 1 || watchdog != 100 {
			t.Errorf("servo %d: torque %d, watchdog %d", id, torque, watchdog)
		}
	}
	if d.Deadman() != 2*time.Second {
		t.Error(d.Deadman())
	}
	if err := d.Halt(make([]float64, 4)); err != nil || d.Deadman() != 0 {
		t.Errorf("halt: %v, deadman %v", err, d.Deadman())
	}
}

func TestDevice_WriteFailsAfterSilenceUntilArm(t *testing.T) {
	c, config := fourModes(t)
	config.DeadmanMs = 1000
	d := open(t, config)
	fatal.If(t, d.Arm())
	time.Sleep(1100 * time.Millisecond) // the driver and the fake's watchdog use the real clock
	if got := c.Get(2, dynamixeltest.Watchdog, 1); got != -1 {
		t.Errorf("watchdog %d: the fake did not trip", got)
	}
	_, _ = d.Read(make([]float64, 12))
	outputs := []float64{0.1, 1, 0, 0}
	errtest.Is(t, d.Write(outputs), hal.ErrDevice, "write after the silence")
	fatal.If(t, d.Arm())
	if got := c.Get(2, dynamixeltest.Watchdog, 1); got != 50 {
		t.Errorf("watchdog %d after Arm", got)
	}
}

func TestDevice_HaltReachesServosThatTheirWatchdogStopped(t *testing.T) {
	for dead := byte(1); dead <= 4; dead++ {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) { haltTripped(t, dead) })
	}
}

func haltTripped(t *testing.T, dead byte) {
	t.Parallel()
	c, config := fourModes(t)
	d := open(t, config)
	fatal.If(t, errors.Join(d.Arm(), d.Write([]float64{0.5, 1, 0.01, 0.5})))
	c.Pass(3 * time.Second)
	if got := c.Get(1, dynamixeltest.Watchdog, 1); got != -1 {
		t.Errorf("watchdog %d: the fake did not trip", got)
	}
	if d.Halt([]float64{math.Inf(1), 0, 0, 0}) == nil || c.Get(1, dynamixeltest.Watchdog, 1) != -1 {
		t.Error("a Halt without a goal has woken the servos")
	}
	c.Miss(dead, -1)
	for range 3 { // the servos behind the dead one answer once they are asked before it
		if err := d.Halt([]float64{0, 0, 0, 0}); !errors.Is(err, hal.ErrTimeout) {
			t.Fatal(err)
		}
	}
	for _, g := range goals {
		want := int32(0)
		if g.id == 1 {
			want = 2048
		}
		if got := c.Get(g.id, g.register, g.size); got != want && g.id != dead {
			t.Errorf("servo %d: goal %d, want %d", g.id, got, want)
		}
	}
	c.Miss(dead, 0)
	serialtest.HaltAgain(t, d, []float64{0, 0, 0, 0})
}

func TestDevice_IgnoresEchoWithoutOption(t *testing.T) {
	c, config := fourModes(t)
	c.Echo()
	d := open(t, config)
	settle(t, d)
	if d.Faults() != (hal.Faults{}) {
		t.Errorf("%+v", d.Faults())
	}
}

func TestOpen_RefusesWrongSetup(t *testing.T) {
	type chain = dynamixeltest.Chain
	type config = dynamixel.Config
	for _, test := range []struct {
		name, want string
		prepare    func(*chain, *config)
	}{
		{"torque by goal", "bit 3", func(c *chain, _ *config) { c.Set(1, 10, 1, 8) }},
		{"no answers to writes", "register 68", func(c *chain, _ *config) { c.Set(1, 68, 1, 1) }},
		{"no current mode", "current", func(c *chain, n *config) { c.Set(4, 11, 1, 0); n.Servos[3].Mode = "current" }},
		{"another model", "the configuration has", func(_ *chain, n *config) { n.Servos[0].Model = "XL430-W250" }},
		{"unknown model", "model is unknown", func(_ *chain, n *config) { n.Servos[0].Model = "XM430" }},
		{"model without mode", "has no current mode", func(_ *chain, n *config) { n.Servos[2].Model = "XL430-W250" }},
		{"same name", "twice", func(_ *chain, n *config) { n.Servos[1].Name = "leg" }},
		{"mode", "mode is unknown", func(_ *chain, n *config) { n.Servos[1].Mode = "servo" }},
		{"deadman", "multiple of 20", func(_ *chain, n *config) { n.DeadmanMs = 50 }},
		{"deadman too long", "from 0 to 2540", func(_ *chain, n *config) { n.DeadmanMs = 2560 }},
		{"no port", "path", func(_ *chain, n *config) { n.Port.Path = "" }},
	} {
		c, config := fourModes(t)
		test.prepare(c, &config)
		d, err := dynamixel.Open(t.Context(), config)
		if err == nil {
			_ = d.Close()
			t.Errorf("%s: accepted", test.name)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v: no %q", test.name, err, test.want)
		}
	}
}

func TestHaltAll_LeavesServoStoppedByWatchdog(t *testing.T) {
	c, config := fourModes(t)
	for _, g := range goals {
		c.Set(g.id, dynamixeltest.TorqueEnable, 1, 1)
		c.Set(g.id, g.register, g.size, 100)
	}
	c.Set(3, dynamixeltest.Watchdog, 1, 255)
	notes, err := dynamixel.HaltAll(config, []float64{0, 0, 0, 0})
	want := []string{"gripper: its watchdog stopped it: it stays in place"}
	if err != nil || !slices.Equal(notes, want) {
		t.Errorf("%q, %v", notes, err)
	}
	for i, want := range []int32{2048, 0, 100, 0} {
		if got := c.Get(goals[i].id, goals[i].register, goals[i].size); got != want {
			t.Errorf("servo %d: goal %d, want %d", goals[i].id, got, want)
		}
	}
}

// The unit of a current depends on the model, which a mute servo does not report.
func TestHaltAll_SwitchesMuteCurrentServoOffUnlessModelIsConfigured(t *testing.T) {
	for model, wantTorque := range map[string]int32{"": 0, "XL330-M288": 1} {
		c, config := fourModes(t)
		config.Servos[2].Model = model
		c.Set(3, dynamixeltest.TorqueEnable, 1, 1)
		c.Set(3, dynamixeltest.GoalCurrent, 2, 100)
		c.Mute(3, -1)
		_, err := dynamixel.HaltAll(config, []float64{0, 0, 0.2, 0})
		torque, goal := c.Get(3, dynamixeltest.TorqueEnable, 1), c.Get(3, dynamixeltest.GoalCurrent, 2)
		if !errors.Is(err, hal.ErrTimeout) || torque != wantTorque || torque == 1 && goal != 200 {
			t.Errorf("model %q: torque %d, goal %d, %v", model, torque, goal, err)
		}
	}
}

// A limp servo counts its turns. In position mode it forgets them when its torque is switched on,
// so that its goal and its position would differ.
func TestDevice_ArmRefusesServoTurnedBeyondOneTurn(t *testing.T) {
	c, config := fourModes(t)
	c.Set(1, dynamixeltest.PresentPlace, 4, 5000)
	d := open(t, config)
	errtest.Contains(t, d.Arm(), `"leg" (ID 1): position 4.528 rad`)
	c.PowerCycle(1)
	fatal.If(t, d.Arm())
	if goal, travel := c.Get(1, dynamixeltest.GoalPosition, 4), c.Travel(1); goal != 5000-4096 || travel != 0 {
		t.Errorf("goal %d, moved by %d", goal, travel)
	}
}

func TestDevice_ArmBeginsAtPresentPositionOfManyTurns(t *testing.T) {
	c := newChain(t, dynamixeltest.NewServo(1, xm430, 4))
	d := open(t, dynamixel.Config{
		Port: serial.Config{Path: c.Path}, TimeoutMs: servobustest.TimeoutMs,
		Servos: []dynamixel.Servo{{Name: "winch", ID: 1, Mode: dynamixel.ExtendedPosition}},
	})
	if d.Outputs()[0].Measured != "winch_position" {
		t.Errorf("%+v", d.Outputs())
	}
	for _, place := range []int32{-9000, 2048, 123_456} {
		fatal.If(t, errors.Join(d.Relax(), d.Write([]float64{0})))
		c.Set(1, dynamixeltest.PresentPlace, 4, place)
		fatal.If(t, d.Arm())
		if goal, travel := c.Get(1, dynamixeltest.GoalPosition, 4), c.Travel(1); goal != place || travel != 0 {
			t.Errorf("at %d: goal %d, moved by %d", place, goal, travel)
		}
	}
}

// A servo that restarts forgets its full turns: its position jumps by them.
func TestDevice_StopsAServoWhosePositionJumps(t *testing.T) {
	c := newChain(t, dynamixeltest.NewServo(1, xm430, 4))
	d := open(t, dynamixel.Config{
		Port: serial.Config{Path: c.Path}, TimeoutMs: servobustest.TimeoutMs,
		Servos: []dynamixel.Servo{{Name: "winch", ID: 1, Mode: dynamixel.ExtendedPosition}},
	})
	inputs := make([]float64, 3)
	read := func(place int32) error {
		c.Set(1, dynamixeltest.PresentPlace, 4, place)
		_, err := d.Read(inputs)
		return err
	}
	fatal.If(t, errors.Join(read(2048), read(9000), d.Arm(), read(9000), read(9100)))
	for range 2 {
		if err := read(9100 - 8192); !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "jumped") {
			t.Errorf("got %v", err)
		}
	}
	errtest.Nil(t, errors.Join(d.Arm(), read(9100-8192)))
}
