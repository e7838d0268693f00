package bundle

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

func TestDescribe_PrintsSizesHashAndChannels(t *testing.T) {
	saved := rigtest.SavedModelBundle(t, func(m *tflite.SavedModel) {
		m.Action = []tflite.Channel{{Name: "left", Unit: "N"}, {Name: "right"}}
	})
	for name, want := range map[string][]string{
		rigtest.ModelBundle(t): {
			"observation 2, action 1, d 3, ensemble 2", "random numbers", tflitetest.Bundle(rigtest.ModelDims, 1).Hash,
		},
		"embedded:rover": {"observation 6, action 2", "x, y, heading_cos"},
		saved:            {"observation 6, action 2, d 8, ensemble 2", "TensorFlow only", "left [N], right"},
	} {
		var out bytes.Buffer
		fatal.If(t, Describe(&out, name))
		rigtest.Contains(t, out.String(), want...)
	}
}

func TestEvaluate_ReadsArraysAndFiles(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	policy, err := Evaluate(dir, Point{Obs: "[0.5, -1]", Z: "[1, 2, 3]"})
	fatal.If(t, err)
	if len(policy.Phi) != 3 || len(policy.Action) != 1 || len(policy.Psi) != 2 || len(policy.Psi[1]) != 3 {
		t.Errorf("shapes of %+v", policy)
	}
	file := filepath.Join(t.TempDir(), "obs.json")
	fatal.If(t, os.WriteFile(file, []byte("[0.5, -1]"), 0o600))
	other, err := Evaluate(dir, Point{Obs: "@" + file, Z: "[1, 2, 3]", Action: "[0.25]"})
	fatal.If(t, err)
	if other.Action[0] != 0.25 || other.Psi[1][2] == policy.Psi[1][2] || other.Phi[2] != policy.Phi[2] {
		t.Errorf("with another action: %+v, the policy's: %+v", other, policy)
	}
}

// vectors writes one case of the test network, with an error of psi.
func vectors(t *testing.T, psiError float32) string {
	t.Helper()
	n := tflitetest.Network(rigtest.ModelDims, 1)
	obs, z := []float32{0.1, 0.2}, []float64{1, -1, 2}
	phi, action, psi := make([]float64, 3), make([]float32, 1), make([]float32, 6)
	fatal.If(t, errors.Join(n.Phi(phi, obs), n.Act(action, obs, z)))
	fatal.If(t, n.Psi(psi, obs, action, z))
	psi[4] += psiError
	path := filepath.Join(t.TempDir(), "vectors.npz")
	fatal.If(t, npz.WriteFile(path, npz.Archive{
		"obs": npz.Float32(obs, 1, 2), "z": npz.Float64(z, 1, 3), "phi": npz.Float64(phi, 1, 3),
		"action": npz.Float32(action, 1, 1), "psi": npz.Float32(psi, 2, 1, 3),
	}))
	return path
}

func TestCheck_FailsAboveTheTolerance(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	for _, c := range []struct {
		psiError  float32
		tolerance float64
		want      string
	}{{0, 1e-4, ""}, {0.01, 0.5, ""}, {0.01, 1e-4, "above the tolerance"}} {
		var out bytes.Buffer
		err := Check(&out, dir, vectors(t, c.psiError), c.tolerance)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		rigtest.Contains(t, out.String(), "cases   1")
	}
}

func TestImport_ThenCheckAgreesWithPyTorch(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "shared", "cheetah")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the reference checkpoint is missing: %v", err)
	}
	if testing.Short() {
		t.Skip("evaluates 20,000 observations")
	}
	out := filepath.Join(t.TempDir(), "cheetah")
	o := ImportOptions{Out: out, Observations: filepath.Join(dir, "obs.npz"), Weights: Float32}
	fatal.If(t, Import(io.Discard, dir, o))
	fatal.If(t, Check(t.Output(), out, filepath.Join(dir, "vectors.npz"), 1e-4))
	b, err := tflite.LoadDir(out)
	fatal.If(t, err)
	if b.Prior == nil || b.Prior.States != 20000 {
		t.Errorf("the imported bundle has the prior %+v", b.Prior)
	}
}

func TestModels_NameWhatIsWrong(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	checkpoint := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(checkpoint, tflite.CheckpointFileName), []byte("{}"), 0o600))
	evaluate := func(obs, z string) error { _, err := Evaluate(dir, Point{Obs: obs, Z: z}); return err }
	backend := func(candidates, searches int, bundle string) error {
		return CompareBackend(io.Discard, BackendOptions{
			Config: "rover", Set: []string{"model.bundle=" + bundle}, Candidates: candidates, Searches: searches,
		})
	}
	for _, c := range []struct {
		want string
		err  error
	}{
		{"bfm.json", Describe(io.Discard, t.TempDir())},
		{"--obs", evaluate("1, 2", "[1, 2, 3]")},
		{"--z", evaluate("[1, 2]", "@nowhere")},
		{"observation has 3", evaluate("[1, 2, 3]", "[1, 2, 3]")},
		{"no direction", evaluate("[1, 2]", "[0, 0, 0]")},
		{"nowhere.npz", Check(io.Discard, dir, "nowhere.npz", 1e-4)},
		{"--candidates 0", backend(0, 1, dir)},
		{"--searches 0", backend(1, 0, dir)},
		{"bfm.json", backend(1, 1, t.TempDir())},
		{"model.backend is native", backend(1, 1, dir)},
		{"--observations is missing", Import(io.Discard, checkpoint, ImportOptions{Out: "x"})},
		{`--weights: unknown ("half")`, Import(io.Discard, checkpoint, ImportOptions{Out: "x", Weights: "half"})},
		{"a bundle needs no import", Import(io.Discard, dir, ImportOptions{Out: "x"})},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
}

func TestSavedModel_NeedsTheBuildTag(t *testing.T) {
	if tensorflow.Built {
		t.Skip("this test was built with TensorFlow")
	}
	o := ImportOptions{Out: filepath.Join(t.TempDir(), "bundle"), Signatures: tflite.DefaultSignatures()}
	imported := Import(io.Discard, rigtest.SavedModelDir, o)
	_, evaluated := Evaluate(rigtest.SavedModelBundle(t, nil), Point{Obs: "[0,0,0,0,0,0]", Z: "[1,0,0,0,0,0,0,0]"})
	const fix = "go build -tags tensorflow ./cmd/optibfm"
	for name, err := range map[string]error{"import": imported, "eval": evaluated} {
		errtest.Is(t, err, tensorflow.ErrNotBuilt, name)
		errtest.Contains(t, err, fix, name)
	}
}

// biased is a network with scores multiplied by a factor.
type biased struct {
	*tflite.Network
	factor float32
}

func (b biased) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	best, score, err := b.Network.Search(obs, candidates, belief)
	return best, score * b.factor, err
}

func TestComparison_FailsAboveTheTolerance(t *testing.T) {
	native := tflitetest.Network(rigtest.ModelDims, 1)
	for _, c := range []struct {
		factor    float32
		tolerance float64
		agree     bool
	}{
		{1, 1e-4, true},
		{1.001, 1e-4, false},
		{1.001, 1e-2, true},
		{1.05, 1e-2, false},
		{float32(math.NaN()), 1e-2, false},
	} {
		var out bytes.Buffer
		compare := comparison{out: &out, backend: "other", candidates: 9, searches: 5, tolerance: c.tolerance}
		err := compare.search(biased{tflitetest.Network(rigtest.ModelDims, 1), c.factor}, native)
		if c.agree != (err == nil) || err != nil && !strings.Contains(err.Error(), "scores") {
			t.Errorf("%+v: %v", c, err)
		}
		rigtest.Contains(t, out.String(), "9 candidates: other p50", "; native p50", "0 of 5 searches have another best")
	}
	var out bytes.Buffer
	fatal.If(t, (comparison{out: &out, candidates: 9, searches: 5}).search(native))
	if strings.Contains(out.String(), "native") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("without native networks: %s", &out)
	}
}

// checkFloat16 imports the checkpoint of a bundle again, without a choice of the weights.
func checkFloat16(t *testing.T, dir, bundle string, o ImportOptions) {
	t.Helper()
	var out bytes.Buffer
	o.Out, o.Weights = filepath.Join(t.TempDir(), "half"), ""
	fatal.If(t, Import(&out, dir, o))
	rigtest.Contains(t, out.String(),
		"float16 changes φ by ", "the largest of 64 observations", "at most 5e-03: the weights are")
	fatal.If(t, Check(io.Discard, o.Out, filepath.Join(dir, "vectors.npz"), 0))
	whole, err := tflite.LoadDir(bundle)
	fatal.If(t, err)
	half, err := tflite.LoadDir(o.Out)
	fatal.If(t, err)
	if half.Bytes > whole.Bytes*7/10 || half.Provenance["weights"] != "rounded to float16" {
		t.Errorf("%d bytes, %d in float32, provenance %v", half.Bytes, whole.Bytes, half.Provenance)
	}
}

// Random weights, saved by the projects' own code.
func TestImport_RunsPublicCheckpoints(t *testing.T) {
	for name, report := range map[string]string{
		"fbcpr-simple": "Cov B from 1500 observations", "fbcpr-residual": "Cov B from 1500 observations",
		"bfmzero": "no sensor of a robot measures the group privileged_state, but φ needs it, ψ needs it.",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "..", "shared", "public", name)
			if _, err := os.Stat(dir); err != nil {
				t.Skip("no reference checkpoint: ", err)
			}
			var out bytes.Buffer
			made := filepath.Join(t.TempDir(), "bundle")
			o := ImportOptions{Out: made, Observations: filepath.Join(dir, "obs.npz"), Weights: Float32}
			fatal.If(t, Import(&out, dir, o))
			rigtest.Contains(t, out.String(), report)
			fatal.If(t, Check(io.Discard, made, filepath.Join(dir, "vectors.npz"), 2e-5))
			out.Reset()
			fatal.If(t, Describe(&out, made))
			if name == "bfmzero" {
				rigtest.Contains(t, out.String(), "state 8, privileged_state 6, last_action 5, history_actor 10",
					"residual, hidden 64, hidden layers 3, embedding layers 3, reads state privileged_state last_action")
			}
			checkFloat16(t, dir, made, o)
		})
	}
}

// setTensor changes a float32 tensor of a safetensors file.
func setTensor(t *testing.T, path, name string, value func(i int) float32) {
	t.Helper()
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	data := 8 + binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Offsets []uint64 `json:"data_offsets"`
	}
	fatal.If(t, json.Unmarshal(raw[8:data], &header))
	span := header[name].Offsets
	for i := range int(span[1]-span[0]) / 4 {
		binary.LittleEndian.PutUint32(raw[data+span[0]+uint64(4*i):], math.Float32bits(value(i)))
	}
	fatal.If(t, os.WriteFile(path, raw, 0o600))
}

func TestImport_KeepsFloat32WhereFloat16IsInaccurate(t *testing.T) {
	source := filepath.Join("..", "..", "..", "tflite", "testdata", "checkpoints", "mebe")
	for words, value := range map[string]func(i int) float32{
		"is outside float16 (±65504); use --weights float32: the weights stay": func(i int) float32 { return 1e5 },
		// LayerNorm subtracts what all weights have in common, and float16 holds nothing else.
		", more than 5e-03: the weights stay float32": func(i int) float32 { return 1000 + 0.001*float32(i*i%101) },
	} {
		dir := filepath.Join(t.TempDir(), "checkpoint")
		fatal.If(t, os.CopyFS(dir, os.DirFS(source)))
		setTensor(t, filepath.Join(dir, "model.safetensors"), "_actor.embed_z.0.weight", value)
		var out bytes.Buffer
		o := ImportOptions{Out: filepath.Join(t.TempDir(), "bundle"), Observations: filepath.Join(dir, "obs.npz")}
		fatal.If(t, Import(&out, dir, o))
		rigtest.Contains(t, out.String(), words)
		b, err := tflite.LoadDir(o.Out)
		fatal.If(t, err)
		if b.Float16 || b.Provenance["weights"] != "" {
			t.Errorf("float16 %t, provenance %v", b.Float16, b.Provenance)
		}
	}
}
