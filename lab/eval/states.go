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
	// Episodes are the lengths of the episodes that the states are of, one after
	// the other: their sum is n. Empty: they have nothing to do with each other.
	Episodes []int
}

// Names in a file of states: of a task's rewards, and of the episodes' lengths.
const (
	rewardKey   = "reward_"
	episodesKey = "episode_length"
)

// ReadStates reads an .npz file with obs [n, O], for each task reward_TASK [n], and
// episode_length [k], which may be left out, as scripts/label_states.py writes it.
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
	if s.Episodes, err = readEpisodes(archive, len(s.Reward)); err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w", path, err)
	}
	return s, nil
}

// readEpisodes returns the lengths of the episodes of n states, nil where the file
// has none.
func readEpisodes(archive npz.Archive, n int) ([]int, error) {
	array, err := archive.Shaped(episodesKey, -1)
	if errors.Is(err, npz.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lengths, err := array.Int64s()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", episodesKey, err)
	}
	episodes, left := make([]int, len(lengths)), int64(n)
	for i, length := range lengths {
		if length < 1 || length > left {
			return nil, fmt.Errorf("%s: episode %d has a length of %d, %d of %d states are left: label the states again", episodesKey, i, length, left, n)
		}
		left -= length
		episodes[i] = int(length)
	}
	if left > 0 {
		return nil, fmt.Errorf("%s: %d of %d states are of no episode: label the states again", episodesKey, left, n)
	}
	return episodes, nil
}

// RoverStates drives a rover about with exploring actions and returns n of its
// states, in episodes, with the rewards of its task.
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
	return &States{Obs: data.Obs, Reward: reward, Episodes: runLengths(data.Episode)}, nil
}

// runLengths are the numbers of equal elements in a row.
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

// Draw returns n of the states: the episodes in random order, each from its
// beginning to its end, until there are n. The last is cut. The first of n states
// are those of any larger n that is drawn in the same order.
func (s *States) Draw(n int, random *rand.Rand) (*States, error) {
	if err := s.enough(n); err != nil {
		return nil, err
	}
	o := len(s.Obs) / max(1, len(s.Reward))
	drawn := &States{Obs: make([]float32, 0, n*o), Reward: make([]float64, 0, n)}
	starts := s.starts()
	for _, k := range random.Perm(len(starts) - 1) {
		from, end := starts[k], min(starts[k+1], starts[k]+n-len(drawn.Reward))
		if from == end {
			break
		}
		drawn.Obs = append(drawn.Obs, s.Obs[from*o:end*o]...)
		drawn.Reward = append(drawn.Reward, s.Reward[from:end]...)
		drawn.Episodes = append(drawn.Episodes, end-from)
	}
	return drawn, nil
}

func (s *States) enough(n int) error {
	if total := len(s.Reward); n > total {
		return fmt.Errorf("eval: states: there are %d, %d are wanted: record more", total, n)
	}
	return nil
}

// starts are the rows at which the episodes begin, and the number of rows. A state
// that has nothing to do with others is an episode.
func (s *States) starts() []int {
	starts := make([]int, 1, len(s.Reward)+1)
	if len(s.Episodes) == 0 {
		for i := range s.Reward {
			starts = append(starts, i+1)
		}
	}
	for _, length := range s.Episodes {
		starts = append(starts, starts[len(starts)-1]+length)
	}
	return starts
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
