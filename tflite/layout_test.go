package tflite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"optibfm/internal/npz"
)

// checkpoints are the folders of scripts/reference_checkpoint.py, one a layout.
var checkpoints = []string{
	"bfmzero-flat", "mebe", "jepa-fb", "jepa-rldp", "jepa-hilp", "tdjepa", "tdjepa-symmetric",
}

func readArchive(t *testing.T, folder, file string) npz.Archive {
	t.Helper()
	a, err := npz.ReadFile(filepath.Join("testdata", "checkpoints", folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// importCheckpoint returns the bundle of a checkpoint.
func importCheckpoint(t *testing.T, name string) *Bundle {
	t.Helper()
	folder := filepath.Join("testdata", "checkpoints", name)
	checkpoint, err := LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	a := checkpoint.Architecture
	obs, _, err := Observations(readArchive(t, name, "obs.npz"), a.Obs, a.Groups)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), name)
	if err := Import(folder, obs, out, ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := LoadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The reference is an independent implementation in PyTorch, in float64. The φ of the imported bundle has the
// Cov B of its observations.
func TestImport_LayoutsAgreeWithPyTorch(t *testing.T) {
	for _, name := range checkpoints {
		t.Run(name, func(t *testing.T) {
			vectors := readArchive(t, name, "vectors.npz")
			delete(vectors, "cov_b")
			e, err := Check(importCheckpoint(t, name), vectors)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("largest relative errors of %d cases: phi %.2g, action %.2g, psi %.2g", e.Cases, e.Phi, e.Action, e.Psi)
			if !(e.Worst() <= 2e-5) {
				t.Errorf("%+v, want at most 2e-5", e)
			}
		})
	}
}

func TestParseCheckpoint_NamesDamageOfEachLayout(t *testing.T) {
	for _, c := range []struct{ checkpoint, from, to, words string }{
		{"mebe", `"goal_dim": 5`, `"goal_dim": 0`, `size of "goal" is 0`},
		{"mebe", `"goal_dim": 5,`, ``, "missing keys: goal_dim"},
		{"mebe", `"momentum"`, `"momenta"`, `unknown key "momenta"`},
		{"bfmzero-flat", `"shape": [`, `"shape": [2,`, "obs_space: shape is [2 11]"},
		{"bfmzero-flat", `"BatchNormNormalizerConfig"`, `"LogNormalizer"`, `name: "LogNormalizer" is not supported`},
		{"bfmzero-flat", `"FBcprAuxModel"`, `"GcrRlDistAuxModel"`, `the model "GcrRlDistAuxModel" is not supported`},
		{"jepa-fb", `"L_dim": 6`, `"L_dim": 0`, "encoder.size is 0"},
		{"jepa-fb", `"name": "Identity"`, `"name": "drq"`, "a model of pictures is not supported"},
		{"jepa-fb", `"L_dim": 6`, `"L_dim": 6, "vision": {}`, `archi: unknown key "vision"`},
		{"jepa-rldp", `"RLDPModel"`, `"FBFlowBCModel"`, `the model "FBFlowBCModel" is not supported`},
		{"jepa-hilp", `"center_features": true`, `"center_features": 2`, "center_features: want true or false"},
		{"jepa-hilp", `"norm": false`, `"norm": true`, "center_features is true and archi.features.norm too"},
		{"jepa-hilp", `"hidden_layers": 2`, `"hidden_layers": -1`, "hidden_layers is -1"},
		{"tdjepa", `"phi_dim": 6`, `"phi_dim": 100000`, "encoder.size is 100000"},
		{"tdjepa", `"ensemble_mode": "batch"`, `"ensemble_mode": "seq"`, `phi_predictor: ensemble_mode: "seq"`},
		{"tdjepa-symmetric", `"symmetric": true`, `"symmetric": "yes"`, "symmetric: want true or false"},
	} {
		files := checkpointFiles(t, c.checkpoint)
		changed := false
		for _, file := range []string{CheckpointFileName, initFileName} {
			if f := files[file]; f != nil {
				text := unindented(f.Data)
				f.Data = []byte(strings.Replace(text, c.from, c.to, 1))
				changed = changed || string(f.Data) != text
			}
		}
		if !changed {
			t.Errorf("%s: %q does not occur", c.checkpoint, c.from)
		}
		_, err := loadAny(files, c.checkpoint)
		wantError(t, c.checkpoint+": "+c.to, err, c.words)
	}
	files := checkpointFiles(t, "tdjepa")
	delete(files, initFileName)
	_, err := loadAny(files, "tdjepa")
	wantError(t, "no "+initFileName, err, initFileName+" is missing")
}

// unindented joins the lines of a JSON text.
func unindented(text []byte) string {
	var all string
	for line := range strings.Lines(string(text)) {
		all += strings.TrimSpace(line)
		if strings.HasSuffix(all, ",") {
			all += " "
		}
	}
	return all
}

func checkpointFiles(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	for _, file := range []string{CheckpointFileName, initFileName, weightsFileName} {
		raw, err := os.ReadFile(filepath.Join("testdata", "checkpoints", name, file))
		if os.IsNotExist(err) && file == initFileName {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files[file] = &fstest.MapFile{Data: raw}
	}
	return files
}

// Errors name tensors as the file does.
func TestLoadDir_NamesDamagedTensorsOfEachLayout(t *testing.T) {
	for _, c := range []struct{ checkpoint, tensor, words string }{
		{"mebe", "_B_normalizer.running_var", "is missing"},
		{"bfmzero-flat", "_obs_normalizer._normalizers._normalizer.running_mean", "is missing"},
		{"jepa-fb", "_left_encoder.net.0.weight", "is missing"},
		{"jepa-rldp", "_obs_normalizer._normalizer.running_mean", "is missing"},
		{"jepa-hilp", "features_mean", "is missing"},
		{"jepa-hilp", "_sf.Fs.0.bias", "is missing"},
		{"tdjepa", "_psi_mlp_encoder.net.5.bias", "is missing"},
		{"tdjepa-symmetric", "_phi_mlp_encoder.net.1.bias", "is missing"},
	} {
		files := checkpointFiles(t, c.checkpoint)
		raw := files[weightsFileName].Data
		tensors, err := readSafetensors(bytes.NewReader(raw), int64(len(raw)), func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		lost := tensors[c.tensor]
		delete(tensors, c.tensor)
		files[weightsFileName].Data = encodeWeights(t, tensors)
		_, err = loadAny(files, c.checkpoint)
		wantError(t, c.checkpoint, err, fmt.Sprintf("tensor %q %s", c.tensor, c.words))

		tensors[c.tensor], tensors["_world.0.weight"] = lost, lost
		files[weightsFileName].Data = encodeWeights(t, tensors)
		_, err = loadAny(files, c.checkpoint)
		wantError(t, c.checkpoint, err, `unknown tensor "_world.0.weight"`)

		files[weightsFileName].Data = raw[:len(raw)/2]
		_, err = loadAny(files, c.checkpoint)
		wantError(t, c.checkpoint, err, "copy the file again")
	}
}

func TestSearch_ReadsTheEncoder(t *testing.T) {
	b := importCheckpoint(t, "tdjepa")
	d := b.Dims()
	n, err := b.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	vectors := readArchive(t, "tdjepa", "vectors.npz")
	obs, err := vectors["obs"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	candidates, err := vectors["z"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	belief := Belief{Mean: candidates[:d.Latent], InvR: make([]float32, d.Latent*d.Latent)}
	best, score, err := n.Search(obs[:d.Obs], candidates, belief)
	if err != nil {
		t.Fatal(err)
	}
	// The score of the best candidate from Act and Psi.
	z := make([]float64, d.Latent)
	for i := range z {
		z[i] = float64(candidates[best*d.Latent+i])
	}
	action, psi := make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	if err := n.Act(action, obs[:d.Obs], z); err != nil {
		t.Fatal(err)
	}
	if err := n.Psi(psi, obs[:d.Obs], action, z); err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for m := range d.Ensemble {
		bound := 0.0
		for i, x := range psi[m*d.Latent : (m+1)*d.Latent] {
			bound += float64(x) * float64(belief.Mean[i])
		}
		if m == 0 || bound < want {
			want = bound
		}
	}
	if difference := float64(score) - want; !(difference < 1e-4 && difference > -1e-4) {
		t.Errorf("the score is %g, want %g", score, want)
	}
}
