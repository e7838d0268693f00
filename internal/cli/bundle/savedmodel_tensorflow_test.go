//go:build tensorflow

package bundle

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/cli/inference"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// importSaved imports rigtest.SavedModelDir. It skips the test where the library is missing,
// unless OPTIBFM_TENSORFLOW names it.
func importSaved(t *testing.T, change func(*ImportOptions)) string {
	t.Helper()
	o := ImportOptions{Out: filepath.Join(t.TempDir(), "bundle"), Signatures: tflite.DefaultSignatures()}
	if change != nil {
		change(&o)
	}
	err := Import(io.Discard, rigtest.SavedModelDir, o)
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	fatal.If(t, err)
	return o.Out
}

func TestModel_ImportedSavedModelAgreesWithPython(t *testing.T) {
	dir := importSaved(t, func(o *ImportOptions) {
		o.Name, o.Gamma = "mine", 0.98
		o.ObsChannels, o.ActionChannels = []string{"a:m", "b", "c", "d", "e", "f"}, []string{"u", "v"}
	})
	var out bytes.Buffer
	fatal.If(t, Check(&out, dir, rigtest.SavedModelDir+".npz", 1e-5))
	fatal.If(t, Describe(&out, dir))
	rigtest.Contains(t, out.String(), "cases   5", "mine", "a [m], b")
	e, err := Evaluate(dir, Point{Obs: "[1,2,3,4,5,6]", Z: "[1,0,0,0,0,0,0,0]"})
	if err != nil || len(e.Phi) != 8 || len(e.Psi) != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestInfer_AcceptsASavedModel(t *testing.T) {
	dir := importSaved(t, nil)
	obs, reward := make([]float32, 10*6), make([]float64, 10)
	for i := range obs {
		obs[i] = float32(i%7) / 7
	}
	reward[3] = 1
	path := filepath.Join(t.TempDir(), "labels.npz")
	fatal.If(t, npz.WriteFile(path, npz.Archive{"obs": npz.Float32(obs, 10, 6), "reward": npz.Float64(reward, 10)}))
	result, err := inference.FromFile(path, inference.Options{Model: dir, Lambda: 1, Rho: 1})
	if err != nil || len(result.Z) != 8 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestImport_EstimatesThePriorOfASavedModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	obs := make([]float32, 500*6)
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	path := filepath.Join(t.TempDir(), "obs.npz")
	fatal.If(t, npz.WriteFile(path, npz.Archive{"obs": npz.Float32(obs, 500, 6)}))
	dir := importSaved(t, func(o *ImportOptions) { o.Observations = path })
	m, err := setup.OpenModel(dir)
	fatal.If(t, err)
	if p := m.Prior(); p == nil || p.States != 500 || len(p.Mean) != 8 {
		t.Errorf("prior %+v", p)
	}
}

// edited copies rigtest.SavedModelDir with an edit of one file.
func edited(t *testing.T, file string, edit func(raw []byte) []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "edited")
	fatal.If(t, os.CopyFS(dir, os.DirFS(rigtest.SavedModelDir)))
	path := filepath.Join(dir, file)
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	changed := edit(slices.Clone(raw))
	if bytes.Equal(raw, changed) {
		t.Fatalf("the edit of %s changes nothing", file)
	}
	fatal.If(t, os.WriteFile(path, changed, 0o644))
	return dir
}

// replaced edits saved_model.pb.
func replaced(t *testing.T, from, to string) string {
	return edited(t, tflite.SavedModelFileName, func(raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte(from), []byte(to))
	})
}

func TestModel_ImportRefusesABadSavedModel(t *testing.T) {
	importSaved(t, nil) // or skip
	truncate := func(raw []byte) []byte { return raw[:len(raw)/2] }
	flipBit := func(raw []byte) []byte { raw[100] ^= 1; return raw }
	const weights = "variables/variables.data-00000-of-00001"
	for name, c := range map[string]struct {
		dir    string
		change func(*ImportOptions)
		want   []string
	}{
		"a missing signature": {rigtest.SavedModelDir, func(o *ImportOptions) { o.Signatures.Psi = "psy" },
			[]string{"psy", "the signature", "missing", "expected", "__saved_model_init_op, phi, policy, psi"}},
		"a signature of another kind": {rigtest.SavedModelDir, func(o *ImportOptions) { o.Signatures.Phi = "policy" },
			[]string{"out action", "unexpected", "out phi"}},
		"float64 results": {replaced(t, "StatefulPartitionedCall:0\x10\x01", "StatefulPartitionedCall:0\x10\x02"), nil,
			[]string{"float32 [n, d]", "float64 [?, 8]", "type"}},
		"non-finite results": {replaced(t, "Tanh", "Acos"), nil, []string{"not finite"}},
		"actions beyond 1":   {replaced(t, "Tanh", "Cosh"), nil, []string{"π: action 0 is", "want -1 to 1"}},
		"too few channels": {rigtest.SavedModelDir, func(o *ImportOptions) { o.ObsChannels = []string{"x"} },
			[]string{"observation names 1 channels, want 6"}},
		"a discount above 1": {rigtest.SavedModelDir, func(o *ImportOptions) { o.Gamma = 2 }, []string{"gamma is 2"}},
		"a damaged graph":    {replaced(t, "MatMul", "MatNul"), nil, []string{"edited", "MatNul"}},
		"a truncated graph":  {edited(t, tflite.SavedModelFileName, truncate), nil, []string{"edited"}},
		"damaged weights":    {edited(t, weights, flipBit), nil, []string{"edited"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := ImportOptions{Out: filepath.Join(t.TempDir(), "bundle"), Signatures: tflite.DefaultSignatures()}
			if c.change != nil {
				c.change(&o)
			}
			err := Import(io.Discard, c.dir, o)
			if err == nil {
				t.Fatal("it is imported")
			}
			rigtest.Contains(t, err.Error(), c.want...)
			errtest.NotNil(t, errtest.Of(os.Stat(o.Out)), "a bundle is left")
		})
	}
}

func TestModel_BackendAgreesWithTheNativeNetworks(t *testing.T) {
	for bundle, lines := range map[string]int{importSaved(t, nil): 3, "embedded:rover": 4} {
		var out bytes.Buffer
		o := DefaultBackendOptions()
		o.Set = []string{"model.bundle=" + bundle, "model.backend=tensorflow", "model.tensorflow.device=/CPU:0"}
		o.Searches = 5
		err := CompareBackend(&out, o)
		if err != nil || strings.Count(out.String(), "\n") != lines ||
			!strings.Contains(out.String(), "the graph is on /CPU:0") {
			t.Errorf("%s: %v in\n%s", bundle, err, &out)
		}
	}
}
