package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite/tflitetest"
)

// modelRun runs `optibfm model ARGS...` and returns what it prints.
func modelRun(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newModelCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestModelInspectPrintsSizesAndHash(t *testing.T) {
	out, err := modelRun("inspect", rigtest.ModelBundle(t))
	if err != nil {
		t.Fatal(err)
	}
	hash := tflitetest.Bundle(rigtest.ModelDims, 1).Hash
	for _, want := range []string{"observation 2, action 1, d 3, ensemble 2", hash, "random numbers"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestModel_ReadsTheEmbeddedModel(t *testing.T) {
	out, err := modelRun("inspect", configs.EmbeddedRover)
	if err != nil || !strings.Contains(out, "observation 6, action 2") || !strings.Contains(out, "x, y, heading_cos") {
		t.Errorf("inspect: %v\n%s", err, out)
	}
	z := "[" + strings.Repeat("1,", 31) + "1]"
	out, err = modelRun("eval", configs.EmbeddedRover, "--obs", "[0,0,1,0,0,0]", "--z", z)
	if err != nil || !strings.Contains(out, `"phi":[`) {
		t.Errorf("eval: %v\n%s", err, out)
	}
	model, err := setup.OpenModel(configs.EmbeddedRover)
	if err != nil {
		t.Fatal(err)
	}
	n, err := model.(setup.NativeModel).NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	obs, zs := make([]float32, 6), make([]float64, 32)
	obs[2], zs[0] = 1, 1
	phi, action, psi := make([]float64, 32), make([]float32, 2), make([]float32, 2*32)
	if err := errors.Join(n.Phi(phi, obs), n.Act(action, obs, zs), n.Psi(psi, obs, action, zs)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vectors.npz")
	err = npz.WriteFile(path, map[string]npz.Array{
		"obs": npz.Float32(obs, 1, 6), "z": npz.Float64(zs, 1, 32), "phi": npz.Float64(phi, 1, 32),
		"action": npz.Float32(action, 1, 2), "psi": npz.Float32(psi, 2, 1, 32),
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err = modelRun("check", configs.EmbeddedRover, path); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

func TestModelEvalGivesPhiActionAndPsiAsJSON(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	out, err := modelRun("eval", dir, "--obs", "[0.5, -1]", "--z", "[1, 2, 3]")
	if err != nil {
		t.Fatal(err)
	}
	var policy, same evaluation
	if err := json.Unmarshal([]byte(out), &policy); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(policy.Phi) != 3 || len(policy.Action) != 1 || len(policy.Psi) != 2 || len(policy.Psi[1]) != 3 {
		t.Errorf("shapes of %s", out)
	}
	file := filepath.Join(t.TempDir(), "action.json")
	text, _ := json.Marshal(policy.Action)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = modelRun("eval", dir, "--obs", "[0.5, -1]", "--z", "[1, 2, 3]", "--action", "@"+file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &same); err != nil {
		t.Fatal(err)
	}
	if same.Psi[1][2] != policy.Psi[1][2] {
		t.Errorf("psi at the policy's action is %v, without it %v", same.Psi, policy.Psi)
	}
}

func TestModelCheckFailsAboveTheTolerance(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	n := tflitetest.Network(rigtest.ModelDims, 1)
	obs, z := []float32{0.1, 0.2}, []float64{1, -1, 2}
	phi, action, psi := make([]float64, 3), make([]float32, 1), make([]float32, 6)
	for _, err := range []error{n.Phi(phi, obs), n.Act(action, obs, z), n.Psi(psi, obs, action, z)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	psi[4] += 0.01
	path := filepath.Join(t.TempDir(), "vectors.npz")
	err := npz.WriteFile(path, npz.Archive{
		"obs": npz.Float32(obs, 1, 2), "z": npz.Float64(z, 1, 3), "phi": npz.Float64(phi, 1, 3),
		"action": npz.Float32(action, 1, 1), "psi": npz.Float32(psi, 2, 1, 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := modelRun("check", dir, path, "--tolerance", "0.5"); err != nil || !strings.Contains(out, "cases   1") {
		t.Errorf("within: %v\n%s", err, out)
	}
	if _, err := modelRun("check", dir, path); err == nil || !strings.Contains(err.Error(), "above the tolerance") {
		t.Errorf("above: %v", err)
	}
}

func TestModelImportThenCheckAgreesWithPyTorch(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "cheetah")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the reference checkpoint is not here: %v", err)
	}
	if testing.Short() {
		t.Skip("evaluates 20,000 observations")
	}
	out := filepath.Join(t.TempDir(), "cheetah")
	if text, err := modelRun("import", dir, "--observations", filepath.Join(dir, "obs.npz"), "--out", out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := modelRun("check", out, filepath.Join(dir, "vectors.npz"), "--tolerance", "1e-4")
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log(text)
}

func TestModelCommandsNameWhatIsWrong(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"bfm.json", []string{"inspect", t.TempDir()}},
		{"--obs", []string{"eval", dir, "--obs", "1, 2", "--z", "[1, 2, 3]"}},
		{"--z", []string{"eval", dir, "--obs", "[1, 2]", "--z", "@nowhere"}},
		{"observation has 3", []string{"eval", dir, "--obs", "[1, 2, 3]", "--z", "[1, 2, 3]"}},
		{"no direction", []string{"eval", dir, "--obs", "[1, 2]", "--z", "[0, 0, 0]"}},
		{"required", []string{"import", dir}},
		{"nowhere.npz", []string{"check", dir, "nowhere.npz"}},
	} {
		if _, err := modelRun(c.args...); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v, want %q", c.args, err, c.words)
		}
	}
}
