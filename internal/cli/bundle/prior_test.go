package bundle

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/taskprior"
)

// recorded writes n random observations of the test model, with rewards that nothing may read.
func recorded(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	obs := make([]float32, 2*n)
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	path := filepath.Join(t.TempDir(), "states.npz")
	fatal.If(t, npz.WriteFile(path, npz.Archive{
		"obs": npz.Float32(obs, n, 2), "reward_walk": npz.Float32(make([]float32, 1)),
	}))
	return path
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	fatal.If(t, err)
	files := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		fatal.If(t, err)
		files[e.Name()] = string(text)
	}
	return files
}

func TestAddPrior_ChangesTheBundleOrMakesACopy(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	before := contents(t, dir)
	o := DefaultPriorOptions()
	o.Observations, o.Rewards = recorded(t, 500), 200
	o.Out = filepath.Join(t.TempDir(), "copy")
	fatal.If(t, AddPrior(io.Discard, dir, o))
	if after := contents(t, dir); len(after) != len(before) || after["bfm.json"] != before["bfm.json"] {
		t.Error("with --out the bundle itself changed")
	}
	copied := contents(t, o.Out)

	o.Out = ""
	var out bytes.Buffer
	fatal.If(t, AddPrior(&out, dir, o))
	rigtest.Contains(t, out.String(), dir, "p50", "p90")
	after := contents(t, dir)
	for name, text := range after {
		if copied[name] != text {
			t.Errorf("%s differs between the copy and the bundle", name)
		}
	}
	if len(after) != len(before)+1 || after["model.safetensors"] != before["model.safetensors"] {
		t.Errorf("the bundle has %d files, want %d and the same weights", len(after), len(before)+1)
	}
	m, err := setup.OpenModel(dir)
	fatal.If(t, err)
	if p := m.Prior(); p == nil || p.Rewards != 200 || p.States != 500 || len(p.Mean) != 3 {
		t.Errorf("the opened model has another prior")
	}
}

// The quadruped's names have groups, such as imu.0 to imu.5; the Go2's bundle has observation groups.
func TestAddPrior_KnowsTheGroupsOfTheChannels(t *testing.T) {
	for _, c := range []struct {
		dir    string
		groups map[string]int // their sizes
	}{
		{"quadruped-3", map[string]int{
			"egocentric_state": 44, "torso_velocity": 3, "torso_upright": 1, "imu": 6, "force_torque": 24,
		}},
		{"go2", map[string]int{"base": 4, "imu": 6, "joints": 24, "last_action": 12, "history": 48}},
	} {
		m, err := setup.OpenModel(filepath.Join("../../../models", c.dir))
		fatal.If(t, err)
		sizes := make(map[string]int)
		for _, name := range groupsOf(m) {
			sizes[name]++
		}
		if !maps.Equal(sizes, c.groups) {
			t.Errorf("%s: groups %v, want %v", c.dir, sizes, c.groups)
		}
	}
}

// The reference estimates the prior with and without the groups.
func TestAddPrior_DrawsGroupsOfChannels(t *testing.T) {
	const dir, width = "../../../models/quadruped-3", 78
	rng := rand.New(rand.NewPCG(5, 5))
	obs := make([]float32, 600*width)
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	o := DefaultPriorOptions()
	o.Rewards, o.Out = 500, filepath.Join(t.TempDir(), "copy")
	o.Observations = filepath.Join(t.TempDir(), "obs.npz")
	fatal.If(t, npz.WriteFile(o.Observations, npz.Archive{"obs": npz.Float32(obs, 600, width)}))
	fatal.If(t, AddPrior(io.Discard, dir, o))
	added, err := setup.OpenModel(o.Out)
	fatal.If(t, err)
	for _, want := range []bool{true, false} {
		options := o.Options
		if want {
			options.Groups = groupsOf(added)
		}
		model, err := added.Evaluator(configs.Default())
		fatal.If(t, err)
		p, err := taskprior.Estimate(model, obs, options)
		fatal.If(t, errors.Join(err, setup.CloseModels(model)))
		if found := slices.Equal(p.Examples, added.Prior().Examples); found != want {
			t.Errorf("the added prior is that of an estimate with groups %v: %v", want, found)
		}
	}
}

func TestAddPrior_WarnsOfObservationsOfAnotherScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	obs := make([]float32, 1000)
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	obs[7] = 1e6
	o := DefaultPriorOptions()
	o.Rewards, o.Observations = 100, filepath.Join(t.TempDir(), "outlier.npz")
	fatal.If(t, npz.WriteFile(o.Observations, npz.Archive{"obs": npz.Float32(obs, 500, 2)}))
	var out bytes.Buffer
	fatal.If(t, AddPrior(&out, rigtest.NormalisedBundle(t), o))
	rigtest.Contains(t, out.String(), "warning: ", "channel 1", "1 of 500 values", "the farthest 1e+06")
}

func TestAddPrior_LeavesTheBundleWhenItFails(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	before := contents(t, dir)
	other := filepath.Join(t.TempDir(), "other.npz")
	fatal.If(t, npz.WriteFile(other, npz.Archive{"obs": npz.Float32(make([]float32, 900), 300, 3)}))
	still := filepath.Join(t.TempDir(), "still.npz")
	fatal.If(t, npz.WriteFile(still, npz.Archive{"obs": npz.Float32(make([]float32, 600), 300, 2)}))
	for want, change := range map[string]func(o *PriorOptions){
		"nowhere.npz":                   func(o *PriorOptions) { o.Observations = "nowhere.npz" },
		"has shape [300 3], want [-1 2": func(o *PriorOptions) { o.Observations = other },
		"no channel":                    func(o *PriorOptions) { o.Observations = still },
		"29 observations are too few":   func(o *PriorOptions) { o.Observations = recorded(t, 29) },
		"use at least 100":              func(o *PriorOptions) { o.Rewards = 99 },
		"has files in it":               func(o *PriorOptions) { o.Out = dir },
	} {
		o := DefaultPriorOptions()
		o.Observations, o.Rewards = recorded(t, 500), 100
		change(&o)
		errtest.Contains(t, AddPrior(io.Discard, dir, o), want)
		if after := contents(t, dir); len(after) != len(before) || after["bfm.json"] != before["bfm.json"] {
			t.Errorf("%s: the bundle changed", want)
		}
	}
	err := AddPrior(io.Discard, "embedded:rover", DefaultPriorOptions())
	errtest.Contains(t, err, "part of the program")
}

func TestDescribe_PrintsThePriorOrItsCommand(t *testing.T) {
	var without, with bytes.Buffer
	fatal.If(t, Describe(&without, rigtest.ModelBundle(t)))
	rigtest.Contains(t, without.String(), "model prior")
	fatal.If(t, Describe(&with, "embedded:rover"))
	rigtest.Contains(t, with.String(), "4000 random rewards on 20000 observations", "p90 2.00", "nearness")
}

func TestOpenModel_BundlesOfConfigurationsHaveAPrior(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "configs", "*.yaml"))
	fatal.If(t, err)
	bundles := map[string]bool{"embedded:rover": true}
	for _, file := range files {
		text, err := os.ReadFile(file)
		fatal.If(t, err)
		for _, m := range regexp.MustCompile(`(?m)^  bundle: (models/\S+)`).FindAllStringSubmatch(string(text), -1) {
			folder := filepath.Join(root, m[1])
			if _, err := os.Stat(folder); err == nil { // others are downloads
				bundles[folder] = true
			}
		}
	}
	if len(bundles) < 5 {
		t.Fatalf("found %v", bundles)
	}
	for name := range bundles {
		m, err := setup.OpenModel(name)
		fatal.If(t, err)
		if p := m.Prior(); p == nil || p.P50 > 1 || p.P90 > 2+1e-9 {
			t.Errorf("%s: %+v; run optibfm model prior", name, p)
		}
	}
}
