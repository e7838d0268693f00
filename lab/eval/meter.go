package eval

import (
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
)

// meter is the robot of a trial as the agent sees it. It measures the processor time of the
// simulator, which does not count as the agent's, and returns the reward of the trial.
type meter struct {
	Simulator
	reward func(obs []float32, r float64) (float64, error) // nil: the simulator's reward

	obs     []float32     // of the last Sense
	episode int           // from 0; -1 before the first
	elapsed time.Duration // processor time in the simulator
	err     error         // the first error of reward
}

var (
	_ hal.Robot    = (*meter)(nil)
	_ hal.Resetter = (*meter)(nil)
	_ hal.Rewarder = (*meter)(nil)
)

func newMeter(s Simulator) *meter {
	return &meter{Simulator: s, episode: -1, obs: make([]float32, len(s.Spec().Obs))}
}

func (m *meter) Sense(obs []float32) (int64, error) {
	defer m.measure(processorTime())
	at, err := m.Simulator.Sense(obs)
	copy(m.obs, obs)
	return at, err
}

func (m *meter) Act(action []float32) error {
	defer m.measure(processorTime())
	return m.Simulator.Act(action)
}

func (m *meter) Reset(seed uint64) error {
	defer m.measure(processorTime())
	m.episode++
	return m.Simulator.Reset(seed)
}

func (m *meter) Reward() (float64, bool) {
	defer m.measure(processorTime())
	r, ok := m.Simulator.Reward()
	if !ok || m.reward == nil {
		return r, ok
	}
	r, err := m.reward(m.obs, r)
	if err != nil && m.err == nil {
		m.err = err
	}
	return r, err == nil
}

func (m *meter) measure(since time.Duration) { m.elapsed += processorTime() - since }

// processorTime is that of the calling thread: neither other processes nor the wait for a simulator
// in another process count.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
