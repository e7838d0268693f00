package composite

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

type fakeDevice struct {
	inputs, outputs []hal.Signal
	sample          []float64
	at              *int64
	log             *[]string // the calls, in order
	name            string

	readErr, writeErr, armErr, haltErr error
	written                            []float64
	deadman                            time.Duration
	reads                              int
	onArm, onWrite                     func()
}

func (d *fakeDevice) Inputs() []hal.Signal   { return d.inputs }
func (d *fakeDevice) Outputs() []hal.Signal  { return d.outputs }
func (d *fakeDevice) Deadman() time.Duration { return d.deadman }

func (d *fakeDevice) Read(dst []float64) (int64, error) {
	d.reads++
	copy(dst, d.sample)
	return *d.at, d.readErr
}

func (d *fakeDevice) Write(outputs []float64) error {
	d.note("write")
	if d.onWrite != nil {
		d.onWrite()
	}
	copy(d.written, outputs)
	return d.writeErr
}

func (d *fakeDevice) Arm() error {
	d.note("arm")
	if d.onArm != nil {
		d.onArm()
	}
	return d.armErr
}

func (d *fakeDevice) Halt(failsafe []float64) error {
	d.note("halt")
	copy(d.written, failsafe)
	return d.haltErr
}

func (d *fakeDevice) Close() error { d.note("close"); return nil }

func (d *fakeDevice) note(what string) {
	if d.log != nil {
		*d.log = append(*d.log, d.name+" "+what)
	}
}

// bench is a robot with an IMU and a base, and their clock.
type bench struct {
	cfg       Config
	clock     int64
	log       []string
	imu, base *fakeDevice
	devices   []Device
	robot     *Robot
	obs       []float32
}

func newBench() *bench {
	b := &bench{clock: 1e9}
	b.imu = &fakeDevice{
		name: "imu", at: &b.clock, log: &b.log, sample: []float64{1, 2},
		inputs: []hal.Signal{{Name: "gyro_z", Unit: "rad/s"}, {Name: "accel_z", Unit: "m/s^2"}},
	}
	b.base = &fakeDevice{
		name: "base", at: &b.clock, log: &b.log, sample: []float64{3}, written: make([]float64, 2),
		inputs:  []hal.Signal{{Name: "left_speed", Unit: "m/s"}},
		outputs: []hal.Signal{{Name: "left", Unit: "us"}, {Name: "right", Unit: "us"}},
	}
	b.devices = []Device{{Name: "imu", Device: b.imu}, {Name: "base", Device: b.base}}
	b.cfg = Config{
		Name: "cart", Period: 20 * time.Millisecond,
		Observation: []Observation{
			{Name: "yaw_rate", Unit: "deg/s", From: "imu.gyro_z"},
			{Name: "up", Unit: "g", From: "imu.accel_z", Invert: true},
			{Name: "speed", From: "base.left_speed", Scale: 0.5, Offset: 1, Min: -9, Max: 9},
			{Name: "last_left", From: "action.left_wheel"},
		},
		Action: []Action{
			{
				Name: "left_wheel", To: "base.left", Scale: 500, Offset: 1500, Min: -1, Max: 1,
				Failsafe: -0.5, Disarmed: 0.5,
			},
			{Name: "right_wheel", To: "base.right", Scale: 500, Offset: 1500, Invert: true, Min: -1, Max: 1},
		},
	}
	return b
}

func (b *bench) open(t *testing.T) *bench {
	t.Helper()
	robot, err := New(b.cfg, func() int64 { return b.clock }, b.devices...)
	fatal.If(t, err)
	b.robot, b.obs = robot, make([]float32, len(robot.Spec().Obs))
	b.log = nil
	return b
}

func (b *bench) sense(t *testing.T) []float32 {
	t.Helper()
	fatal.If(t, errtest.Of(b.robot.Sense(b.obs)))
	return b.obs
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-6*max(1, math.Abs(y)) })
}

func wide(v []float32) (w []float64) {
	for _, x := range v {
		w = append(w, float64(x))
	}
	return w
}

func TestRobot_SenseConvertsUnitsScaleAndOffset(t *testing.T) {
	b := newBench().open(t)
	want := []float64{180 / math.Pi, -2 / 9.80665, 0.5*3 + 1, 0.5}
	if got := wide(b.sense(t)); !near(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestRobot_ActLimitsRateFromDisarmedValue(t *testing.T) {
	b := newBench()
	b.cfg.Action[0].MaxRate = 4 // 0.08 in a period
	b.open(t)
	fatal.If(t, b.robot.Arm()) // at the disarmed 0.5, not the failsafe -0.5
	for _, want := range []float64{0.42, 0.34, 0.3, 0.3} {
		fatal.If(t, b.robot.Act([]float32{0.3, -1}))
		if got := (b.base.written[0] - 1500) / 500; math.Abs(got-want) > 1e-6 {
			t.Errorf("%v, want %v", got, want)
		}
		if b.base.written[1] != 2000 {
			t.Errorf("an action without a rate limit: %v", b.base.written[1])
		}
	}
}

func TestRobot_ActAppliesScaleAndOffset(t *testing.T) {
	b := newBench().open(t)
	fatal.If(t, b.robot.Arm())
	fatal.If(t, b.robot.Act([]float32{0.5, 0.2}))
	if want := []float64{1750, 1400}; !near(b.base.written, want) {
		t.Errorf("found %v, want %v", b.base.written, want)
	}
}

func TestRobot_ActionAsSourceIsLatestCommand(t *testing.T) {
	b := newBench().open(t)
	last := func(when string, want float32) {
		t.Helper()
		if got := b.sense(t)[3]; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	last("opened", 0.5) // the disarmed value
	fatal.If(t, b.robot.Arm())
	last("armed", 0.5)
	fatal.If(t, b.robot.Act([]float32{0.75, 0}))
	last("after an action", 0.75)
	errtest.NotNil(t, b.robot.Act([]float32{2, 0}), "an action beyond the limits was accepted")
	last("after a refused action", 0.75)
	fatal.If(t, b.robot.Halt())
	last("halted", -0.5)
}

func TestRobot_CommandsDisarmedAndFailsafeOutputs(t *testing.T) {
	b := newBench().open(t)
	if want := []float64{1750, 1500}; !near(b.base.written, want) {
		t.Errorf("opened: %v, want the disarmed outputs %v", b.base.written, want)
	}
	fatal.If(t, b.robot.Arm())
	if got := fmt.Sprint(b.log); got != "[base write imu arm base arm]" {
		t.Errorf("arming: %s: the disarmed outputs must precede the torque", got)
	}
	fatal.If(t, b.robot.Act([]float32{1, 1}))
	fatal.If(t, b.robot.Halt())
	if want := []float64{1250, 1500}; !near(b.base.written, want) {
		t.Errorf("halted: %v, want the failsafe outputs %v", b.base.written, want)
	}
	fatal.If(t, b.robot.Disarm())
	if want := []float64{1750, 1500}; !near(b.base.written, want) {
		t.Errorf("disarmed: %v, want %v", b.base.written, want)
	}
}

// holderDevice ignores Write until it is armed.
type holderDevice struct {
	*fakeDevice
	failsafe []float64
}

func (d *holderDevice) SetFailsafe(outputs []float64) error {
	d.failsafe = slices.Clone(outputs)
	return nil
}

func TestRobot_HaltsFailsafeHolderToDisarmIt(t *testing.T) {
	b := newBench()
	holder := &holderDevice{fakeDevice: b.base}
	b.devices[1].Device = holder
	b.open(t)
	disarmed, failsafe := []float64{1750, 1500}, []float64{1250, 1500}
	if !near(holder.failsafe, failsafe) || !near(b.base.written, failsafe) {
		t.Errorf("opened: failsafe %v, outputs %v", holder.failsafe, b.base.written)
	}
	fatal.If(t, b.robot.Arm())
	if got := fmt.Sprint(b.log); got != "[imu arm base arm base write]" || !near(b.base.written, disarmed) {
		t.Errorf("arming: %s, outputs %v", got, b.base.written)
	}
	fatal.If(t, b.robot.Act([]float32{1, 1}))
	b.log = nil
	fatal.If(t, b.robot.Disarm())
	if got := fmt.Sprint(b.log); got != "[base halt]" || !near(b.base.written, failsafe) {
		t.Errorf("disarming: %s, outputs %v", got, b.base.written)
	}
	b.base.haltErr = hal.ErrTimeout
	errtest.Is(t, b.robot.Disarm(), hal.ErrTimeout, "disarming fails")
}

func TestRobot_ActFailsUnlessArmed(t *testing.T) {
	b := newBench().open(t)
	refused := func(when string) {
		t.Helper()
		errtest.Is(t, b.robot.Act([]float32{0, 0}), hal.ErrHalted, when)
	}
	refused("opened")
	for name, stop := range map[string]func() error{
		"halted": b.robot.Halt, "disarmed": b.robot.Disarm,
		"halted beside": func() error { b.robot.HaltBeside(); return nil },
	} {
		fatal.If(t, b.robot.Arm())
		fatal.If(t, b.robot.Act([]float32{0, 0}))
		fatal.If(t, stop())
		refused(name)
	}
}

func TestRobot_SenseReturnsOldestTime(t *testing.T) {
	b := newBench()
	older := b.clock - 5e6
	b.base.at = &older
	b.open(t)
	if at, err := b.robot.Sense(b.obs); err != nil || at != older {
		t.Errorf("time %d, want %d: %v", at, older, err)
	}
}

func TestRobot_SenseFailsForStaleSample(t *testing.T) {
	b := newBench()
	b.devices[1].Stale = 10 * time.Millisecond
	at := b.clock
	b.base.at = &at
	b.open(t)
	b.clock += 10e6
	b.sense(t)
	b.clock++
	_, err := b.robot.Sense(b.obs)
	errtest.Is(t, err, hal.ErrStale)
	errtest.Contains(t, err, "base")
	at = b.clock
	b.sense(t)
	if f := b.robot.Faults(nil); f[1].Faults.Stale != 1 || f[0].Faults != (hal.Faults{}) {
		t.Errorf("counted %+v", f)
	}
}

func TestRobot_StaleTimeDefaultsToThreePeriods(t *testing.T) {
	b := newBench()
	at := b.clock
	b.imu.at = &at
	b.open(t)
	b.clock += 60e6
	b.sense(t)
	b.clock++
	errtest.Is(t, errtest.Of(b.robot.Sense(b.obs)), hal.ErrStale)
}

func TestRobot_SenseFailsForFrozenDevice(t *testing.T) {
	b := newBench()
	b.devices[0].FrozenTicks = 3
	b.open(t)
	tick := func() error {
		b.clock += 1e6
		_, err := b.robot.Sense(b.obs)
		return err
	}
	for range 3 {
		fatal.If(t, tick())
	}
	if err := tick(); !errors.Is(err, errFrozen) || !errors.Is(err, hal.ErrDevice) {
		t.Errorf("frozen: %v", err)
	}
	b.imu.sample[1] = math.Nextafter(b.imu.sample[1], 9)
	for range 3 {
		fatal.If(t, tick())
	}
	for range 10 { // the same sample again is not new
		b.clock -= 1e6
		fatal.If(t, tick())
	}
	if f := b.robot.Faults(nil); f[0].Faults.Device != 1 {
		t.Errorf("counted %+v", f)
	}
}

func TestRobot_SenseFailsForNonFiniteInput(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		b := newBench().open(t)
		b.imu.sample[1] = bad
		if _, err := b.robot.Sense(b.obs); !errors.Is(err, errNotFinite) || !errors.Is(err, hal.ErrProtocol) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	b := newBench().open(t)
	b.imu.sample[0] = 1e300
	errtest.Is(t, errtest.Of(b.robot.Sense(b.obs)), errTooLarge)
}

func TestRobot_SenseFailsForDecreasingTime(t *testing.T) {
	b := newBench().open(t)
	b.sense(t)
	at := b.clock - 1
	b.imu.at = &at
	errtest.Is(t, errtest.Of(b.robot.Sense(b.obs)), errBackwards)
}

func TestRobot_SenseEndsAtFirstFailure(t *testing.T) {
	b := newBench().open(t)
	b.imu.readErr = fmt.Errorf("i2c: %w", hal.ErrTimeout)
	_, err := b.robot.Sense(b.obs)
	var e *Error
	if !errors.As(err, &e) || e.Device != "imu" || e.Operation != "read" || !errors.Is(err, hal.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if b.base.reads != 0 {
		t.Error("the next device was read")
	}
	if f := b.robot.Faults(nil); f[0].Faults.Timeout != 1 {
		t.Errorf("counted %+v", f)
	}
}

type countingDevice struct{ *fakeDevice }

func (countingDevice) Faults() hal.Faults { return hal.Faults{Bus: 7, Recovered: 2} }

func TestRobot_CountsFaultsOnce(t *testing.T) {
	b := newBench()
	b.devices[0].Device = countingDevice{b.imu}
	b.open(t)
	b.imu.readErr = hal.ErrBus
	_, _ = b.robot.Sense(b.obs)
	if f := b.robot.Faults(nil)[0]; f.Name != "imu" || f.Faults != (hal.Faults{Bus: 7, Recovered: 2}) {
		t.Errorf("%+v", f)
	}
}

func TestRobot_HaltReachesEveryDeviceBrokenOnesLast(t *testing.T) {
	b := newBench().open(t)
	b.imu.readErr, b.imu.haltErr, b.base.haltErr = hal.ErrTimeout, hal.ErrTimeout, hal.ErrBus
	_, _ = b.robot.Sense(b.obs)
	b.log = nil
	err := b.robot.Halt()
	if fmt.Sprint(b.log) != "[base halt imu halt]" {
		t.Errorf("%v", b.log)
	}
	if !errors.Is(err, hal.ErrTimeout) || !errors.Is(err, hal.ErrBus) ||
		!strings.Contains(err.Error(), "base: halt") || !strings.Contains(err.Error(), "imu: halt") {
		t.Errorf("%v", err)
	}
	b.log = nil
	_ = b.robot.Halt() // both failed now
	if len(b.log) != 2 {
		t.Errorf("again: %v", b.log)
	}
}

func TestRobot_HaltsWhenArmFails(t *testing.T) {
	b := newBench().open(t)
	b.base.armErr = errors.New("the brake is on")
	errtest.Is(t, b.robot.Arm(), b.base.armErr)
	if got := fmt.Sprint(b.log); got != "[base write imu arm base arm imu halt base halt]" {
		t.Error(got)
	}
	errtest.Is(t, b.robot.Act([]float32{0, 0}), hal.ErrHalted)
}

func TestNew_FailsWhenDisarmFails(t *testing.T) {
	b := newBench()
	b.base.writeErr = hal.ErrBus
	if robot, err := New(b.cfg, func() int64 { return 0 }, b.devices...); robot != nil || !errors.Is(err, hal.ErrBus) {
		t.Errorf("%v, %v", robot, err)
	}
}

// backstopDevice has a second path.
type backstopDevice struct {
	*fakeDevice
	cut int
}

func (g *backstopDevice) HaltBeside() { g.cut++ }

func TestRobot_HaltBesideUsesEverySecondPath(t *testing.T) {
	b := newBench()
	g := &backstopDevice{fakeDevice: b.base}
	b.devices[1].Device = g
	b.open(t)
	fatal.If(t, b.robot.Arm())
	b.robot.HaltBeside()
	if g.cut != 1 || len(b.log) != 3 {
		t.Errorf("cut %d times, %v", g.cut, b.log)
	}
}

func TestRobot_DeadmanIsLongestOfDevices(t *testing.T) {
	b := newBench().open(t)
	if b.robot.Deadman() != 0 || fmt.Sprint(b.robot.Unguarded()) != "[base]" {
		t.Errorf("%v, unguarded %v", b.robot.Deadman(), b.robot.Unguarded())
	}
	b.base.deadman = 200 * time.Millisecond
	if b.robot.Deadman() != 200*time.Millisecond || b.robot.Unguarded() != nil {
		t.Errorf("%v, unguarded %v", b.robot.Deadman(), b.robot.Unguarded())
	}
}

func TestRobot_ClosesDevicesInReverseOrder(t *testing.T) {
	b := newBench().open(t)
	fatal.If(t, b.robot.Close())
	if fmt.Sprint(b.log) != "[base close imu close]" {
		t.Errorf("%v", b.log)
	}
}

func TestRobot_SenseAndActDoNotAllocate(t *testing.T) {
	b := newBench()
	b.cfg.Odometry = Odometry{Left: "action.left_wheel", Right: "base.left_speed", Scale: 1, YawRate: "imu.gyro_z"}
	b.open(t)
	b.imu.log, b.base.log = nil, nil
	fatal.If(t, b.robot.Arm())
	action := []float32{0.1, 0.2}
	faults := make([]DeviceFaults, 0, 2)
	tick := func() {
		b.clock += 20e6
		_, _ = b.robot.Sense(b.obs)
		_ = b.robot.Act(action)
		faults = b.robot.Faults(faults[:0])
	}
	for name, breakIt := range map[string]func(){
		"whole":      func() {},
		"not finite": func() { b.imu.sample[0] = math.NaN() },
		"broken":     func() { b.imu.readErr, b.base.writeErr = hal.ErrBus, hal.ErrTimeout },
	} {
		breakIt()
		if n := testing.AllocsPerRun(100, tick); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestRobot_ActKeepsLimitsBeyondFloat32(t *testing.T) {
	b := newBench()
	b.cfg.Action[0].Max, b.cfg.Action[0].Disarmed = 0.1, 0
	b.open(t)
	fatal.If(t, b.robot.Arm())
	fatal.If(t, b.robot.Act([]float32{float32(0.1), 0})) // slightly more than 0.1
	if b.base.written[0] > 1550 {
		t.Errorf("%v", b.base.written[0])
	}
}

func TestRobot_SenseRefusesWrongLength(t *testing.T) {
	b := newBench().open(t)
	errtest.NotNil(t, errtest.Of(b.robot.Sense(make([]float32, 3))))
}

func TestRobot_ArmFailsWhenWatchdogHaltsMeanwhile(t *testing.T) {
	b := newBench().open(t)
	b.imu.onArm = func() { b.robot.HaltBeside() }
	errtest.Is(t, b.robot.Arm(), hal.ErrHalted, "arm")
	errtest.Is(t, b.robot.Act([]float32{0, 0}), hal.ErrHalted, "act")
	if last := b.log[len(b.log)-1]; last != "base halt" {
		t.Errorf("the last thing done is %q, want a halt", last)
	}
	if slices.Contains(b.log, "base arm") {
		t.Errorf("the next device enabled its outputs again: %q", b.log)
	}
}

func TestRobot_ActCommandsNoFurtherDeviceAfterTheWatchdogHalts(t *testing.T) {
	b := newBench().open(t)
	fatal.If(t, b.robot.Arm())
	b.base.onWrite = func() { b.robot.HaltBeside() }
	errtest.Is(t, b.robot.Act([]float32{0, 0}), hal.ErrHalted, "act")
}

func TestRobot_NamesTheDeviceOfTheCallInProgress(t *testing.T) {
	b := newBench().open(t)
	for name, d := range map[string]*fakeDevice{"imu": b.imu, "base": b.base} {
		d.onArm = func() {
			if got := b.robot.Calling(); got != name {
				t.Errorf("the call in progress is of %q, want %q", got, name)
			}
		}
	}
	fatal.If(t, b.robot.Arm())
}

// boundedDevice reports its longest times.
type boundedDevice struct {
	*fakeDevice
	bounds hal.Bounds
}

func (d boundedDevice) Bounds() hal.Bounds { return d.bounds }

func TestRobot_BoundsAddUpOverDevices(t *testing.T) {
	const ms = time.Millisecond
	b := newBench()
	all := hal.Bounds{Sense: 1 * ms, Act: 2 * ms, Arm: 10 * ms, Halt: 4 * ms}
	b.devices[0].Device = boundedDevice{b.imu, all}
	b.devices[1].Device = boundedDevice{b.base, all}
	b.open(t)
	// The IMU has no outputs, so that it is never written; it is halted nevertheless.
	want := hal.Bounds{Sense: 2 * ms, Act: 2 * ms, Arm: (10 + 4 + 10 + 2 + 4) * ms, Halt: 8 * ms}
	if got := b.robot.Bounds(); got != want {
		t.Errorf("found %+v, want %+v", got, want)
	}
	shares := b.robot.Shares()
	if len(shares) != 2 || shares[1].Name != "base" || shares[1].Act != 2*ms || shares[0].Act != 0 {
		t.Errorf("shares %+v", shares)
	}
}
