package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"optibfm/episodes/oracle"
	"optibfm/internal/safefile"
)

// keptOracles are z inferred from all states of a record, of which the repository then needs only a
// part.
type keptOracles struct {
	States string       `json:"states"` // sha256 of the file of all states
	Number int          `json:"number"` // of these states
	Z      []keptOracle `json:"z"`
}

type keptOracle struct {
	Model   string    `json:"model"` // sha256 of the weights
	Task    string    `json:"task"`
	Factors []Factor  `json:"factors,omitempty"` // of a task that the protocol defines
	Z       []float64 `json:"z"`
}

// errNotAll is wrapped where z of all states is wanted and only a part of them is there.
var errNotAll = errors.New("restore all states (docs/experiments.md), or label others (scripts/label_states.py)")

// readKept reads the oracles of a record. A missing file is an error that wraps fs.ErrNotExist.
func readKept(path string) (kept keptOracles, err error) {
	text, err := safefile.Read(path, maxOracle)
	if err != nil {
		return kept, fmt.Errorf("eval: oracles of all states: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&kept); err != nil {
		return kept, fmt.Errorf("eval: oracles of all states: %s: %w; write it again (optibfm-lab eval keep)", path, err)
	}
	return kept, nil
}

// index returns the place of a reward, -1 if it has no z. Tasks of the simulator have no factors.
func (k keptOracles) index(model, task string, factors []Factor) int {
	return slices.IndexFunc(k.Z, func(o keptOracle) bool {
		return o.Model == model && o.Task == task && reflect.DeepEqual(o.Factors, factors)
	})
}

// factors returns those of a task that the protocol defines.
func (t Trial) factors() []Factor {
	if t.reward == nil {
		return nil
	}
	return t.reward.Factors
}

// keptFile returns the optional file of oracles beside that of the trial's states.
func (t Trial) keptFile() string {
	return strings.TrimSuffix(t.statesFile(), filepath.Ext(t.statesFile())) + ".json"
}

// kept returns z of all states, of which only a part or none is there.
func (l *library) kept(t Trial, whole oracle.Whole) ([]float64, error) {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return nil, err
	}
	kept, err := readKept(t.keptFile())
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, errNotAll)
	}
	wrong := ""
	at := kept.index(bundle.Hash, t.Task, t.factors())
	switch {
	case whole.Number > 0 && (oracle.Whole{Number: kept.Number, SHA256: kept.States}) != whole:
		wrong = fmt.Sprintf("is of %d states %.12s, not %d of %.12s", kept.Number, kept.States, whole.Number, whole.SHA256)
	case at < 0:
		wrong = fmt.Sprintf("has no z of task %s with this reward and the weights %.12s", t.Task, bundle.Hash)
	case len(kept.Z[at].Z) != bundle.Dims().Latent:
		wrong = fmt.Sprintf("has %d elements of z of task %s, not %d", len(kept.Z[at].Z), t.Task, bundle.Dims().Latent)
	default:
		return kept.Z[at].Z, nil
	}
	return nil, fmt.Errorf("eval: oracles of all states: %s %s; %w", t.keptFile(), wrong, errNotAll)
}

// Keep infers z of each model and task of a protocol from all of the model's labelled states, and
// saves it beside the states. It returns the files that it wrote. Models without a file of states
// have none.
func Keep(p Protocol) (written []string, err error) {
	lib := &library{}
	for _, e := range p.Environments {
		for _, m := range e.Models {
			trial := Trial{Env: e.Name, Model: m, settings: defaultSettings()}
			if _, err := os.Stat(trial.statesFile()); m.States == "" && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := lib.keep(e, trial); err != nil {
				return written, err
			}
			if !slices.Contains(written, trial.keptFile()) {
				written = append(written, trial.keptFile())
			}
		}
	}
	return written, nil
}

// keep saves z of the tasks of an environment, beside those of other rewards from the same states.
func (l *library) keep(e Environment, t Trial) error {
	bundle, err := l.model(t.Model.Bundle)
	if err != nil {
		return err
	}
	hash, err := hashFile(t.statesFile())
	if err != nil {
		return err
	}
	kept, err := readKept(t.keptFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if kept.States != hash {
		kept = keptOracles{States: hash}
	}
	for _, t.Task = range e.Tasks {
		t.reward = e.reward(t.Task)
		states, err := l.labelledStates(t)
		if err != nil {
			return err
		}
		if states.Whole.Number > 0 {
			return fmt.Errorf("eval: %s is a part of its states; %w", t.statesFile(), errNotAll)
		}
		z, err := l.explain(t)
		if err != nil {
			return err
		}
		kept.Number = len(states.Reward)
		kept.set(keptOracle{Model: bundle.Hash, Task: t.Task, Factors: t.factors(), Z: z})
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return safefile.Replace(t.keptFile(), 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

func (k *keptOracles) set(o keptOracle) {
	if at := k.index(o.Model, o.Task, o.Factors); at >= 0 {
		k.Z[at] = o
		return
	}
	k.Z = append(k.Z, o)
}

func hashFile(path string) (string, error) {
	f, _, err := safefile.Open(path)
	if err != nil {
		return "", fmt.Errorf("eval: states: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("eval: states: %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
