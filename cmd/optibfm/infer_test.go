package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/npz"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// labelled is a set of labels with its expected inference by the textbook.
type labelled struct {
	phi, reward, query []float64
	n, d, m            int
}

func randomLabels(n, d, m int) labelled {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	return labelled{phi: draw(n * d), reward: draw(n), query: draw(m * d), n: n, d: d, m: m}
}

func (l labelled) write(t *testing.T) string {
	t.Helper()
	return writeArchive(t, npz.Archive{
		"phi":    npz.Float64(l.phi, l.n, l.d),
		"reward": npz.Float64(l.reward, l.n),
		"query":  npz.Float64(l.query, l.m, l.d),
	})
}

func writeArchive(t *testing.T, a npz.Archive) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "labels.npz")
	if err := npz.WriteFile(path, a); err != nil {
		t.Fatal(err)
	}
	return path
}

// textbook infers with dense matrices and a general solver.
func (l labelled) textbook(t *testing.T, lambda, rho float64) inference {
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
	if err := z.SolveVec(v, b); err != nil {
		t.Fatal(err)
	}
	logDet, _ := mat.LogDet(v)
	want := inference{Z: z.RawVector().Data, LogDet: logDet}
	for i := range l.m {
		q := mat.NewVecDense(l.d, l.query[i*l.d:(i+1)*l.d])
		var s mat.VecDense
		if err := s.SolveVec(v, q); err != nil {
			t.Fatal(err)
		}
		normSq := mat.Dot(q, &s)
		want.DGap = append(want.DGap, math.Log(1+normSq))
		want.Norm = append(want.Norm, math.Sqrt(normSq))
	}
	return want
}

// runInfer runs the command and reads its output.
func runInfer(t *testing.T, args ...string) (inference, error) {
	t.Helper()
	cmd := newInferCommand()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err != nil {
		return inference{}, err
	}
	var got inference
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got, nil
}

func checkInference(t *testing.T, got, want inference) {
	t.Helper()
	near := func(name string, got, want []float64) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s has %d elements, want %d", name, len(got), len(want))
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-10*max(1, math.Abs(want[i])) {
				t.Errorf("%s[%d] = %g, want %g", name, i, got[i], want[i])
			}
		}
	}
	near("z", got.Z, want.Z)
	near("logdet", []float64{got.LogDet}, []float64{want.LogDet})
	near("dgap", got.DGap, want.DGap)
	near("norm", got.Norm, want.Norm)
}

func TestInferAgreesWithTheTextbook(t *testing.T) {
	l := randomLabels(37, 5, 3)
	path := l.write(t)
	for _, c := range []struct {
		lambda, rho float64
		args        []string
	}{
		{1, 1, nil},
		{0.01, 1, []string{"--lambda", "0.01"}},
		{2, 0.9, []string{"--lambda", "2", "--rho", "0.9"}},
		{1, 0.1, []string{"--rho", "0.1"}},
	} {
		got, err := runInfer(t, append([]string{path}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		checkInference(t, got, l.textbook(t, c.lambda, c.rho))
	}
}

func TestInferForgetsRowsThatWeighNothingAnyMore(t *testing.T) {
	l := randomLabels(3000, 3, 2)
	got, err := runInfer(t, l.write(t), "--rho", "0.5")
	if err != nil {
		t.Fatal(err)
	}
	checkInference(t, got, l.textbook(t, 1, 0.5))
}

func TestInferOfNoLabelsIsThePrior(t *testing.T) {
	path := writeArchive(t, npz.Archive{"phi": npz.Float64(nil, 0, 4), "reward": npz.Float64(nil, 0)})
	got, err := runInfer(t, path, "--lambda", "3")
	if err != nil {
		t.Fatal(err)
	}
	checkInference(t, got, inference{Z: make([]float64, 4), LogDet: 4 * math.Log(3)})
}

func TestInferOfABadFileSaysWhatIsWrong(t *testing.T) {
	phi, reward := npz.Float64([]float64{1, 2, 3, 4}, 2, 2), npz.Float64([]float64{1, 2}, 2)
	for says, c := range map[string]struct {
		archive npz.Archive
		args    []string
	}{
		"--model":                  {npz.Archive{"obs": phi, "reward": reward}, nil},
		"\"phi\"":                  {npz.Archive{"reward": reward}, nil},
		"\"reward\"":               {npz.Archive{"phi": phi}, nil},
		"[3]":                      {npz.Archive{"phi": phi, "reward": npz.Float64(make([]float64, 3), 3)}, nil},
		"\"query\"":                {npz.Archive{"phi": phi, "reward": reward, "query": npz.Float64(make([]float64, 3), 1, 3)}, nil},
		"query row 0":              {npz.Archive{"phi": phi, "reward": reward, "query": npz.Float64([]float64{math.NaN(), 0}, 1, 2)}, nil},
		"row 1":                    {npz.Archive{"phi": phi, "reward": npz.Float64([]float64{1, math.NaN()}, 2)}, nil},
		"0 features":               {npz.Archive{"phi": npz.Float64(nil, 2, 0), "reward": reward}, nil},
		"--rho is out of range":    {npz.Archive{"phi": phi, "reward": reward}, []string{"--rho", "1.5"}},
		"lambda":                   {npz.Archive{"phi": phi, "reward": reward}, []string{"--lambda", "-1"}},
		"--model no-such-model":    {npz.Archive{"obs": phi, "reward": reward}, []string{"--model", "no-such-model"}},
		"--rho is out of range (N": {npz.Archive{"phi": phi, "reward": reward}, []string{"--rho", "NaN"}},
	} {
		_, err := runInfer(t, append([]string{writeArchive(t, c.archive)}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
}

func TestInferWithAModelLabelsTheFeaturesOfObservations(t *testing.T) {
	const n = 12
	dims := tflite.Dims{Obs: 4, Action: 2, Latent: 6, Ensemble: 2}
	dir := filepath.Join(t.TempDir(), "model")
	manifest := tflitetest.Manifest(dims)
	if err := tflite.Save(dir, manifest, tflitetest.Tensors(manifest.Architecture, 1)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	obs := make([]float32, n*dims.Obs)
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	l := randomLabels(n, dims.Latent, 2)
	network := tflitetest.Network(dims, 1)
	for i := range n {
		if err := network.Phi(l.phi[i*l.d:(i+1)*l.d], obs[i*dims.Obs:(i+1)*dims.Obs]); err != nil {
			t.Fatal(err)
		}
	}
	path := writeArchive(t, npz.Archive{
		"obs":    npz.Float32(obs, n, dims.Obs),
		"reward": npz.Float64(l.reward, n),
		"query":  npz.Float64(l.query, l.m, l.d),
	})
	got, err := runInfer(t, path, "--model", dir, "--rho", "0.95")
	if err != nil {
		t.Fatal(err)
	}
	checkInference(t, got, l.textbook(t, 1, 0.95))
}
