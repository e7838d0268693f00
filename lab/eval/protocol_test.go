package eval

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/fatal"
)

// protocolPaths returns the protocols of this repository that match a pattern. The analysis has two
// other YAML files beside them.
func protocolPaths(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return filepath.Base(path) == "claims.yaml" || filepath.Base(path) == "results.yaml"
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d protocols: %v", len(paths), err)
	}
	return paths
}

func TestLoad_RepositoryProtocolsAreValid(t *testing.T) {
	for _, path := range protocolPaths(t, "../experiments/*.yaml") {
		p, err := Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); p.Experiment != want || p.About == "" {
			t.Errorf("%s: the experiment is %q, about %q", path, p.Experiment, p.About)
		}
		quick, err := p.Profile(ProfileQuick)
		fatal.If(t, err)
		for _, own := range p.Profiles {
			part, err := p.Profile(own.Name)
			if n := len(part.Trials()); err != nil || n == 0 || n >= len(p.Trials()) {
				t.Errorf("%s: %d trials in the profile %s: %v", path, n, own.Name, err)
			}
		}
		all, few := p.Trials(), quick.Trials()
		if len(few) == 0 || len(few) > 50 || len(few) >= len(all) {
			t.Errorf("%s: %d trials, %d in the quick profile", path, len(all), len(few))
		}
		if a, _ := p.Hash(); a == must(quick.Hash()) {
			t.Errorf("%s: both profiles have one hash", path)
		}
	}
}

func TestLoad_RepositoryProtocolsNameExistingFiles(t *testing.T) {
	paths := append(protocolPaths(t, "../experiments/*.yaml"), protocolPaths(t, "../experiments/*/*.yaml")...)
	for _, path := range paths {
		p, err := Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, e := range p.Environments {
			for _, m := range e.Models {
				for _, file := range []string{filepath.Join(m.Bundle, "bfm.json"), m.States} {
					_, err := os.Stat(filepath.Join("..", "..", file))
					if err != nil && !strings.HasPrefix(file, "embedded:") {
						t.Errorf("%s: a model of %s: %v", path, e.Name, err)
					}
				}
			}
		}
	}
}

func must(hash string, err error) string {
	if err != nil {
		panic(err)
	}
	return hash
}

func TestProtocol_TrialsAreAllCombinations(t *testing.T) {
	p := parsed(t, `
version: 1
experiment: grid
run: {trials: 2}
environments: [{name: rover, tasks: [spin, corner], models: [{bundle: a}, {bundle: b, seed: 1}]}]
conditions: {noise: [0, 1], beta: [0.5]}
methods:
  - {name: ucb, beta: [1, 0.1], rho: [1, 0.9]}
  - {name: thompson}
  - {name: random}
`)
	var params []string
	for _, trial := range p.Trials() {
		if trial.Task == "spin" && trial.Model.Bundle == "a" && trial.Trial == 0 {
			params = append(params, trial.Method+" "+trial.Params)
		}
	}
	want := []string{
		"ucb beta=1;noise=0;rho=1", "ucb beta=1;noise=1;rho=1",
		"ucb beta=1;noise=0;rho=0.9", "ucb beta=1;noise=1;rho=0.9",
		"ucb beta=0.1;noise=0;rho=1", "ucb beta=0.1;noise=1;rho=1",
		"ucb beta=0.1;noise=0;rho=0.9", "ucb beta=0.1;noise=1;rho=0.9",
		"thompson noise=0", "thompson noise=1", "random ",
	}
	if !slices.Equal(params, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(params, "\n"), strings.Join(want, "\n"))
	}
	if n := len(p.Trials()); n != len(want)*2*2*2 {
		t.Errorf("%d trials", n)
	}
}

func TestProtocol_SeedsDependOnTaskAndTrialOnly(t *testing.T) {
	p := parsed(t, tiny)
	seeds := map[string]uint64{}
	for _, trial := range p.Trials() {
		key := trial.Task + string(rune('0'+trial.Trial))
		if s, ok := seeds[key]; ok && s != trial.Seed {
			t.Errorf("%s: the seeds differ", trial.ID())
		}
		seeds[key] = trial.Seed
	}
	distinct := map[uint64]bool{}
	for _, s := range seeds {
		distinct[s] = true
	}
	if len(distinct) != 4 {
		t.Errorf("%d seeds of 2 tasks with 2 trials", len(distinct))
	}
}

func TestShard_PartitionsTrials(t *testing.T) {
	trials := parsed(t, tiny).Trials()
	seen := map[string]int{}
	for i := range 3 {
		for _, trial := range (Shard{i + 1, 3}).of(trials) {
			seen[trial.ID()]++
		}
	}
	for _, trial := range trials {
		if seen[trial.ID()] != 1 {
			t.Errorf("%s is in %d shards", trial.ID(), seen[trial.ID()])
		}
	}
	for _, bad := range []string{"", "1", "0/3", "4/3", "1/0", "a/b", "1/3/", " 1/3", "-1/3"} {
		if s, err := ParseShard(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
	if s, err := ParseShard("2/3"); err != nil || s != (Shard{2, 3}) {
		t.Errorf("2/3 is %v: %v", s, err)
	}
}

func TestProtocol_ProfileReducesTheExperiment(t *testing.T) {
	p := parsed(t, `
version: 1
experiment: grid
run: {trials: 7, episodes: 5}
environments:
  - {name: rover, tasks: [spin, corner], models: [{bundle: a}, {bundle: b, seed: 1}]}
  - {name: cheetah, tasks: [walk, run], models: [{bundle: c}]}
methods:
  - {name: ucb, beta: [1, 0.1, 0.01]}
  - {name: thompson}
  - {name: random}
conditions: {noise: [0, 1, 2]}
profiles:
  - {name: small, environments: [rover], tasks: [corner], methods: [random, ucb],
     trials: 2, episodes: 3, episode_steps: 50, values: 2}
  - {name: second, models: [c, b], methods: [random]}
  - {name: wide}
`)
	small, err := p.Profile("small")
	fatal.If(t, err)
	var got []string
	for _, trial := range small.Trials() {
		if trial.Trial == 0 {
			got = append(got, strings.TrimSuffix(trial.ID(), " 0"))
		}
	}
	var want []string
	for _, bundle := range []string{"a", "b"} {
		for _, setting := range []string{
			"ucb beta=1;noise=0", "ucb beta=1;noise=1", "ucb beta=0.1;noise=0", "ucb beta=0.1;noise=1", "random ",
		} {
			want = append(want, "rover corner "+bundle+" "+setting)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if small.Run.Trials != 2 || small.Run.Episodes != 3 || small.Run.EpisodeSteps != 50 {
		t.Errorf("%+v", small.Run)
	}
	second, err := p.Profile("second")
	if err != nil || !slices.Equal(second.Environments[0].Models, []Model{{Bundle: "b", Seed: 1}}) {
		t.Errorf("models of %+v: %v", second.Environments, err)
	}
	wide, err := p.Profile("wide")
	if err != nil || must(wide.Hash()) != must(p.Hash()) {
		t.Errorf("a profile that leaves nothing out is another experiment: %v", err)
	}
	if must(small.Hash()) == must(p.Hash()) {
		t.Error("the hash is not of what is run")
	}
	if _, err := p.Profile("smal"); err == nil || !strings.Contains(err.Error(), "full, quick, small, second, wide") {
		t.Errorf("an unknown profile: %v", err)
	}
}

func TestParse_ReportsMistakesWithPlaces(t *testing.T) {
	const profile = "version: 1\nprofiles: [{name: a, "
	for name, c := range map[string]struct{ change, to, want string }{
		"key":              {"episodes:", "episods:", "did you mean episodes?"},
		"version":          {"version: 1", "version: 2", "this program reads version 1"},
		"no version":       {"version: 1\n", "", "begin with 'version: 1'"},
		"name":             {"experiment: tiny", "experiment: Tiny!", "small letters"},
		"environment":      {"name: rover", "name: hopper", "walker"},
		"task":             {"[spin, corner]", "[spin, hop]", "rover has"},
		"task twice":       {"[spin, corner]", "[spin, spin]", "twice"},
		"no model":         {`[{bundle: "embedded:rover"}]`, "[]", "give at least one {bundle}"},
		"method":           {"name: random", "name: randm", "one of ucb"},
		"method twice":     {"name: random", "name: ucb, beta: [0.1], candidates: [8]", "twice"},
		"wrong setting":    {"name: random", "name: random, beta: [1]", "does not apply to random"},
		"range":            {"beta: [0.1]", "beta: [0.1, -1]", "from 0 to 1000000000"},
		"value twice":      {"beta: [0.1]", "beta: [0.1, 0.1]", "twice"},
		"choice":           {"[transposed]", "[flipped]", "correct, transposed"},
		"a single value":   {"beta: [0.1]", "beta: 0.1", "write a list"},
		"trials":           {"trials: 2", "trials: 0", "from 1 to 10000"},
		"method's trials":  {"name: random", "name: random, trials: -1", "from 0 to 10000"},
		"horizon":          {"horizon: [5]", "horizon: [7]", "multiple"},
		"too many":         {"beta: [0.1]", "beta: [" + many(1000) + "], lambda: [" + many(1000) + "]", "fewer values"},
		"not YAML":         {"methods:", "methods: [", "not YAML"},
		"profile's name":   {"version: 1", "version: 1\nprofiles: [{name: quick}]", "is taken"},
		"profile's method": {"version: 1", profile + "methods: [oracle]}]", "not in the protocol"},
		"profile's task":   {"version: 1", profile + "tasks: [fast]}]", "leaves no task of rover"},
		"profile's model":  {"version: 1", profile + "models: [b]}]", "leaves no model of rover"},
		"profile's trials": {"version: 1", profile + "trials: -1}]", "from 0 to 10000"},
		"one level":        {"bias: [0.1]", "levels: [1]", "2 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(tiny, c.change, c.to, 1)
			if text == tiny {
				t.Fatal("nothing was changed")
			}
			_, err := Parse("p.yaml", []byte(text))
			var mistake *configs.Error
			if err == nil || !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is\n%v\nwant something of %q", err, c.want)
			}
		})
	}
}

func many(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("0.%d", 10_000+i))
	}
	return strings.Join(list, ",")
}

func TestProtocol_HashIgnoresTextAndProfiles(t *testing.T) {
	a := parsed(t, tiny)
	b := parsed(t, "# a comment\n"+tiny+"about: another text\nquick: {trials: 1}\nprofiles: [{name: a, trials: 1}]\n")
	c := parsed(t, strings.Replace(tiny, "candidates: [8]", "candidates: [9]", 1))
	if must(a.Hash()) != must(b.Hash()) {
		t.Error("a comment changes the hash")
	}
	if must(a.Hash()) == must(c.Hash()) {
		t.Error("another number of candidates does not change the hash")
	}
}

func TestProtocol_MoreTrialsOfAMethodKeepTheHash(t *testing.T) {
	few := parsed(t, tiny)
	more := parsed(t, strings.Replace(strings.Replace(tiny, "trials: 2", "trials: 3", 1),
		"name: random", "name: random, trials: 5", 1)+"quick: {trials: 1}\n")
	if must(few.Hash()) != must(more.Hash()) {
		t.Error("more trials cannot be added to a file")
	}
	count := func(p Protocol) (random, other int) {
		for _, trial := range p.Trials() {
			if trial.Method == Random {
				random = max(random, trial.Trial+1)
			} else {
				other = max(other, trial.Trial+1)
			}
		}
		return random, other
	}
	if random, other := count(more); random != 5 || other != 3 {
		t.Errorf("%d trials of random, %d of others; want 5 and 3", random, other)
	}
	if random, other := count(more.quick()); random != 1 || other != 1 {
		t.Errorf("quick: %d trials of random, %d of others; want 1 and 1", random, other)
	}
	few.Run.Trials = 7
	for _, trial := range few.Trials()[:2] {
		if !slices.ContainsFunc(more.Trials(), func(o Trial) bool { return o.ID() == trial.ID() && o.Seed == trial.Seed }) {
			t.Errorf("%s has another seed or name among more trials", trial.ID())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny))
	f.Add([]byte(`{version: 1, experiment: x, environments: [{name: rover, tasks: [spin], models: [{bundle: a}]}],
methods: [{name: lola, horizon: [1], replay: [2]}], quick: {values: 1}, profiles: [{name: a, tasks: [spin]}]}`))
	f.Add([]byte("version: 1\nconditions: {noise: [.inf], by: [a], levels: [1e3]}\nmethods: {name: ucb}\n"))
	if text, err := os.ReadFile("../experiments/main.yaml"); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("fuzz.yaml", text)
		if err != nil {
			return
		}
		for _, profile := range p.ProfileNames() {
			q, err := p.Profile(profile)
			fatal.If(t, err)
			if _, err := q.Hash(); err != nil {
				t.Error(err)
			}
			if n := len(q.Trials()); n == 0 || n > maxTrials {
				t.Errorf("%d trials", n)
			}
		}
	})
}

func TestProtocol_EnvironmentSettingsFillInThoseOfAFamily(t *testing.T) {
	p, err := Parse("p.yaml", []byte(`version: 1
experiment: x
environments:
  - name: rover
    tasks: [spin]
    models: [{bundle: "embedded:rover"}]
    settings: {ucb: {beta: [0.3], sigma: [2]}, thompson: {sigma: [0.2]}, lola: {std: [0.3]}}
methods:
  - {name: ucb}
  - {name: ucb, beta: [5]}
  - {name: ucb_ep}
  - {name: thompson_ep}
  - {name: collected, by: [ucb]}
  - {name: collected, by: [thompson]}
  - {name: lola}
  - {name: oracle}
`))
	fatal.If(t, err)
	p.Run.Trials = 1
	var params []string
	for _, trial := range p.Trials() {
		params = append(params, trial.Method+" "+trial.Params)
	}
	want := []string{
		"ucb beta=0.3;sigma=2", "ucb beta=5;sigma=2", "ucb_ep beta=0.3;sigma=2", "thompson_ep sigma=0.2",
		"collected beta=0.3;by=ucb;sigma=2", "collected by=thompson;sigma=0.2", "lola std=0.3", "oracle ",
	}
	if !slices.Equal(params, want) {
		t.Errorf("%q", params)
	}
	_, err = Parse("p.yaml", []byte(`version: 1
experiment: x
environments:
  - {name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}], settings: {ucb: {beta: [-1]}}}
methods: [{name: ucb}]
`))
	if err == nil || !strings.Contains(err.Error(), "settings.ucb.beta[0] is out of range") {
		t.Error(err)
	}
}
