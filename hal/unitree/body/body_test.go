package body

import (
	"math"
	"strings"
	"testing"

	"optibfm/hal/legged"
	"optibfm/internal/fusedtest"
)

func TestArithmetic_IsNotFusedOnArm64(t *testing.T) {
	t.Parallel()
	for _, found := range fusedtest.Find(t, ".") {
		t.Errorf("%s:%s fuses a product with an addition: wrap the product in float64()", found.File, found.Line)
	}
}

func narrow(values []float64) []float32 {
	all := make([]float32, len(values))
	for i, v := range values {
		all[i] = float32(v)
	}
	return all
}

// The motions are random, and privileged_state is that of scripts/g1_bridge.py for a pelvis that
// turns but does not move.
func TestEstimates_OfAG1AreThePrivilegedStateOfTheSimulator(t *testing.T) {
	file := open(t, "testdata/privileged.npz")
	of := func(name string) func(int) []float64 { return rows(t, file, "privileged/"+name) }
	q, dq, down, gyro, state := of("q"), of("dq"), of("down"), of("gyro"), of("state")
	array, _ := file.Get("privileged/state")
	for i := range array.Shape()[0] {
		e := NewG1()
		channels := e.Channels()
		if len(channels) != len(state(i)) {
			t.Fatalf("%d channels, the simulator has %d", len(channels), len(state(i)))
		}
		got := make([]float32, len(channels))
		e.Fill(got, &Measured{
			At: 1, Position: narrow(q(i)), Velocity: narrow(dq(i)), Down: [3]float32(narrow(down(i))),
			Gyro: [3]float32(narrow(gyro(i))),
		})
		frame := legged.Heading(vector(down(i)))
		velocity := frame.Apply(e.estimator.Velocity())
		for k, c := range channels {
			want := state(i)[k]
			switch {
			case strings.HasPrefix(c.Name, "body_velocity_"):
				want += velocity[strings.IndexByte("xyz", c.Name[len(c.Name)-1])]
			case c.Name == "body_height":
				want = e.estimator.Height()
			}
			if !(math.Abs(float64(got[k])-want) < 1e-5) {
				t.Errorf("motion %d: %s is %g, want %g", i, c.Name, got[k], want)
			}
		}
	}
}

func TestEstimates_FillAllocatesNothing(t *testing.T) {
	for name, e := range map[string]*Estimates{"go2": NewGo2(30), "g1": NewG1()} {
		n := len(trees[name].Joints)
		dst := make([]float32, len(e.Channels()))
		m := &Measured{Position: make([]float32, n), Velocity: make([]float32, n), Down: [3]float32{0, 0, -1}}
		if allocations := testing.AllocsPerRun(100, func() { m.At += tick; e.Fill(dst, m) }); allocations != 0 {
			t.Errorf("%s: %g allocations", name, allocations)
		}
	}
}
