package servobustest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// disarmed are the outputs that hal/composite writes before Arm, not the servos' poses.
var disarmed = []float64{0.4, -0.4, 0}

// random is a source of poses within the servos' limits.
func random() *rand.Rand { return rand.New(rand.NewPCG(7, 11)) }

// pose moves the servos in position mode by hand, and returns their positions.
func pose(r Rig, from *rand.Rand) [2]int {
	places := [2]int{from.IntN(4096), from.IntN(4096)}
	r.SetPosition(1, places[0])
	r.SetPosition(2, places[1])
	return places
}

// wantHeld checks that the servos have torque and these goals, and did not move.
func wantHeld(t *testing.T, r Rig, when string, places [2]int) {
	t.Helper()
	for i, place := range places {
		id := byte(i + 1)
		if goal, travel := r.Goal(id), r.Travel(id); goal != place || travel != 0 || !r.Torque(id) {
			t.Errorf("%s: servo %d at %d: goal %d, moved by %d, torque %v", when, id, place, goal, travel, r.Torque(id))
		}
	}
}

// wantLimp checks that all servos are limp and unmoved.
func wantLimp(t *testing.T, r Rig, when string) {
	t.Helper()
	for id := byte(1); id <= servos; id++ {
		if r.Torque(id) || r.Travel(id) != 0 {
			t.Errorf("%s: servo %d has torque %v, moved by %d", when, id, r.Torque(id), r.Travel(id))
		}
	}
}

func relax(d hal.Device) error { return d.(hal.Relaxer).Relax() }

// armAtPoses arms a limp robot ten times, each time moved by hand; one case also cuts its power.
func armAtPoses(t *testing.T, start func(*testing.T) Rig) {
	for name, between := range map[string]func(Rig){
		"moved by hand": func(Rig) {},
		"power cycled": func(r Rig) {
			for id := byte(1); id <= servos; id++ {
				r.PowerCycle(id)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, from := start(t), random()
			d := open(t, r, Settings{})
			for range 10 {
				write(t, d, disarmed...)
				wantLimp(t, r, "disarmed")
				places := pose(r, from)
				fatal.If(t, d.Arm())
				wantHeld(t, r, "armed", places)
				fatal.If(t, relax(d))
				between(r)
			}
		})
	}
}

// armAfterRestart arms servos that a killed program left with torque, at a pose that differs from
// their goals.
func armAfterRestart(t *testing.T, start func(*testing.T) Rig) {
	from := random()
	for range 10 {
		r := startMoving(t, start)
		places := pose(r, from) // their load keeps them from their goals
		d := open(t, r, Settings{})
		write(t, d, disarmed...)
		if a, b := r.Goal(1), r.Goal(3); a != 100 || b != 100 {
			t.Errorf("before Arm: goals %d, %d", a, b)
		}
		fatal.If(t, d.Arm())
		wantHeld(t, r, "armed", places)
		if r.Goal(3) != 0 {
			t.Errorf("the wheel turns with %d", r.Goal(3))
		}
	}
}

// armAfterReplug replaces the chain by a limp one at another pose, and arms it.
func armAfterReplug(t *testing.T, start func(*testing.T) Rig) {
	r, from := start(t), random()
	port := serialtest.Link(t, r.Port())
	d := openArmed(t, r, Settings{Port: serial.Config{Path: port.Path}}, 0, 0, 0)
	fatal.If(t, r.Close())
	if _, err := d.Read(make([]float64, samples)); !errors.Is(err, hal.ErrBus) {
		t.Fatal(err)
	}
	again := start(t)
	places := pose(again, from)
	port.Point(t, again.Port())
	fatal.If(t, d.Arm())
	wantHeld(t, again, "armed", places)
}

// armAfterHalt follows a stop: Halt, the reset, which writes the disarmed outputs, and Arm.
func armAfterHalt(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := openArmed(t, r, Settings{}, 0.5, 0.5, 1)
	fatal.If(t, d.Halt([]float64{0.25, 0.25, 0}))
	failsafe, travel := r.Goal(1), r.Travel(1)
	write(t, d, disarmed...)
	fatal.If(t, d.Arm())
	if r.Goal(1) != failsafe || r.Goal(2) != failsafe || r.Travel(1) != travel || !r.Torque(1) {
		t.Errorf("goals %d, %d, not %d; moved by %d", r.Goal(1), r.Goal(2), failsafe, r.Travel(1)-travel)
	}
}

// armAtVelocity checks that a velocity output begins at the latest Write.
func armAtVelocity(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := open(t, r, Settings{})
	write(t, d, 0, 0, 1)
	fatal.If(t, d.Arm())
	if r.Goal(3) <= 0 {
		t.Errorf("velocity %d", r.Goal(3))
	}
	fatal.If(t, relax(d), d.Arm())
	if r.Goal(3) != 0 {
		t.Errorf("velocity %d after Relax", r.Goal(3))
	}
}

func armOutside(t *testing.T, start func(*testing.T) Rig) {
	for _, place := range []int{999, 3001, 1500 + 4096} {
		r := start(t)
		r.SetLimits(2, 1000, 3000)
		r.SetPosition(2, place)
		d := open(t, r, Settings{})
		err := d.Arm()
		for _, want := range []string{"elbow", " rad", "-1.608 to 1.460 rad"} {
			errtest.Contains(t, err, want, "at ", place)
		}
		write(t, d, disarmed...)
		wantLimp(t, r, "refused")
	}
}

func relaxes(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := openArmed(t, r, Settings{})
	r.Miss(2, 1)
	fatal.If(t, relax(d))
	if f := faults(d); f.Recovered != 1 {
		t.Errorf("%+v", f)
	}
	wantLimp(t, r, "relaxed")
	write(t, d, disarmed...)
	wantLimp(t, r, "written to")
	fatal.If(t, relax(d), d.Halt(disarmed))
	write(t, d, disarmed...)
	wantLimp(t, r, "halted")
}

func relaxFails(t *testing.T, start func(*testing.T) Rig) {
	for name, c := range map[string]struct {
		fail     func(Rig)
		settings Settings
		want     error
	}{
		"dead":    {func(r Rig) { r.Miss(2, -1) }, Settings{}, hal.ErrTimeout},
		"refuses": {func(r Rig) { r.Refuse(2) }, Settings{}, hal.ErrDevice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			d := openArmed(t, r, c.settings)
			c.fail(r)
			if err := relax(d); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "elbow") {
				t.Error(err)
			}
			if r.Torque(1) || r.Torque(3) {
				t.Errorf("torque %v, %v", r.Torque(1), r.Torque(3))
			}
		})
	}
}

func measured(t *testing.T, start func(*testing.T) Rig) {
	d := open(t, start(t), Settings{})
	for i, want := range []string{"shoulder_position", "elbow_position", ""} {
		out := d.Outputs()[i]
		if out.Measured != want {
			t.Errorf("%s is measured by %q, not %q", out.Name, out.Measured, want)
		}
		for _, in := range d.Inputs() {
			if in.Name == want && in.Unit != out.Unit {
				t.Errorf("the units of %s and %s differ", in.Name, out.Name)
			}
		}
	}
}
