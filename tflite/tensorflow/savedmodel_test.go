//go:build tensorflow

package tensorflow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

// expectedResults are the results of testdata/savedmodel in Python.
type expectedResults struct {
	Obs, Action, Psi, Z, Mean []float32
	InvR                      []float32 `json:"inv_r"`
	Beta, Score               float32
	Phi                       []float64
	Best                      int
}

func readExpected(t *testing.T) (a expectedResults) {
	t.Helper()
	text, err := os.ReadFile("testdata/savedmodel.json")
	fatal.If(t, err)
	fatal.If(t, json.Unmarshal(text, &a))
	return a
}

func saved(dir string) tflite.SavedModel {
	return tflite.SavedModel{Dir: dir, Signatures: tflite.DefaultSignatures()}
}

func openSaved(t *testing.T, dir string, n int) tensorflow.Model {
	t.Helper()
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	m, err := tensorflow.LoadSavedModel(saved(dir), onCPU(), n)
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, m.Close()) })
	return m
}

func TestSavedModel_AgreesWithPython(t *testing.T) {
	m, want := openSaved(t, "testdata/savedmodel", 6), readExpected(t)
	if d := m.Dims(); d != (tflite.Dims{Obs: 5, Action: 2, Latent: 4, Ensemble: 3}) {
		t.Fatalf("sizes %+v", d)
	}
	z := make([]float64, 4)
	for i := range z {
		z[i] = float64(want.Z[i])
	}
	phi, action, psi := make([]float64, 4), make([]float32, 2), make([]float32, 12)
	err := errors.Join(m.Phi(phi, want.Obs), m.Act(action, want.Obs, z), m.Psi(psi, want.Obs, want.Action, z))
	fatal.If(t, err)
	worst := max(tflite.Relative(phi, want.Phi), tflite.Relative(action, want.Action), tflite.Relative(psi, want.Psi))
	if !(worst < 1e-5) {
		t.Errorf("φ %v, π %v, ψ %v, want %v, %v, %v", phi, action, psi, want.Phi, want.Action, want.Psi)
	}
	belief := tflite.Belief{Mean: want.Mean, InvR: want.InvR, Beta: want.Beta}
	best, score, err := m.Search(want.Obs, want.Z, belief)
	fatal.If(t, err)
	if best != want.Best || !(tflite.Relative([]float32{score}, []float32{want.Score}) < 1e-5) {
		t.Errorf("best %d with %g, want %d with %g", best, score, want.Best, want.Score)
	}
}

func TestSavedModel_DoesNotAllocate(t *testing.T) {
	m, a := openSaved(t, "testdata/savedmodel", 6), readExpected(t)
	belief := tflite.Belief{Mean: a.Mean, InvR: a.InvR, Beta: a.Beta}
	phi, action, psi, z := make([]float64, 4), make([]float32, 2), make([]float32, 12), []float64{1, 2, 3, 4}
	for name, call := range map[string]func() error{
		"search": func() error { _, _, err := m.Search(a.Obs, a.Z, belief); return err },
		"phi":    func() error { return m.Phi(phi, a.Obs) },
		"act":    func() error { return m.Act(action, a.Obs, z) },
		"psi":    func() error { return m.Psi(psi, a.Obs, action, z) },
	} {
		checkAllocations(t, name, call)
	}
}

func TestSavedModel_NormZScalesZ(t *testing.T) {
	a := readExpected(t)
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	actions, huge := make(map[bool][]float32), make(map[bool][]float32)
	for _, normZ := range []bool{false, true} {
		s := saved("testdata/savedmodel")
		s.NormZ = normZ
		m, err := tensorflow.LoadSavedModel(s, onCPU(), 1)
		fatal.If(t, err)
		actions[normZ] = make([]float32, 2)
		fatal.If(t, m.Act(actions[normZ], a.Obs, []float64{1, 2, 3, 4}))
		huge[normZ] = make([]float32, 2)
		failed := m.Act(huge[normZ], a.Obs, []float64{1e30, 2e30, 3e30, 4e30})
		fatal.If(t, m.Close())
		if normZ && failed != nil {
			t.Fatal(failed)
		}
	}
	// This model normalises z itself: only the rounding changes, unless ‖z‖² overflows
	// in float32.
	if !(tflite.Relative(actions[true], actions[false]) < 1e-5) {
		t.Errorf("%v and %v", actions[true], actions[false])
	}
	if !(tflite.Relative(huge[true], actions[true]) < 1e-5) || tflite.Relative(huge[false], actions[false]) < 1e-5 {
		t.Errorf("huge z: %v normalised, %v not normalised, want only the first to be %v",
			huge[true], huge[false], actions[true])
	}
}

func TestSavedModel_RunsOnTheCallingThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	c := onCPU()
	c.IntraOpThreads, c.InterOpThreads = 1, -1
	m, err := tensorflow.LoadSavedModel(saved("testdata/savedmodel"), c, 1)
	fatal.If(t, err)
	defer m.Close()
	action, obs, z := make([]float32, 2), make([]float32, 5), []float64{1, 2, 3, 4}
	before := voluntarySwitches(t)
	for range 500 {
		fatal.If(t, m.Act(action, obs, z))
	}
	if waits := voluntarySwitches(t) - before; waits > 100 {
		t.Errorf("the thread waited %d times in 500 calls, so other threads work for it", waits)
	}
}

// voluntarySwitches returns the number of times that the calling thread has waited.
func voluntarySwitches(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	fatal.If(t, err)
	return n
}

func TestSavedModel_RejectsBadInputs(t *testing.T) {
	m, a := openSaved(t, "testdata/savedmodel", 6), readExpected(t)
	belief := tflite.Belief{Mean: a.Mean, InvR: a.InvR}
	for name, call := range map[string]func() error{
		"short observation": func() error { _, _, err := m.Search(a.Obs[1:], a.Z, belief); return err },
		"part of a z":       func() error { _, _, err := m.Search(a.Obs, a.Z[1:], belief); return err },
		"no belief":         func() error { _, _, err := m.Search(a.Obs, a.Z, tflite.Belief{}); return err },
		"z of zeros":        func() error { return m.Act(make([]float32, 2), a.Obs, make([]float64, 4)) },
		"short φ":           func() error { return m.Phi(make([]float64, 3), a.Obs) },
	} {
		errtest.NotNil(t, call(), name)
	}
}

func TestSavedModel_NaNIsErrNotFinite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "strange")
	fatal.If(t, os.CopyFS(dir, os.DirFS("testdata/savedmodel")))
	path := filepath.Join(dir, tflite.SavedModelFileName)
	graph, err := os.ReadFile(path)
	fatal.If(t, err)
	for _, op := range []string{"Tanh", "Erfc"} { // the arc cosine of a number above 1 is NaN
		graph = bytes.ReplaceAll(graph, []byte(op), []byte("Acos"))
	}
	fatal.If(t, os.WriteFile(path, graph, 0o644))
	m, a := openSaved(t, dir, 6), readExpected(t)
	belief := tflite.Belief{Mean: a.Mean, InvR: a.InvR}
	obs := make([]float32, len(a.Obs))
	for i, x := range a.Obs {
		obs[i] = 100 * x
	}
	phi, action, psi, z := make([]float64, 4), make([]float32, 2), make([]float32, 12), []float64{1, 2, 3, 4}
	for name, call := range map[string]func() error{
		"search": func() error { _, _, err := m.Search(obs, a.Z, belief); return err },
		"phi":    func() error { return m.Phi(phi, obs) },
		"act":    func() error { return m.Act(action, obs, z) },
		"psi":    func() error { return m.Psi(psi, obs, a.Action, z) },
	} {
		errtest.Is(t, call(), tflite.ErrNotFinite, name)
	}
}

func TestLoadSavedModel_VerifiesFilesAfterLoading(t *testing.T) {
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	s := saved("testdata/savedmodel")
	s.Hash = strings.Repeat("0", 64)
	_, err := tensorflow.LoadSavedModel(s, onCPU(), 1)
	errtest.Contains(t, err, "sha256 of its files")
	if s.Hash, err = tflite.HashSavedModel(s.Dir); err != nil {
		t.Fatal(err)
	}
	m, err := tensorflow.LoadSavedModel(s, onCPU(), 1)
	fatal.If(t, err)
	errtest.Nil(t, m.Close())
}

func TestLoadSavedModel_OfAnotherDirectoryIsAnError(t *testing.T) {
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	damaged, pipe := t.TempDir(), t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(damaged, "saved_model.pb"), []byte("no"), 0o644))
	fatal.If(t, syscall.Mkfifo(filepath.Join(pipe, "saved_model.pb"), 0o600))
	for _, dir := range []string{t.TempDir(), damaged, pipe} {
		_, err := tensorflow.LoadSavedModel(saved(dir), onCPU(), 1)
		errtest.Contains(t, err, dir)
	}
}
