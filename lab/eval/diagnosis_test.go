package eval

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// TestDiagnosis_EqualsBruteForce computes distance and scores from V = λI + Σφφᵀ itself and from ψ
// of each candidate.
func TestDiagnosis_EqualsBruteForce(t *testing.T) {
	const d, labels, beta = 5, 12, 0.7
	network, err := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: d, Ensemble: 2}, 1).NewNetwork()
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(3, 5))
	v := mat.NewSymDense(d, nil)
	for i := range d {
		v.SetSym(i, i, 1)
	}
	for range labels {
		v.SymRankOne(v, 1, mat.NewVecDense(d, gaussian(d, 1, random)))
	}
	var chol mat.Cholesky
	if !chol.Factorize(v) {
		t.Fatal("V is not positive definite")
	}
	var upper, invR mat.TriDense
	chol.UTo(&upper)
	fatal.If(t, invR.InverseTri(&upper))
	mean, task, candidates := gaussian(d, 1, random), gaussian(d, 1, random), gaussian(8*d, 1, random)
	factor := make([]float64, 0, d*d)
	for i := range d {
		for j := range d {
			factor = append(factor, invR.At(i, j))
		}
	}
	score := func(obs []float32, z []float64) float64 {
		action, psi := make([]float32, 2), make([]float32, 2*d)
		fatal.If(t, network.Act(action, obs, z))
		fatal.If(t, network.Psi(psi, obs, action, z))
		least := math.Inf(1)
		for m := 0; m < len(psi); m += d {
			x, y := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
			for k := range d {
				x.SetVec(k, float64(psi[m+k]))
			}
			fatal.If(t, chol.SolveVecTo(y, x))
			least = min(least, mat.Dot(x, mat.NewVecDense(d, mean))+beta*math.Sqrt(mat.Dot(x, y)))
		}
		return least
	}
	diff := mat.NewVecDense(d, nil)
	diff.SubVec(mat.NewVecDense(d, task), mat.NewVecDense(d, mean))
	distance := math.Sqrt(mat.Inner(diff, v, diff)) / beta

	g := &diagnosis{Model: network, task: narrowed(task)}
	belief := tflite.Belief{Mean: narrowed(mean), InvR: narrowed(factor), Beta: beta}
	for range 5 {
		obs := narrowed(gaussian(3, 1, random))
		best, chosen, err := g.Search(obs, narrowed(candidates), belief)
		if err != nil || !g.searched {
			t.Fatal(err, g.searched)
		}
		highest := math.Inf(-1)
		for i := 0; i < len(candidates); i += d {
			highest = max(highest, score(obs, candidates[i:i+d]))
		}
		for what, pair := range map[string][2]float64{
			"distance":             {g.distance, distance},
			"score of z_r":         {g.taskScore, score(obs, task)},
			"score of the plan":    {g.planScore, highest},
			"score of the choice":  {g.planScore, score(obs, candidates[best*d:(best+1)*d])},
			"what the planner got": {g.planScore, float64(chosen)},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-4*(1+math.Abs(pair[1])) {
				t.Errorf("%s: found %g, want %g", what, pair[0], pair[1])
			}
		}
	}
	belief.Beta = 0
	if _, _, err := g.Search(make([]float32, 3), narrowed(candidates), belief); err != nil || g.searched {
		t.Errorf("β = 0 has no confidence set: error %v, distance %g", err, g.distance)
	}
}

// TestRunner_DiagnosisOnlyAddsRows compares a run with and without diagnose_every. With exact
// labels of a linear reward, z_r - ẑ = λV⁻¹z_r: its norm in V never increases and begins with
// √λ‖z_r‖.
func TestRunner_DiagnosisOnlyAddsRows(t *testing.T) {
	const text = `
version: 1
experiment: tiny
run: {trials: 1, episodes: 2, episode_steps: 20}
environments:
  - {name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}
methods:
  - {name: ucb, beta: [0.1], candidates: [8], nonlinearity: [0]}
  - {name: thompson}
`
	dir, p := t.TempDir(), parsed(t, text)
	plain, path := filepath.Join(dir, "plain.csv"), filepath.Join(dir, "diagnosed.csv")
	runInto(t, plain, Runner{Protocol: p, Jobs: 1})
	p.Run.DiagnoseEvery = 4
	runInto(t, path, Runner{Protocol: p, Jobs: 1})
	diagnosed, err := ReadFile(path)
	fatal.If(t, err)
	rest, distances := []Row{}, []float64{}
	for _, r := range diagnosed {
		switch r.Measure {
		case MeasureTaskDistance:
			if want := float64(4 * len(distances)); r.Method != UCB || r.X != want {
				t.Errorf("a distance of %s at step %g, want ucb at %g", r.Method, r.X, want)
			}
			distances = append(distances, r.Value)
		case MeasureTaskScore, MeasurePlanScore:
		default:
			rest = append(rest, r)
		}
	}
	hash, _ := parsed(t, text).Hash()
	if other, _ := p.Hash(); other == hash {
		t.Error("diagnose_every does not change the protocol's hash")
	}
	for i := range rest {
		rest[i].ProtocolHash = hash
	}
	fatal.If(t, WriteFile(path, rest))
	if was, is := content(t, plain), content(t, path); was != is {
		t.Errorf("without diagnosis:\n%s\nwith it:\n%s", was, is)
	}
	if len(distances) != 11 {
		t.Fatalf("%d distances, want one of each fourth of 40 steps and of the start", len(distances))
	}
	for i := range distances[1:] {
		if distances[i+1] > distances[i]*(1+1e-4) {
			t.Errorf("the distance of a linear reward grows from %g to %g", distances[i], distances[i+1])
		}
	}
}
