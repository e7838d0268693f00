package servobustest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/devicetest"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Rig is a driver and a fake chain of three servos: "shoulder" (ID 1) and "elbow" (ID 2) in
// position mode with limits of 0 to 4095 steps, and "wheel" (ID 3) in velocity mode. All are
// stopped, without torque, at the middle, step 2048.
type Rig interface {
	// Of the chain. See [Chain].
	Mute(id byte, n int)
	Garble(id byte, n int)
	Cut(id byte, n int)
	Delay(n int)
	Miss(id byte, n int)
	Refuse(id byte)
	Echo()
	Heard() int
	Port() string
	Close() error

	// Registers of the servos. A goal is in steps, or in the servo's unit of velocity.
	Torque(id byte) bool
	SetTorque(id byte, on bool)
	Goal(id byte) int
	SetGoal(id byte, goal int)
	SetPosition(id byte, steps int)
	SetLimits(id byte, low, high int)
	PowerCycle(id byte)
	Travel(id byte) int
	SetFault(id byte, on bool) // a hardware fault that the servo reports
	SetMode(id byte)           // a mode that is not configured
	SetModel(id byte)          // an unknown model number
	SetReturnDelay(id byte)    // about 0.5 ms

	// The driver.
	Open(ctx context.Context, s Settings) (hal.Device, error)
	HaltAll(s Settings, failsafe []float64) (notes []string, err error)
}

// Settings are the configuration keys that the suite varies. A port without a path is the chain's.
type Settings struct {
	Port          serial.Config
	TimeoutMs     float64
	HaltTorqueOff bool
}

// TimeoutMs is a timeout that also a busy computer meets. Tests of silent servos wait for it.
const TimeoutMs = 500

const (
	middle  = 2048
	servos  = 3
	samples = 3 * servos
)

// Run runs the behaviours that every driver of serial-bus servos has. start begins with new servos.
func Run(t *testing.T, start func(t *testing.T) Rig) {
	t.Run("Device", func(t *testing.T) {
		devicetest.Run(t, func(t *testing.T, timeoutMs float64) devicetest.Rig { return device(t, start(t), timeoutMs) })
	})
	for name, test := range map[string]func(*testing.T, func(*testing.T) Rig){
		"Outputs_NameWhatMeasuresThem":     measured,
		"Arm_BeginsAtPresentPosition":      armAtPoses,
		"Arm_BeginsThereAfterRestart":      armAfterRestart,
		"Arm_BeginsThereAfterReplug":       armAfterReplug,
		"Arm_BeginsThereAfterHalt":         armAfterHalt,
		"Arm_BeginsAtVelocityOfWrite":      armAtVelocity,
		"Arm_RefusesPositionOutsideLimits": armOutside,
		"Arm_LeavesTorqueOffOnFailure":     armFails,
		"Relax_SwitchesTorqueOffUntilArm":  relaxes,
		"Relax_ReportsServoWithTorque":     relaxFails,
		"Write_LimitsGoals":                writeLimits,
		"Read_RepeatsDamagedAnswersOnce":   readRepeats,
		"Read_ReportsServoFault":           readFault,
		"Read_IgnoresLateAnswers":          readLate,
		"Relax_IgnoresLateAnswers":         relaxLate,
		"Open_IgnoresLateAnswers":          openLate,
		"Halt_ReachesServosBesideDeadOne":  haltWithDeadServo,
		"Halt_RepeatsMissedCommand":        haltRepeats,
		"Halt_HoldsPresentPosition":        haltHolds,
		"Halt_HoldsAfterRestart":           haltHoldsAfterRestart,
		"Halt_HoldsServosBesideDeadOne":    haltHoldsBesideDead,
		"Halt_CannotHoldVelocity":          haltHoldsNoWheel,
		"Halt_ReachesChainThatReturns":     haltAfterReplug,
		"Write_MovesNothingBeforeArm":      writeBeforeArm,
		"Echo_IsReadBack":                  echo,
		"Open_RefusesWrongSetup":           openRefuses,
		"Open_EndsWithContext":             openEnds,
		"HaltAll_HaltsServosBesideBroken":  haltAllBroken,
		"HaltAll_LeavesTorqueOffAndNotes":  haltAllInactive,
		"HaltAll_LeavesHeldGoals":          haltAllHeld,
		"HaltAll_RefusesWrongNumberOfGoal": haltAllGoals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start)
		})
	}
}

func device(t *testing.T, r Rig, timeoutMs float64) devicetest.Rig {
	s := Settings{TimeoutMs: max(timeoutMs, 50)} // for Open
	return devicetest.Rig{
		Device: open(t, r, s), Goals: []float64{0.1, 0.2, 1}, Stop: make([]float64, servos),
		Moves:  func() bool { return r.Torque(1) && r.Goal(1) != middle },
		Again:  func() (hal.Device, error) { return r.Open(t.Context(), s) },
		Unplug: func() { _ = r.Close() },
		Faults: []devicetest.Fault{{
			Name: "dead servo", Break: func() { r.Miss(2, -1) },
			Read: hal.ErrTimeout, Halt: hal.ErrTimeout, Arm: hal.ErrTimeout,
		}},
	}
}

func open(t *testing.T, r Rig, s Settings) hal.Device {
	t.Helper()
	s.TimeoutMs = cmp.Or(s.TimeoutMs, TimeoutMs)
	d, err := r.Open(t.Context(), s)
	fatal.If(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func openArmed(t *testing.T, r Rig, s Settings, goals ...float64) hal.Device {
	t.Helper()
	d := open(t, r, s)
	fatal.If(t, d.Arm())
	if goals != nil {
		write(t, d, goals...)
	}
	return d
}

// write writes goals and waits until the servos have executed them: they execute in order.
func write(t *testing.T, d hal.Device, goals ...float64) {
	t.Helper()
	fatal.If(t, d.Write(goals))
	fatal.If(t, errtest.Of(d.Read(make([]float64, samples))))
}

func faults(d hal.Device) hal.Faults { return d.(hal.FaultCounter).Faults() }

func armFails(t *testing.T, start func(*testing.T) Rig) {
	for name, fail := range map[string]func(Rig){
		"refuses": func(r Rig) { r.Refuse(2) },
		"dead":    func(r Rig) { r.Miss(2, -1) },
		"mute":    func(r Rig) { r.Mute(2, -1) },
		"garbled": func(r Rig) { r.Garble(2, 1<<30) },
		"fault":   func(r Rig) { r.SetFault(2, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			d := open(t, r, Settings{})
			_, _ = d.Read(make([]float64, samples)) // Arm must not use this older sample
			fail(r)
			if d.Arm() == nil {
				t.Fatal("armed")
			}
			_, _ = d.Read(make([]float64, samples)) // the servos have executed all commands
			for _, id := range []byte{1, 3} {
				if r.Torque(id) {
					t.Errorf("servo %d has torque", id)
				}
			}
			if g, ok := d.(hal.DeadmanTimer); ok && g.Deadman() != 0 {
				t.Errorf("deadman %v", g.Deadman())
			}
		})
	}
}

func writeLimits(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	openArmed(t, r, Settings{}, 99, -99, 0)
	if a, b := r.Goal(1), r.Goal(2); a != 4095 || b != 0 {
		t.Errorf("goals %d, %d", a, b)
	}
}

func readRepeats(t *testing.T, start func(*testing.T) Rig) {
	for _, c := range []struct {
		name  string
		fault func(Rig)
		want  hal.Faults
		err   error
	}{
		{"checksum", func(r Rig) { r.Garble(2, 1) }, hal.Faults{Checksum: 1, Recovered: 1}, nil},
		{"short", func(r Rig) { r.Cut(3, 1) }, hal.Faults{Short: 1, Recovered: 1}, nil},
		{"last servo silent", func(r Rig) { r.Mute(3, 1) }, hal.Faults{Timeout: 1, Recovered: 1}, nil},
		{"first servo silent", func(r Rig) { r.Mute(1, 1) }, hal.Faults{Timeout: 3, Recovered: 3}, nil},
		// All three are silent behind the dead one. Asked last, it does not hide the others.
		{"first servo dead", func(r Rig) { r.Miss(1, -1) }, hal.Faults{Timeout: 4, Recovered: 2}, hal.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			d := open(t, r, Settings{})
			heard := r.Heard()
			c.fault(r)
			before := monotonic.Now()
			at, err := d.Read(make([]float64, samples))
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), "shoulder") {
				t.Error(err)
			}
			if err == nil && (at < before || at > monotonic.Now()) {
				t.Errorf("sample time %d", at)
			}
			if faults(d) != c.want {
				t.Errorf("%+v, want %+v", faults(d), c.want)
			}
			if n := r.Heard() - heard; n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func readFault(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := open(t, r, Settings{})
	r.SetFault(3, true)
	_, err := d.Read(make([]float64, samples))
	if !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "wheel") || faults(d).Device != 1 {
		t.Errorf("%v, %+v", err, faults(d))
	}
}

func haltWithDeadServo(t *testing.T, start func(*testing.T) Rig) {
	for _, torqueOff := range []bool{false, true} {
		r := start(t)
		d := openArmed(t, r, Settings{HaltTorqueOff: torqueOff}, 1, 1, 1)
		r.Miss(1, -1)
		errtest.Is(t, d.Halt(make([]float64, servos)), hal.ErrTimeout)
		for _, id := range []byte{2, 3} {
			if r.Torque(id) == torqueOff {
				t.Errorf("torque off %v: servo %d has torque %v", torqueOff, id, r.Torque(id))
			}
		}
		if position, velocity := r.Goal(2), r.Goal(3); position != middle || velocity != 0 {
			t.Errorf("torque off %v: goals %d, %d", torqueOff, position, velocity)
		}
	}
}

func haltRepeats(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := openArmed(t, r, Settings{}, 1, 1, 1)
	r.Miss(3, 1)
	fatal.If(t, d.Halt(make([]float64, servos)))
	if velocity := r.Goal(3); velocity != 0 || faults(d).Recovered != 1 {
		t.Errorf("velocity %d, %+v", velocity, faults(d))
	}
}

// haltAfterReplug halts a chain whose adapter was unplugged and is back under the same name.
func haltAfterReplug(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	port := serialtest.Link(t, r.Port())
	d := openArmed(t, r, Settings{Port: serial.Config{Path: port.Path}})
	fatal.If(t, r.Close())
	if err := d.Halt(make([]float64, servos)); !errors.Is(err, hal.ErrBus) {
		t.Fatalf("halt of an unplugged chain: %v", err)
	}
	again := startMoving(t, start)
	port.Point(t, again.Port())
	serialtest.HaltAgain(t, d, make([]float64, servos))
	if position, velocity := again.Goal(2), again.Goal(3); position != middle || velocity != 0 {
		t.Errorf("goals %d, %d", position, velocity)
	}
	errtest.Nil(t, d.Arm(), "arm")
}

func writeBeforeArm(t *testing.T, start func(*testing.T) Rig) {
	r := startMoving(t, start)
	d := open(t, r, Settings{})
	write(t, d, 0, 0, 0)
	if a, b := r.Goal(1), r.Goal(3); a != 100 || b != 100 {
		t.Errorf("goals %d, %d", a, b)
	}
}

func echo(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	r.Echo()
	d := openArmed(t, r, Settings{Port: serial.Config{Echo: true}}, 0, 0, 0)
	if faults(d) != (hal.Faults{}) {
		t.Errorf("%+v", faults(d))
	}
}

func openRefuses(t *testing.T, start func(*testing.T) Rig) {
	for name, c := range map[string]struct {
		want    string
		prepare func(Rig, *Settings)
	}{
		"absent":        {"ping", func(r Rig, _ *Settings) { r.Miss(2, -1) }},
		"mode":          {"mode", func(r Rig, _ *Settings) { r.SetMode(1) }},
		"unknown model": {"model number", func(r Rig, _ *Settings) { r.SetModel(1) }},
		"slow answers":  {"return delay", func(r Rig, s *Settings) { r.SetReturnDelay(1); s.TimeoutMs = 2 }},
		"timeout":       {"timeout_ms", func(_ Rig, s *Settings) { s.TimeoutMs = -1 }},
		"no such port":  {"/nonexistent", func(_ Rig, s *Settings) { s.Port.Path = "/nonexistent" }},
	} {
		r, s := start(t), Settings{TimeoutMs: TimeoutMs}
		c.prepare(r, &s)
		d, err := r.Open(t.Context(), s)
		if err == nil {
			_ = d.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: no %q", name, err, c.want)
		}
	}
}

func openEnds(t *testing.T, start func(*testing.T) Rig) {
	line, err := serialtest.Open()
	fatal.If(t, err)
	defer line.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = line.Read(make([]byte, 1)) // the first request, which stays without an answer
		cancel()
	}()
	s := Settings{Port: serial.Config{Path: line.Path}, TimeoutMs: 1000}
	errtest.Is(t, errtest.Of(start(t).Open(ctx, s)), context.Canceled)
}

// startMoving returns servos as a killed program leaves them while they move.
func startMoving(t *testing.T, start func(*testing.T) Rig) Rig {
	r := start(t)
	for id := byte(1); id <= servos; id++ {
		r.SetTorque(id, true)
		r.SetGoal(id, 100)
	}
	return r
}

func haltAllBroken(t *testing.T, start func(*testing.T) Rig) {
	for name, fail := range map[string]func(Rig){
		"dead":          func(r Rig) { r.Miss(2, -1) },
		"mute":          func(r Rig) { r.Mute(2, -1) },
		"garbled":       func(r Rig) { r.Garble(2, 1<<30) },
		"wrong mode":    func(r Rig) { r.SetMode(2) },
		"unknown model": func(r Rig) { r.SetModel(2) },
	} {
		for _, torqueOff := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := startMoving(t, start)
				fail(r)
				s := Settings{TimeoutMs: TimeoutMs, HaltTorqueOff: torqueOff}
				if d, err := r.Open(t.Context(), s); err == nil {
					_ = d.Close()
					t.Error("the chain is not broken: it can be opened")
				}
				_, err := r.HaltAll(s, make([]float64, servos))
				if err == nil || !strings.Contains(err.Error(), `"elbow"`) ||
					strings.Contains(err.Error(), `"shoulder"`) || strings.Contains(err.Error(), `"wheel"`) {
					t.Error(err)
				}
				for id, failsafe := range map[byte]int{1: middle, 2: middle, 3: 0} {
					goal, torque := r.Goal(id), r.Torque(id)
					broken, deaf := id == 2, id == 2 && name == "dead"
					if !deaf && torque && (goal != failsafe || torqueOff) || !broken && torque == torqueOff {
						t.Errorf("torque off %v: servo %d: goal %d, torque %v", torqueOff, id, goal, torque)
					}
				}
			})
		}
	}
}

func haltAllInactive(t *testing.T, start func(*testing.T) Rig) {
	r := startMoving(t, start)
	r.SetTorque(2, false)
	notes, err := r.HaltAll(Settings{TimeoutMs: TimeoutMs}, make([]float64, servos))
	if err != nil || !slices.Equal(notes, []string{"elbow: it has no torque: it is limp"}) {
		t.Errorf("%q, %v", notes, err)
	}
	if r.Torque(2) || r.Goal(1) != middle || r.Goal(3) != 0 {
		t.Errorf("elbow has torque %v, goals %d, %d", r.Torque(2), r.Goal(1), r.Goal(3))
	}
}

func haltAllHeld(t *testing.T, start func(*testing.T) Rig) {
	r := startMoving(t, start)
	r.Miss(2, -1)
	notes, err := r.HaltAll(Settings{TimeoutMs: TimeoutMs}, held)
	if !errors.Is(err, hal.ErrTimeout) || len(notes) != 0 {
		t.Errorf("%q, %v", notes, err)
	}
	all := []float64{hal.Hold(), hal.Hold(), hal.Hold()}
	if _, err := r.HaltAll(Settings{TimeoutMs: TimeoutMs}, all); err == nil || r.Torque(3) {
		t.Errorf("%v: the wheel cannot hold, but has torque %v", err, r.Torque(3))
	}
	if a, b, wheel := r.Goal(1), r.Goal(2), r.Goal(3); a != 100 || b != 100 || wheel != 0 || !r.Torque(2) {
		t.Errorf("goals %d, %d, %d, torque %v", a, b, wheel, r.Torque(2))
	}
}

func haltAllGoals(t *testing.T, start func(*testing.T) Rig) {
	if _, err := start(t).HaltAll(Settings{}, []float64{0}); err == nil {
		t.Error("one goal for three servos was accepted")
	}
}
