//go:build tensorflow

package tensorflow_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

type searchInput struct {
	obs, candidates []float32
	belief          tflite.Belief
}

func randomInput(d tflite.Dims, n int) searchInput {
	rng := rand.New(rand.NewPCG(8, 9))
	return searchInput{
		obs: tflitetest.Randoms(rng, d.Obs), candidates: tflitetest.Randoms(rng, n*d.Latent),
		belief: tflite.Belief{
			Mean: tflitetest.Randoms(rng, d.Latent), InvR: tflitetest.Randoms(rng, d.Latent*d.Latent), Beta: 0.5,
		},
	}
}

func (q searchInput) search(t testing.TB, m tflite.Model) (int, float32) {
	t.Helper()
	best, score, err := m.Search(q.obs, q.candidates, q.belief)
	fatal.If(t, err)
	return best, score
}

func TestModel_DoesNotAllocate(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 16)
	q := randomInput(small, 16)
	phi, z := make([]float64, small.Latent), make([]float64, small.Latent)
	action, psi := make([]float32, small.Action), make([]float32, small.Ensemble*small.Latent)
	z[0] = 1
	for name, call := range map[string]func() error{
		"search": func() error { _, _, err := m.Search(q.obs, q.candidates, q.belief); return err },
		"phi":    func() error { return m.Phi(phi, q.obs) },
		"act":    func() error { return m.Act(action, q.obs, z) },
		"psi":    func() error { return m.Psi(psi, q.obs, action, z) },
	} {
		checkAllocations(t, name, call)
	}
}

func checkAllocations(t *testing.T, name string, call func() error) {
	t.Run(name, func(t *testing.T) {
		if raced {
			t.Skip("the race detector's instrumentation allocates")
		}
		if allocs := testing.AllocsPerRun(20, func() { fatal.If(t, call()) }); allocs != 0 {
			t.Errorf("%g allocations", allocs)
		}
	})
}

// residentKiB returns the resident memory of this process, of Go and of C.
func residentKiB(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	fatal.If(t, err)
	return kib
}

func TestModel_ManySearchesDoNotLeakMemory(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 128)
	q, other := randomInput(small, 128), randomInput(small, 40)
	for range 1000 { // until the memory of TensorFlow's allocators is constant
		q.search(t, m)
		other.search(t, m)
	}
	before := residentKiB(t)
	searches := 10_000
	if testing.Short() {
		searches = 2000
	}
	for range searches / 2 {
		q.search(t, m)
		other.search(t, m)
	}
	grown := residentKiB(t) - before
	t.Logf("%d KiB, then %d searches, %+d KiB", before, searches, grown)
	if grown > 16<<10 {
		t.Errorf("%d searches took %d KiB", searches, grown)
	}
}

func TestModel_RejectsBadInputsAndStaysUsable(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	q := randomInput(small, 4)
	best, score := q.search(t, m)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	changed := func(x []float32, v float32) []float32 { return append([]float32{v}, x[1:]...) }
	mean, invR := q.belief.Mean, q.belief.InvR
	belief := func(mean, invR []float32, beta float32) tflite.Belief {
		return tflite.Belief{Mean: mean, InvR: invR, Beta: beta}
	}
	for name, bad := range map[string]searchInput{
		"short observation":         {q.obs[1:], q.candidates, q.belief},
		"observation of NaN":        {changed(q.obs, nan), q.candidates, q.belief},
		"no candidates":             {q.obs, nil, q.belief},
		"part of a candidate":       {q.obs, q.candidates[1:], q.belief},
		"infinite candidate":        {q.obs, changed(q.candidates, inf), q.belief},
		"candidate of no direction": {q.obs, make([]float32, 2*small.Latent), q.belief},
		"short mean":                {q.obs, q.candidates, belief(mean[1:], invR, 0)},
		"short R⁻¹":                 {q.obs, q.candidates, belief(mean, invR[1:], 0)},
		"negative β":                {q.obs, q.candidates, belief(mean, invR, -1)},
		"β of NaN":                  {q.obs, q.candidates, belief(mean, invR, nan)},
		"score out of range":        {q.obs, q.candidates, belief(changed(mean, 3e38), invR, 3e38)},
	} {
		_, _, native := tflitetest.Network(small, 1).Search(bad.obs, bad.candidates, bad.belief)
		if _, _, err := m.Search(bad.obs, bad.candidates, bad.belief); err == nil || native == nil {
			t.Errorf("%s: %v, natively %v", name, err, native)
		}
	}
	// LayerNorm squares in float32 here, so 3e38 is out of range; the native one does not.
	if _, _, err := m.Search(changed(q.obs, 3e38), q.candidates, q.belief); !errors.Is(err, tflite.ErrNotFinite) {
		t.Errorf("ψ out of range: %v, want ErrNotFinite", err)
	}
	action, z := make([]float32, small.Action), make([]float64, small.Latent)
	errtest.Is(t, m.Act(action, q.obs, z), tflite.ErrNoDirection, "z of zeros")
	errtest.NotNil(t, m.Psi(make([]float32, 1), q.obs, action, z), "Psi accepts a result of one element")
	if again, scoreAgain := q.search(t, m); again != best || scoreAgain != score {
		t.Errorf("%d with %g, then %d with %g", best, score, again, scoreAgain)
	}
}

func TestModel_SearchTieGivesLowestIndex(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	q := randomInput(small, 1)
	one := q.candidates
	for range 127 {
		q.candidates = append(q.candidates, one...)
	}
	if best, _ := q.search(t, m); best != 0 {
		t.Errorf("best %d, want 0", best)
	}
}

func TestModel_PhiWithoutCovarianceIsErrNoCovariance(t *testing.T) {
	b := shared(t, "walker")
	m := open(t, b, onCPU(), 2)
	err := m.Phi(make([]float64, b.Dims().Latent), make([]float32, b.Dims().Obs))
	errtest.Is(t, err, tflite.ErrNoCovariance)
}

func TestModel_SearchAfterCloseIsAnError(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	fatal.If(t, m.Close())
	q := randomInput(small, 4)
	if _, _, err := m.Search(q.obs, q.candidates, q.belief); err == nil {
		t.Error("no error")
	}
}

func TestNew_MissingDeviceIsErrNoDevice(t *testing.T) {
	b := tflitetest.Bundle(small, 1)
	open(t, b, onCPU(), 1) // or skip
	for device, fix := range map[string]string{"/GPU:63": "/CPU:0", "/CPU:7": "use /CPU:0"} {
		c := onCPU()
		c.Device = device
		_, err := tensorflow.New(b, c, 1)
		errtest.Is(t, err, tensorflow.ErrNoDevice, device)
		errtest.Contains(t, err, fix, device)
	}
}

func TestNew_MissingLibraryNamesTheInstallScript(t *testing.T) {
	c := onCPU()
	c.Library = filepath.Join(t.TempDir(), "nowhere")
	_, err := tensorflow.New(tflitetest.Bundle(small, 1), c, 1)
	if err == nil {
		t.Fatal("no error")
	}
	if errors.Is(err, tensorflow.ErrNoLibrary) && !strings.Contains(err.Error(), "install-tensorflow.sh") {
		t.Errorf("%v: want the install script", err)
	}
}

func TestNew_EveryOperationHasAKernel(t *testing.T) {
	for _, name := range []string{"plain", "residual", "grouped"} {
		t.Run(name, func(t *testing.T) { checkKernels(t, open(t, bundle(t, architectures()[name]), onCPU(), 1).Report()) })
	}
}

func checkKernels(t *testing.T, r tensorflow.Report) {
	gpu := 0
	for _, k := range r.Kernels {
		t.Logf("%-18s nodes %3d  CPU %t  GPU %t", k.Op, k.Nodes, k.CPU, k.GPU)
		if !k.CPU {
			t.Errorf("%s has no kernel for the CPU", k.Op)
		}
		if k.GPU {
			gpu++
		}
	}
	for _, k := range r.Kernels {
		if k.Op == "MatMul" && !k.GPU {
			t.Skipf("%s is built for the CPU only: %d of %d operations have a kernel for the GPU",
				r.Library, gpu, len(r.Kernels))
		}
	}
	if gpu != len(r.Kernels) {
		t.Errorf("%d of %d operations have a kernel for the GPU", gpu, len(r.Kernels))
	}
}
