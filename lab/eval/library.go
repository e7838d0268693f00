package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"optibfm/controller"
	"optibfm/episodes/oracle"
	"optibfm/hal/rover"
	"optibfm/internal/safefile"
	"optibfm/tflite"
)

// library holds what trials share: models, labelled states and the z inferred from all of them. The
// first trial that needs an entry makes it.
type library struct {
	models  cache[*tflite.Bundle] // by bundle
	states  cache[*oracle.States] // by bundle, file and task
	oracles cache[[]float64]      // z, by the same
}

// cache makes the value of a key once.
type cache[T any] struct {
	mu      sync.Mutex
	entries map[string]func() (T, error)
}

func (c *cache[T]) get(key string, produce func() (T, error)) (T, error) {
	c.mu.Lock()
	if c.entries == nil {
		c.entries = map[string]func() (T, error){}
	}
	entry := c.entries[key]
	if entry == nil {
		entry = sync.OnceValues(produce)
		c.entries[key] = entry
	}
	c.mu.Unlock()
	return entry()
}

func (l *library) model(bundle string) (*tflite.Bundle, error) {
	return l.models.get(bundle, func() (*tflite.Bundle, error) {
		if bundle == EmbeddedRover {
			return tflite.Load(rover.Model())
		}
		b, err := tflite.LoadDir(bundle)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("eval: model: %w; docs/shipped-models.md lists the models that are only in the history", err)
		}
		if err != nil {
			return nil, fmt.Errorf("eval: model: %w", err)
		}
		if !b.HasCovariance() {
			return nil, fmt.Errorf("eval: model: %s: %w", bundle, tflite.ErrNoCovariance)
		}
		return b, nil
	})
}

// Optional files of a bundle.
const (
	statesFileName = "states.npz"
	rndFileName    = "rnd.npz"
	oracleFileName = "oracle.json"
)

// Number and seed of the simulated states of the rover.
const (
	roverStates     = 50_000
	roverStatesSeed = 2
)

var errNoStates = errors.New("no file of labelled states; make one with scripts/label_states.py and name it as " +
	"the model's states, or put it into the bundle as " + statesFileName)

// stateKey identifies the labelled states of a trial.
func (t Trial) stateKey() string { return t.Model.Bundle + " " + t.Model.States + " " + t.Task }

// statesFile returns the path of the trial's labelled states, which may not exist.
func (t Trial) statesFile() string {
	if t.Model.States != "" {
		return t.Model.States
	}
	return filepath.Join(t.Model.Bundle, statesFileName)
}

// labelledStates returns all states of the trial's model and task.
func (l *library) labelledStates(t Trial) (*oracle.States, error) {
	return l.states.get(t.stateKey(), func() (*oracle.States, error) {
		s, err := l.simulatedStates(t)
		if err != nil || t.reward == nil {
			return s, err
		}
		bundle, err := l.model(t.Model.Bundle)
		if err != nil {
			return nil, err
		}
		return t.reward.label(s, bundle.Observation)
	})
}

// simulatedStates returns the states with the rewards of the simulator's task.
func (l *library) simulatedStates(t Trial) (*oracle.States, error) {
	_, err := os.Stat(t.statesFile())
	if t.Model.States != "" || !errors.Is(err, fs.ErrNotExist) {
		return l.readStates(t, t.statesFile())
	}
	if t.Env != Rover {
		return nil, fmt.Errorf("eval: states: %s: %w", t.Model.Bundle, errNoStates)
	}
	cfg := rover.DefaultConfig()
	cfg.Task = t.simulated()
	robot, err := rover.New(cfg)
	if err != nil {
		return nil, err
	}
	return oracle.Record(robot, cfg.RewardOf, roverStates, roverStatesSeed)
}

func (l *library) readStates(t Trial, path string) (*oracle.States, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	return ReadStates(path, t.simulated(), bundle.Dims().Obs)
}

// rndStates returns the states that random network distillation recorded.
func (l *library) rndStates(t Trial) (*oracle.States, error) {
	path := filepath.Join(filepath.Dir(t.statesFile()), rndFileName)
	return l.states.get(path+" "+t.stateKey(), func() (*oracle.States, error) { return l.readStates(t, path) })
}

// drawLabelled draws n states with the trial's seed and computes their features.
func (l *library) drawLabelled(t Trial, states func(Trial) (*oracle.States, error), n int) (oracle.Labelled, error) {
	all, err := states(t)
	if err != nil {
		return oracle.Labelled{}, err
	}
	drawn, err := drawStates(all, n, t.settings.Draw[0], t.random(statesStream))
	if err != nil {
		return oracle.Labelled{}, err
	}
	return l.label(t, drawn)
}

func (l *library) label(t Trial, s *oracle.States) (oracle.Labelled, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return oracle.Labelled{}, err
	}
	network, err := bundle.NewNetwork()
	if err != nil {
		return oracle.Labelled{}, err
	}
	return s.Label(network)
}

// basis returns the basis of the task prior of the trial's model, nil if it has none.
func (l *library) basis(t Trial) (*controller.Basis, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil || bundle.Prior == nil {
		return nil, err
	}
	prior := bundle.Prior
	if r := t.settings.Residuals; len(r) > 0 && r[0] == 0 {
		prior = prior.WithoutResiduals()
	}
	return controller.NewBasis(prior)
}

// explain returns the z that explains all labelled states of the trial's task best, also where only
// a part of them is there, or only that z.
func (l *library) explain(t Trial) ([]float64, error) {
	return l.oracles.get(t.stateKey(), func() ([]float64, error) {
		all, err := l.labelledStates(t)
		if errors.Is(err, errNoStates) && l.keeps(t) {
			return l.kept(t, oracle.Whole{})
		}
		if err != nil {
			return nil, err
		}
		if all.Whole.Number > 0 {
			return l.kept(t, all.Whole)
		}
		labelled, err := l.label(t, all)
		if err != nil {
			return nil, err
		}
		return labelled.Infer(1)
	})
}

// keeps reports whether there is a file with the z of all states of the trial.
func (l *library) keeps(t Trial) bool {
	_, err := os.Stat(t.keptFile())
	return err == nil
}

// oracle infers z from n labelled states. Without states it returns the z of all of them, if that
// was kept, or else that of the bundle's oracle.json.
func (l *library) oracle(t Trial, n int) ([]float64, error) {
	all, err := l.labelledStates(t)
	if errors.Is(err, errNoStates) {
		return l.oracleWithoutStates(t, n, err)
	}
	if err != nil {
		return nil, err
	}
	ridge := t.settings.Ridge[0]
	if n == cmp.Or(all.Whole.Number, len(all.Reward)) && ridge == 1 { // the order does not matter
		return l.explain(t)
	}
	labelled, err := l.drawLabelled(t, l.labelledStates, n)
	if err != nil {
		return nil, err
	}
	return labelled.Infer(ridge)
}

func (l *library) oracleWithoutStates(t Trial, n int, noStates error) ([]float64, error) {
	if !l.keeps(t) {
		path := filepath.Join(t.Model.Bundle, oracleFileName)
		if usual := defaultSettings(); n != usual.Labels[0] || t.settings.Ridge[0] != usual.Ridge[0] {
			return nil, fmt.Errorf("eval: labels %d, ridge %g: %s has only the z of its training: %w; or remove both settings",
				n, t.settings.Ridge[0], path, noStates)
		}
		return readOracle(path, t.Task, noStates)
	}
	kept, err := readKept(t.keptFile())
	if err != nil {
		return nil, err
	}
	if n != kept.Number || t.settings.Ridge[0] != 1 {
		return nil, fmt.Errorf("eval: %s has z of %d states with a ridge of 1, not of %d with %g: %w",
			t.keptFile(), kept.Number, n, t.settings.Ridge[0], noStates)
	}
	return l.explain(t)
}

// maxOracle is the largest file of an oracle, bytes.
const maxOracle = 64 << 20

// readOracle reads {TASK: z} or {"z": {TASK: z}, ...}. A missing file is the error otherwise.
func readOracle(path, task string, otherwise error) ([]float64, error) {
	text, err := safefile.Read(path, maxOracle)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, otherwise
	}
	if err != nil {
		return nil, fmt.Errorf("eval: oracle: %w", err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: %w; want a map from task to z", path, err)
	}
	if nested, ok := file["z"]; ok {
		if err := json.Unmarshal(nested, &file); err != nil {
			return nil, fmt.Errorf("eval: oracle: %s: z: %w; want a map from task to z", path, err)
		}
	}
	var z []float64
	if err := json.Unmarshal(file[task], &z); err != nil {
		return nil, fmt.Errorf("eval: oracle: %s: no z of task %s (%w); add it, or label states", path, task, err)
	}
	return z, nil
}

// checkUnchanged refuses a model whose weights differ from those of the finished trials.
func (l *library) checkUnchanged(t Trial, results *Results) error {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return err
	}
	return results.checkModel(t.Model.Bundle, bundle.Hash)
}

// check reports whether the trial's model and the labelled states that it needs exist.
func (l *library) check(t Trial) error {
	if _, err := l.model(t.Model.Bundle); err != nil {
		return err
	}
	if err := l.checkRND(t); err != nil {
		return err
	}
	n := t.neededStates()
	if n == 0 {
		return nil
	}
	all, err := l.labelledStates(t)
	if err == nil && all.Whole.Number == 0 {
		return checkEnough(all, n)
	}
	if err != nil && !errors.Is(err, errNoStates) {
		return err
	}
	return l.checkPart(t, all, err)
}

// checkPart is check where only a part of the states is there, or none of them.
func (l *library) checkPart(t Trial, part *oracle.States, missing error) error {
	if t.explains() {
		if _, err := l.explain(t); err != nil {
			return err
		}
	}
	n := t.settings.Labels[0]
	if t.Method == Oracle && (missing != nil || n > len(part.Reward)) { // draws are for the trial
		if _, err := l.oracle(t, n); err != nil {
			return err
		}
	}
	if n = t.settings.WarmStart[0]; n == 0 {
		return nil
	}
	if missing != nil {
		return missing
	}
	return checkEnough(part, n)
}

func (l *library) checkRND(t Trial) error {
	if !t.collectedByRND() {
		return nil
	}
	all, err := l.rndStates(t)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; make it with scripts/collect_dmc.py --curious and scripts/label_states.py "+
			"--only curious, or remove by: rnd", err)
	}
	if err != nil {
		return err
	}
	return checkEnough(all, t.settings.Labels[0])
}
