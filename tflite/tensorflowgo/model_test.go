package tensorflowgo_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tensorflowgo"
	"optibfm/tflite/tflitetest"
)

func onCPU() tensorflowgo.Config {
	c := tensorflowgo.DefaultConfig()
	c.Device = "/CPU:0"
	return c
}

func open(t *testing.T, b *tflite.Bundle, n int) *tensorflowgo.Model {
	t.Helper()
	m, err := tensorflowgo.New(b, onCPU(), n)
	fatal.If(t, err)
	t.Cleanup(func() {
		errtest.Nil(t, m.Close())
	})
	return m
}

// bundles cover the kinds of networks.
func bundles(t *testing.T) map[string]*tflite.Bundle {
	t.Helper()
	simple := tflitetest.Manifest(tflite.Dims{Obs: 9, Action: 3, Latent: 16, Ensemble: 2})
	grouped := simple
	a := &grouped.Architecture
	a.F.Residual, a.Actor.Residual = true, true
	a.Groups = []tflite.Group{{Name: "past", Size: 7, NormObs: true}, {Name: "present", Size: 2}}
	a.F.Inputs, a.B.Inputs, a.Actor.Inputs = []string{"present", "past"}, []string{"past"}, []string{"present"}
	all := make(map[string]*tflite.Bundle)
	for name, m := range map[string]tflite.Manifest{"simple": simple, "residual groups": grouped} {
		b, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 1))
		fatal.If(t, err)
		all[name] = b
	}
	walker, err := tflite.LoadDir("../../models/walker")
	fatal.If(t, err)
	all["walker"] = walker
	return all
}

// Both backends run one graph of one library, so that even the bits of the scores are equal.
func TestModel_SearchesLikeTheCAPI(t *testing.T) {
	const searches, candidates = 200, 128
	for name, b := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			c := tensorflow.DefaultConfig()
			c.Device = "/CPU:0"
			capi, err := tensorflow.New(b, c, candidates)
			if errors.Is(err, tensorflow.ErrNotBuilt) {
				t.Skip(err)
			}
			fatal.If(t, err)
			defer capi.Close()
			m, rng, d := open(t, b, candidates), rand.New(rand.NewPCG(1, 2)), b.Dims()
			var ours, theirs time.Duration
			for i := range searches {
				obs, zs := tflitetest.Randoms(rng, d.Obs), tflitetest.Randoms(rng, candidates*d.Latent)
				mean, invR := tflitetest.Randoms(rng, d.Latent), tflitetest.Randoms(rng, d.Latent*d.Latent)
				belief := tflite.Belief{Mean: mean, InvR: invR, Beta: rng.Float32()}
				start := time.Now()
				best, score, err := m.Search(obs, zs, belief)
				between := time.Now()
				want, wantScore, failed := capi.Search(obs, zs, belief)
				ours, theirs = ours+between.Sub(start), theirs+time.Since(between)
				fatal.If(t, err, failed)
				if best != want || score != wantScore {
					t.Errorf("search %d: %d with score %g, want %d with %g", i, best, score, want, wantScore)
				}
			}
			t.Logf("mean time of a search: %v, of the C API %v", ours/searches, theirs/searches)
		})
	}
}

func TestModel_AgreesWithNativeNetworks(t *testing.T) {
	for name, b := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			m, rng, d := open(t, b, 2), rand.New(rand.NewPCG(3, 4)), b.Dims()
			n, err := b.NewNetwork()
			fatal.If(t, err)
			for range 100 {
				obs, z := tflitetest.Randoms(rng, d.Obs), make([]float64, d.Latent)
				for i := range z {
					z[i] = rng.NormFloat64()
				}
				phi, wantPhi := make([]float64, d.Latent), make([]float64, d.Latent)
				action, wantAction := make([]float32, d.Action), make([]float32, d.Action)
				psi, wantPsi := make([]float32, d.Ensemble*d.Latent), make([]float32, d.Ensemble*d.Latent)
				if err := errors.Join(m.Phi(phi, obs), n.Phi(wantPhi, obs), m.Act(action, obs, z), n.Act(wantAction, obs, z),
					m.Psi(psi, obs, wantAction, z), n.Psi(wantPsi, obs, wantAction, z)); err != nil {
					t.Fatal(err)
				}
				e := []float64{tflite.Relative(phi, wantPhi), tflite.Relative(action, wantAction), tflite.Relative(psi, wantPsi)}
				if worst := max(e[0], e[1], e[2]); !(worst <= 1e-4) {
					t.Fatalf("relative errors of φ, π and ψ %g, want at most 1e-4", e)
				}
			}
		})
	}
}

func TestModel_ReferenceCheckpointsAgreeWithPyTorch(t *testing.T) {
	folders, err := filepath.Glob("../testdata/checkpoints/*")
	if err != nil || len(folders) == 0 {
		t.Fatal("no reference checkpoints", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			b, vectors := tflitetest.Imported(t, folder)
			e, err := tflite.CheckEvaluator(open(t, b, 32), vectors)
			fatal.If(t, err)
			t.Logf("largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g", e.Cases, e.Phi, e.Action, e.Psi)
			if !(e.Worst() <= 2e-5) {
				t.Errorf("%+v, want at most 2e-5", e)
			}
		})
	}
}

func TestNew_NamesWhatIsMissing(t *testing.T) {
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}, 1)
	c := onCPU()
	c.Device = "/GPU:7"
	_, err := tensorflowgo.New(b, c, 2)
	if !errors.Is(err, tensorflow.ErrNoDevice) || !strings.Contains(err.Error(), "/GPU:7") ||
		!strings.Contains(err.Error(), "/CPU:0") {
		t.Errorf("%v, want ErrNoDevice with the device and the ones that there are", err)
	}
	if _, err := tensorflowgo.New(b, onCPU(), 0); err == nil {
		t.Error("no error for 0 candidates")
	}
	c.Device = "GPU"
	if _, err := tensorflowgo.New(b, c, 2); err == nil {
		t.Error("no error for an invalid device")
	}
}

func TestModel_RefusesInvalidInputs(t *testing.T) {
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}, 1)
	m := open(t, b, 2)
	nan := float32(math.NaN())
	obs, zs, z := []float32{1, 2, 3}, make([]float32, 8), []float64{1, 0, 0, 0}
	for i := range zs {
		zs[i] = 1
	}
	belief := tflite.Belief{Mean: make([]float32, 4), InvR: make([]float32, 16), Beta: 1}
	search := func(obs, zs []float32, belief tflite.Belief) error {
		_, _, err := m.Search(obs, zs, belief)
		return err
	}
	fatal.If(t, search(obs, zs, belief))
	wrong := belief
	wrong.Mean = []float32{nan, 0, 0, 0}
	for name, err := range map[string]error{
		"short observation":     m.Phi(make([]float64, 4), obs[:2]),
		"observation is NaN":    m.Act(make([]float32, 2), []float32{1, nan, 3}, z),
		"short φ":               m.Phi(make([]float64, 3), obs),
		"short action":          m.Act(make([]float32, 1), obs, z),
		"short z":               m.Act(make([]float32, 2), obs, z[:3]),
		"z is 0":                m.Act(make([]float32, 2), obs, make([]float64, 4)),
		"action is NaN":         m.Psi(make([]float32, 8), obs, []float32{0, nan}, z),
		"short action of ψ":     m.Psi(make([]float32, 8), obs, []float32{0}, z),
		"no candidates":         search(obs, nil, belief),
		"half a candidate":      search(obs, zs[:6], belief),
		"candidate is 0":        search(obs, make([]float32, 8), belief),
		"belief is NaN":         search(obs, zs, wrong),
		"observation overflows": search([]float32{3e38, 3e38, -3e38}, zs, belief),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := m.Phi(make([]float64, 4), []float32{3e38, 3e38, -3e38}); !errors.Is(err, tflite.ErrNotFinite) {
		t.Errorf("overflow: %v, want ErrNotFinite", err)
	}
	fatal.If(t, m.Close())
	if err := search(obs, zs, belief); err == nil {
		t.Error("a closed model searches")
	}
}

// Without New's own garbage collections the tensors of these searches would hold 400 MB.
func TestModel_FreesTensors(t *testing.T) {
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 256, Ensemble: 1}, 1)
	m, rng := open(t, b, 2), rand.New(rand.NewPCG(5, 6))
	obs, zs := tflitetest.Randoms(rng, 3), tflitetest.Randoms(rng, 2*256)
	belief := tflite.Belief{Mean: tflitetest.Randoms(rng, 256), InvR: tflitetest.Randoms(rng, 256*256), Beta: 1}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	search := func(times int) {
		for range times {
			if _, _, err := m.Search(obs, zs, belief); err != nil {
				t.Fatal(err)
			}
		}
	}
	search(200)
	before := resident(t)
	search(1600)
	if growth := resident(t) - before; growth > 100<<20 {
		t.Errorf("the process has grown by %d MiB", growth>>20)
	}
}

// resident is the memory of the process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	fatal.If(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	fatal.If(t, err)
	return pages * os.Getpagesize()
}
