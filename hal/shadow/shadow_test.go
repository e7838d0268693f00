package shadow_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/hal/shadow"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestShadow_BlocksArmAndAct(t *testing.T) {
	body := haltest.New(haltest.Spec(3, 2))
	fatal.If(t, body.Halt())
	r := shadow.Wrap(body)
	errtest.Is(t, r.Act([]float32{1, 1}), hal.ErrHalted, "before Arm, Act returns")
	fatal.If(t, r.Arm())
	for range 10 {
		fatal.If(t, r.Act([]float32{1, -1}))
	}
	if body.Arms != 0 || body.Acts != 0 || body.Refused != 0 || !body.Halted {
		t.Errorf("the robot was reached: %d arms, %d acts, %d refused, halted %t",
			body.Arms, body.Acts, body.Refused, body.Halted)
	}
}

func TestShadow_PassesSenseAndHalt(t *testing.T) {
	body := haltest.New(haltest.Spec(1, 1))
	body.Observe = func(_ int, obs []float32) error {
		obs[0] = 7
		return nil
	}
	r := shadow.Wrap(body)
	obs := make([]float32, 1)
	if at, err := r.Sense(obs); err != nil || at == 0 || obs[0] != 7 {
		t.Errorf("Sense: %v at %d, %v", obs, at, err)
	}
	halts := body.Halts
	if err := errors.Join(r.Arm(), r.Halt()); err != nil || body.Halts != halts+1 {
		t.Errorf("Halt: %v, %d halts", err, body.Halts-halts)
	}
	errtest.Is(t, r.Act([]float32{0}), hal.ErrHalted, "after Halt, Act returns")
	body.HaltErr = errors.New("broken")
	errtest.Is(t, r.Halt(), body.HaltErr, "Halt")
}

// body is a robot with all optional interfaces.
type body struct {
	*haltest.Robot
	beside, closed bool
}

func (b *body) HaltBeside()             { b.beside = true }
func (b *body) Reward() (float64, bool) { return 0.5, true }
func (b *body) Close() error            { b.closed = true; return nil }
func (b *body) Warning() error          { return io.ErrShortWrite }
func (b *body) Reset(uint64) error      { panic("a shadow resets nothing") }
func (b *body) StopPressed() bool       { return true }
func (b *body) ArmRequested() bool      { return true }
func (b *body) View() string            { return "unix:view" }

func (b *body) Presses(dst []hal.Press) int { return copy(dst, []hal.Press{{At: 1, Button: 'A'}}) }

func (b *body) Bounds() hal.Bounds { return hal.Bounds{Sense: 1, Act: 2, Arm: 3, Halt: 4} }

func TestShadow_PassesOnEveryOptionalInterface(t *testing.T) {
	without := []string{
		"FaultCounter", "FailsafeHolder", "Relaxer", // of devices
		"Disarmer", "DeadmanTimer", "Limper", // it commands no actuators
		"Resetter", "SlowResetter", // it would move a simulator
	}
	slices.Sort(without)
	if missing := haltest.Missing(&shadow.Robot{}); !slices.Equal(missing, without) {
		t.Errorf("lacks %v, want %v", missing, without)
	}
}

func TestShadow_PassesOptionalInterfaces(t *testing.T) {
	rich := &body{Robot: haltest.New(haltest.Spec(1, 1))}
	r := shadow.Wrap(rich)
	r.HaltBeside()
	if reward, ok := r.Reward(); !rich.beside || reward != 0.5 || !ok {
		t.Errorf("beside %t, reward %g %t", rich.beside, reward, ok)
	}
	var presses [2]hal.Press
	if !r.StopPressed() || !r.ArmRequested() || r.Presses(presses[:]) != 1 || presses[0].Button != 'A' {
		t.Errorf("a button is lost: %v", presses)
	}
	if b := r.Bounds(); r.View() != "unix:view" || b != (hal.Bounds{Sense: 1, Halt: 4}) {
		t.Errorf("the view is %q, the bounds %+v", r.View(), b)
	}
	if err := r.Warning(); err != io.ErrShortWrite {
		t.Errorf("the warning %v", err)
	}
	if err := r.Close(); err != nil || !rich.closed {
		t.Errorf("close: %v, %t", err, rich.closed)
	}
	if _, ok := hal.Robot(r).(hal.Resetter); ok {
		t.Error("a shadow is a Resetter")
	}
	plain := shadow.Wrap(haltest.New(haltest.Spec(1, 1)))
	plain.HaltBeside()
	if _, ok := plain.Reward(); ok {
		t.Error("a shadow of a robot without reward returns one")
	}
	if plain.StopPressed() || plain.ArmRequested() || plain.Presses(presses[:]) != 0 {
		t.Error("a shadow of a robot without buttons has some")
	}
	errtest.Nil(t, errors.Join(plain.Warning(), plain.Close()))
}

func TestShadow_TickAllocatesNothing(t *testing.T) {
	r := shadow.Wrap(haltest.New(haltest.Spec(4, 2)))
	fatal.If(t, r.Arm())
	obs, action := make([]float32, 4), make([]float32, 2)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = r.Sense(obs)
		_ = r.Act(action)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func Example() {
	body := haltest.New(haltest.Spec(2, 1))
	robot := shadow.Wrap(body)
	fmt.Println(robot.Arm(), robot.Act([]float32{1}), body.Acts)
	// Output: <nil> <nil> 0
}

func TestShadow_ReportsEmergencyStop(t *testing.T) {
	body := haltest.NewStoppable(haltest.Spec(1, 1))
	r := shadow.Wrap(body)
	for _, pressed := range []bool{true, false} {
		body.Pressed = pressed
		fatal.If(t, errtest.Of(r.Sense(make([]float32, 1))))
		if r.StopPressed() != pressed {
			t.Errorf("pressed %v: the shadow returns %v", pressed, r.StopPressed())
		}
	}
	if shadow.Wrap(haltest.New(haltest.Spec(1, 1))).StopPressed() {
		t.Error("a robot without the input has it pressed")
	}
}
