package feetech_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/feetech"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/servobus/servobustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var (
	_ hal.Device       = (*feetech.Device)(nil)
	_ hal.Relaxer      = (*feetech.Device)(nil)
	_ hal.FaultCounter = (*feetech.Device)(nil)
)

// rig is the chain and the driver of the common test suite.
type rig struct{ *feetechtest.Chain }

func (r rig) Torque(id byte) bool { return r.Get(id, feetechtest.Torque, 1) == 1 }

func (r rig) SetTorque(id byte, on bool) { r.Set(id, feetechtest.Torque, 1, flag(on)) }

func (r rig) Goal(id byte) int { return r.Get(id, goalRegister(id), 2) }

func (r rig) SetGoal(id byte, goal int) { r.Set(id, goalRegister(id), 2, goal) }

func (r rig) SetPosition(id byte, steps int) { r.Set(id, feetechtest.Place, 2, steps) }

func (r rig) SetLimits(id byte, low, high int) {
	r.Set(id, 9, 2, low)
	r.Set(id, 11, 2, high)
}

func (r rig) SetFault(id byte, on bool) { r.Set(id, feetechtest.Status, 1, 0x20*flag(on)) }

func (r rig) SetMode(id byte) { r.Set(id, feetechtest.Mode, 1, 3) }

func (r rig) SetModel(id byte) { r.Set(id, 3, 2, 5013) } // an SCS0009

func (r rig) SetReturnDelay(id byte) { r.Set(id, 7, 1, 250) }

func (r rig) Open(ctx context.Context, s servobustest.Settings) (hal.Device, error) {
	return feetech.Open(ctx, r.config(s))
}

func (r rig) HaltAll(s servobustest.Settings, failsafe []float64) ([]string, error) {
	return feetech.HaltAll(r.config(s), failsafe)
}

func (r rig) config(s servobustest.Settings) feetech.Config {
	s.Port.Path = cmp.Or(s.Port.Path, r.Path)
	return feetech.Config{
		Port: s.Port, TimeoutMs: s.TimeoutMs, HaltTorqueOff: s.HaltTorqueOff,
		Servos: []feetech.Servo{
			{Name: "shoulder", ID: 1}, {Name: "elbow", ID: 2}, {Name: "wheel", ID: 3, Mode: feetech.Velocity},
		},
	}
}

func goalRegister(id byte) int {
	if id == 3 {
		return feetechtest.GoalSpeed
	}
	return feetechtest.Goal
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

func newRig(t *testing.T) rig {
	t.Helper()
	c, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 0), feetechtest.NewServo(3, 1))
	fatal.If(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return rig{c}
}

func (r rig) open(t *testing.T) *feetech.Device {
	t.Helper()
	d, err := feetech.Open(t.Context(), r.config(servobustest.Settings{TimeoutMs: servobustest.TimeoutMs}))
	fatal.If(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestServos(t *testing.T) {
	servobustest.Run(t, func(t *testing.T) servobustest.Rig { return newRig(t) })
}

func TestDevice_IsNotGuarded(t *testing.T) {
	var d hal.Device = (*feetech.Device)(nil)
	if _, guarded := d.(hal.DeadmanTimer); guarded {
		t.Error("these servos have no watchdog")
	}
}

func TestDevice_ReadsRegistersInUnits(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	r.Set(1, feetechtest.Place, 2, 3072)
	r.Set(1, feetechtest.Speed, 2, -500)
	r.Set(2, feetechtest.Place, 2, -100)
	r.Set(3, feetechtest.Current, 2, 200)
	got := make([]float64, 9)
	fatal.If(t, errtest.Of(d.Read(got)))
	const step = 2 * math.Pi / 4096
	want := []float64{math.Pi / 2, -500 * step, 0, -2148 * step, 0, 0, 0, 0, 1.3}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", d.Inputs()[i].Name, got[i], want[i])
		}
	}
}

func TestConfig_NamesSignals(t *testing.T) {
	r := newRig(t)
	c, d := r.config(servobustest.Settings{}), r.open(t)
	if !slices.Equal(c.Inputs(), d.Inputs()) || !slices.Equal(c.Outputs(), d.Outputs()) {
		t.Errorf("the device has %v and %v", d.Inputs(), d.Outputs())
	}
	var names []string
	for _, s := range append(c.Inputs()[6:], c.Outputs()...) {
		names = append(names, s.Name+" "+s.Unit)
	}
	want := "wheel_position rad,wheel_velocity rad/s,wheel_current A,shoulder_goal rad,elbow_goal rad,wheel_goal rad/s"
	if got := strings.Join(names, ","); got != want {
		t.Error(got)
	}
}

func TestDevice_WritesGoalsOnlyOnceArmed(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	fatal.If(t, d.Write([]float64{0.5, -0.5, 2}))
	settle(t, d)
	if r.Torque(1) {
		t.Fatal("Write before Arm switched the torque on")
	}
	fatal.If(t, d.Arm())
	fatal.If(t, d.Write([]float64{0.5, -0.5, -3}))
	settle(t, d)
	if a, b, c := r.Goal(1), r.Goal(2), r.Goal(3); a != 2048+326 || b != 2048-326 || c != -1956 {
		t.Errorf("goals %d, %d, %d", a, b, c)
	}
}

// settle waits until the chain has executed all writes: it executes in order.
func settle(t *testing.T, d *feetech.Device) {
	t.Helper()
	fatal.If(t, errtest.Of(d.Read(make([]float64, 9))))
}

func TestDevice_HaltLeavesTorqueOff(t *testing.T) {
	r := newRig(t)
	fatal.If(t, r.open(t).Halt([]float64{1, 1, 1}))
	for id := byte(1); id <= 3; id++ {
		if r.Torque(id) {
			t.Errorf("servo %d has torque", id)
		}
	}
}

func TestDevice_HaltStopsServosLeftOn(t *testing.T) {
	r := newRig(t)
	for id := byte(1); id <= 3; id++ { // as a killed program leaves them
		r.SetTorque(id, true)
		r.SetGoal(id, 700)
	}
	fatal.If(t, r.open(t).Halt([]float64{0, 0, 0}))
	if a, b := r.Goal(1), r.Goal(3); a != 2048 || b != 0 {
		t.Errorf("goals %d, %d", a, b)
	}
}

func TestDevice_HaltLeavesLimpServosLimp(t *testing.T) {
	r := newRig(t)
	r.SetTorque(1, true) // only this one was left on
	r.SetGoal(2, 700)
	fatal.If(t, r.open(t).Halt([]float64{0, 0, 0}))
	if r.Goal(1) != 2048 || !r.Torque(1) || r.Goal(2) != 700 || r.Torque(2) || r.Torque(3) {
		t.Errorf("goals %d, %d, torque %v, %v, %v", r.Goal(1), r.Goal(2), r.Torque(1), r.Torque(2), r.Torque(3))
	}
}

func TestDevice_HaltLeavesServosLimpThatLostTheirPower(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	fatal.If(t, d.Arm())
	r.SetTorque(2, false)
	r.SetGoal(2, 700)
	fatal.If(t, d.Halt([]float64{0, 0, 0}))
	if r.Goal(2) != 700 || r.Torque(2) || r.Goal(1) != 2048 || !r.Torque(1) {
		t.Errorf("goals %d, %d, torque %v, %v", r.Goal(1), r.Goal(2), r.Torque(1), r.Torque(2))
	}
}

func TestDevice_HaltLeavesServosLimpThatReturnBehindADeadOne(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	fatal.If(t, d.Arm())
	for id := byte(1); id <= 3; id++ { // an emergency stop cuts their power
		r.Miss(id, -1)
	}
	for range 2 {
		if d.Halt([]float64{0, 0, 0}) == nil {
			t.Fatal("halted servos without power")
		}
	}
	for id := byte(1); id <= 3; id++ {
		r.SetTorque(id, false)
		r.SetGoal(id, 700)
	}
	r.Miss(2, 0) // servo 1 stays dead
	r.Miss(3, 0)
	for range 3 {
		_ = d.Halt([]float64{0, 0, 0})
	}
	if r.Torque(2) || r.Torque(3) || r.Goal(2) != 700 {
		t.Errorf("torque %v, %v, goal %d", r.Torque(2), r.Torque(3), r.Goal(2))
	}
	r.Miss(1, 0)
	fatal.If(t, d.Arm())
	fatal.If(t, d.Write([]float64{0.5, 0, 0}))
	if settle(t, d); r.Goal(1) != 2048+326 {
		t.Errorf("armed: goal %d", r.Goal(1))
	}
}

func TestDevice_HaltRepeatsTorqueOffOfFailedArm(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	r.SetFault(2, true)
	if d.Arm() == nil {
		t.Fatal("armed")
	}
	r.SetTorque(1, true) // as if it had missed the command
	r.SetTorque(3, true)
	r.SetGoal(3, 500)
	fatal.If(t, d.Halt([]float64{0, 0, 0}))
	if r.Torque(1) || r.Torque(3) {
		t.Errorf("torque %v, %v", r.Torque(1), r.Torque(3))
	}
}

func TestConfig_RefusesInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*feetech.Config){
		"given twice":     func(c *feetech.Config) { c.Servos[1].Name = "shoulder" },
		"from 0 to 253":   func(c *feetech.Config) { c.Servos[1].ID = 254 },
		"mode is unknown": func(c *feetech.Config) { c.Servos[1].Mode = "pwm" },
		"path":            func(c *feetech.Config) { c.Port.Path = "" },
	} {
		c := newRig(t).config(servobustest.Settings{})
		change(&c)
		errtest.Contains(t, c.Validate(), want, want)
	}
}
