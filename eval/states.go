package eval

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"optibfm/hal/collect"
	"optibfm/hal/rover"
	"optibfm/internal/npz"
	"optibfm/posterior"
	"optibfm/tflite"
)

// States are states with a task's rewards: what an oracle infers z from, and a
// warm start begins with.
type States struct {
	Obs    []float32 // [n, O]
	Reward []float64 // [n]
}

// rewardKey is the name of a task's rewards in a file of states.
const rewardKey = "reward_"

// ReadStates reads an .npz file with obs [n, O] and, for each task, reward_TASK
// [n], as scripts/label_states.py writes it.
func ReadStates(path, task string, obs int) (*States, error) {
	archive, err := npz.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("eval: states: %w", err)
	}
	rows, err := archive.Shaped("obs", -1, obs)
	if err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w", path, err)
	}
	reward, err := archive.Shaped(rewardKey+task, rows.Shape()[0])
	if err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w", path, err)
	}
	s := &States{Reward: reward.Float64s()}
	if s.Obs, err = rows.Float32s(); err != nil {
		return nil, fmt.Errorf("eval: states: %s: obs: %w", path, err)
	}
	return s, nil
}

// RoverStates drives a rover about with exploring actions and returns n of its
// states with the rewards of its task.
func RoverStates(cfg rover.Config, n int, seed uint64) (*States, error) {
	cfg.Now = nil
	robot, err := rover.New(cfg)
	if err != nil {
		return nil, err
	}
	recording := collect.DefaultConfig()
	recording.Transitions, recording.Seed = n, seed
	data, err := collect.Record(robot, recording)
	if err != nil {
		return nil, err
	}
	o, reward := len(robot.Spec().Obs), make([]float64, n)
	for i := range reward {
		if reward[i], err = rover.Reward(cfg.Task, data.Obs[i*o:(i+1)*o]); err != nil {
			return nil, err
		}
	}
	return &States{Obs: data.Obs, Reward: reward}, nil
}

// Draw returns n of the states, drawn without repetition, in the order drawn.
func (s *States) Draw(n int, random *rand.Rand) (*States, error) {
	total := len(s.Reward)
	if n > total {
		return nil, fmt.Errorf("eval: states: there are %d, %d are wanted: record more", total, n)
	}
	o := len(s.Obs) / max(1, total)
	drawn := &States{Obs: make([]float32, 0, n*o), Reward: make([]float64, 0, n)}
	for _, i := range random.Perm(total)[:n] {
		drawn.Obs = append(drawn.Obs, s.Obs[i*o:(i+1)*o]...)
		drawn.Reward = append(drawn.Reward, s.Reward[i])
	}
	return drawn, nil
}

// Labelled are states as a belief takes them.
type Labelled struct {
	Phi    []float64 // [n, d]
	Reward []float64 // [n]
}

// Label computes the features of all states.
func (s *States) Label(m tflite.Model) (Labelled, error) {
	d, o := m.Dims().Latent, m.Dims().Obs
	l := Labelled{Phi: make([]float64, len(s.Reward)*d), Reward: s.Reward}
	for i := range l.Reward {
		if err := m.Phi(l.Phi[i*d:(i+1)*d], s.Obs[i*o:(i+1)*o]); err != nil {
			return l, fmt.Errorf("eval: states: row %d: %w", i, err)
		}
	}
	return l, nil
}

// Infer returns the z that explains the rewards best: least squares with the
// prior λ.
func (l Labelled) Infer(lambda float64) ([]float64, error) {
	if len(l.Reward) == 0 {
		return nil, errors.New("eval: states: there are none to infer z from")
	}
	belief, err := posterior.New(len(l.Phi)/len(l.Reward), lambda, 1)
	if err != nil {
		return nil, err
	}
	if err := belief.UpdateBatch(l.Phi, l.Reward, nil); err != nil {
		return nil, err
	}
	z := make([]float64, belief.Dim())
	belief.Mean(z)
	return z, nil
}
