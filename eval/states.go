package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"optibfm/hal/collect"
	"optibfm/hal/rover"
	"optibfm/internal/npz"
	"optibfm/posterior"
	"optibfm/tflite"
)

// States are states with the rewards that tasks give them: what an oracle infers
// z from, and a warm start begins with.
type States struct {
	Obs    []float32            // [n, O]
	Reward map[string][]float64 // by task, [n] each
}

// Len is n.
func (s *States) Len() int {
	for _, r := range s.Reward {
		return len(r)
	}
	return 0
}

// rewardKey is the name of a task's rewards in a file of states.
const rewardKey = "reward_"

// ReadStates reads an .npz file with obs [n, O] and, for each task, reward_TASK
// [n], as scripts/label_states.py writes it.
func ReadStates(path string, obs int, task string) (*States, error) {
	archive, err := npz.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("eval: states: %w", err)
	}
	rows, err := archive.Shaped("obs", -1, obs)
	if err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w", path, err)
	}
	s := &States{Reward: map[string][]float64{}}
	if s.Obs, err = rows.Float32s(); err != nil {
		return nil, fmt.Errorf("eval: states: %s: obs: %w", path, err)
	}
	reward, err := archive.Shaped(rewardKey+task, rows.Shape()[0])
	if err != nil {
		return nil, fmt.Errorf("eval: states: %s: %w", path, err)
	}
	s.Reward[task] = reward.Float64s()
	return s, nil
}

// RoverStates drives the rover about, with exploring actions, and returns n of
// its states with a task's rewards.
func RoverStates(cfg rover.Config, task string, n int, seed uint64) (*States, error) {
	cfg.Now, cfg.Task = nil, task
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
		if reward[i], err = rover.Reward(task, data.Obs[i*o:(i+1)*o]); err != nil {
			return nil, err
		}
	}
	return &States{Obs: data.Obs, Reward: map[string][]float64{task: reward}}, nil
}

// Labelled are states as a belief takes them.
type Labelled struct {
	Phi    []float64 // [n, d]
	Reward []float64 // [n]
}

// Label computes the features of all states.
func (s *States) Label(m tflite.Model, task string) (Labelled, error) {
	d, o := m.Dims().Latent, m.Dims().Obs
	l := Labelled{Phi: make([]float64, s.Len()*d), Reward: s.Reward[task]}
	for i := range l.Reward {
		if err := m.Phi(l.Phi[i*d:(i+1)*d], s.Obs[i*o:(i+1)*o]); err != nil {
			return l, fmt.Errorf("eval: states: row %d: %w", i, err)
		}
	}
	return l, nil
}

// Draw returns n of the states, drawn without repetition, in the order drawn.
func (l Labelled) Draw(n int, random *rand.Rand) (Labelled, error) {
	if n > len(l.Reward) {
		return Labelled{}, fmt.Errorf("eval: states: there are %d, %d are wanted: record more", len(l.Reward), n)
	}
	d := len(l.Phi) / max(1, len(l.Reward))
	drawn := Labelled{Phi: make([]float64, 0, n*d), Reward: make([]float64, 0, n)}
	for _, i := range random.Perm(len(l.Reward))[:n] {
		drawn.Phi = append(drawn.Phi, l.Phi[i*d:(i+1)*d]...)
		drawn.Reward = append(drawn.Reward, l.Reward[i])
	}
	return drawn, nil
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

// library holds what trials share: the models, and their labelled states.
type library struct {
	mu     sync.Mutex
	models map[string]*shared[*tflite.Bundle] // by bundle
	states map[string]*shared[Labelled]       // by bundle, file and task
}

// shared is made once, by the first who asks.
type shared[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (s *shared[T]) get(make func() (T, error)) (T, error) {
	s.once.Do(func() { s.value, s.err = make() })
	return s.value, s.err
}

func newLibrary() *library {
	return &library{models: map[string]*shared[*tflite.Bundle]{}, states: map[string]*shared[Labelled]{}}
}

// entry returns the entry of a key, which it makes where it is missing.
func entry[T any](mu *sync.Mutex, m map[string]*shared[T], key string) *shared[T] {
	mu.Lock()
	defer mu.Unlock()
	if m[key] == nil {
		m[key] = &shared[T]{}
	}
	return m[key]
}

func (l *library) model(bundle string) (*tflite.Bundle, error) {
	return entry(&l.mu, l.models, bundle).get(func() (*tflite.Bundle, error) {
		if bundle == EmbeddedRover {
			return tflite.Load(rover.Model())
		}
		b, err := tflite.LoadDir(bundle)
		if err != nil {
			return nil, fmt.Errorf("eval: model: %w", err)
		}
		return b, nil
	})
}

// checkModel finds out whether a trial's model can be used at all.
func (l *library) checkModel(t Trial) error {
	b, err := l.model(t.Model.Bundle)
	if err != nil {
		return err
	}
	if !b.HasCovariance() {
		return fmt.Errorf("eval: model: %s: %w", t.Model.Bundle, tflite.ErrNoCovariance)
	}
	return nil
}

// checkStates finds out whether a trial's labelled states are there.
func (l *library) checkStates(t Trial, n int) error {
	if t.Method == Oracle && len(t.settings.Nonlinearity) == 0 {
		_, err := l.oracle(t.Env, t.Task, t.Model, n, t.random(statesStream))
		return err
	}
	labelled, err := l.labelled(t.Env, t.Task, t.Model)
	if err == nil && n > len(labelled.Reward) {
		_, err = labelled.Draw(n, nil)
	}
	return err
}

// statesFileName and oracleFileName are looked for in a bundle.
const (
	statesFileName = "states.npz"
	oracleFileName = "oracle.json"
)

// roverStates is how many states of the rover are made, and with which seed.
const (
	roverStates     = 50_000
	roverStatesSeed = 2
)

// errNoStates says that there are no labelled states for a model.
var errNoStates = errors.New("there is no file of labelled states: make one with scripts/label_states.py, and name it as the model's states or put it into the bundle as " + statesFileName)

// labelled returns the labelled states of a model and a task.
func (l *library) labelled(env, task string, m Model) (Labelled, error) {
	return entry(&l.mu, l.states, m.Bundle+" "+m.States+" "+task).get(func() (Labelled, error) {
		bundle, err := l.model(m.Bundle)
		if err != nil {
			return Labelled{}, err
		}
		network, err := bundle.NewNetwork()
		if err != nil {
			return Labelled{}, err
		}
		states, err := openStates(env, task, m, network.Dims().Obs)
		if err != nil {
			return Labelled{}, err
		}
		return states.Label(network, task)
	})
}

func openStates(env, task string, m Model, obs int) (*States, error) {
	path := m.States
	if path == "" {
		path = filepath.Join(m.Bundle, statesFileName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if env == Rover {
				return RoverStates(rover.DefaultConfig(), task, roverStates, roverStatesSeed)
			}
			return nil, fmt.Errorf("eval: states: %s: %w", m.Bundle, errNoStates)
		}
	}
	return ReadStates(path, obs, task)
}

// oracle returns the z of a task that n labelled states tell, or where there are
// none the one of the bundle's oracle.json, a map from task to z.
func (l *library) oracle(env, task string, m Model, n int, random *rand.Rand) ([]float64, error) {
	all, err := l.labelled(env, task, m)
	if errors.Is(err, errNoStates) {
		return readOracle(filepath.Join(m.Bundle, oracleFileName), task, err)
	}
	if err != nil {
		return nil, err
	}
	drawn, err := all.Draw(n, random)
	if err != nil {
		return nil, err
	}
	return drawn.Infer(1)
}

func readOracle(path, task string, otherwise error) ([]float64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, otherwise
	}
	if err != nil {
		return nil, fmt.Errorf("eval: oracle: %w", err)
	}
	var z map[string]json.RawMessage
	if err := json.Unmarshal(text, &z); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: %w: want a map from task to z", path, err)
	}
	if nested, ok := z["z"]; ok {
		if err := json.Unmarshal(nested, &z); err != nil {
			return nil, fmt.Errorf("eval: oracle: %s: z: %w: want a map from task to z", path, err)
		}
	}
	var found []float64
	if err := json.Unmarshal(z[task], &found); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: no z of task %s (%w): add it, or record labelled states", path, task, err)
	}
	return found, nil
}
