// Package oracle infers the task embedding z of a known reward from labelled states. An agent that
// follows this z is the baseline of a simulator: the best that labels can teach the model.
//
//	states, err := oracle.Record(robot, reward, 50_000, seed) // states with the rewards of a task
//	labelled, err := states.Label(model)                   // their features
//	z, err := labelled.Infer(lambda)                       // least squares
package oracle

import (
	"errors"
	"fmt"

	"optibfm/hal/collect"
	"optibfm/posterior"
	"optibfm/tflite"
)

// States are observations with the rewards of a task.
type States struct {
	Obs    []float32 // [n, O]
	Reward []float64 // [n]
	// Episodes are the lengths of the episodes of the states, in their order; their sum is n.
	// Empty: the states are independent.
	Episodes []int
	// Whole identifies the states of which these are a part. Zero: these are all.
	Whole Whole
}

// Whole is a file of labelled states.
type Whole struct {
	Number int    // of its states
	SHA256 string // of the file, hexadecimal
}

// Record drives a simulated robot with exploring actions and returns n of its states, in episodes,
// with their rewards.
func Record(robot collect.Simulator, reward func(obs []float32) (float64, error), n int, seed uint64) (*States, error) {
	data, err := collect.Record(robot, n, seed)
	if err != nil {
		return nil, err
	}
	o, rewards := len(robot.Spec().Obs), make([]float64, n)
	for i := range rewards {
		if rewards[i], err = reward(data.Obs[i*o : (i+1)*o]); err != nil {
			return nil, err
		}
	}
	return &States{Obs: data.Obs, Reward: rewards, Episodes: runLengths(data.Episode)}, nil
}

// runLengths returns the lengths of the runs of equal numbers.
func runLengths(numbers []int64) []int {
	var lengths []int
	for i, number := range numbers {
		if i == 0 || number != numbers[i-1] {
			lengths = append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	return lengths
}

// Labelled are features with rewards, as a belief takes them.
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
			return l, fmt.Errorf("oracle: state %d: %w", i, err)
		}
	}
	return l, nil
}

// Infer returns the z that explains the rewards best: least squares with the prior λ.
func (l Labelled) Infer(lambda float64) ([]float64, error) {
	if len(l.Reward) == 0 {
		return nil, errors.New("oracle: infer z: no labelled states")
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
