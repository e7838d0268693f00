package eval

import (
	"path/filepath"
	"slices"
	"testing"

	"optibfm/internal/fatal"
)

// lastReturns runs an experiment and returns the mean return of each method's last episode.
func lastReturns(t *testing.T, p Protocol) map[string]float64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.csv")
	runInto(t, path, Runner{Protocol: p, Jobs: 2})
	rows, err := ReadFile(path)
	fatal.If(t, err)
	sum, n := map[string]float64{}, map[string]float64{}
	for _, r := range rows {
		if r.Measure == MeasureReturn && int(r.X) == p.Run.Episodes-1 {
			sum[r.Method+" "+r.Params] += r.Value
			n[r.Method+" "+r.Params]++
		}
	}
	for k := range sum {
		sum[k] /= n[k]
	}
	return sum
}

func TestRunner_MethodsLearnTheRoversTask(t *testing.T) {
	got := lastReturns(t, parsed(t, `
version: 1
experiment: learning
run: {trials: 2, episodes: 2, episode_steps: 150}
environments:
  - {name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}
methods:
  - {name: ucb, beta: [0.1]}
  - {name: thompson, sigma: [0.1]}
  - {name: ucb_gradient, beta: [0.1]}
  - {name: random}
  - {name: oracle}
  - {name: oracle, labels: [10000]}
  - {name: collected, by: [ucb], beta: [0.1], labels: [300]}
`))
	oracle, random := got["oracle "], got["random "]
	t.Logf("returns of the last episode: %v", got)
	if oracle < random+50 {
		t.Errorf("oracle %.1f, random %.1f", oracle, random)
	}
	for method, share := range map[string]float64{
		"ucb beta=0.1": 0.8, "thompson sigma=0.1": 0.5, "ucb_gradient beta=0.1": 0.7, "oracle labels=10000": 0.9,
		"collected beta=0.1;by=ucb;labels=300": 0.7,
	} {
		if got[method] < random+share*(oracle-random) {
			t.Errorf("%s: %.1f, oracle %.1f, random %.1f", method, got[method], oracle, random)
		}
	}
}

func TestRunner_KeepsZForReplanEverySteps(t *testing.T) {
	p := parsed(t, `
version: 1
experiment: replan
run: {trials: 2, episodes: 2, episode_steps: 20}
environments:
  - {name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}
methods:
  - {name: thompson, replan_every: [1, 5, 20]}
  - {name: thompson_ep}
`)
	path := filepath.Join(t.TempDir(), "replan.csv")
	runInto(t, path, Runner{Protocol: p, Jobs: 1})
	rows, err := ReadFile(path)
	fatal.If(t, err)
	returns := map[string][]float64{}
	for _, row := range rows {
		if row.Measure == MeasureReturn {
			which := row.Method + " " + row.Params
			returns[which] = append(returns[which], row.Value)
		}
	}
	// A z for all 20 steps of an episode is that of the episode-level variant.
	got, want := returns["thompson replan_every=20"], returns["thompson_ep "]
	if len(want) != 4 || !slices.Equal(got, want) {
		t.Errorf("returns with replan_every 20: %v, of thompson_ep: %v", got, want)
	}
	one, five := returns["thompson replan_every=1"], returns["thompson replan_every=5"]
	if len(one) != 4 || slices.Equal(one, five) {
		t.Errorf("returns with replan_every 1: %v, with 5 the same", one)
	}
}
