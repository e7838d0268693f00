package eval

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

// labelledFile writes states of a rover with the rewards of spin.
func labelledFile(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "states.npz")
	obs, reward := make([]float32, 6*n), make([]float32, n)
	for i := range reward {
		obs[6*i], obs[6*i+2], reward[i] = float32(i)/float32(n), 1, float32(i)
	}
	err := npz.WriteFile(path, npz.Archive{
		"obs": npz.Float32(obs, n, 6), "reward_spin": npz.Float32(reward, n),
	})
	fatal.If(t, err)
	return path
}

func roverTrial(method, task, states string, s Settings) Trial {
	return Trial{
		Env: Rover, Task: task, Method: method,
		Model: Model{Bundle: EmbeddedRover, States: states}, settings: s.over(defaultSettings()),
	}
}

func TestLibrary_ReadsLabelledStatesOfTheProtocol(t *testing.T) {
	path, lib := labelledFile(t, 50), &library{}
	trial := roverTrial(Oracle, "spin", path, Settings{Labels: []int{20}})
	fatal.If(t, lib.check(trial))
	all, err := lib.labelledStates(trial)
	if err != nil || len(all.Reward) != 50 || all.Reward[49] != 49 || all.Obs[6*49+2] != 1 {
		t.Fatalf("%+v: %v", all, err)
	}
	a, err := lib.oracle(trial, 20)
	fatal.If(t, err)
	trial.Seed++
	b, err := lib.oracle(trial, 20)
	if err != nil || slices.Equal(a, b) {
		t.Errorf("two trials draw the same 20 of 50 states: %v", err)
	}
}

// episodesFile writes numbered states in episodes: observation and reward are the number.
func episodesFile(t *testing.T, n int, lengths ...int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "states.npz")
	obs, reward := make([]float32, n), make([]float32, n)
	for i := range reward {
		obs[i], reward[i] = float32(i), float32(i)
	}
	err := npz.WriteFile(path, npz.Archive{
		"obs": npz.Float32(obs, n, 1), "reward_spin": npz.Float32(reward, n), "episode_length": npz.Int64(lengths),
	})
	fatal.If(t, err)
	return path
}

func TestDrawStates_KeepsEpisodesWhole(t *testing.T) {
	all, err := ReadStates(episodesFile(t, 9, 3, 2, 4), "spin", 1)
	fatal.If(t, err)
	episodes := [][]float64{{0, 1, 2}, {3, 4}, {5, 6, 7, 8}}
	orders := map[int]bool{}
	for seed := range uint64(20) {
		trial := Trial{Seed: seed}
		long, err := drawStates(all, 8, drawEpisodes, trial.random(statesStream))
		fatal.If(t, err)
		var want []float64
		order := 0
		for _, k := range trial.random(statesStream).Perm(3) {
			want, order = append(want, episodes[k]...), 10*order+k
		}
		orders[order] = true
		if !slices.Equal(long.Reward, want[:8]) {
			t.Errorf("drew %v, want %v", long.Reward, want[:8])
		}
		short, err := drawStates(all, 4, drawEpisodes, trial.random(statesStream))
		if err != nil || !slices.Equal(short.Reward, want[:4]) || short.Obs[3] != float32(want[3]) {
			t.Errorf("drew %v, want the first four of %v: %v", short, want, err)
		}
	}
	if len(orders) < 2 {
		t.Error("every trial has the same order")
	}
}

func TestReadStates_RefusesWrongEpisodeLengths(t *testing.T) {
	for want, path := range map[string]string{
		"1 of 9 states belong to no episode":          episodesFile(t, 9, 3, 2, 3),
		"episode 1 has length 7, but 6 of 9 states":   episodesFile(t, 9, 3, 7),
		"episode 1 has length 0":                      episodesFile(t, 9, 3, 0, 6),
		"episode 0 has length -9223372036854775808, ": episodesFile(t, 9, -1<<63, 9),
	} {
		if _, err := ReadStates(path, "spin", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want something of %q", err, want)
		}
	}
}

func TestLibrary_ReadsTheRecordOfRandomNetworkDistillation(t *testing.T) {
	states := labelledFile(t, 50)
	trial := roverTrial(Collected, "spin", states, Settings{By: []string{RND}, Labels: []int{20}})
	if err := (&library{}).check(trial); err == nil || !strings.Contains(err.Error(), "collect_dmc.py --curious") {
		t.Errorf("without rnd.npz the error is %v", err)
	}
	fatal.If(t, os.Rename(labelledFile(t, 19), filepath.Join(filepath.Dir(states), "rnd.npz")))
	if err := (&library{}).check(trial); err == nil || !strings.Contains(err.Error(), "found 19, need 20") {
		t.Errorf("with too few the error is %v", err)
	}
	trial.settings.Labels = []int{15}
	lib := &library{}
	fatal.If(t, lib.check(trial))
	r := trialRun{trial: trial, library: lib}
	labels, err := r.collectLabels(t.Context(), nil)
	if err != nil || len(labels.Reward) != 15 || slices.Max(labels.Reward) > 18 {
		t.Errorf("rewards %v: %v", labels.Reward, err)
	}
}

func TestLibrary_CheckReportsMissingStates(t *testing.T) {
	path := labelledFile(t, 50)
	damaged := filepath.Join(t.TempDir(), "damaged.npz")
	fatal.If(t, os.WriteFile(damaged, []byte("PK\x03\x04 no archive"), 0o644))
	for name, c := range map[string]struct {
		trial Trial
		want  string
	}{
		"too few":        {roverTrial(Oracle, "spin", path, Settings{}), "found 50, need 50000"},
		"another task":   {roverTrial(Oracle, "corner", path, Settings{Labels: []int{10}}), "reward_corner"},
		"no file":        {roverTrial(UCB, "spin", path+"x", Settings{WarmStart: []int{10}}), "no such file"},
		"a damaged file": {roverTrial(UCB, "spin", damaged, Settings{WarmStart: []int{10}}), "damaged.npz"},
	} {
		if err := (&library{}).check(c.trial); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want something of %q", name, err, c.want)
		}
	}
	trial := roverTrial(Oracle, "walk", "", Settings{})
	trial.Env = Cheetah
	if err := (&library{}).check(trial); !errors.Is(err, errNoStates) {
		t.Errorf("no states: %v", err)
	}
}

func TestReadOracle_AcceptsBothFormats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oracle.json")
	for text, want := range map[string]string{
		`{"walk": [1, 2]}`: "",
		`{"z": {"walk": [1, 2]}, "returns": {"walk": 900}}`: "",
		`{"run": [1, 2]}`:             "no z of task walk",
		`{"walk": 1}`:                 "no z of task walk",
		`{"z": [1]}`:                  "want a map",
		`[1]`:                         "want a map",
		`{"walk": [1, 2]`:             "want a map",
		`{"z": {"walk": ["1", "2"]}}`: "no z of task walk",
	} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		z, err := readOracle(path, "walk", errNoStates)
		if want == "" && (err != nil || !slices.Equal(z, []float64{1, 2})) {
			t.Errorf("%s: z is %v: %v", text, z, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: z is %v, the error %v, want something of %q", text, z, err, want)
		}
	}
	if _, err := readOracle(path+"x", "walk", errNoStates); !errors.Is(err, errNoStates) {
		t.Errorf("no file: %v", err)
	}
}
