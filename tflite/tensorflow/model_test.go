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

	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

// question is a search.
type question struct {
	obs, candidates []float32
	belief          tflite.Belief
}

func ask(d tflite.Dims, n int) question {
	rng := rand.New(rand.NewPCG(8, 9))
	return question{randoms(rng, d.Obs), randoms(rng, n*d.Latent), tflite.Belief{Mean: randoms(rng, d.Latent), InvR: randoms(rng, d.Latent*d.Latent), Beta: 0.5}}
}

func (q question) of(t testing.TB, m tflite.Model) (int, float32) {
	t.Helper()
	best, score, err := m.Search(q.obs, q.candidates, q.belief)
	if err != nil {
		t.Fatal(err)
	}
	return best, score
}

func TestACallAllocatesNothing(t *testing.T) {
	m := climb(t, tflitetest.Bundle(small, 1))
	q := ask(small, 16)
	phi, action, psi, z := make([]float64, small.Latent), make([]float32, small.Action), make([]float32, small.Ensemble*small.Latent), make([]float64, small.Latent)
	z[0] = 1
	dz := make([]float32, small.Latent)
	for name, call := range map[string]func() error{
		"search": func() error { _, _, err := m.Search(q.obs, q.candidates, q.belief); return err },
		"phi":    func() error { return m.Phi(phi, q.obs) },
		"act":    func() error { return m.Act(action, q.obs, z) },
		"psi":    func() error { return m.Psi(psi, q.obs, action, z) },
		"gradient": func() error {
			_, err := m.Gradient(dz, q.obs, q.candidates[:small.Latent], q.belief)
			return err
		},
	} {
		allocatesNothing(t, name, call)
	}
}

func allocatesNothing(t *testing.T, name string, call func() error) {
	t.Run(name, func(t *testing.T) {
		if raced {
			t.Skip("the race detector's instrumentation allocates")
		}
		if allocs := testing.AllocsPerRun(20, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%g allocations", allocs)
		}
	})
}

// residentKiB is the memory that this process has, on both sides.
func residentKiB(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func TestManySearchesDoNotGrowTheProcess(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 128)
	q, other := ask(small, 128), ask(small, 40)
	for range 1000 { // TensorFlow's allocators settle
		q.of(t, m)
		other.of(t, m)
	}
	before := residentKiB(t)
	searches := 10_000
	if testing.Short() {
		searches = 2000
	}
	for range searches / 2 {
		q.of(t, m)
		other.of(t, m)
	}
	grown := residentKiB(t) - before
	t.Logf("%d KiB, then %d searches, %+d KiB", before, searches, grown)
	if grown > 16<<10 {
		t.Errorf("%d searches took %d KiB", searches, grown)
	}
}

func TestBadInputsAreErrorsAndLeaveTheModelWorking(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	q := ask(small, 4)
	best, score := q.of(t, m)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	changed := func(x []float32, v float32) []float32 { return append([]float32{v}, x[1:]...) }
	for name, bad := range map[string]question{
		"short observation":         {q.obs[1:], q.candidates, q.belief},
		"observation of NaN":        {changed(q.obs, nan), q.candidates, q.belief},
		"no candidates":             {q.obs, nil, q.belief},
		"part of a candidate":       {q.obs, q.candidates[1:], q.belief},
		"infinite candidate":        {q.obs, changed(q.candidates, inf), q.belief},
		"candidate of no direction": {q.obs, make([]float32, 2*small.Latent), q.belief},
		"short mean":                {q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean[1:], InvR: q.belief.InvR}},
		"short R⁻¹":                 {q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean, InvR: q.belief.InvR[1:]}},
		"negative β":                {q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean, InvR: q.belief.InvR, Beta: -1}},
		"β of NaN":                  {q.obs, q.candidates, tflite.Belief{Mean: q.belief.Mean, InvR: q.belief.InvR, Beta: nan}},
		"score out of range":        {q.obs, q.candidates, tflite.Belief{Mean: changed(q.belief.Mean, 3e38), InvR: q.belief.InvR, Beta: 3e38}},
	} {
		_, _, native := tflitetest.Network(small, 1).Search(bad.obs, bad.candidates, bad.belief)
		if _, _, err := m.Search(bad.obs, bad.candidates, bad.belief); err == nil || native == nil {
			t.Errorf("%s: %v, natively %v", name, err, native)
		}
	}
	// Here LayerNorm squares in float32: 3e38 is out of range, natively it is not.
	if _, _, err := m.Search(changed(q.obs, 3e38), q.candidates, q.belief); !errors.Is(err, tflite.ErrNotFinite) {
		t.Errorf("ψ out of range: %v, want ErrNotFinite", err)
	}
	action, z := make([]float32, small.Action), make([]float64, small.Latent)
	if err := m.Act(action, q.obs, z); !errors.Is(err, tflite.ErrNoDirection) {
		t.Errorf("z of zeros: %v", err)
	}
	if err := m.Psi(make([]float32, 1), q.obs, action, z); err == nil {
		t.Error("a ψ of one element is taken")
	}
	if again, scoreAgain := q.of(t, m); again != best || scoreAgain != score {
		t.Errorf("%d with %g, then %d with %g", best, score, again, scoreAgain)
	}
}

func TestEqualScoresGiveTheLowestIndex(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	q := ask(small, 1)
	one := q.candidates
	for range 127 {
		q.candidates = append(q.candidates, one...)
	}
	if best, _ := q.of(t, m); best != 0 {
		t.Errorf("best %d, want 0", best)
	}
}

func TestABundleWithoutCovarianceHasNoPhi(t *testing.T) {
	b := shared(t, "walker")
	m := open(t, b, onCPU(), 2)
	if err := m.Phi(make([]float64, b.Dims().Latent), make([]float32, b.Dims().Obs)); !errors.Is(err, tflite.ErrNoCovariance) {
		t.Errorf("%v, want ErrNoCovariance", err)
	}
}

func TestAClosedModelAnswersWithAnError(t *testing.T) {
	m := open(t, tflitetest.Bundle(small, 1), onCPU(), 4)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	q := ask(small, 4)
	if _, _, err := m.Search(q.obs, q.candidates, q.belief); err == nil {
		t.Error("a closed model searches")
	}
}

func TestADeviceThatIsNotThereIsAnErrorAtTheStart(t *testing.T) {
	b := tflitetest.Bundle(small, 1)
	open(t, b, onCPU(), 1) // or skip
	for device, mend := range map[string]string{"/GPU:63": "/CPU:0", "/CPU:7": "use /CPU:0"} {
		c := onCPU()
		c.Device = device
		if _, err := tensorflow.New(b, c, 1); !errors.Is(err, tensorflow.ErrNoDevice) || !strings.Contains(err.Error(), mend) {
			t.Errorf("%s: %v", device, err)
		}
	}
}

func TestALibraryThatIsNotThereIsAnErrorThatNamesTheScript(t *testing.T) {
	c := onCPU()
	c.Library = filepath.Join(t.TempDir(), "nowhere")
	_, err := tensorflow.New(tflitetest.Bundle(small, 1), c, 1)
	if err == nil {
		t.Fatal("a library was loaded from nowhere")
	}
	if errors.Is(err, tensorflow.ErrNoLibrary) && !strings.Contains(err.Error(), "install-tensorflow.sh") {
		t.Errorf("%v: it does not say what to do", err)
	}
}

func TestEveryOperationHasAKernelForItsDevice(t *testing.T) {
	r := climb(t, tflitetest.Bundle(small, 1)).Report()
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
			t.Skipf("%s is built for the CPU only: %d of %d operations have a kernel for the GPU", r.Library, gpu, len(r.Kernels))
		}
	}
	if gpu != len(r.Kernels) {
		t.Errorf("%d of %d operations have a kernel for the GPU", gpu, len(r.Kernels))
	}
}
