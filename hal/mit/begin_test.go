package mit_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/mit"
	"optibfm/hal/mit/mittest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// The motors of legs that follow positions.
const (
	hip   = 1
	ankle = 4
)

// disarmed are the outputs that hal/composite writes before Arm. The motors are elsewhere.
var disarmed = []float64{0.5, 0, 0, -0.5, 0, 0}

// held are the outputs of a Halt after which the motors that follow positions stay where they are.
var held = []float64{hal.Hold(), 0, 0, hal.Hold(), 0, 0}

// pose moves the motors by hand, and returns their positions.
func pose(motors *mittest.Motors, from *rand.Rand) map[int]float64 {
	places := map[int]float64{hip: 24*from.Float64() - 12, ankle: 24*from.Float64() - 12}
	for id, place := range places {
		motors.Put(id, mit.Answer{Position: place})
	}
	return places
}

// tick writes the disarmed outputs, and reads twice: the second Read sends commands itself.
func tick(t *testing.T, d *mit.Device) {
	t.Helper()
	err := d.Write(disarmed)
	for range 2 {
		_, readErr := d.Read(make([]float64, 12))
		err = errors.Join(err, readErr)
	}
	fatal.If(t, err)
}

// wantHeld checks that the goals are the pose with the gains, and that nothing pulled elsewhere
// before.
func wantHeld(t *testing.T, motors *mittest.Motors, places map[int]float64) {
	t.Helper()
	for id, place := range places {
		goal, on := motors.Goal(id)
		wanted := mit.Goal{Position: place, Kp: 100, Kd: 1}
		if id == ankle {
			wanted = mit.Goal{Position: place, Kp: 50, Kd: 0.5}
		}
		off := math.Abs(goal.Position-wanted.Position) + math.Abs(goal.Velocity) + math.Abs(goal.Torque) +
			math.Abs(goal.Kp-wanted.Kp) + math.Abs(goal.Kd-wanted.Kd)
		if !on || off > 0.12 || math.Abs(goal.Position-place) > 4e-4 || motors.Jumps(id) != 0 {
			t.Errorf("motor %d at %.3f: on %v, %+v, %d jumps", id, place, on, goal, motors.Jumps(id))
		}
	}
}

func TestDevice_ArmBeginsAtPresentPosition(t *testing.T) {
	for name, between := range map[string]func(*mittest.Motors){
		"moved by hand": func(*mittest.Motors) {},
		"power cycled": func(m *mittest.Motors) {
			for id := 1; id <= 4; id++ {
				m.Restart(id)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, c mit.Config) {
				motors := start(t, &c)
				d := open(t, c)
				from := rand.New(rand.NewPCG(7, 11))
				for range 10 {
					places := pose(motors, from)
					tick(t, d)
					fatal.If(t, d.Arm())
					wantHeld(t, motors, places)
					fatal.If(t, d.Relax())
					between(motors)
				}
			})
		})
	}
}

// A killed program leaves the motors in motor mode, with a goal from which their load keeps them.
func TestDevice_ArmBeginsAtPresentPositionAfterRestart(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		leaveMoving(t, c)
		before := motors.Jumps(hip)
		places := pose(motors, rand.New(rand.NewPCG(7, 11)))
		d := open(t, c)
		for id := 1; id <= 4; id++ {
			if goal, on := motors.Goal(id); on || goal.Kp != 0 || goal.Kd != 0 || math.Abs(goal.Torque) > 0.01 {
				t.Errorf("opened: motor %d: on %v, %+v", id, on, goal)
			}
		}
		tick(t, d)
		fatal.If(t, d.Arm())
		if motors.Jumps(hip) != before {
			t.Errorf("%d jumps", motors.Jumps(hip)-before)
		}
		goal, on := motors.Goal(hip)
		if !on || math.Abs(goal.Position-places[hip]) > 4e-4 {
			t.Errorf("at %v: %+v, on %v", places[hip], goal, on)
		}
	})
}

// After a stop without HaltExit the motors hold their failsafe goals: reset and Arm do not move
// them.
func TestDevice_ArmBeginsAtFailsafeThatHaltHolds(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		fatal.If(t, d.Arm(), d.Write(goals), d.Halt([]float64{1, 0, 0, 1, 0, 0}))
		before := motors.Jumps(hip)
		tick(t, d)
		if goal, on := motors.Goal(hip); !on || math.Abs(goal.Position-1) > 1e-3 || goal.Kp < 99 {
			t.Errorf("halted: %+v, on %v", goal, on)
		}
		fatal.If(t, d.Arm())
		if goal, _ := motors.Goal(hip); math.Abs(goal.Position-1) > 1e-3 || motors.Jumps(hip) != before {
			t.Errorf("armed: %+v, %d jumps", goal, motors.Jumps(hip)-before)
		}
	})
}

// A stop holds motors where they are, not at their goals, and later stops hold the same position.
func TestDevice_HaltHoldsMeasuredPosition(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		motors.Drive() // a load keeps them from their goals
		d := open(t, c)
		fatal.If(t, d.Halt(held)) // before the first Arm
		if goal, on := motors.Goal(hip); on || goal.Kp != 0 {
			t.Errorf("before Arm: %+v, on %v", goal, on)
		}
		fatal.If(t, d.Arm(), d.Write(goals))
		places := pose(motors, rand.New(rand.NewPCG(3, 5)))
		_, err := d.Read(make([]float64, 12))
		fatal.If(t, err, d.Write(goals))
		fatal.If(t, errtest.Of(d.Read(make([]float64, 12))))
		for range 2 {
			fatal.If(t, d.Halt(held))
			for id, place := range places {
				goal, on := motors.Goal(id)
				if !on || math.Abs(goal.Position-place) > 1e-3 || goal.Kp == 0 || math.Abs(goal.Torque) > 0.01 {
					t.Errorf("motor %d at %.4f: %+v, on %v", id, place, goal, on)
				}
			}
			pose(motors, rand.New(rand.NewPCG(4, 6)))
		}
		for i, v := range map[int]float64{0: math.Inf(1), 1: math.NaN(), 4: math.NaN()} {
			outputs := make([]float64, 6)
			outputs[i] = v
			errtest.NotNil(t, d.Halt(outputs), outputs, " was accepted")
		}
		errtest.NotNil(t, d.Write(held), "Write accepted hal.Hold")
	})
}

// Another device fails: the robot is halted without a Read since the latest Write.
func TestDevice_HaltHoldsMeasuredPositionWithoutRead(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		motors.Drive() // a load keeps them from their goals
		places := pose(motors, rand.New(rand.NewPCG(3, 5)))
		d := open(t, c)
		fatal.If(t, d.Arm(), d.Write(goals), d.Halt(held))
		for id, place := range places {
			if goal, on := motors.Goal(id); !on || math.Abs(goal.Position-place) > 1e-3 {
				t.Errorf("motor %d at %.4f: %+v, on %v", id, place, goal, on)
			}
		}
	})
}

func TestDevice_ArmBeginsAtVelocityAndTorqueOfWrite(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		fatal.If(t, d.Write([]float64{9, 2, 3, 9, -2, -3}), d.Arm())
		wanted := map[int]mit.Goal{
			2: {Velocity: 2, Kd: 2}, 3: {Torque: 3}, ankle: {Velocity: -2, Torque: -3, Kp: 50, Kd: 0.5},
		}
		for range 2 {
			for id, want := range wanted {
				goal, on := motors.Goal(id)
				off := math.Abs(goal.Position-want.Position) + math.Abs(goal.Velocity-want.Velocity) +
					math.Abs(goal.Torque-want.Torque) + math.Abs(goal.Kp-want.Kp) + math.Abs(goal.Kd-want.Kd)
				if !on || off > 0.12 {
					t.Errorf("motor %d: on %v, %+v, want %+v", id, on, goal, want)
				}
			}
			fatal.If(t, d.Relax(), d.Arm())
			wanted = map[int]mit.Goal{2: {Kd: 2}, 3: {}, ankle: {Kp: 50, Kd: 0.5}}
		}
	})
}

// staysOn reports whether a motor stays in motor mode. A failed Arm does not wait until the motors
// have executed its last commands.
func staysOn(motors *mittest.Motors, id int) bool {
	for range 1000 {
		if _, on := motors.Goal(id); !on {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

func TestDevice_ArmRefusesPositionAtEndOfRange(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		for _, place := range []float64{13, 12.5, -12.5} {
			motors := start(t, &c)
			d := open(t, c)
			motors.Put(ankle, mit.Answer{Position: place})
			err := d.Arm()
			for _, want := range []string{`"ankle" (ID 4)`, "12.500 rad is not", "-12.500 to 12.500 rad"} {
				errtest.Contains(t, err, want, "at ", place)
			}
			for id := 1; id <= 4; id++ {
				if on := staysOn(motors, id); on || motors.Jumps(id) != 0 {
					t.Errorf("at %v: motor %d: on %v, %d jumps", place, id, on, motors.Jumps(id))
				}
			}
		}
	})
}

func TestDevice_ArmRefusesWithoutAnswerToEnter(t *testing.T) {
	c := legs("")
	c.TimeoutMs = 50
	motors := start(t, &c)
	d := open(t, c)
	if _, err := d.Read(make([]float64, 12)); err != nil { // Arm must not use this older answer
		t.Fatal(err)
	}
	motors.Mute(ankle, -1)
	if err := d.Arm(); !errors.Is(err, hal.ErrTimeout) || !strings.Contains(err.Error(), "ankle") {
		t.Error(err)
	}
	for id := 1; id <= 4; id++ {
		if on := staysOn(motors, id); on || motors.Jumps(id) != 0 {
			t.Errorf("motor %d: on %v, %d jumps", id, on, motors.Jumps(id))
		}
	}
}

func TestDevice_RelaxLatchesUntilArm(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		motors := start(t, &c)
		d := open(t, c)
		fatal.If(t, d.Arm(), d.Relax())
		tick(t, d)
		for id := 1; id <= 4; id++ {
			if goal, on := motors.Goal(id); on || goal.Kp != 0 || motors.Jumps(id) != 0 {
				t.Errorf("motor %d: on %v, %+v, %d jumps", id, on, goal, motors.Jumps(id))
			}
		}
		motors.Mute(3, -1)
		if err := d.Relax(); !errors.Is(err, hal.ErrTimeout) || !strings.Contains(err.Error(), "knee") {
			t.Error(err)
		}
	})
}

func TestDevice_RelaxFailsForMotorThatReportsMotorMode(t *testing.T) {
	c := legs(mit.Damiao)
	motors := start(t, &c)
	d := open(t, c)
	fatal.If(t, d.Arm())
	motors.Stubborn(3)
	if err := d.Relax(); !errors.Is(err, hal.ErrDevice) || !strings.Contains(err.Error(), "knee") {
		t.Error(err)
	}
	if _, on := motors.Goal(hip); on {
		t.Error("the hip is in motor mode")
	}
}

func TestDevice_NamesWhatMeasuresItsOutputs(t *testing.T) {
	var names []string
	for _, s := range legs("").Outputs() {
		names = append(names, s.Measured)
	}
	if got := strings.Join(names, ","); got != "hip_position,,,ankle_position,," {
		t.Error(got)
	}
}

// The motors return with the interface, limp, at another pose.
func TestDevice_ArmBeginsAtPresentPositionAfterInterfaceReturns(t *testing.T) {
	inBoth(t, func(t *testing.T, c mit.Config) {
		if os.Getenv("OPTIBFM_VM") != "" {
			t.Skip("see TestDevice_ArmsAfterKernelInterfaceWasDown")
		}
		link := filepath.Join(t.TempDir(), "can")
		plug := func() *mittest.Motors {
			motors := start(t, &c)
			_ = os.Remove(link)
			fatal.If(t, os.Symlink(strings.TrimPrefix(motors.Address, "unix:"), link))
			return motors
		}
		motors := plug()
		c.Interface = "unix:" + link
		d := open(t, c)
		fatal.If(t, d.Arm())
		tick(t, d)
		fatal.If(t, motors.Close())
		if _, err := d.Read(make([]float64, 12)); !errors.Is(err, hal.ErrBus) {
			t.Fatal(err)
		}
		motors = plug()
		places := pose(motors, rand.New(rand.NewPCG(7, 11)))
		fatal.If(t, d.Arm())
		for id, place := range places {
			if goal, on := motors.Goal(id); !on || math.Abs(goal.Position-place) > 4e-4 || motors.Jumps(id) != 0 {
				t.Errorf("motor %d at %v: on %v, %+v, %d jumps", id, place, on, goal, motors.Jumps(id))
			}
		}
	})
}
