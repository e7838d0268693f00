package mit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/can"
	"optibfm/hal/can/cantest"
	"optibfm/hal/devicetest"
	"optibfm/hal/mit"
	"optibfm/hal/mit/mittest"
	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var (
	_ hal.Device       = (*mit.Device)(nil)
	_ hal.Relaxer      = (*mit.Device)(nil)
	_ hal.DeadmanTimer = (*mit.Device)(nil)
	_ hal.FaultCounter = (*mit.Device)(nil)
)

// legs returns a hip (position), a wheel (velocity), a knee (torque) and an ankle (impedance).
func legs(dialect string) mit.Config {
	c := mit.Config{Dialect: dialect, TimeoutMs: 500, Motors: []mit.Motor{
		{Name: "hip", ID: 1, Kp: 100, Kd: 1},
		{Name: "wheel", ID: 2, Mode: mit.Velocity, Kd: 2},
		{Name: "knee", ID: 3, Mode: mit.Torque},
		{Name: "ankle", ID: 4, Mode: mit.Impedance, Kp: 50, Kd: 0.5},
	}}
	for i := range c.Motors {
		m := &c.Motors[i]
		m.PMax, m.VMax, m.TMax = 12.5, 65, 18
		if dialect == mit.Damiao {
			m.ReplyID = 0x10 + m.ID
		}
	}
	return c
}

func start(t *testing.T, c *mit.Config) *mittest.Motors {
	t.Helper()
	motors, err := mittest.New(*c)
	fatal.If(t, err)
	t.Cleanup(func() { _ = motors.Close() })
	c.Interface = motors.Address
	return motors
}

func open(t *testing.T, c mit.Config) *mit.Device {
	t.Helper()
	d, err := mit.Open(t.Context(), c)
	fatal.If(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func inBoth(t *testing.T, test func(t *testing.T, c mit.Config)) {
	for _, dialect := range []string{mit.Original, mit.Damiao} {
		t.Run(dialect, func(t *testing.T) { test(t, legs(dialect)) })
	}
}

var goals = []float64{1, 2, 3, -1, -2, -3}

func TestDevice_NamesSignals(t *testing.T) {
	c := legs("")
	start(t, &c)
	d := open(t, c)
	var names []string
	for _, s := range append(d.Inputs()[:3:3], d.Outputs()...) {
		names = append(names, s.Name+" "+s.Unit)
	}
	want := "hip_position rad,hip_velocity rad/s,hip_torque N·m," +
		"hip_position_goal rad,wheel_velocity_goal rad/s,knee_torque_goal N·m," +
		"ankle_position_goal rad,ankle_velocity_goal rad/s,ankle_torque_goal N·m"
	if got := strings.Join(names, ","); got != want {
		t.Error(got)
	}
}

func TestDevice(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		devicetest.Run(t, func(t *testing.T, timeoutMs float64) devicetest.Rig {
			c := c
			c.TimeoutMs, c.HaltExit = timeoutMs, true
			motors := start(t, &c)
			return devicetest.Rig{
				Device: open(t, c), Goals: goals, Stop: make([]float64, len(goals)),
				Moves: func() bool {
					goal, on := motors.Goal(hip)
					return on && math.Abs(goal.Position-1) < 0.01
				},
				Again:  func() (hal.Device, error) { return mit.Open(t.Context(), c) },
				Unplug: func() { _ = motors.Close() },
				Faults: []devicetest.Fault{{
					Name: "dead motor", Break: func() { motors.Mute(2, -1) },
					Read: hal.ErrTimeout, Halt: hal.ErrTimeout, Arm: hal.ErrTimeout,
				}},
			}
		})
	})
}

func TestDevice_MovesMotorsOnlyWhileArmed(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		sample := make([]float64, 12)
		fatal.If(t, d.Write(make([]float64, 6)))
		fatal.If(t, errtest.Of(d.Read(sample)))
		fatal.If(t, d.Arm())
		fatal.If(t, d.Write(goals))
		before := monotonic.Now()
		at, err := d.Read(sample)
		if err != nil || at > before {
			t.Fatalf("%d, %v: not the time of the Write", at, err)
		}
		for i, want := range map[int]float64{0: 1, 4: 2, 8: 3, 9: -1, 10: -2, 11: -3} {
			if math.Abs(sample[i]-want) > 0.02 {
				t.Errorf("%s: %v, want %v", d.Inputs()[i].Name, sample[i], want)
			}
		}
		for id, want := range map[int]mit.Goal{
			1: {Position: 1, Kp: 100, Kd: 1}, 2: {Velocity: 2, Kd: 2}, 3: {Torque: 3}, 4: {-1, -2, -3, 50, 0.5},
		} {
			got, on := motors.Goal(id)
			off := math.Abs(got.Position-want.Position) + math.Abs(got.Velocity-want.Velocity) +
				math.Abs(got.Torque-want.Torque) + math.Abs(got.Kp-want.Kp) + math.Abs(got.Kd-want.Kd)
			if !on || off > 0.12 {
				t.Errorf("motor %d: %+v, on %v", id, got, on)
			}
		}
		if d.Faults() != (hal.Faults{}) {
			t.Errorf("%+v", d.Faults())
		}
	})
}

func TestDevice_SecondReadRepeatsCommands(t *testing.T) {
	c := legs("")
	motors := start(t, &c)
	d := open(t, c)
	sample := make([]float64, 12)
	for range 3 {
		n := motors.Frames(1)
		fatal.If(t, errtest.Of(d.Read(sample)))
		if motors.Frames(1) != n+1 {
			t.Error("no command")
		}
	}
}

func TestDevice_RepeatsCommandOnceForMissingAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault func(*mittest.Motors)
		want  hal.Faults
		err   error
	}{
		{"one lost", func(m *mittest.Motors) { m.Mute(2, 1) }, hal.Faults{Timeout: 1, Recovered: 1}, nil},
		{"one short", func(m *mittest.Motors) { m.Short(3, 1) }, hal.Faults{Short: 1, Recovered: 1}, nil},
		{"dead", func(m *mittest.Motors) { m.Mute(2, -1) }, hal.Faults{Timeout: 2}, hal.ErrTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := legs("")
			motors := start(t, &c)
			d := open(t, c)
			test.fault(motors)
			_, err := d.Read(make([]float64, 12))
			errtest.Is(t, err, test.err)
			if test.err != nil && !strings.Contains(err.Error(), "wheel") {
				t.Error(err)
			}
			if d.Faults() != test.want {
				t.Errorf("%+v, want %+v", d.Faults(), test.want)
			}
		})
	}
}

func TestDevice_ReportsMotorError(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		fatal.If(t, d.Arm())
		motors.Fail(3, 0xB)
		_, err := d.Read(make([]float64, 12))
		errtest.Is(t, err, hal.ErrDevice)
		errtest.Contains(t, err, "knee")
		errtest.Is(t, d.Arm(), hal.ErrDevice)
		if _, on := motors.Goal(1); on {
			t.Error("a motor was left on")
		}
	})
}

func TestDevice_ArmSetsDeadmanAndClearsPassedTimeout(t *testing.T) {
	c := legs(mit.Damiao)
	c.DeadmanMs = 1000 // a busy machine arms within that time
	motors := start(t, &c)
	d := open(t, c)
	if d.Deadman() != 0 {
		t.Error("a deadman before Arm")
	}
	fatal.If(t, d.Arm())
	if d.Deadman() != time.Second {
		t.Error(d.Deadman())
	}
	time.Sleep(1100 * time.Millisecond) // the fake uses the real clock
	if _, on := motors.Goal(2); on {
		t.Error("the motor did not stop")
	}
	errtest.Is(t, errtest.Of(d.Read(make([]float64, 12))), hal.ErrDevice)
	errtest.Nil(t, d.Halt(make([]float64, 6)))
	errtest.Nil(t, errtest.Of(d.Read(make([]float64, 12))), "the robot cannot be reset")
	fatal.If(t, d.Arm())
	errtest.Nil(t, errtest.Of(d.Read(make([]float64, 12))))
}

func TestDevice_HaltReachesMotorsBesideDeadOne(t *testing.T) {
	for _, exit := range []bool{false, true} {
		c := legs("")
		c.HaltExit = exit
		motors := start(t, &c)
		d := open(t, c)
		fatal.If(t, d.Arm())
		fatal.If(t, d.Write(goals))
		motors.Mute(1, -1)
		err := d.Halt(make([]float64, 6))
		errtest.Is(t, err, hal.ErrTimeout)
		errtest.Contains(t, err, "hip")
		for id := 1; id <= 4; id++ {
			goal, on := motors.Goal(id)
			if on == exit || math.Abs(goal.Torque) > 0.01 || math.Abs(goal.Velocity) > 0.02 {
				t.Errorf("exit %v: motor %d: %+v, on %v", exit, id, goal, on)
			}
		}
	}
}

func TestDevice_ReportsBusOffWithoutWaiting(t *testing.T) {
	c := legs("")
	motors := start(t, &c)
	d := open(t, c)
	motors.Mute(1, -1)
	motors.Bus.Report(unix.CAN_ERR_BUSOFF)
	errtest.Is(t, errtest.Of(d.Read(make([]float64, 12))), hal.ErrBus)
	for name, err := range map[string]error{
		"write": d.Write(goals), "halt": d.Halt(make([]float64, 6)), "arm": d.Arm(),
	} {
		errtest.Is(t, err, hal.ErrBus, name)
	}
}

func TestDevice_ReadEndsAtDeadlineOnFloodedBus(t *testing.T) {
	c := legs("")
	c.TimeoutMs = 20
	motors := start(t, &c)
	d := open(t, c)
	motors.Mute(1, -1)
	stop := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for {
			select {
			case <-stop:
				return
			default:
				motors.Bus.Send(can.Frame{ID: 0x55, Len: 8})
			}
		}
	}()
	for range 3 {
		errtest.Is(t, errtest.Of(d.Read(make([]float64, 12))), hal.ErrTimeout)
	}
	close(stop)
	_ = d.Close() // unblocks a sender that waits for room
	<-finished
}

func TestConfig_RefusesInvalidSettings(t *testing.T) {
	for name, how := range map[string]func(*mit.Config){
		"no interface":    func(c *mit.Config) { c.Interface = "" },
		"dialect":         func(c *mit.Config) { c.Dialect = "odrive" },
		"no motors":       func(c *mit.Config) { c.Motors = nil },
		"same name":       func(c *mit.Config) { c.Motors[1].Name = "hip" },
		"same answers":    func(c *mit.Config) { c.Motors[1].ID = 1 },
		"id":              func(c *mit.Config) { c.Motors[0].ID = 0 },
		"reply":           func(c *mit.Config) { c.Motors[0].ReplyID = 0x800 },
		"reply to motor":  func(c *mit.Config) { c.Motors[0].ReplyID = 2 },
		"mode":            func(c *mit.Config) { c.Motors[0].Mode = "servo" },
		"no range":        func(c *mit.Config) { c.Motors[0].TMax = 0 },
		"range":           func(c *mit.Config) { c.Motors[0].PMax = math.NaN() },
		"gain":            func(c *mit.Config) { c.Motors[0].Kp = 501 },
		"no gain":         func(c *mit.Config) { c.Motors[0].Kp = 0 },
		"no damping":      func(c *mit.Config) { c.Motors[1].Kd = 0 },
		"timeout":         func(c *mit.Config) { c.TimeoutMs = math.Inf(1) },
		"deadman unknown": func(c *mit.Config) { c.DeadmanMs = 100 },
		"deadman":         func(c *mit.Config) { c.Dialect, c.DeadmanMs = mit.Damiao, -1 },
	} {
		c := legs("")
		c.Interface = "can0"
		how(&c)
		errtest.NotNil(t, c.Validate(), name, ": accepted")
	}
}

func TestOpen_RefusesOtherRangesThanMotor(t *testing.T) {
	c := legs(mit.Damiao)
	start(t, &c)
	c.Motors[2].TMax = 28
	d, err := mit.Open(t.Context(), c)
	if err == nil {
		_ = d.Close()
		t.Fatal("accepted")
	}
	if !strings.Contains(err.Error(), "t_max") || !strings.Contains(err.Error(), "knee") {
		t.Error(err)
	}
}

// Each frame but one, the command before Exit, waits for its own answer for at most T. So their
// number limits the time of Arm.
func TestDevice_ArmMeetsBoundWhenFirstAnswersAreLost(t *testing.T) {
	c := legs(mit.Damiao)
	c.Motors, c.TimeoutMs, c.DeadmanMs = c.Motors[:1], 50, 6000
	motors := start(t, &c)
	d := open(t, c)
	motors.Fail(1, 0xD)                                   // its timeout has passed: Arm clears that first
	if _, err := d.Read(make([]float64, 3)); err != nil { // the answer has the status
		t.Fatal(err)
	}
	const lost, comes = true, false
	motors.Lose(1, lost, comes, lost, comes, lost, comes, lost, comes, lost, lost, lost)
	before := motors.Frames(1)
	if err := d.Arm(); err == nil {
		t.Fatal("armed without an answer to the goal")
	}
	if n, most := motors.Frames(1)-before-1, int(d.Bounds().Arm/d.Timeout()); n != most {
		t.Errorf("%d frames, the bound allows %d", n, most)
	}
}

func TestOpen_RefusesMissingMotor(t *testing.T) {
	c := legs("")
	motors := start(t, &c)
	motors.Mute(4, -1)
	_, err := mit.Open(t.Context(), c)
	errtest.Is(t, err, hal.ErrTimeout)
	errtest.Contains(t, err, "ankle")
}

// leaveMoving leaves motors as a killed program does while they move.
func leaveMoving(t *testing.T, c mit.Config) {
	t.Helper()
	d := open(t, c)
	fatal.If(t, d.Arm())
	fatal.If(t, d.Write([]float64{1, 2, 3, 1, 2, 3}))
	fatal.If(t, errtest.Of(d.Read(make([]float64, 12))))
	fatal.If(t, d.Close())
}

// checkHalted checks a motor that holds 0, or that has left motor mode.
func checkHalted(motors *mittest.Motors, id int, exit bool) error {
	goal, on := motors.Goal(id)
	moves := math.Abs(goal.Position) > 0.01 || math.Abs(goal.Velocity) > 0.02 || math.Abs(goal.Torque) > 0.01
	if on == exit || on && moves {
		return fmt.Errorf("motor %d: on %v, %+v", id, on, goal)
	}
	return nil
}

func TestHaltAll_CommandsFailsafeAndExitsIfConfigured(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		for _, exit := range []bool{false, true} {
			c.HaltExit = exit
			motors := start(t, &c)
			leaveMoving(t, c)
			notes, err := mit.HaltAll(c, make([]float64, 6))
			if err != nil || (len(notes) == 0) != (c.Dialect == mit.Damiao && !exit) {
				t.Errorf("exit %v: %q, %v", exit, notes, err)
			} else if exit && !strings.Contains(notes[0], "hip: it has left motor mode: it is limp") {
				t.Errorf("%q", notes)
			}
			for id := 1; id <= 4; id++ {
				errtest.Nil(t, checkHalted(motors, id, exit), "exit ", exit)
			}
		}
		errtest.NotNil(t, errtest.Of(mit.HaltAll(c, nil)), "no goals for four motors")
	})
}

func TestHaltAll_HaltsMotorsBesideBroken(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		c.TimeoutMs = 500 // a busy machine answers within that time
		motors := start(t, &c)
		leaveMoving(t, c)
		motors.Mute(1, -1) // it still receives commands
		if c.Dialect == mit.Damiao {
			c.Motors[2].TMax = 28 // a torque has another meaning
		}
		_, err := mit.HaltAll(c, make([]float64, 6))
		if !errors.Is(err, hal.ErrTimeout) || !strings.Contains(err.Error(), "hip") ||
			strings.Contains(err.Error(), "wheel") {
			t.Error(err)
		}
		if c.Dialect == mit.Damiao && !strings.Contains(err.Error(), "t_max is 28") {
			t.Error(err)
		}
		for id := 1; id <= 4; id++ {
			errtest.Nil(t, checkHalted(motors, id, id == 3 && c.Dialect == mit.Damiao))
		}
	})
}

func TestHaltAll_LeavesHeldMotors(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		leaveMoving(t, c)
		before, _ := motors.Goal(hip)
		notes, err := mit.HaltAll(c, held)
		if err != nil || len(notes) < 2 || !strings.HasPrefix(notes[0], "hip: it keeps its last command") {
			t.Errorf("%q, %v", notes, err)
		}
		if goal, on := motors.Goal(hip); goal != before || !on {
			t.Errorf("hip: %+v, on %v; before %+v", goal, on, before)
		}
		errtest.Nil(t, checkHalted(motors, 2, false))
		c.HaltExit = true
		errtest.Nil(t, errtest.Of(mit.HaltAll(c, held)))
		if _, on := motors.Goal(hip); on {
			t.Error("halt_exit left a motor in motor mode")
		}
	})
}

func TestHaltAll_NotesMotorsOutsideMotorMode(t *testing.T) {
	c := legs(mit.Damiao)
	motors := start(t, &c)
	leaveMoving(t, c)
	motors.Fail(2, 0xD) // its own timeout has passed
	notes, err := mit.HaltAll(c, make([]float64, 6))
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "wheel: it was not in motor mode (status 0xd)") {
		t.Errorf("%q, %v", notes, err)
	}
}

// Arm, turn, read and halt a wheel. The CAN bus is a fake.
func Example() {
	config := mit.Config{Motors: []mit.Motor{
		{Name: "wheel", ID: 1, Mode: mit.Velocity, Kd: 1, PMax: 12.5, VMax: 65, TMax: 18},
	}, TimeoutMs: 300, HaltExit: true}
	motors, err := mittest.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer motors.Close()
	config.Interface = motors.Address // on a robot: "can0"

	wheel, err := mit.Open(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	defer wheel.Close()
	if err := wheel.Arm(); err != nil {
		log.Fatal(err)
	}
	if err := wheel.Write([]float64{10}); err != nil {
		log.Fatal(err)
	}
	sample := make([]float64, len(wheel.Inputs()))
	if _, err := wheel.Read(sample); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.1f %s\n", wheel.Inputs()[1].Name, sample[1], wheel.Inputs()[1].Unit)
	if err := wheel.Halt([]float64{0}); err != nil {
		log.Fatal(err)
	}
	// Output: wheel_velocity 10.0 rad/s
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	for _, answered := range []int{0, 1} { // no answer to Exit; an answer to Exit, but none about a register
		ctx, cancel := context.WithCancel(t.Context())
		frames := 0
		bus, err := cantest.New(func(b *cantest.Bus, f can.Frame) {
			if frames++; frames <= answered {
				b.Send(can.Frame{ID: 0x11, Len: 8, Data: [8]byte{1}})
				return
			}
			cancel()
		})
		fatal.If(t, err)
		defer bus.Close()
		c := legs(mit.Damiao)
		c.Interface, c.TimeoutMs = bus.Address, 1000
		errtest.Is(t, errtest.Of(mit.Open(ctx, c)), context.Canceled, answered, " answers")
	}
}
