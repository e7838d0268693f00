//go:build tensorflow

package tensorflow_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

// onCPU is a configuration for any machine.
func onCPU() tensorflow.Config {
	c := tensorflow.DefaultConfig()
	c.Device = "/CPU:0"
	return c
}

// open makes a model and closes it after the test. It skips the test without the library.
func open(t testing.TB, b *tflite.Bundle, c tensorflow.Config, n int) tensorflow.Model {
	t.Helper()
	m, err := tensorflow.New(b, c, n)
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skipf("%v", err)
	}
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, m.Close()) })
	return m
}

func native(t testing.TB, b *tflite.Bundle) *tflite.Network {
	t.Helper()
	n, err := b.NewNetwork()
	fatal.If(t, err)
	return n
}

// shared returns a reference checkpoint, or skips the test.
func shared(t testing.TB, name string) *tflite.Bundle {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference checkpoint %s: %v", name, err)
	}
	b, err := tflite.LoadDir(dir)
	fatal.If(t, err)
	return b
}

// architectures cover the variants of the graph.
func architectures() map[string]tflite.Manifest {
	plain := tflitetest.Manifest(small)
	deep := plain
	deep.Architecture.NormObs, deep.LayerNormEps = true, 1e-6
	deep.Architecture.F = tflite.ForwardArch{Hidden: 24, HiddenLayers: 2, EmbeddingLayers: 3, NumParallel: 3}
	deep.Architecture.B = tflite.BackArch{Hidden: 20, HiddenLayers: 3, Norm: true}
	deep.Architecture.Actor = tflite.ActorArch{Hidden: 28, HiddenLayers: 2, EmbeddingLayers: 4}
	bare := plain
	bare.Architecture.NormZ = false
	bare.Architecture.F = tflite.ForwardArch{Hidden: 16, HiddenLayers: 0, EmbeddingLayers: 2, NumParallel: 1}
	bare.Architecture.B = tflite.BackArch{Hidden: 16, HiddenLayers: 1}
	bare.Architecture.Actor = tflite.ActorArch{Hidden: 16, HiddenLayers: 0, EmbeddingLayers: 2}
	residual := deep
	residual.Architecture.F.Residual, residual.Architecture.Actor.Residual = true, true
	grouped := bare
	a := &grouped.Architecture
	a.F.Residual, a.Actor.Residual = true, true
	a.Groups = []tflite.Group{{Name: "past", Size: small.Obs - 2, NormObs: true}, {Name: "present", Size: 2}}
	a.F.Inputs, a.B.Inputs, a.Actor.Inputs = []string{"present", "past"}, []string{"past"}, []string{"present"}
	return map[string]tflite.Manifest{
		"plain": plain, "deep": deep, "bare": bare, "residual": residual, "grouped": grouped,
	}
}

func bundle(t testing.TB, m tflite.Manifest) *tflite.Bundle {
	t.Helper()
	b, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 3))
	fatal.If(t, err)
	return b
}

// bundles are a bundle of each architecture, and the rover's.
func bundles(t testing.TB) map[string]*tflite.Bundle {
	t.Helper()
	all := make(map[string]*tflite.Bundle)
	for name, m := range architectures() {
		all[name] = bundle(t, m)
	}
	var err error
	if all["rover"], err = tflite.Load(rover.Model()); err != nil {
		t.Fatal(err)
	}
	return all
}

// compare evaluates φ, π and ψ and returns the largest relative errors.
func compare(t *testing.T, m tensorflow.Model, n *tflite.Network, withPhi bool, cases int) (phi, action, psi float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 5))
	d := n.Dims()
	for range cases {
		obs, z := tflitetest.Randoms(rng, d.Obs), make([]float64, d.Latent)
		for i := range z {
			z[i] = rng.NormFloat64() * math.Exp(rng.NormFloat64())
		}
		wantPhi, gotPhi := make([]float64, d.Latent), make([]float64, d.Latent)
		wantAction, gotAction := make([]float32, d.Action), make([]float32, d.Action)
		wantPsi, gotPsi := make([]float32, d.Ensemble*d.Latent), make([]float32, d.Ensemble*d.Latent)
		if withPhi {
			fatal.If(t, errors.Join(n.Phi(wantPhi, obs), m.Phi(gotPhi, obs)))
			phi = max(phi, tflite.Relative(gotPhi, wantPhi))
		}
		if err := errors.Join(n.Act(wantAction, obs, z), m.Act(gotAction, obs, z),
			n.Psi(wantPsi, obs, wantAction, z), m.Psi(gotPsi, obs, wantAction, z)); err != nil {
			t.Fatal(err)
		}
		action, psi = max(action, tflite.Relative(gotAction, wantAction)), max(psi, tflite.Relative(gotPsi, wantPsi))
	}
	return phi, action, psi
}

func TestModel_AgreesWithNativeNetworks(t *testing.T) {
	check := func(name string, b *tflite.Bundle) {
		t.Run(name, func(t *testing.T) {
			const cases = 1000
			phi, action, psi := compare(t, open(t, b, onCPU(), 2), native(t, b), b.HasCovariance(), cases)
			t.Logf("largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g", cases, phi, action, psi)
			if worst := max(phi, action, psi); !(worst <= 1e-4) {
				t.Errorf("%g, want at most 1e-4", worst)
			}
		})
	}
	for name, b := range bundles(t) {
		check(name, b)
	}
	for _, name := range []string{"cheetah", "walker"} {
		t.Run(name, func(t *testing.T) { check("checkpoint", shared(t, name)) })
	}
}

// referenceCheckpoints are the folders of checkpoints with the results of PyTorch.
func referenceCheckpoints(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob("../testdata/checkpoints/*")
	if err != nil || len(folders) == 0 {
		t.Fatal("no reference checkpoints", err)
	}
	public, err := filepath.Glob("../../../shared/public/*")
	fatal.If(t, err)
	return append(folders, public...)
}

func TestModel_ReferenceCheckpointsAgreeWithPyTorch(t *testing.T) {
	for _, folder := range referenceCheckpoints(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			b, vectors := tflitetest.Imported(t, folder)
			m := open(t, b, onCPU(), 32)
			e, err := tflite.CheckEvaluator(m, vectors)
			fatal.If(t, err)
			t.Logf("largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g", e.Cases, e.Phi, e.Action, e.Psi)
			if !(e.Worst() <= 2e-5) {
				t.Errorf("%+v, want at most 2e-5", e)
			}
			sameBest(t, m, native(t, b), 100, 32)
		})
	}
}

// sameBest searches many times with both models. They may choose different candidates
// only where the scores differ by at most 1e-5.
func sameBest(t *testing.T, m tensorflow.Model, n *tflite.Network, searches, candidates int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 7))
	d := n.Dims()
	ties := 0
	worst := 0.0
	for i := range searches {
		obs, zs := tflitetest.Randoms(rng, d.Obs), tflitetest.Randoms(rng, candidates*d.Latent)
		belief := tflite.Belief{Mean: tflitetest.Randoms(rng, d.Latent), InvR: tflitetest.Randoms(rng, d.Latent*d.Latent)}
		belief.Beta = rng.Float32()
		want, score, err := n.Search(obs, zs, belief)
		fatal.If(t, err)
		got, gotScore, err := m.Search(obs, zs, belief)
		fatal.If(t, err)
		size := math.Abs(float64(score))
		worst = max(worst, math.Abs(float64(gotScore-score))/size)
		if got == want {
			continue
		}
		ties++
		// The native score of the candidate that TensorFlow has chosen.
		_, other, err := n.Search(obs, zs[got*d.Latent:(got+1)*d.Latent], belief)
		fatal.If(t, err)
		if !(float64(score-other) <= 1e-5*size) {
			t.Fatalf("search %d: found %d, want %d; the native scores are %g and %g", i, got, want, other, score)
		}
	}
	t.Logf("%d searches of %d: %d with another index, largest relative difference of a score %.2g",
		searches, candidates, ties, worst)
}

func TestModel_SearchFindsTheNativeBest(t *testing.T) {
	searches := 10_000
	if testing.Short() {
		searches = 2000
	}
	for name, b := range bundles(t) {
		t.Run(name, func(t *testing.T) { sameBest(t, open(t, b, onCPU(), 32), native(t, b), searches, 32) })
	}
	for _, name := range []string{"cheetah", "walker"} {
		t.Run(name, func(t *testing.T) {
			b := shared(t, name)
			sameBest(t, open(t, b, onCPU(), 128), native(t, b), searches/50, 128)
		})
	}
}
