package eval

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"optibfm/controller"
)

// Trial is one run of one method in one environment.
type Trial struct {
	Env    string
	Task   string
	Model  Model
	Method string
	Params string // as in a row
	Trial  int    // from 0
	Seed   uint64 // of everything random in it; the same for every method

	settings Settings // one value each, defaults filled in
	reward   *Reward  // of the task; nil: the simulator's
	becomes  *Reward  // from the middle episode on

	diagnoseEvery int // of the run
}

// ID names the trial among those of its protocol.
func (t Trial) ID() string {
	return strings.Join([]string{t.Env, t.Task, t.Model.Bundle, t.Method, t.Params, fmt.Sprint(t.Trial)}, " ")
}

// neededStates returns the number of labelled states that the trial needs.
func (t Trial) neededStates() int {
	n := t.settings.WarmStart[0]
	if t.Method == Oracle {
		n = max(n, t.settings.Labels[0])
	}
	if t.explains() {
		n = max(n, 1)
	}
	return n
}

// usesPrior reports whether the belief begins with the model's task prior, if it has one.
func (t Trial) usesPrior() bool {
	prior := t.settings.Prior
	if len(prior) > 0 {
		return prior[0] == controller.TaskPrior
	}
	return t.settings.Preset[0] == PresetPerson
}

// explains reports whether the trial needs the z that explains its task best.
func (t Trial) explains() bool { return len(t.settings.Nonlinearity) > 0 || t.diagnoses() }

// collectedByRND reports whether z is inferred from a record of random network distillation.
func (t Trial) collectedByRND() bool { return t.Method == Collected && t.settings.By[0] == RND }

// Trials lists the trials of an experiment, grouped by robot.
func (p Protocol) Trials() []Trial {
	var list []Trial
	for _, e := range p.Environments {
		for _, task := range e.Tasks {
			for _, model := range e.Models {
				for _, m := range p.Methods {
					list = append(list, p.trials(e, task, model, m)...)
				}
			}
		}
	}
	return list
}

func (p Protocol) trials(e Environment, task string, model Model, m Method) []Trial {
	var list []Trial
	for _, cell := range p.combined(e, m).cells() {
		params := cell.params()
		settings := cell.withDefaults()
		for i := range cmp.Or(m.Trials, p.Run.Trials) {
			list = append(list, Trial{
				Env: e.Name, Task: task, Model: model, Method: m.Name, Params: params, Trial: i,
				Seed: trialSeed(p.Run.Seed, e.Name, task, i), settings: settings, reward: e.reward(task), becomes: e.later(),
				diagnoseEvery: p.Run.DiagnoseEvery,
			})
		}
	}
	return list
}

// trialSeed does not depend on the model or the method, so that all start from the same states.
func trialSeed(run uint64, env, task string, trial int) uint64 {
	var b []byte
	b = binary.LittleEndian.AppendUint64(b, run)
	b = binary.LittleEndian.AppendUint64(b, uint64(trial))
	b = append(b, env+" "+task...)
	return xxhash.Sum64(b)
}

// Shard is one of n parts of the trials.
type Shard struct{ Index, Of int } // Index from 1

// ParseShard reads "i/n".
func ParseShard(text string) (Shard, error) {
	index, of, _ := strings.Cut(text, "/")
	i, errIndex := strconv.Atoi(index)
	n, errOf := strconv.Atoi(of)
	if errIndex != nil || errOf != nil || n < 1 || i < 1 || i > n {
		return Shard{}, fmt.Errorf("eval: shard: want i/n (%q); give 1/4 to 4/4 for four shards", text)
	}
	return Shard{i, n}, nil
}

// of returns every n-th trial, so that each shard has trials of every method.
func (s Shard) of(trials []Trial) []Trial {
	if s.Of <= 1 {
		return trials
	}
	var list []Trial
	for i, t := range trials {
		if i%s.Of == s.Index-1 {
			list = append(list, t)
		}
	}
	return list
}
