package composite

import (
	"math"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// servo is a fake servo that can go limp. Its output is measured by its input.
type servo struct {
	fakeDevice
	limps int
}

func (s *servo) Relax() error { s.limps++; s.note("relax"); return nil }

// newServoBench returns a bench with a servo, whose action has another zero and direction, and a
// base that an IMU's input measures.
func newServoBench() (*bench, *servo) {
	b := newBench()
	s := &servo{fakeDevice: fakeDevice{
		name: "servo", at: &b.clock, log: &b.log, sample: []float64{1}, written: make([]float64, 1),
		inputs:  []hal.Signal{{Name: "angle", Unit: "rad"}},
		outputs: []hal.Signal{{Name: "goal", Unit: "rad", Measured: "angle"}},
	}}
	b.devices = append(b.devices, Device{Name: "servo", Device: s})
	b.cfg.Action = append(b.cfg.Action, Action{
		Name: "knee", Unit: "deg", To: "servo.goal", Invert: true, Offset: 0.5, Min: -90, Max: 90, MaxRate: 50,
	})
	return b, s
}

func TestRobot_HaltHoldsWhatItsDriverCanHold(t *testing.T) {
	b, s := newServoBench()
	s.outputs[0].Holds = true
	b.cfg.Action[2].Default = 20
	b.open(t)
	if c := b.robot.Spec().Action[2]; c.Failsafe != 20 {
		t.Errorf("the failsafe value is %v, want the default", c.Failsafe)
	}
	fatal.If(t, b.robot.Halt())
	if !math.IsNaN(s.written[0]) || math.IsNaN(b.base.written[0]) {
		t.Errorf("Halt commanded %v and %v", s.written, b.base.written)
	}
	b.cfg.Action[2].Halt, b.cfg.Action[2].Failsafe = HaltFailsafe, 30
	b.open(t)
	fatal.If(t, b.robot.Halt())
	if want := 0.5 - 30*math.Pi/180; math.Abs(s.written[0]-want) > 1e-9 {
		t.Errorf("Halt commanded %v, want %v", s.written, want)
	}
	for want, action := range map[string]Action{
		"action[2].halt: a stop holds": {Failsafe: 30},
		`action[2].halt: unknown ("h`:  {Halt: "hang"},
	} {
		a := b.cfg.Action[2]
		a.Halt, a.Failsafe = action.Halt, action.Failsafe
		cfg := b.cfg
		cfg.Action = append(slices.Clone(b.cfg.Action[:2]), a)
		errtest.Contains(t, errtest.Of(cfg.Spec(b.parts())), want)
	}
}

func TestRobot_ArmsAndStaysAtMeasuredPositions(t *testing.T) {
	b, s := newServoBench()
	b.open(t)
	if c := b.robot.Spec().Action[2]; c.Measured.Obs != "servo.angle" {
		t.Errorf("measured by %q", c.Measured.Obs)
	}
	if b.base.written[0] == 0 || s.written[0] != 0 {
		t.Errorf("New wrote %v and %v", b.base.written, s.written)
	}
	at := make([]float32, 3)
	if b.robot.Positions(at); !math.IsNaN(float64(at[2])) {
		t.Errorf("a position before the first sample: %v", at)
	}
	s.sample[0] = -1.2 // the knee is beyond its 90 degrees
	if err := b.robot.Arm(); err == nil || !strings.Contains(err.Error(), `"knee" is at 97`) || s.limps != 1 {
		t.Errorf("armed beyond the limit: %v, limp %d times", err, s.limps)
	}
	s.limps, s.sample[0] = 0, 1
	b.sense(t)
	// The servo is at 1 rad = -(knee in rad) + 0.5, so the knee is at -0.5 rad.
	const knee = -0.5 * 180 / math.Pi
	if b.robot.Positions(at); !math.IsNaN(float64(at[0])) || math.Abs(float64(at[2])-knee) > 1e-4 {
		t.Errorf("positions %v, want %v", at, knee)
	}
	fatal.If(t, b.robot.Arm())
	if !near(s.written, []float64{1}) {
		t.Errorf("Arm wrote %v", s.written)
	}
	fatal.If(t, b.robot.Act([]float32{0, 0, 90})) // 1 degree a period
	if want := 0.5 - (knee+1)*math.Pi/180; !near(s.written, []float64{want}) {
		t.Errorf("Act wrote %v, want %v", s.written, want)
	}
	stays := slices.Clone(s.written)
	fatal.If(t, b.robot.Disarm())
	if !slices.Equal(s.written, stays) || b.base.written[0] != 500*0.5+1500 {
		t.Errorf("Disarm wrote %v and %v", s.written, b.base.written)
	}
	b.log = nil
	fatal.If(t, b.robot.Disarm()) // it is disarmed: the servo keeps its goal
	if slices.Contains(b.log, "servo write") {
		t.Errorf("a second Disarm: %v", b.log)
	}
	s.sample[0] = -0.2 // moved by hand after the last Sense
	fatal.If(t, b.robot.Arm())
	if !near(s.written, []float64{-0.2}) {
		t.Errorf("the second Arm wrote %v", s.written)
	}
	s.sample[0] = 0.1 // it sags as it takes its load
	b.sense(t)
	sagged := float32((0.5 - 0.1) * 180 / math.Pi)
	fatal.If(t, b.robot.Act([]float32{0, 0, sagged}))
	if !near(s.written, []float64{0.1}) {
		t.Errorf("the first Act wrote %v, far from where the servo is", s.written)
	}
	b.log = nil
	fatal.If(t, b.robot.Limp())
	if s.limps != 1 || slices.Contains(b.log, "servo write") || !slices.Contains(b.log, "base write") {
		t.Errorf("Limp: %v", b.log)
	}
}

func TestRobot_MeasuresAnActionByAConfiguredSource(t *testing.T) {
	b := newBench()
	b.cfg.Action[0].Measured, b.cfg.Action[0].MeasuredScale, b.cfg.Action[0].MeasuredOffset = "imu.gyro_z", 0.25, 0.5
	b.open(t)
	b.sense(t)
	at := make([]float32, 2)
	if b.robot.Positions(at); at[0] != 0.75 {
		t.Errorf("%v", at)
	}
	fatal.If(t, b.robot.Arm())
	if b.base.written[0] != 500*0.75+1500 {
		t.Errorf("%v", b.base.written)
	}
}

func TestConfig_RefusesWrongMeasurements(t *testing.T) {
	measure := func(source string) func(*Action) { return func(a *Action) { a.Measured = source } }
	for want, change := range map[string]func(*Action){
		"action[0].measured: imu has no input of this name":                measure("imu.angle"),
		"action[0].measured: a command measures nothing":                   measure("action.left_wheel"),
		"action[0].measured: the units do not fit (rad/s, no unit)":        measure("imu.gyro_z"),
		"action[0].measured: found a scale or an offset without a source;": func(a *Action) { a.MeasuredOffset = 1 },
		"a number is not finite": func(a *Action) {
			a.Measured, a.MeasuredScale, a.MeasuredOffset = "imu.gyro_z", 1, math.NaN()
		},
	} {
		b := newBench()
		change(&b.cfg.Action[0])
		errtest.Contains(t, errtest.Of(b.cfg.Spec(b.parts())), want)
	}
}

func TestRobot_GoesLimpAfterAFailedArm(t *testing.T) {
	b, _ := newServoBench()
	b.devices = append(b.devices[2:], b.devices[:2]...) // the servo is armed first
	b.cfg.Action = append(b.cfg.Action[2:], b.cfg.Action[:2]...)
	b.open(t)
	b.sense(t)
	b.base.armErr = hal.ErrTimeout
	b.log = nil
	if err := b.robot.Arm(); err == nil {
		t.Fatal("armed")
	}
	relaxed, halted := slices.Index(b.log, "servo relax"), slices.Index(b.log, "servo halt")
	if relaxed < 0 || halted < relaxed {
		t.Errorf("%v", b.log)
	}
}

func TestRobot_DisarmingAllocatesNothing(t *testing.T) {
	b, s := newServoBench()
	b.open(t)
	for _, d := range []*fakeDevice{b.imu, b.base, &s.fakeDevice} {
		d.log = nil
	}
	if n := testing.AllocsPerRun(10, func() { b.robot.halted = false; _ = b.robot.Disarm() }); n != 0 {
		t.Errorf("Disarm allocates %v times", n)
	}
}
