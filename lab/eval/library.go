package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"optibfm/hal/rover"
	"optibfm/tflite"
)

// library holds what trials share: models, their labelled states, and what all of
// those tell. Each is made once, by the first trial that needs it.
type library struct {
	models  cache[*tflite.Bundle] // by bundle
	states  cache[*States]        // by bundle, file and task
	oracles cache[[]float64]      // z, by the same
}

// cache makes the value of a key once.
type cache[T any] struct {
	mu      sync.Mutex
	entries map[string]*cached[T]
}

type cached[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (c *cache[T]) get(key string, produce func() (T, error)) (T, error) {
	c.mu.Lock()
	if c.entries == nil {
		c.entries = map[string]*cached[T]{}
	}
	e := c.entries[key]
	if e == nil {
		e = &cached[T]{}
		c.entries[key] = e
	}
	c.mu.Unlock()
	e.once.Do(func() { e.value, e.err = produce() })
	return e.value, e.err
}

func (l *library) model(bundle string) (*tflite.Bundle, error) {
	return l.models.get(bundle, func() (*tflite.Bundle, error) {
		if bundle == EmbeddedRover {
			return tflite.Load(rover.Model())
		}
		b, err := tflite.LoadDir(bundle)
		if err != nil {
			return nil, fmt.Errorf("eval: model: %w", err)
		}
		if !b.HasCovariance() {
			return nil, fmt.Errorf("eval: model: %s: %w", bundle, tflite.ErrNoCovariance)
		}
		return b, nil
	})
}

// Files that are looked for in a bundle.
const (
	statesFileName = "states.npz"
	rndFileName    = "rnd.npz"
	oracleFileName = "oracle.json"
)

// The states of the rover that are made, and with which seed.
const (
	roverStates     = 50_000
	roverStatesSeed = 2
)

// errNoStates says that there are no labelled states for a model.
var errNoStates = errors.New("there is no file of labelled states: make one with scripts/label_states.py, and name it as the model's states or put it into the bundle as " + statesFileName)

// stateKey names a trial's labelled states.
func (t Trial) stateKey() string { return t.Model.Bundle + " " + t.Model.States + " " + t.Task }

// statesFile is where a trial's labelled states are, if anywhere.
func (t Trial) statesFile() string {
	if t.Model.States != "" {
		return t.Model.States
	}
	return filepath.Join(t.Model.Bundle, statesFileName)
}

// labelledStates are all of a trial's model and task.
func (l *library) labelledStates(t Trial) (*States, error) {
	return l.states.get(t.stateKey(), func() (*States, error) {
		if t.Model.States == "" {
			if _, err := os.Stat(t.statesFile()); errors.Is(err, fs.ErrNotExist) {
				return madeStates(t)
			}
		}
		return l.readStates(t, t.statesFile())
	})
}

func (l *library) readStates(t Trial, path string) (*States, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	return ReadStates(path, t.Task, bundle.Dims().Obs)
}

// rndStates are what random network distillation recorded.
func (l *library) rndStates(t Trial) (*States, error) {
	path := filepath.Join(filepath.Dir(t.statesFile()), rndFileName)
	return l.states.get(path+" "+t.stateKey(), func() (*States, error) { return l.readStates(t, path) })
}

// madeStates are those of an environment that can make its own.
func madeStates(t Trial) (*States, error) {
	if t.Env != Rover {
		return nil, fmt.Errorf("eval: states: %s: %w", t.Model.Bundle, errNoStates)
	}
	cfg := rover.DefaultConfig()
	cfg.Task = t.Task
	return RoverStates(cfg, roverStates, roverStatesSeed)
}

// labelled are n of a trial's states, drawn with its seed.
func (l *library) labelled(t Trial, n int) (Labelled, error) {
	all, err := l.labelledStates(t)
	if err != nil {
		return Labelled{}, err
	}
	return l.draw(t, all, n)
}

// collectedByRND are n states of random network distillation, drawn likewise.
func (l *library) collectedByRND(t Trial, n int) (Labelled, error) {
	all, err := l.rndStates(t)
	if err != nil {
		return Labelled{}, err
	}
	return l.draw(t, all, n)
}

func (l *library) draw(t Trial, all *States, n int) (Labelled, error) {
	drawn, err := all.Draw(n, t.random(statesStream))
	if err != nil {
		return Labelled{}, err
	}
	return l.features(t, drawn)
}

func (l *library) features(t Trial, s *States) (Labelled, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return Labelled{}, err
	}
	network, err := bundle.NewNetwork()
	if err != nil {
		return Labelled{}, err
	}
	return s.Label(network)
}

// explained is the z that explains all labelled states of a trial's task best.
func (l *library) explained(t Trial) ([]float64, error) {
	return l.oracles.get(t.stateKey(), func() ([]float64, error) {
		all, err := l.labelledStates(t)
		if err != nil {
			return nil, err
		}
		labelled, err := l.features(t, all)
		if err != nil {
			return nil, err
		}
		return labelled.Infer(1)
	})
}

// oracle returns the z that n labelled states tell, or where there are none the one
// of the bundle's oracle.json, a map from task to z.
func (l *library) oracle(t Trial, n int) ([]float64, error) {
	all, err := l.labelledStates(t)
	if errors.Is(err, errNoStates) {
		return readOracle(filepath.Join(t.Model.Bundle, oracleFileName), t.Task, err)
	}
	if err != nil {
		return nil, err
	}
	if n == len(all.Reward) { // in whatever order
		return l.explained(t)
	}
	labelled, err := l.labelled(t, n)
	if err != nil {
		return nil, err
	}
	return labelled.Infer(1)
}

func readOracle(path, task string, otherwise error) ([]float64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, otherwise
	}
	if err != nil {
		return nil, fmt.Errorf("eval: oracle: %w", err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: %w: want a map from task to z", path, err)
	}
	if nested, ok := file["z"]; ok { // beside which there may be more
		if err := json.Unmarshal(nested, &file); err != nil {
			return nil, fmt.Errorf("eval: oracle: %s: z: %w: want a map from task to z", path, err)
		}
	}
	var z []float64
	if err := json.Unmarshal(file[task], &z); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: no z of task %s (%w): add it, or label states", path, task, err)
	}
	return z, nil
}

// checkUnchanged refuses a model whose weights are not those with which finished
// trials were made.
func (l *library) checkUnchanged(t Trial, results *Results) error {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return err
	}
	return results.checkModel(t.Model.Bundle, bundle.Hash)
}

// check finds out whether a trial has its model and the labelled states that it
// needs.
func (l *library) check(t Trial) error {
	if _, err := l.model(t.Model.Bundle); err != nil {
		return err
	}
	if err := l.checkRND(t); err != nil {
		return err
	}
	n := t.needsStates()
	if n == 0 {
		return nil
	}
	all, err := l.labelledStates(t)
	if errors.Is(err, errNoStates) && t.Method == Oracle && len(t.settings.Nonlinearity) == 0 {
		_, err := l.oracle(t, n)
		return err
	}
	if err != nil {
		return err
	}
	return all.enough(n)
}

func (l *library) checkRND(t Trial) error {
	if !t.collectedByRND() {
		return nil
	}
	all, err := l.rndStates(t)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make it with scripts/collect_dmc.py --curious and scripts/label_states.py --only curious, or leave out by: rnd", err)
	}
	if err != nil {
		return err
	}
	return all.enough(t.settings.Labels[0])
}
