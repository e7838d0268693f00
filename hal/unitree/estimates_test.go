package unitree

import (
	"math"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// standing attaches to a segment whose writer reports a robot that stands: a Go2, or a G1 with
// straight legs.
func standing(t testing.TB, c Config) (r *Robot, report func(change func(*Report))) {
	t.Helper()
	shared, err := CreateShared()
	fatal.If(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	now := int64(time.Second)
	if r, err = Attach(c, 20*time.Millisecond, shared, func() int64 { return now }); err != nil {
		t.Fatal(err)
	}
	reports, err := shared.Reports()
	fatal.If(t, err)
	return r, func(change func(*Report)) {
		now += int64(20 * time.Millisecond)
		s := &Report{At: now, StateAt: now, Quaternion: [4]float32{1}, Accelerometer: [3]float32{0, 0, 9.81}}
		for leg := range 4 {
			if c.Model == G1 {
				break
			}
			s.Position[3*leg+1], s.Position[3*leg+2] = 0.8, -1.6
			s.Foot[leg] = 40
		}
		change(s)
		reports.Publish(s)
	}
}

func TestRobot_SenseEstimatesTheBase(t *testing.T) {
	c := valid(Go2)
	c.BodyEstimates = true
	r, report := standing(t, c)
	obs := make([]float32, len(r.Spec().Obs))
	base := obs[len(obs)-4:]
	for i, want := range []string{"base_velocity_x", "base_velocity_y", "base_velocity_z", "base_height"} {
		if got := r.Spec().Obs[len(obs)-4+i].Name; got != want {
			t.Fatalf("channel %s, want %s", got, want)
		}
	}
	sense := func(change func(*Report)) {
		t.Helper()
		report(change)
		fatal.If(t, errtest.Of(r.Sense(obs)))
	}
	for range 10 {
		sense(func(*Report) {})
	}
	// Thigh and calf are 0.213 m long, the foot's centre 2 mm behind their line, its radius 22 mm.
	height := 2*0.213*math.Cos(0.8) + 0.002*math.Sin(0.8) + 0.022
	if math.Abs(float64(base[3])-height) > 1e-3 || math.Abs(float64(base[0])) > 1e-3 {
		t.Errorf("a robot that stands has the estimates %v, want height %.4f", base, height)
	}
	// All thighs turn forwards about feet that stay: the body moves backwards.
	for range 10 {
		sense(func(s *Report) {
			for leg := range 4 {
				s.Velocity[3*leg+1] = -1
			}
		})
	}
	if want := -height; math.Abs(float64(base[0])-want) > 0.03 {
		t.Errorf("velocity %v, want %.3f m/s forwards", base, want)
	}
	if n := testing.AllocsPerRun(50, func() { _, _ = r.Sense(obs) }); n != 0 {
		t.Errorf("Sense allocates %g times", n)
	}
}

// The expected values are those of a rotation by the angle about the axis y, forwards.
func TestGravity_IgnoresTheNormOfTheQuaternion(t *testing.T) {
	for _, degrees := range []float64{0, 30, 59, 61, 180} {
		sin, cos := math.Sincos(degrees * math.Pi / 360)
		for _, norm := range []float64{math.Sqrt(0.8), 1, math.Sqrt(1.2)} {
			x, y, z := gravity(&[4]float32{float32(norm * cos), 0, float32(norm * sin)})
			wantZ, wantX := math.Sincos((degrees - 90) * math.Pi / 180)
			if math.Abs(float64(x)-wantX) > 1e-6 || y != 0 || math.Abs(float64(z)-wantZ) > 1e-6 {
				t.Errorf("%g° with the norm %.2f: %g %g %g, want %.3f 0 %.3f", degrees, norm, x, y, z, wantX, wantZ)
			}
		}
	}
}

// BenchmarkRobot_SenseAndAct has a new report in each Sense.
func BenchmarkRobot_SenseAndAct(b *testing.B) {
	for _, model := range []string{Go2, G1} {
		for name, estimates := range map[string]bool{"sensors": false, "estimates": true} {
			b.Run(model+"/"+name, func(b *testing.B) {
				c := valid(model)
				c.BodyEstimates = estimates
				r, report := standing(b, c)
				r.halted = false
				obs, action := make([]float32, len(r.spec.Obs)), make([]float32, len(r.spec.Action))
				for i, a := range r.spec.Action {
					action[i] = float32(a.Failsafe)
				}
				hold := func(s *Report) { s.Mode, s.Battery = ModeHolding, 80 }
				for b.Loop() {
					b.StopTimer()
					report(hold)
					b.StartTimer()
					fatal.If(b, errtest.Of(r.Sense(obs)))
					fatal.If(b, r.Act(action))
				}
			})
		}
	}
}
