package tflite

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"optibfm/internal/errtest"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

// checkpoints are the folders of scripts/reference_checkpoint.py, one a layout.
var checkpoints = []string{
	"bfmzero-flat", "mebe", "jepa-fb", "jepa-rldp", "jepa-hilp", "tdjepa", "tdjepa-symmetric",
}

func readArchive(t *testing.T, folder, file string) npz.Archive {
	t.Helper()
	a, err := npz.ReadFile(filepath.Join("testdata", "checkpoints", folder, file))
	fatal.If(t, err)
	return a
}

// importCheckpoint returns the bundle of a checkpoint.
func importCheckpoint(t *testing.T, name string) *Bundle {
	t.Helper()
	folder := filepath.Join("testdata", "checkpoints", name)
	checkpoint, err := LoadDir(folder)
	fatal.If(t, err)
	a := checkpoint.Architecture
	obs, _, err := Observations(readArchive(t, name, "obs.npz"), a.Obs, a.Groups)
	fatal.If(t, err)
	out := filepath.Join(t.TempDir(), name)
	fatal.If(t, Import(folder, obs, out, ImportOptions{}))
	b, err := LoadDir(out)
	fatal.If(t, err)
	return b
}

// The reference is an independent implementation in PyTorch, in float64. The φ of the imported
// bundle has the Cov B of its observations.
func TestImport_LayoutsAgreeWithPyTorch(t *testing.T) {
	for _, name := range checkpoints {
		t.Run(name, func(t *testing.T) {
			vectors := readArchive(t, name, "vectors.npz")
			delete(vectors, "cov_b")
			e, err := Check(importCheckpoint(t, name), vectors)
			fatal.If(t, err)
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
		{"jepa-hilp", `"center_features": true`, `"center_features": 2`, "center_features: 2, want true or false"},
		{"jepa-hilp", `"norm": false`, `"norm": true`, "center_features is true and archi.features.norm too"},
		{"jepa-hilp", `"hidden_layers": 2`, `"hidden_layers": -1`, "hidden_layers is -1"},
		{"tdjepa", `"phi_dim": 6`, `"phi_dim": 100000`, "encoder.size is 100000"},
		{"tdjepa", `"ensemble_mode": "batch"`, `"ensemble_mode": "seq"`, `phi_predictor: ensemble_mode: "seq"`},
		{"tdjepa-symmetric", `"symmetric": true`, `"symmetric": "yes"`, `symmetric: "yes", want true or false`},
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
		_, err := loadAny(files, c.checkpoint, &packing{})
		errtest.Contains(t, err, c.words, c.checkpoint+": "+c.to)
	}
	files := checkpointFiles(t, "tdjepa")
	delete(files, initFileName)
	_, err := loadAny(files, "tdjepa", &packing{})
	errtest.Contains(t, err, initFileName+" is missing", "no "+initFileName)
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

func checkpointFiles(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	for _, file := range []string{CheckpointFileName, initFileName, weightsFileName} {
		raw, err := os.ReadFile(filepath.Join("testdata", "checkpoints", name, file))
		if os.IsNotExist(err) && file == initFileName {
			continue
		}
		fatal.If(t, err)
		files[file] = &fstest.MapFile{Data: raw}
	}
	return files
}

// wholeCheckpoints are the files of a checkpoint of each layout.
func wholeCheckpoints(t *testing.T) map[string]fstest.MapFS {
	t.Helper()
	all := make(map[string]fstest.MapFS)
	for _, name := range checkpoints {
		all[name] = checkpointFiles(t, name)
	}
	for name, c := range map[string]struct{ config, init string }{
		"metamotivo": {cheetahConfig, ""}, "bfmzero": {bfmZeroConfig, bfmZeroInit},
	} {
		a, err := parseArchitecture(c.config, c.init)
		fatal.If(t, err)
		all[name] = fstest.MapFS{
			CheckpointFileName: {Data: []byte(c.config)}, weightsFileName: {Data: encodeWeights(t, constants(a))},
		}
		if c.init != "" {
			all[name][initFileName] = &fstest.MapFile{Data: []byte(c.init)}
		}
	}
	return all
}

// Each error names the file, the tensor or key as the file does, what it has and should have, and a
// fix.
func TestLoadDir_NamesDamageOfEachLayout(t *testing.T) {
	const weights, config = "model.safetensors: ", "config.json: "
	tensorOf := map[string]string{ // a tensor with a name of the layout
		"metamotivo": "_backward_map.net.0.bias", "bfmzero": "_obs_normalizer._normalizers.state._normalizer.running_mean",
		"bfmzero-flat": "_obs_normalizer._normalizers._normalizer.running_mean", "mebe": "_B_normalizer.running_var",
		"jepa-fb": "_left_encoder.net.0.bias", "jepa-rldp": "_obs_normalizer._normalizer.running_mean",
		"jepa-hilp": "_sf.Fs.0.bias", "tdjepa": "_psi_mlp_encoder.net.5.bias",
		"tdjepa-symmetric": "_phi_mlp_encoder.net.1.bias",
	}
	for layout, whole := range wholeCheckpoints(t) {
		name, raw := tensorOf[layout], whole[weightsFileName].Data
		good, err := parseSafetensors(raw)
		fatal.If(t, err)
		if _, err := loadAny(whole, layout, &packing{}); err != nil || good[name].count() < 2 {
			t.Fatalf("%s: %v, %d elements of %q", layout, err, good[name].count(), name)
		}
		shape, quoted := good[name].Shape, fmt.Sprintf("%stensor %q", weights, name)
		with := func(x Tensor) []byte {
			tensors := maps.Clone(good)
			tensors[name] = x
			return encodeWeights(t, tensors)
		}
		missing := maps.Clone(good)
		delete(missing, name)
		unknown := maps.Clone(good)
		unknown["_world.0.weight"] = good[name]
		longer := slices.Clone(shape)
		longer[len(shape)-1]++
		nan := slices.Clone(good[name].float32s())
		nan[1] = float32(math.NaN())
		wrongType := bytes.Replace(raw, fmt.Appendf(nil, `"%s":{"dtype":"F32"`, name),
			fmt.Appendf(nil, `"%s":{"dtype":"I32"`, name), 1)

		text, without := string(whole[CheckpointFileName].Data), regexp.MustCompile(`"norm_z": (true|1),`)
		for damage, c := range map[string]struct{ config, weights, want string }{
			"empty weights":     {text, "", weights + "truncated (0 bytes, want at least 8); copy the file again"},
			"truncated header":  {text, string(raw[:100]), "; copy the file again"},
			"truncated weights": {text, string(raw[:len(raw)-1]), "; copy the file again"},
			"missing tensor": {text, string(encodeWeights(t, missing)),
				fmt.Sprintf("%s is missing, want one of shape %v; ", quoted, shape)},
			"unknown tensor": {text, string(encodeWeights(t, unknown)),
				weights + `unknown tensor "_world.0.weight", which no network here has; remove it`},
			"shape": {text, string(with(Tensor{Shape: longer, F32: make([]float32, elements(longer))})),
				fmt.Sprintf("%s has shape %v, want %v; copy all files of one model", quoted, longer, shape)},
			"dtype": {text, string(wrongType), quoted + `: dtype "I32" is not supported; save it as F32`},
			"NaN": {text, string(with(Tensor{Shape: shape, F32: nan})),
				quoted + ": element 1 is not finite (NaN); use another checkpoint"},
			"truncated config": {text[:len(text)/2], string(raw), "malformed JSON: unexpected EOF; copy the file again"},
			"unknown key": {strings.Replace(text, "{", `{"colour": 1, `, 1), string(raw),
				config + `unknown key "colour" (known: `},
			"missing key": {without.ReplaceAllString(text, ""), string(raw),
				config + "archi: missing keys: norm_z; copy the file again"},
			"type of a key": {strings.Replace(text, `"hidden_dim": `, `"hidden_dim": "wide", "x": `, 1), string(raw),
				`hidden_dim: "wide", want an integer`},
		} {
			files := maps.Clone(whole)
			files[CheckpointFileName] = &fstest.MapFile{Data: []byte(c.config)}
			files[weightsFileName] = &fstest.MapFile{Data: []byte(c.weights)}
			errtest.Contains(t, errtest.Of(loadAny(files, layout, &packing{})), c.want, layout+": "+damage)
		}
	}
}

func TestSearch_ReadsTheEncoder(t *testing.T) {
	b := importCheckpoint(t, "tdjepa")
	d := b.Dims()
	n, err := b.NewNetwork()
	fatal.If(t, err)
	vectors := readArchive(t, "tdjepa", "vectors.npz")
	obs, err := vectors["obs"].Float32s()
	fatal.If(t, err)
	candidates, err := vectors["z"].Float32s()
	fatal.If(t, err)
	belief := Belief{Mean: candidates[:d.Latent], InvR: make([]float32, d.Latent*d.Latent)}
	best, score, err := n.Search(obs[:d.Obs], candidates, belief)
	fatal.If(t, err)
	// The score of the best candidate from Act and Psi.
	z := make([]float64, d.Latent)
	for i := range z {
		z[i] = float64(candidates[best*d.Latent+i])
	}
	action, psi := make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	fatal.If(t, n.Act(action, obs[:d.Obs], z))
	fatal.If(t, n.Psi(psi, obs[:d.Obs], action, z))
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
