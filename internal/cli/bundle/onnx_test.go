package bundle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/cli/bundle"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/onnx"
	"optibfm/tflite/tflitetest"
)

// published returns a folder as a download from Hugging Face: ONNX models of a random model, a
// model card and the note of the revision.
func published(t *testing.T) (dir string, observations string) {
	t.Helper()
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}, 1)
	dir = filepath.Join(t.TempDir(), "download")
	models := filepath.Join(dir, "exported")
	fatal.If(t, os.MkdirAll(dir, 0o755))
	fatal.If(t, onnx.Export(models, b))
	notes := filepath.Join(dir, ".cache", "huggingface", "download", "exported")
	fatal.If(t, os.MkdirAll(notes, 0o755))
	for path, text := range map[string]string{
		filepath.Join(dir, "README.md"):              "---\ntags: [robot]\nlicense: cc-by-nc-4.0\n---\n# A model\n",
		filepath.Join(notes, "policy.onnx.metadata"): "0123456789abcdef\n\"etag\"\n1790000000.0\n",
	} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	observations = filepath.Join(t.TempDir(), "obs.npz")
	normal := setup.RandomNormals()
	fatal.If(t, npz.WriteFile(observations, npz.Archive{"obs": npz.Float32(normal(600*3), 600, 3)}))
	return models, observations
}

func TestImport_ONNXModelsMakeABundleWithoutPsi(t *testing.T) {
	models, observations := published(t)
	var out bytes.Buffer
	to := filepath.Join(t.TempDir(), "bundle")
	o := bundle.ImportOptions{Out: to, Observations: observations, Backward: filepath.Join(models, onnx.BackwardFile)}
	fatal.If(t, bundle.Import(&out, filepath.Join(models, onnx.PolicyFile), o))
	rigtest.Contains(t, out.String(),
		"ucb needs ψ", "licence: cc-by-nc-4.0", "revision: 0123456789abcdef", "sha256 of the download: ",
	)
	out.Reset()
	fatal.If(t, bundle.Describe(&out, to))
	rigtest.Contains(t, out.String(), "cc-by-nc-4.0", "0123456789abcdef", "no ψ")
	m, err := setup.OpenModel(to)
	fatal.If(t, err)
	f := configs.Default()
	for strategy, fits := range map[string]bool{
		controller.Thompson: true, controller.Fixed: true, controller.UCB: false, controller.UCBSphere: false,
		controller.UCBGradient: false,
	} {
		f.Controller.Strategy = strategy
		err := m.Fits(f)
		if fits && err != nil || !fits && (err == nil || !strings.Contains(err.Error(), "use thompson")) {
			t.Errorf("%s: %v", strategy, err)
		}
	}
}

func TestImport_ONNXModelsNeedTheirOptions(t *testing.T) {
	models, observations := published(t)
	policy, backward := filepath.Join(models, onnx.PolicyFile), filepath.Join(models, onnx.BackwardFile)
	for words, o := range map[string]bundle.ImportOptions{
		"--backward is missing":     {Observations: observations},
		"--observations is missing": {Backward: backward},
		"--weights float16":         {Backward: backward, Observations: observations, Weights: bundle.Float16},
		"not part of a known":       {Backward: filepath.Join(models, onnx.PsiFile), Observations: observations},
	} {
		o.Out = filepath.Join(t.TempDir(), "bundle")
		err := bundle.Import(&bytes.Buffer{}, policy, o)
		errtest.Contains(t, err, words)
		errtest.NotNil(t, errtest.Of(os.Stat(o.Out)), words, ": a bundle was written")
	}
}

func TestExportONNX_RefusesUsedFolders(t *testing.T) {
	models, _ := published(t)
	if err := bundle.ExportONNX(&bytes.Buffer{}, "embedded:rover", models); err == nil {
		t.Error("no error for a folder with files")
	}
}
