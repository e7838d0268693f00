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

// minTicks and maxTicks limit an episode: short ones see more initial states.
const minTicks, maxTicks = 10, 100

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

// NewTransitions returns no transitions, with room for n of a robot.
func NewTransitions(spec hal.Spec, n int) *Transitions {
	o, a := len(spec.Obs), len(spec.Action)
	return &Transitions{
		Obs: make([]float32, 0, n*o), Action: make([]float32, 0, n*a), NextObs: make([]float32, 0, n*o),
		Episode: make([]int64, 0, n),
	}
}

// Record arms the robot, drives it with exploring actions for n transitions and halts it. The
// recording is a function of n, of the seed of actions and initial states, and of the simulator,
// which is reset at the start of every episode.
func Record(robot Simulator, n int, seed uint64) (t *Transitions, err error) {
	if n < 1 {
		return nil, fmt.Errorf("collect: too few transitions (%d); choose at least 1", n)
	}
	if err := robot.Arm(); err != nil {
		return nil, fmt.Errorf("collect: arm: %w", err)
	}
	defer func() {
		if haltErr := robot.Halt(); haltErr != nil && err == nil {
			t, err = nil, fmt.Errorf("collect: halt: %w", haltErr)
		}
	}()
	r := newRecorder(robot, n, seed)
	for r.out.Len() < n {
		if err := r.episode(); err != nil {
			return nil, fmt.Errorf("collect: episode %d: %w", r.episodes, err)
		}
	}
	return r.out, nil
}

type recorder struct {
	robot    Simulator
	n        int           // of the transitions
	channels []hal.Channel // of the action
	rng      *rand.Rand
	explore  *Explorer
	action   []float32
	obs      []float32
	next     []float32
	out      *Transitions
	episodes int64
}

func newRecorder(robot Simulator, n int, seed uint64) *recorder {
	spec, rng := robot.Spec(), rand.New(rand.NewPCG(seed, 0x636f6c6c656374))
	return &recorder{
		robot: robot, n: n, channels: spec.Action, rng: rng, explore: NewExplorer(spec.Action, rng),
		action: make([]float32, len(spec.Action)),
		obs:    make([]float32, len(spec.Obs)), next: make([]float32, len(spec.Obs)),
		out: NewTransitions(spec, n),
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
	ticks := minTicks + r.rng.IntN(maxTicks-minTicks+1)
	for range min(ticks, r.n-r.out.Len()) {
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
