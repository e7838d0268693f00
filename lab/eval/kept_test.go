package eval

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

// keptProtocol has a task of the simulator and one that it defines, with all states at path.
func keptProtocol(path string) Protocol {
	fast := Reward{Task: "eastern", Factors: []Factor{{Channel: "x", Range: []float64{0.5, 1}, Margin: 0.25}}}
	return Protocol{Environments: []Environment{{
		Name: Rover, Tasks: []string{"spin", "eastern"}, Rewards: []Reward{fast},
		Models: []Model{{Bundle: EmbeddedRover, States: path}},
	}}}
}

// rewriteStates writes states number first to first+n-1 of a rover.
func rewriteStates(t *testing.T, path string, first, n int, more npz.Archive) {
	t.Helper()
	obs, reward := make([]float32, 6*n), make([]float32, n)
	for i := range reward {
		obs[6*i], obs[6*i+2], reward[i] = float32(first+i)/50, 1, float32(first+i)
	}
	states := npz.Archive{
		"obs": npz.Float32(obs, n, 6), "reward_spin": npz.Float32(reward), "reward_corner": npz.Float32(reward),
	}
	maps.Copy(states, more)
	fatal.If(t, npz.WriteFile(path, states))
}

// keptFolder returns the path of 50 states whose oracles are kept beside them.
func keptFolder(t *testing.T) (path string, p Protocol) {
	path = filepath.Join(t.TempDir(), "states.npz")
	rewriteStates(t, path, 0, 50, nil)
	p = keptProtocol(path)
	if _, err := Keep(p); err != nil {
		t.Fatal(err)
	}
	return path, p
}

// cut replaces a file of states, from the first number on, by its first 20, a part of the whole.
func cut(t *testing.T, path string, first, whole int) {
	t.Helper()
	hash, err := hashFile(path)
	fatal.If(t, err)
	digest, err := hex.DecodeString(hash)
	fatal.If(t, err)
	hashed := make([]int64, len(digest))
	for i, b := range digest {
		hashed[i] = int64(b)
	}
	rewriteStates(t, path, first, 20, npz.Archive{
		wholeKey: npz.Int64([]int64{int64(whole)}), hashKey: npz.Int64(hashed),
	})
}

// keptTrials returns an oracle of all 50 states for each task of a protocol.
func keptTrials(p Protocol) (trials []Trial) {
	e := p.Environments[0]
	for _, task := range e.Tasks {
		t := roverTrial(Oracle, task, e.Models[0].States, Settings{Labels: []int{50}})
		t.reward = e.reward(task)
		trials = append(trials, t)
	}
	return trials
}

func TestKeep_GivesThePartTheOracleOfAllStates(t *testing.T) {
	path, protocol := keptFolder(t)
	trials := keptTrials(protocol)
	var want [][]float64
	for _, trial := range trials {
		z, err := (&library{}).oracle(trial, 50)
		fatal.If(t, err)
		want = append(want, z)
	}
	before, err := os.ReadFile(trials[0].keptFile())
	fatal.If(t, err)
	written, err := Keep(protocol) // replaces the same entries
	after, errRead := os.ReadFile(trials[0].keptFile())
	if errors.Join(err, errRead) != nil || !bytes.Equal(before, after) ||
		!slices.Equal(written, []string{trials[0].keptFile()}) {
		t.Errorf("again: %v: %s, want %s: %v", written, after, before, errors.Join(err, errRead))
	}
	cut(t, path, 0, 50)
	for i, trial := range trials {
		lib := &library{}
		fatal.If(t, lib.check(trial))
		if z, err := lib.oracle(trial, 50); err != nil || !slices.Equal(z, want[i]) {
			t.Errorf("%s: z is %v, want %v: %v", trial.Task, z, want[i], err)
		}
		trial.settings.Labels = []int{10}
		if z, err := lib.oracle(trial, 10); err != nil || slices.Equal(z, want[i]) {
			t.Errorf("%s: z of ten drawn states is that of all: %v", trial.Task, err)
		}
	}
	if _, err := Keep(protocol); !errors.Is(err, errNotAll) {
		t.Errorf("keeping the oracle of a part: %v", err)
	}
}

func TestLibrary_NeverTakesAnOracleOfOtherStates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, trial *Trial)
		want   string
	}{
		"another reward": {func(_ *testing.T, _ string, trial *Trial) {
			changed := *trial.reward
			changed.Factors = []Factor{{Channel: "x", Range: []float64{0.5, 1}, Margin: 0.5}}
			trial.reward = &changed
		}, "has no z of task eastern with this reward"},
		"more states": {func(_ *testing.T, _ string, trial *Trial) {
			trial.settings.Labels = []int{51}
		}, "found 20 of 50, need 51"},
		"another ridge": {func(_ *testing.T, _ string, trial *Trial) {
			trial.settings.Ridge = []float64{2}
		}, "found 20 of 50, need 50"},
		"a part of other states": {func(t *testing.T, path string, _ *Trial) {
			rewriteStates(t, path, 0, 51, nil)
			cut(t, path, 0, 51)
		}, "found 20 of 51, need 50"},
		"a part of as many other states": {func(t *testing.T, path string, _ *Trial) {
			rewriteStates(t, path, 7, 50, nil)
			cut(t, path, 7, 50)
		}, "states.json is of 50 states"},
		"no oracles": {func(t *testing.T, path string, _ *Trial) {
			fatal.If(t, os.Remove(filepath.Join(filepath.Dir(path), "states.json")))
		}, "states.json: no such file"},
		"a key of a later version": {func(t *testing.T, path string, _ *Trial) {
			file := filepath.Join(filepath.Dir(path), "states.json")
			fatal.If(t, os.WriteFile(file, []byte(`{"scale": 2, "z": []}`), 0o644))
		}, `unknown field "scale"`},
	} {
		path, protocol := keptFolder(t)
		cut(t, path, 0, 50)
		trial := keptTrials(protocol)[1]
		c.change(t, path, &trial)
		if err := (&library{}).check(trial); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want something of %q", name, err, c.want)
		}
	}
}

func TestLibrary_OracleOfAllStatesNeedsNoFileOfStates(t *testing.T) {
	bundle := t.TempDir()
	for _, name := range []string{"bfm.json", "model.safetensors", "oracle.json"} {
		data, err := os.ReadFile(filepath.Join("../../models/cheetah-2", name))
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(filepath.Join(bundle, name), data, 0o644))
	}
	trial := Trial{
		Env: Cheetah, Task: "walk", Method: Oracle, Model: Model{Bundle: bundle}, settings: defaultSettings(),
	}
	old, err := (&library{}).oracle(trial, 50_000)
	fatal.If(t, err)
	few := trial
	few.settings.Labels = []int{1000}
	if err := (&library{}).check(few); !errors.Is(err, errNoStates) || !strings.Contains(err.Error(), "labels 1000") {
		t.Errorf("1,000 labels with only oracle.json: %v", err)
	}
	kept, err := os.ReadFile("../../models/cheetah-2/states.json")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(trial.keptFile(), kept, 0o644))
	if z, err := (&library{}).oracle(trial, 50_000); err != nil || slices.Equal(z, old) {
		t.Errorf("z is not that of all states: %v", err)
	}
	trial.settings.Labels = []int{1000}
	if err := (&library{}).check(trial); err == nil || !strings.Contains(err.Error(), "z of 50000 states") {
		t.Errorf("1,000 labels without states: %v", err)
	}
}
