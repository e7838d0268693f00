//go:build tensorflow

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/lockstep"
	"optibfm/internal/npz"
	"optibfm/internal/record"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// importSaved imports rigtest.SavedModelDir, or skips where there is no library.
func importSaved(t *testing.T, more ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	_, err := modelRun(append([]string{"import", rigtest.SavedModelDir, "--out", dir}, more...)...)
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnImportedSavedModelAnswersAsInPython(t *testing.T) {
	dir := importSaved(t, "--name", "mine", "--gamma", "0.98", "--obs-channels", "a:m,b,c,d,e,f", "--action-channels", "u,v")
	out, err := modelRun("check", dir, rigtest.SavedModelDir+".npz", "--tolerance", "1e-5")
	if err != nil || !strings.Contains(out, "cases   5") {
		t.Errorf("%s\n%v", out, err)
	}
	if out, err = modelRun("inspect", dir); err != nil || !strings.Contains(out, "mine") || !strings.Contains(out, "a [m], b") {
		t.Errorf("%s\n%v", out, err)
	}
}

func TestALockstepRunOfASavedModelIsRepeatableAndReplays(t *testing.T) {
	run := func() (record.Outcome, []uint64) {
		s := rigtest.NewSavedModelSession(t, func(f *configs.File) {
			f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 2, 2
		})
		o, err := lockstep.Run(t.Context(), s, terminal.QuietDisplay{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := flightlog.Open(o.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if result, err := flightlog.Verify(r); err != nil || !result.OK() {
			t.Errorf("replay differs: %+v, %v", result, err)
		}
		return o, rigtest.BeliefHashes(t, r)
	}
	first, a := run()
	second, b := run()
	if first.Tally.Applied == 0 || !slices.Equal(first.Tally.Returns, second.Tally.Returns) || !slices.Equal(a, b) {
		t.Errorf("%d labels, returns %v and %v", first.Tally.Applied, first.Tally.Returns, second.Tally.Returns)
	}
}

func TestTwoProcessesRunASavedModelAndSayThatItIsNotRealTime(t *testing.T) {
	cmd := program(t, "model.bundle="+importSaved(t), "model.tensorflow.device="+setup.CPUDevice, "run.duration_s=1", "loop.watchdog_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("TensorFlow on the control thread: not real-time")) {
		t.Errorf("no warning in\n%s", out)
	}
	result, err := flightlog.Verify(onlyLog(t, cmd))
	if err != nil || !result.OK() {
		t.Errorf("replay differs: %+v, %v", result, err)
	}
}

func TestInfer_TakesASavedModel(t *testing.T) {
	dir := importSaved(t)
	obs, reward := make([]float32, 10*6), make([]float64, 10)
	for i := range obs {
		obs[i] = float32(i%7) / 7
	}
	reward[3] = 1
	path := writeArchive(t, npz.Archive{"obs": npz.Float32(obs, 10, 6), "reward": npz.Float64(reward, 10)})
	result, err := runInfer(t, path, "--model", dir)
	if err != nil || len(result.Z) != 8 {
		t.Errorf("%+v, %v", result, err)
	}
	text, err := modelRun("eval", dir, "--obs", "[1,2,3,4,5,6]", "--z", "[1,0,0,0,0,0,0,0]")
	var e evaluation
	if err := errors.Join(err, json.Unmarshal([]byte(text), &e)); err != nil || len(e.Phi) != 8 || len(e.Psi) != 2 {
		t.Errorf("%s\n%v", text, err)
	}
}

func TestADeviceThatIsNotThereIsTheCPUOrAnError(t *testing.T) {
	s := rigtest.NewSavedModelSession(t, func(f *configs.File) { f.Model.TensorFlow.Device = "/GPU:7" })
	searcher, note, err := s.Model.Searcher(s.File, 1)
	if err != nil || !strings.Contains(note, "/GPU:7: not granted, the search is on /CPU:0") {
		t.Fatalf("%q, %v", note, err)
	}
	if err := setup.CloseModels(searcher); err != nil {
		t.Error(err)
	}
	s.File.Loop.Posture = "strict"
	if _, _, err := s.Model.Searcher(s.File, 1); !errors.Is(err, tensorflow.ErrNoDevice) || !strings.HasPrefix(err.Error(), "model.tensorflow.device: ") {
		t.Errorf("%v, want ErrNoDevice", err)
	}
}

// altered copies rigtest.SavedModelDir with one edit of a file.
func altered(t *testing.T, file string, edit func(raw []byte) []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "altered")
	if err := os.CopyFS(dir, os.DirFS(rigtest.SavedModelDir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := edit(slices.Clone(raw))
	if bytes.Equal(raw, changed) {
		t.Fatalf("%s is as it was", file)
	}
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replaced edits saved_model.pb.
func replaced(t *testing.T, from, to string) string {
	return altered(t, tflite.SavedModelFileName, func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte(from), []byte(to)) })
}

func TestASavedModelThatIsNoModelIsNotImported(t *testing.T) {
	importSaved(t) // or skip
	cases := map[string]struct {
		dir   string
		flags []string
		want  []string
	}{
		"a signature that is not there": {rigtest.SavedModelDir, []string{"--psi", "psy"}, []string{"psy", "the signature", "missing", "expected", "__saved_model_init_op, phi, policy, psi"}},
		"a signature of another kind":   {rigtest.SavedModelDir, []string{"--phi", "policy"}, []string{"out action", "unexpected", "out phi"}},
		"float64 results":               {replaced(t, "StatefulPartitionedCall:0\x10\x01", "StatefulPartitionedCall:0\x10\x02"), nil, []string{"float32 [n, d]", "float64 [?, 8]", "type"}},
		"results that are not finite":   {replaced(t, "Tanh", "Acos"), nil, []string{"not finite"}},
		"actions beyond 1":              {replaced(t, "Tanh", "Cosh"), nil, []string{"π: action 0 is", "want -1 to 1"}},
		"too few channels":              {rigtest.SavedModelDir, []string{"--obs-channels", "x"}, []string{"observation names 1 channels, want 6"}},
		"a discount above 1":            {rigtest.SavedModelDir, []string{"--gamma", "2"}, []string{"gamma is 2"}},
		"a damaged graph":               {replaced(t, "MatMul", "MatNul"), nil, []string{"altered", "MatNul"}},
		"a graph that ends early":       {altered(t, tflite.SavedModelFileName, func(raw []byte) []byte { return raw[:len(raw)/2] }), nil, []string{"altered"}},
		"damaged weights":               {altered(t, "variables/variables.data-00000-of-00001", func(raw []byte) []byte { raw[100] ^= 1; return raw }), nil, []string{"altered"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "bundle")
			_, err := modelRun(append([]string{"import", c.dir, "--out", out}, c.flags...)...)
			if err == nil {
				t.Fatal("it is imported")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in\n%v", want, err)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a bundle is left behind")
			}
		})
	}
}

func TestABundleThatSaysOtherSizesThanItsSavedModelIsRefused(t *testing.T) {
	importSaved(t) // or skip
	m, err := setup.OpenModel(rigtest.SavedModelBundle(t, func(m *tflite.SavedModel) { m.Sizes.Latent = 7 }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Evaluator(configs.Default()); err == nil || !strings.Contains(err.Error(), "import it again") {
		t.Errorf("%v: want an error about the sizes", err)
	}
}

func TestModelBackend_AgreesWithTheNativeNetworks(t *testing.T) {
	dir := importSaved(t) // or skip
	for _, c := range []struct {
		bundle string
		lines  int
	}{{configs.EmbeddedRover, 4}, {dir, 3}} {
		out, err := modelRun("backend", "--bundle", c.bundle, "--device", setup.CPUDevice, "--searches", "5")
		if err != nil || strings.Count(out, "\n") != c.lines || !strings.Contains(out, "the graph is on "+setup.CPUDevice) {
			t.Errorf("%s: %v in\n%s", c.bundle, err, out)
		}
	}
}
