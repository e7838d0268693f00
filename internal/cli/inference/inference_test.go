package inference

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/tflite/tflitetest"
)

// labels are n labels and m queries with d features.
type labels struct {
	phi, reward, query []float64
	n, d, m            int
}

func randomLabels(n, d, m int) labels {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	return labels{phi: draw(n * d), reward: draw(n), query: draw(m * d), n: n, d: d, m: m}
}

// file writes the labels with their features, or with observations instead if given.
func (l labels) file(t *testing.T, obs ...npz.Array) string {
	t.Helper()
	a := npz.Archive{"reward": npz.Float64(l.reward, l.n), "query": npz.Float64(l.query, l.m, l.d)}
	if len(obs) > 0 {
		a["obs"] = obs[0]
	} else {
		a["phi"] = npz.Float64(l.phi, l.n, l.d)
	}
	return writeArchive(t, a)
}

func writeArchive(t *testing.T, a npz.Archive) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "labels.npz")
	fatal.If(t, npz.WriteFile(path, a))
	return path
}

// textbook infers with dense matrices and a general solver.
func (l labels) textbook(t *testing.T, lambda, rho float64) Result {
	t.Helper()
	v := mat.NewDense(l.d, l.d, nil)
	for i := range l.d {
		v.Set(i, i, lambda)
	}
	b := mat.NewVecDense(l.d, nil)
	for i := range l.n {
		w := math.Pow(rho, float64(l.n-1-i))
		phi := mat.NewVecDense(l.d, l.phi[i*l.d:(i+1)*l.d])
		var outer mat.Dense
		outer.Outer(w, phi, phi)
		v.Add(v, &outer)
		b.AddScaledVec(b, w*l.reward[i], phi)
	}
	var z mat.VecDense
	fatal.If(t, z.SolveVec(v, b))
	logDet, _ := mat.LogDet(v)
	want := Result{Z: z.RawVector().Data, LogDet: logDet}
	for i := range l.m {
		q := mat.NewVecDense(l.d, l.query[i*l.d:(i+1)*l.d])
		var s mat.VecDense
		fatal.If(t, s.SolveVec(v, q))
		normSq := mat.Dot(q, &s)
		want.DGap = append(want.DGap, math.Log(1+normSq))
		want.Norm = append(want.Norm, math.Sqrt(normSq))
	}
	return want
}

// check infers from a file and compares the result.
func check(t *testing.T, path string, o Options, want Result) {
	t.Helper()
	got, err := FromFile(path, o)
	fatal.If(t, err)
	near := func(name string, got, want []float64) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%+v: %s has %d elements, want %d", o, name, len(got), len(want))
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-10*max(1, math.Abs(want[i])) {
				t.Errorf("%+v: %s[%d] = %g, want %g", o, name, i, got[i], want[i])
			}
		}
	}
	near("z", got.Z, want.Z)
	near("logdet", []float64{got.LogDet}, []float64{want.LogDet})
	near("dgap", got.DGap, want.DGap)
	near("norm", got.Norm, want.Norm)
}

func TestFromFile_AgreesWithTheTextbook(t *testing.T) {
	l := randomLabels(37, 5, 3)
	for _, o := range []Options{
		{Lambda: 1, Rho: 1}, {Lambda: 0.01, Rho: 1}, {Lambda: 2, Rho: 0.9}, {Lambda: 1, Rho: 0.1},
	} {
		check(t, l.file(t), o, l.textbook(t, o.Lambda, o.Rho))
	}
	long := randomLabels(3000, 3, 2) // the first weights vanish in float64
	check(t, long.file(t), Options{Lambda: 1, Rho: 0.5}, long.textbook(t, 1, 0.5))
	none := writeArchive(t, npz.Archive{"phi": npz.Float64(nil, 0, 4), "reward": npz.Float64(nil, 0)})
	check(t, none, Options{Lambda: 3, Rho: 1}, Result{Z: make([]float64, 4), LogDet: 4 * math.Log(3)})
}

func TestFromFile_EvaluatesTheFeaturesOfAModel(t *testing.T) {
	const n = 12
	dims := rigtest.ModelDims
	obs := make([]float32, n*dims.Obs)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	l := randomLabels(n, dims.Latent, 2)
	network := tflitetest.Network(dims, 1)
	for i := range n {
		fatal.If(t, network.Phi(l.phi[i*l.d:(i+1)*l.d], obs[i*dims.Obs:(i+1)*dims.Obs]))
	}
	o := Options{Model: rigtest.ModelBundle(t), Lambda: 1, Rho: 0.95}
	check(t, l.file(t, npz.Float32(obs, n, dims.Obs)), o, l.textbook(t, 1, 0.95))
}

func TestFromFile_WarnsOfObservationsOfAnotherScale(t *testing.T) {
	obs := make([]float32, 2*30)
	for i := range obs {
		obs[i] = float32(1000 * (i % 5))
	}
	path := writeArchive(t, npz.Archive{"reward": npz.Float64(make([]float64, 30), 30), "obs": npz.Float32(obs, 30, 2)})
	result, err := FromFile(path, Options{Model: rigtest.NormalisedBundle(t), Lambda: 1, Rho: 1})
	if err != nil || len(result.Warnings) != 2 || !strings.Contains(result.Warnings[0], "channel 0") {
		t.Errorf("%q, %v", result.Warnings, err)
	}
}

func TestFromFile_NamesWhatIsWrong(t *testing.T) {
	phi, reward := npz.Float64([]float64{1, 2, 3, 4}, 2, 2), npz.Float64([]float64{1, 2}, 2)
	valid := Options{Lambda: 1, Rho: 1}
	withQuery := func(query npz.Array) npz.Archive {
		return npz.Archive{"phi": phi, "reward": reward, "query": query}
	}
	good := npz.Archive{"phi": phi, "reward": reward}
	for want, c := range map[string]struct {
		archive npz.Archive
		o       Options
	}{
		"--model":                 {npz.Archive{"obs": phi, "reward": reward}, valid},
		`"phi"`:                   {npz.Archive{"reward": reward}, valid},
		`"reward"`:                {npz.Archive{"phi": phi}, valid},
		"[3]":                     {npz.Archive{"phi": phi, "reward": npz.Float64(make([]float64, 3), 3)}, valid},
		`"query"`:                 {withQuery(npz.Float64(make([]float64, 3), 1, 3)), valid},
		"query row 0":             {withQuery(npz.Float64([]float64{math.NaN(), 0}, 1, 2)), valid},
		"row 1":                   {npz.Archive{"phi": phi, "reward": npz.Float64([]float64{1, math.NaN()}, 2)}, valid},
		"0 features":              {npz.Archive{"phi": npz.Float64(nil, 2, 0), "reward": reward}, valid},
		"--rho is out of range":   {good, Options{Lambda: 1, Rho: 1.5}},
		"out of range (NaN)":      {good, Options{Lambda: 1, Rho: math.NaN()}},
		"lambda":                  {good, Options{Lambda: -1, Rho: 1}},
		"--model no-such-model: ": {good, Options{Lambda: 1, Rho: 1, Model: "no-such-model"}},
	} {
		errtest.Contains(t, errtest.Of(FromFile(writeArchive(t, c.archive), c.o)), want)
	}
}
