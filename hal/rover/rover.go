package rover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"optibfm/hal"
)

// Indices into an observation.
const (
	obsX = iota
	obsY
	obsCos
	obsSin
	obsSpeed
	obsYawRate
	obsLen
)

// Indices into an action.
const (
	actLeft = iota
	actRight
	actLen
)

// Rover is the simulated robot. It implements [hal.Robot], [hal.Resetter] and
// [hal.Rewarder]. One goroutine uses it.
type Rover struct {
	cfg  Config
	task Task
	spec hal.Spec

	period float64 // s
	follow float64 // share of a motor's speed error corrected per period
	reach  float64 // m, |x| and |y| of the body's centre at a wall
	yawTop float64 // rad/s, one wheel forward and one backward

	src    *rand.PCG
	rng    *rand.Rand
	state  state
	sensed [obsLen]float32
	armed  bool
	valid  bool  // sensed holds a sample
	at     int64 // simulated time, ns
}

// state is the true pose and motion of the rover.
type state struct {
	x, y, heading float64 // m, m, rad counter-clockwise from +x
	left, right   float64 // m/s, of the ground under each wheel
}

var (
	_ hal.Robot    = (*Rover)(nil)
	_ hal.Resetter = (*Rover)(nil)
	_ hal.Rewarder = (*Rover)(nil)
)

// New returns a halted rover in an initial state drawn with cfg.Seed.
func New(cfg Config) (*Rover, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	task, _ := findTask(cfg.Task)
	period := cfg.PeriodMS / 1000
	r := &Rover{
		cfg:    cfg,
		task:   task,
		spec:   newSpec(cfg),
		period: period,
		follow: 1,
		reach:  cfg.ArenaM/2 - cfg.RadiusM,
		yawTop: 2 * cfg.MaxSpeedMPS / cfg.TrackM,
		src:    rand.NewPCG(0, 0),
	}
	if cfg.MotorLagMS > 0 {
		r.follow = -math.Expm1(-cfg.PeriodMS / cfg.MotorLagMS)
	}
	r.rng = rand.New(r.src)
	return r, r.Reset(cfg.Seed)
}

func newSpec(cfg Config) hal.Spec {
	wheel := func(name string) hal.Channel { return hal.Channel{Name: name, Min: -1, Max: 1} }
	// Noise and a push against a wall may exceed the nominal range a little.
	plausible := func(name string) hal.Channel { return hal.Channel{Name: name, Min: -2, Max: 2} }
	return hal.Spec{
		Name: "rover",
		Obs: []hal.Channel{
			plausible("x"), plausible("y"),
			plausible("heading_cos"), plausible("heading_sin"),
			plausible("speed"), plausible("yaw_rate"),
		},
		Action: []hal.Channel{wheel("left_wheel"), wheel("right_wheel")},
		Period: time.Duration(cfg.PeriodMS * float64(time.Millisecond)),
	}
}

// Spec describes the channels; see the package documentation.
func (r *Rover) Spec() hal.Spec { return r.spec }

// Reset stops the rover at a position and heading drawn with seed, which also
// seeds slip and noise. Simulated time continues.
func (r *Rover) Reset(seed uint64) error {
	r.src.Seed(seed, 0x9e3779b97f4a7c15)
	r.state = state{
		x:       r.uniform(r.reach),
		y:       r.uniform(r.reach),
		heading: r.uniform(math.Pi),
	}
	r.valid = false
	return nil
}

func (r *Rover) uniform(limit float64) float64 { return limit * (2*r.rng.Float64() - 1) }

// Sense fills obs, of length 6, with a noisy sample of the current state. It
// returns the time of Config.Now, or simulated time.
func (r *Rover) Sense(obs []float32) (int64, error) {
	if len(obs) != obsLen {
		return 0, fmt.Errorf("rover: sense: wrong number of observation channels (%d, want %d)", len(obs), obsLen)
	}
	s, n := &r.state, &r.cfg.Noise
	half := r.cfg.ArenaM / 2
	sin, cos := math.Sincos(s.heading + r.noise(n.HeadingRad))
	r.sensed = [obsLen]float32{
		obsX:       float32((s.x + r.noise(n.PositionM)) / half),
		obsY:       float32((s.y + r.noise(n.PositionM)) / half),
		obsCos:     float32(cos),
		obsSin:     float32(sin),
		obsSpeed:   float32((s.forward() + r.noise(n.SpeedMPS)) / r.cfg.MaxSpeedMPS),
		obsYawRate: float32((s.yawRate(r.cfg.TrackM) + r.noise(n.YawRateRadS)) / r.yawTop),
	}
	r.valid = true
	copy(obs, r.sensed[:])
	if r.cfg.Now != nil {
		return r.cfg.Now(), nil
	}
	return r.at, nil
}

func (s *state) forward() float64              { return (s.left + s.right) / 2 }
func (s *state) yawRate(track float64) float64 { return (s.right - s.left) / track }

func (r *Rover) noise(std float64) float64 { return std * r.rng.NormFloat64() }

// Act drives the wheels for one period. action holds the commands of the left and
// the right wheel, in [-1, 1]. An invalid action is an error and moves nothing.
func (r *Rover) Act(action []float32) error {
	if !r.armed {
		return hal.ErrHalted
	}
	if len(action) != actLen {
		return fmt.Errorf("rover: act: wrong number of action channels (%d, want %d)", len(action), actLen)
	}
	for i, a := range action {
		if !(a >= -1 && a <= 1) {
			return fmt.Errorf("rover: act: the command of %s is outside [-1, 1] (%g)", r.spec.Action[i].Name, a)
		}
	}
	r.drive(float64(action[actLeft]), float64(action[actRight]))
	r.at += int64(r.spec.Period)
	return nil
}

func (r *Rover) drive(left, right float64) {
	s := &r.state
	s.left = r.wheel(s.left, left)
	s.right = r.wheel(s.right, right)

	// The axle moves along the chord of its arc, at the heading of the midpoint;
	// the body's centre, ahead of the axle, also swings sideways.
	turn := s.yawRate(r.cfg.TrackM) * r.period
	sin, cos := math.Sincos(s.heading + turn/2)
	ahead, aside := s.forward()*r.period, turn*r.cfg.AxleM
	lostX := r.move(&s.x, ahead*cos-aside*sin)
	lostY := r.move(&s.y, ahead*sin+aside*cos)
	s.heading += turn
	if lostX != 0 || lostY != 0 {
		r.yield(lostX*cos+lostY*sin, lostY*cos-lostX*sin)
	}
	s.heading = math.Remainder(s.heading, 2*math.Pi)
}

// wheel returns a wheel's next speed on the ground, after motor lag and slip.
func (r *Rover) wheel(speed, command float64) float64 {
	speed += r.follow * (command*r.cfg.MaxSpeedMPS - speed)
	return r.limit(speed * (1 + r.noise(r.cfg.SlipStd)))
}

// move advances a coordinate of the body's centre by d, up to the wall, and
// returns the blocked part.
func (r *Rover) move(p *float64, d float64) (lost float64) {
	free := *p + d
	*p = min(max(free, -r.reach), r.reach)
	return free - *p
}

// yield applies the reaction of a wall that blocked part of the motion: ahead
// slows both wheels, aside turns the body about its axle while the wheels skid.
func (r *Rover) yield(ahead, aside float64) {
	s := &r.state
	s.left = r.limit(s.left - ahead/r.period)
	s.right = r.limit(s.right - ahead/r.period)
	if r.cfg.AxleM > 0 {
		s.heading -= aside / r.cfg.AxleM
	}
}

// limit keeps a wheel within its top speed.
func (r *Rover) limit(speed float64) float64 {
	return min(max(speed, -r.cfg.MaxSpeedMPS), r.cfg.MaxSpeedMPS)
}

// Arm lets Act drive the wheels.
func (r *Rover) Arm() error {
	r.armed = true
	return nil
}

// Halt stops the wheels at once. Act fails until Arm.
func (r *Rover) Halt() error {
	r.armed = false
	r.state.left, r.state.right = 0, 0
	return nil
}

// Reward returns the task's reward of the last Sense; ok is false before the first
// Sense of an episode.
func (r *Rover) Reward() (reward float64, ok bool) {
	if !r.valid {
		return 0, false
	}
	return r.task.reward(newView(r.sensed[:])), true
}
