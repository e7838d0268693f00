package eval

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"

	"optibfm/episodes/oracle"
	"optibfm/internal/npz"
)

// Arrays of a file of states: rewards of a task, lengths of the episodes.
const (
	rewardKey   = "reward_"
	episodesKey = "episode_length"
	wholeKey    = "whole_states" // number of the states of which the file has a part
	hashKey     = "whole_sha256" // sha256 of their file, 32 bytes
)

// ReadStates reads an .npz file that scripts/label_states.py wrote: obs [n, O], reward_TASK [n] for
// each task and, optionally, episode_length [k]. With --part also whole_states [1] and whole_sha256
// [32].
func ReadStates(path, task string, obs int) (*oracle.States, error) {
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
	s := &oracle.States{Reward: reward.Float64s()}
	if s.Obs, err = rows.Float32s(); err != nil {
		return nil, fmt.Errorf("eval: states: %s: obs: %w", path, err)
	}
	if s.Episodes, err = readEpisodes(archive, len(s.Reward)); err != nil {
		return nil, fmt.Errorf("eval: states: %s: %s: %w", path, episodesKey, err)
	}
	if s.Whole, err = readWhole(archive, len(s.Reward)); err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w; label the states again", path, err)
	}
	return s, nil
}

// maxStates is far above any record.
const maxStates = 1_000_000_000

// readWhole returns the states of which n are a part.
func readWhole(archive npz.Archive, n int) (w oracle.Whole, err error) {
	array, err := archive.Shaped(wholeKey, 1)
	if errors.Is(err, npz.ErrMissing) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	number, err := array.Int64s()
	if err != nil {
		return w, fmt.Errorf("%s: %w", wholeKey, err)
	}
	if number[0] < int64(n) || number[0] > maxStates {
		return w, fmt.Errorf("%s is %d, but the part has %d", wholeKey, number[0], n)
	}
	if array, err = archive.Shaped(hashKey, sha256.Size); err != nil {
		return w, err
	}
	hash, err := array.Int64s()
	if err != nil {
		return w, fmt.Errorf("%s: %w", hashKey, err)
	}
	w.Number = int(number[0])
	for _, b := range hash {
		w.SHA256 += fmt.Sprintf("%02x", b)
	}
	return w, nil
}

// readEpisodes returns the lengths of the episodes of n states, nil if the file has none.
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
		return nil, err
	}
	episodes, left := make([]int, len(lengths)), int64(n)
	for i, length := range lengths {
		if length < 1 || length > left {
			return nil, fmt.Errorf("episode %d has length %d, but %d of %d states are left; label the states again",
				i, length, left, n)
		}
		left -= length
		episodes[i] = int(length)
	}
	if left > 0 {
		return nil, fmt.Errorf("%d of %d states belong to no episode; label the states again", left, n)
	}
	return episodes, nil
}

// drawStates returns n of the states, independent ones without replacement, or whole episodes in
// random order, the last one cut. With the same random numbers, the first n states of a larger draw
// are those of a draw of n.
func drawStates(s *oracle.States, n int, draw string, random *rand.Rand) (*oracle.States, error) {
	if err := checkEnough(s, n); err != nil {
		return nil, err
	}
	o := len(s.Obs) / max(1, len(s.Reward))
	drawn := &oracle.States{Obs: make([]float32, 0, n*o), Reward: make([]float64, 0, n)}
	if draw == drawIndependent {
		for _, i := range random.Perm(len(s.Reward))[:n] {
			drawn.Obs = append(drawn.Obs, s.Obs[i*o:(i+1)*o]...)
			drawn.Reward = append(drawn.Reward, s.Reward[i])
		}
		return drawn, nil
	}
	starts := episodeStarts(s)
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

func checkEnough(s *oracle.States, n int) error {
	total := len(s.Reward)
	if n > total && s.Whole.Number > 0 {
		return fmt.Errorf("eval: states: found %d of %d, need %d; %w", total, s.Whole.Number, n, errNotAll)
	}
	if n > total {
		return fmt.Errorf("eval: states: found %d, need %d; record more", total, n)
	}
	return nil
}

// episodeStarts returns the first row of each episode, then the number of rows. An independent
// state is an episode of one.
func episodeStarts(s *oracle.States) []int {
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
