package theory

import (
	"fmt"
	"math/rand/v2"
	"time"

	"optibfm/hal"
)

// period of the simulated robot; no result depends on it.
const period = time.Second

// Task is a reward: φ(s)ᵀZ plus a nonlinear part.
type Task struct {
	Z      []float64 // z*, [d]
	Misfit []float64 // added to the reward of each state, [States]; nil: nothing
}

// Reward returns the reward of a state, without noise.
func (t Task) Reward(m MDP, state int) float64 {
	reward := dot(m.phi(state), t.Z)
	if t.Misfit != nil {
		reward += t.Misfit[state]
	}
	return reward
}

// Robot moves in a decision process, in simulated time. It implements hal.Robot, hal.Resetter and
// hal.Rewarder.
type Robot struct {
	mdp   MDP
	task  Task
	spec  hal.Spec
	state int
	armed bool
	at    int64
	src   *rand.PCG
	rng   *rand.Rand
}

var (
	_ hal.Robot    = (*Robot)(nil)
	_ hal.Resetter = (*Robot)(nil)
	_ hal.Rewarder = (*Robot)(nil)
)

// NewRobot returns a halted robot. m must be valid, and the task must have its dimensions.
func NewRobot(m MDP, task Task) *Robot {
	r := &Robot{mdp: m, task: task, src: rand.NewPCG(0, moveStream), spec: hal.Spec{
		Name:   "theory",
		Obs:    []hal.Channel{{Name: "state", Max: float64(m.States - 1)}},
		Action: []hal.Channel{{Name: "choice", Min: -1, Max: 1, Failsafe: -1}},
		Period: period,
	}}
	r.rng = rand.New(r.src)
	return r
}

// Spec implements hal.Robot.
func (r *Robot) Spec() hal.Spec { return r.spec }

// Reset draws the first state of an episode. It does not reset simulated time.
func (r *Robot) Reset(seed uint64) error {
	r.src.Seed(seed, moveStream)
	r.state = pick(r.rng, r.mdp.Start)
	return nil
}

// Sense implements hal.Robot.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if len(obs) != 1 {
		return 0, fmt.Errorf("theory: sense: found room for %d channels, want 1", len(obs))
	}
	obs[0] = float32(r.state)
	r.at += int64(period)
	return r.at, nil
}

// Reward returns the reward of the current state.
func (r *Robot) Reward() (reward float64, ok bool) { return r.task.Reward(r.mdp, r.state), true }

// Act moves to the next state.
func (r *Robot) Act(action []float32) error {
	if !r.armed {
		return hal.ErrHalted
	}
	if len(action) != 1 || !(action[0] >= -1 && action[0] <= 1) {
		return fmt.Errorf("theory: act: found %v, want one number in [-1, 1]", action)
	}
	r.state = pick(r.rng, r.mdp.next(r.state, choice(action[0], r.mdp.Actions)))
	return nil
}

// Arm implements hal.Robot.
func (r *Robot) Arm() error { r.armed = true; return nil }

// Halt implements hal.Robot. A halted robot stays in its state.
func (r *Robot) Halt() error { r.armed = false; return nil }
