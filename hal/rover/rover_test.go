package rover

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// quiet is a rover without slip and noise, armed, at the centre, heading east.
func quiet(t testing.TB) *Rover {
	t.Helper()
	cfg := DefaultConfig()
	cfg.SlipStd, cfg.Noise = 0, Noise{}
	return at(t, cfg, state{})
}

func at(t testing.TB, cfg Config, s state) *Rover {
	t.Helper()
	r, err := New(cfg)
	fatal.If(t, err)
	fatal.If(t, r.Arm())
	r.state = s
	return r
}

func act(t testing.TB, r *Rover, ticks int, left, right float32) {
	t.Helper()
	for range ticks {
		fatal.If(t, r.Act([]float32{left, right}))
	}
}

func sense(t testing.TB, r *Rover) []float32 {
	t.Helper()
	obs := make([]float32, obsLen)
	fatal.If(t, errtest.Of(r.Sense(obs)))
	return obs
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s is %g, want %g within %g", what, got, want, tolerance)
	}
}

func TestRover_DrivesStraightAtTopSpeed(t *testing.T) {
	r := quiet(t)
	act(t, r, 20, 1, 1)
	near(t, "y", r.Pose().Y, 0, 1e-12)
	near(t, "heading", r.Pose().Heading, 0, 1e-12)
	near(t, "speed", float64(sense(t, r)[obsSpeed]), 1, 0.01)
	// One second less the motors' lag, which costs about its time constant.
	near(t, "x", r.Pose().X, 1.5*(1-0.15), 0.1)
}

func TestRover_TurnsAboutAxle(t *testing.T) {
	r := quiet(t)
	axle := func() (x, y float64) {
		p := r.Pose()
		sin, cos := math.Sincos(p.Heading)
		return p.X - 0.1*cos, p.Y - 0.1*sin
	}
	x0, y0 := axle()
	act(t, r, 5, -1, 1)
	if h := r.Pose().Heading; h <= 0 {
		t.Errorf("heading is %g, want a turn to the left", h)
	}
	x, y := axle()
	near(t, "the axle's way", math.Hypot(x-x0, y-y0), 0, 0.002)
	act(t, r, 20, -1, 1)
	near(t, "yaw rate", float64(sense(t, r)[obsYawRate]), 1, 0.01)
}

func TestRover_MotorTimeConstant(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SlipStd, cfg.PeriodMS, cfg.MotorLagMS = 0, 10, 150
	r := at(t, cfg, state{})
	act(t, r, 15, 1, 1)
	near(t, "speed after one time constant", r.state.forward(), 1.5*(1-1/math.E), 1e-9)
}

func TestRover_DrivesCircle(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SlipStd, cfg.PeriodMS, cfg.MotorLagMS, cfg.AxleM = 0, 1, 0, 0
	r := at(t, cfg, state{})
	// Wheels at 0.5 and 1.5 m/s: radius track/2 · (l+r)/(r-l) = 0.5 m, yaw rate 2 rad/s.
	half := int(math.Round(math.Pi / 2 / 0.001))
	act(t, r, half, float32(1.0/3), 1)
	near(t, "x half-way round", r.Pose().X, 0, 0.01)
	near(t, "y half-way round", r.Pose().Y, 1, 0.01)
}

func TestRover_NeverLeavesArena(t *testing.T) {
	r := at(t, DefaultConfig(), state{})
	rng := rand.New(rand.NewPCG(1, 2))
	limit := DefaultConfig().ArenaM/2 - DefaultConfig().RadiusM
	for range 500 {
		act(t, r, 20, 2*rng.Float32()-1, 2*rng.Float32()-1)
		if p := r.Pose(); math.Abs(p.X) > limit || math.Abs(p.Y) > limit {
			t.Fatalf("the body is in the wall: %+v", p)
		}
	}
}

func TestRover_WallStops(t *testing.T) {
	r := quiet(t)
	act(t, r, 100, 1, 1)
	near(t, "x", r.Pose().X, 1.85, 1e-12)
	near(t, "speed", r.state.forward(), 0, 1e-12)
	act(t, r, 20, -1, -1)
	if r.Pose().X > 1 {
		t.Errorf("x is %g after backing off, want the wall left behind", r.Pose().X)
	}
}

func TestRover_WallTurnsBody(t *testing.T) {
	r := quiet(t)
	r.state = state{x: 1.85, y: -1, heading: math.Pi / 4}
	act(t, r, 20, 1, 1)
	near(t, "x", r.Pose().X, 1.85, 0.01)
	near(t, "heading", r.Pose().Heading, math.Pi/2, 0.02)
	near(t, "speed", float64(sense(t, r)[obsSpeed]), 1, 0.05)
}

func TestRover_SlidesAlongWall(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SlipStd, cfg.AxleM = 0, 0
	r := at(t, cfg, state{x: 1.85, y: -1, heading: math.Pi / 4})
	act(t, r, 20, 1, 1)
	near(t, "x", r.Pose().X, 1.85, 0)
	near(t, "heading", r.Pose().Heading, math.Pi/4, 1e-12)
	if v := r.state.forward(); v <= 0 || v > 0.9 {
		t.Errorf("speed is %g m/s, want less than in the open", v)
	}
}

func TestRover_BackingIntoWallStalls(t *testing.T) {
	r := quiet(t)
	r.state = state{x: -1.5, heading: 0.3}
	act(t, r, 60, -1, -1)
	near(t, "x", r.Pose().X, -1.85, 0.01)
	near(t, "speed", r.state.forward(), 0, 0.2)
}

func TestRover_TurnsAwayFromWall(t *testing.T) {
	r := quiet(t)
	act(t, r, 100, 1, 1)
	act(t, r, 12, -1, 1)
	act(t, r, 20, 1, 1)
	if r.Pose().X > 1.8 {
		t.Errorf("pose is %+v, want the wall left", r.Pose())
	}
}

func TestRover_LimitsWheelSpeed(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SlipStd = 0.5
	r := at(t, cfg, state{})
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		act(t, r, 1, float32(1-2*rng.IntN(2)), float32(1-2*rng.IntN(2)))
		if s := r.state; max(math.Abs(s.left), math.Abs(s.right)) > cfg.MaxSpeedMPS {
			t.Fatalf("wheels at %g and %g m/s, limit %g", s.left, s.right, cfg.MaxSpeedMPS)
		}
	}
}

func TestRover_StopsWithoutCommands(t *testing.T) {
	r := at(t, DefaultConfig(), state{left: 1.5, right: 1})
	before := math.Inf(1)
	for range 60 {
		act(t, r, 1, 0, 0)
		energy := r.state.left*r.state.left + r.state.right*r.state.right
		if energy >= before {
			t.Fatalf("energy grew from %g to %g", before, energy)
		}
		before = energy
	}
	near(t, "energy", before, 0, 1e-9)
}

func TestRover_SlipSize(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MotorLagMS, cfg.MaxSpeedMPS = 0, 2
	r := at(t, cfg, state{})
	var sum, squares float64
	const n = 4000
	for range n {
		r.state = state{}
		act(t, r, 1, 0.5, 0.5)
		sum += r.state.left
		squares += r.state.left * r.state.left
	}
	mean := sum / n
	near(t, "mean wheel speed", mean, 1, 0.005)
	near(t, "its deviation", math.Sqrt(squares/n-mean*mean), cfg.SlipStd, 0.005)
}

func TestRover_NoiseSize(t *testing.T) {
	cfg := DefaultConfig()
	r := at(t, cfg, state{x: 0.5, heading: 1})
	var sum, squares float64
	const n = 4000
	for range n {
		x := PoseFromObs(sense(t, r), cfg.ArenaM).X
		sum += x
		squares += x * x
	}
	mean := sum / n
	near(t, "mean x", mean, 0.5, 0.001)
	near(t, "its deviation", math.Sqrt(squares/n-mean*mean), cfg.Noise.PositionM, 0.0005)
}

func TestRover_StartsHalted(t *testing.T) {
	r, err := New(DefaultConfig())
	fatal.If(t, err)
	errtest.Is(t, r.Act([]float32{1, 1}), hal.ErrHalted, "Act")
}

func TestRover_HaltLatchesUntilArm(t *testing.T) {
	r := quiet(t)
	act(t, r, 20, 1, 1)
	for range 2 {
		fatal.If(t, r.Halt())
	}
	if v := sense(t, r)[obsSpeed]; v != 0 {
		t.Errorf("speed is %g after Halt", v)
	}
	before := r.Pose()
	fatal.If(t, r.Reset(3))
	if err := r.Act([]float32{1, 1}); !errors.Is(err, hal.ErrHalted) {
		t.Errorf("Act returned %v after Reset, want ErrHalted: Reset does not arm", err)
	}
	r.state.x = before.X
	fatal.If(t, r.Arm())
	act(t, r, 1, 1, 1)
	if r.state.forward() <= 0 {
		t.Error("an armed rover does not drive")
	}
}

func TestRover_RefusesBadAction(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, action := range [][]float32{{nan, 0}, {0, inf}, {-inf, 0}, {1.01, 0}, {0, -1.01}, {}, {0}, {0, 0, 0}} {
		r := quiet(t)
		act(t, r, 3, 1, 0.5)
		before := r.state
		errtest.NotNil(t, r.Act(action), "Act(", action, ") was accepted")
		if r.state != before {
			t.Errorf("Act(%v) moved the rover", action)
		}
	}
}

func TestRover_SenseRefusesWrongLength(t *testing.T) {
	errtest.NotNil(t, errtest.Of(quiet(t).Sense(make([]float32, 5))), "five channels were accepted")
}

func TestRover_IsDeterministic(t *testing.T) {
	run := func(seed uint64) []float32 {
		r := at(t, DefaultConfig(), state{})
		fatal.If(t, r.Reset(seed))
		var all []float32
		for range 100 {
			all = append(all, sense(t, r)...)
			act(t, r, 1, 0.3, 1)
		}
		return all
	}
	a, b, other := run(5), run(5), run(6)
	same := true
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("element %d differs: %g and %g", i, a[i], b[i])
		}
		same = same && a[i] == other[i]
	}
	if same {
		t.Error("another seed gives the same run")
	}
}

func TestRover_ResetsCoverArena(t *testing.T) {
	r := quiet(t)
	var quadrants [4]int
	for seed := range uint64(400) {
		act(t, r, 3, 1, 1)
		fatal.If(t, r.Reset(seed))
		p := r.Pose()
		q := 0
		if p.X > 0 {
			q++
		}
		if p.Y > 0 {
			q += 2
		}
		quadrants[q]++
		if r.state.left != 0 || r.state.right != 0 {
			t.Fatal("the rover moves after Reset")
		}
	}
	for q, n := range quadrants {
		if n < 60 {
			t.Errorf("quadrant %d has %d of 400 starts", q, n)
		}
	}
}

func TestRover_ActAdvancesOnePeriod(t *testing.T) {
	r := quiet(t)
	act(t, r, 7, 0, 0)
	fatal.If(t, r.Reset(1))
	at, err := r.Sense(make([]float32, obsLen))
	fatal.If(t, err)
	if want := 7 * int64(r.Spec().Period); at != want {
		t.Errorf("time is %d ns, want %d", at, want)
	}
}

func TestRover_UsesGivenClock(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Now = func() int64 { return 42 }
	if now, _ := at(t, cfg, state{}).Sense(make([]float32, obsLen)); now != 42 {
		t.Errorf("time is %d, want 42", now)
	}
}

func TestRover_AllocatesNothing(t *testing.T) {
	r := at(t, DefaultConfig(), state{})
	obs, action := make([]float32, obsLen), []float32{0.5, 1}
	allocs := testing.AllocsPerRun(200, func() {
		fatal.If(t, errtest.Of(r.Sense(obs)))
		fatal.If(t, r.Act(action))
		r.Reward()
	})
	if allocs != 0 {
		t.Errorf("%g allocations a tick, want none", allocs)
	}
}

func TestRover_Spec(t *testing.T) {
	spec := quiet(t).Spec()
	if len(spec.Obs) != obsLen || len(spec.Action) != actLen || spec.Period <= 0 {
		t.Fatalf("spec is %+v", spec)
	}
	for _, c := range spec.Action {
		if c.Min >= c.Max || c.Failsafe < c.Min || c.Failsafe > c.Max {
			t.Errorf("action channel %+v has no sound limits", c)
		}
	}
}

func TestConfig_NamesBadKey(t *testing.T) {
	bad := map[string]func(*Config){
		"period_ms":            func(c *Config) { c.PeriodMS = 0 },
		"arena_m":              func(c *Config) { c.ArenaM = math.NaN() },
		"radius_m":             func(c *Config) { c.RadiusM = 2 },
		"track_m":              func(c *Config) { c.TrackM = -1 },
		"max_speed_mps":        func(c *Config) { c.MaxSpeedMPS = math.Inf(1) },
		"axle_m":               func(c *Config) { c.AxleM = -1 },
		"motor_lag_ms":         func(c *Config) { c.MotorLagMS = -1 },
		"slip_std":             func(c *Config) { c.SlipStd = 2 },
		"noise.position_m":     func(c *Config) { c.Noise.PositionM = -1 },
		"noise.yaw_rate_radps": func(c *Config) { c.Noise.YawRateRadS = math.NaN() },
	}
	for key, corrupt := range bad {
		cfg := DefaultConfig()
		corrupt(&cfg)
		errtest.Contains(t, errtest.Of(New(cfg)), key)
	}
}
