package collect

import (
	"fmt"
	"math/rand/v2"

	"optibfm/hal"
)

// Simulator is a robot with Reset.
type Simulator interface {
	hal.Robot
	hal.Resetter
}

// Config sets the size of a recording.
type Config struct {
	Transitions int    // at least 1
	Seed        uint64 // of actions and initial states
	// MinTicks and MaxTicks bound an episode's length, drawn uniformly;
	// 1 <= MinTicks <= MaxTicks.
	MinTicks, MaxTicks int
}

// DefaultConfig is a million transitions in episodes of 10 to 100 ticks.
func DefaultConfig() Config {
	return Config{Transitions: 1_000_000, MinTicks: 10, MaxTicks: 100}
}

// Transitions are n steps, row-major: Action in Obs led to NextObs. Episode is the
// number of the row's episode, from 0. Within an episode NextObs is the next row's
// Obs.
type Transitions struct {
	Obs     []float32 // [n, O]
	Action  []float32 // [n, A]
	NextObs []float32 // [n, O]
	Episode []int64   // [n]
}

// Len is the number of transitions.
func (t *Transitions) Len() int { return len(t.Episode) }

// Record arms the robot, drives it with exploring actions and halts it. The
// recording is a function of the configuration and of the simulator, which is
// reset at the start of every episode.
func Record(robot Simulator, cfg Config) (t *Transitions, err error) {
	if cfg.Transitions < 1 {
		return nil, fmt.Errorf("collect: too few transitions (%d); choose at least 1", cfg.Transitions)
	}
	if cfg.MinTicks < 1 || cfg.MaxTicks < cfg.MinTicks {
		return nil, fmt.Errorf("collect: episodes of %d to %d ticks; choose 1 <= shortest <= longest",
			cfg.MinTicks, cfg.MaxTicks)
	}
	if err := robot.Arm(); err != nil {
		return nil, fmt.Errorf("collect: arm: %w", err)
	}
	defer func() {
		if haltErr := robot.Halt(); haltErr != nil && err == nil {
			t, err = nil, fmt.Errorf("collect: halt: %w", haltErr)
		}
	}()
	r := newRecorder(robot, cfg)
	for r.out.Len() < cfg.Transitions {
		if err := r.episode(); err != nil {
			return nil, fmt.Errorf("collect: episode %d: %w", r.episodes, err)
		}
	}
	return r.out, nil
}

type recorder struct {
	robot    Simulator
	cfg      Config
	channels []hal.Channel // of the action
	rng      *rand.Rand
	explore  *Explorer
	action   []float32
	obs      []float32
	next     []float32
	out      *Transitions
	episodes int64
}

func newRecorder(robot Simulator, cfg Config) *recorder {
	spec := robot.Spec()
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x636f6c6c656374))
	n, o, a := cfg.Transitions, len(spec.Obs), len(spec.Action)
	return &recorder{
		robot:    robot,
		cfg:      cfg,
		channels: spec.Action,
		rng:      rng,
		explore:  NewExplorer(spec.Action, rng),
		action:   make([]float32, a),
		obs:      make([]float32, o),
		next:     make([]float32, o),
		out: &Transitions{
			Obs:     make([]float32, 0, n*o),
			Action:  make([]float32, 0, n*a),
			NextObs: make([]float32, 0, n*o),
			Episode: make([]int64, 0, n),
		},
	}
}

func (r *recorder) episode() error {
	if err := r.robot.Reset(r.rng.Uint64()); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	if _, err := r.robot.Sense(r.obs); err != nil {
		return fmt.Errorf("sense: %w", err)
	}
	r.explore.Begin()
	ticks := r.cfg.MinTicks + r.rng.IntN(r.cfg.MaxTicks-r.cfg.MinTicks+1)
	for range min(ticks, r.cfg.Transitions-r.out.Len()) {
		if err := r.step(); err != nil {
			return err
		}
	}
	r.episodes++
	return nil
}

func (r *recorder) step() error {
	action := r.action
	for i, u := range r.explore.Next() {
		c := r.channels[i]
		action[i] = float32(c.Min + (c.Max-c.Min)*(u+1)/2)
	}
	if err := r.robot.Act(action); err != nil {
		return fmt.Errorf("act: %w", err)
	}
	if _, err := r.robot.Sense(r.next); err != nil {
		return fmt.Errorf("sense: %w", err)
	}
	r.out.Obs = append(r.out.Obs, r.obs...)
	r.out.Action = append(r.out.Action, action...)
	r.out.NextObs = append(r.out.NextObs, r.next...)
	r.out.Episode = append(r.out.Episode, r.episodes)
	r.obs, r.next = r.next, r.obs
	return nil
}
