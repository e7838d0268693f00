package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"optibfm/episodes/oracle"
	"optibfm/hal/rover"
	"optibfm/tflite"
)

// Reward is a reward of an observation, in [0, 1]: the product of its factors. It defines a task
// that the simulator does not have.
type Reward struct {
	// Task is its name.
	Task string `yaml:"task"`
	// Factors are at least one.
	Factors []Factor `yaml:"factors"`
}

// Factor is 1 where a channel is within its range. Outside it falls along a Gaussian, to 0.1 at the
// margin, as dm_control's tolerance does.
type Factor struct {
	// Channel is the name of a channel of the observation.
	Channel string `yaml:"channel" json:"channel"`
	// Range is the least and the greatest value with a factor of 1.
	Range []float64 `yaml:"range" json:"range"`
	// Margin is the distance from the range at which the factor is 0.1, above 0.
	Margin float64 `yaml:"margin" json:"margin"`
}

func (f Factor) at(x float64) float64 {
	d := max(f.Range[0]-x, x-f.Range[1], 0) / f.Margin
	return math.Pow(0.1, d*d)
}

// on returns the reward as a function of observations of these channels. Without factors it is that
// of the rover's task.
func (r *Reward) on(channels []tflite.Channel) (func(obs []float32) float64, error) {
	if len(r.Factors) == 0 {
		if _, err := rover.Reward(r.Task, make([]float32, len(channels))); err != nil {
			return nil, fmt.Errorf("eval: reward: %w", err)
		}
		return func(obs []float32) float64 {
			reward, _ := rover.Reward(r.Task, obs) // checked above
			return reward
		}, nil
	}
	index := make([]int, len(r.Factors))
	for i, f := range r.Factors {
		index[i] = slices.IndexFunc(channels, func(c tflite.Channel) bool { return c.Name == f.Channel })
		if index[i] < 0 {
			return nil, fmt.Errorf("eval: reward: the model has no channel %q", f.Channel)
		}
	}
	return func(obs []float32) float64 {
		product := 1.0
		for i, f := range r.Factors {
			product *= f.at(float64(obs[index[i]]))
		}
		return product
	}, nil
}

// label replaces the rewards of states of these channels.
func (r *Reward) label(s *oracle.States, channels []tflite.Channel) (*oracle.States, error) {
	reward, err := r.on(channels)
	if err != nil {
		return nil, err
	}
	labelled := *s
	labelled.Reward = make([]float64, len(s.Reward))
	for i := range labelled.Reward {
		labelled.Reward[i] = reward(s.Obs[i*len(channels) : (i+1)*len(channels)])
	}
	return &labelled, nil
}

func (c *checker) factor(path string, f Factor) {
	if f.Channel == "" {
		c.add(path+".channel", "is empty; give the name of a channel of the observation")
	}
	if len(f.Range) != 2 || !(f.Range[0] <= f.Range[1]) {
		c.add(path+".range", "is not a range (%v); give [low, high] in this order", f.Range)
	}
	if !(f.Margin > 0) {
		c.add(path+".margin", "is out of range (%g); use a number above 0", f.Margin)
	}
}

// rewards checks the rewards of an environment with these tasks of the simulator.
func (c *checker) rewards(path string, e Environment, simulated []string) {
	for i, r := range e.Rewards {
		at := fmt.Sprintf("%s.rewards[%d]", path, i)
		if slices.Contains(simulated, r.Task) || e.reward(r.Task) != &e.Rewards[i] {
			c.add(at+".task", "is taken (%q); choose another name", r.Task)
		}
		if r.Task != e.Becomes && !slices.Contains(e.Tasks, r.Task) {
			c.add(at+".task", "is not used (%q); add it to tasks (%s)", r.Task, strings.Join(e.Tasks, ", "))
		}
		if len(r.Factors) == 0 {
			c.add(at+".factors", "is empty; give at least one {channel, range, margin}")
		}
		for k, f := range r.Factors {
			c.factor(fmt.Sprintf("%s.factors[%d]", at, k), f)
		}
	}
}

// becomes checks the task from the middle episode on.
func (c *checker) becomes(path string, e Environment) {
	if e.Becomes == "" || e.reward(e.Becomes) != nil || e.Name == Rover && slices.Contains(roverTasks(), e.Becomes) {
		return
	}
	c.add(path+".becomes", "is unknown (%q); define it in rewards, or use a task of the rover", e.Becomes)
}

// reward returns the reward of a task, nil for that of the simulator.
func (e Environment) reward(task string) *Reward {
	i := slices.IndexFunc(e.Rewards, func(r Reward) bool { return r.Task == task })
	if i < 0 {
		return nil
	}
	return &e.Rewards[i]
}

// later returns the reward from the middle episode on, nil for the same.
func (e Environment) later() *Reward {
	if e.Becomes == "" {
		return nil
	}
	if r := e.reward(e.Becomes); r != nil {
		return r
	}
	return &Reward{Task: e.Becomes}
}

// simulated returns the task that the simulator runs.
func (t Trial) simulated() string {
	if t.reward == nil {
		return t.Task
	}
	return environmentTasks()[t.Env][0]
}

// rewardRange returns the range of the rewards of the trial's task.
func (t Trial) rewardRange() (low, high float64) {
	if t.reward == nil && t.Env == Rover {
		return -1, 1
	}
	return 0, 1
}
