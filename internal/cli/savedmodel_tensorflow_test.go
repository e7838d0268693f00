//go:build tensorflow

package cli

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/lockstep"
	"optibfm/internal/recorder"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// savedBundle writes a bundle of a SavedModel. It skips the test where TensorFlow's
// library is missing, unless OPTIBFM_TENSORFLOW names it.
func savedBundle(t *testing.T, change func(*tflite.SavedModel)) string {
	t.Helper()
	m, err := setup.OpenModel(rigtest.SavedModelBundle(t, nil))
	fatal.If(t, err)
	network, err := m.Evaluator(configs.Default())
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	fatal.If(t, errors.Join(err, setup.CloseModels(network)))
	return rigtest.SavedModelBundle(t, change)
}

func TestModel_LockstepRunOfASavedModelIsRepeatable(t *testing.T) {
	run := func() (recorder.Outcome, []uint64) {
		s := rigtest.NewSavedModelSession(t, func(f *configs.File) {
			f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 2, 2
		})
		o, err := lockstep.Run(t.Context(), s, terminal.QuietDisplay{})
		fatal.If(t, err)
		r, err := flightlog.Open(o.LogPath)
		fatal.If(t, err)
		defer r.Close()
		checkVerified(t, r)
		return o, rigtest.BeliefHashes(t, r)
	}
	first, a := run()
	second, b := run()
	if first.Tally.Applied == 0 || !slices.Equal(first.Tally.Returns, second.Tally.Returns) || !slices.Equal(a, b) {
		t.Errorf("%d labels, returns %v and %v", first.Tally.Applied, first.Tally.Returns, second.Tally.Returns)
	}
}

func TestModel_RunOfASavedModelWarnsThatItIsNotRealTime(t *testing.T) {
	cmd := program(t, "model.bundle="+savedBundle(t, nil), "model.tensorflow.device="+"/CPU:0",
		"run.duration_s=1", "loop.watchdog_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("TensorFlow on the control thread: not real-time")) {
		t.Fatalf("%v\n%s", err, out)
	}
	checkVerified(t, onlyLog(t, cmd))
}

func TestModel_MissingDeviceIsTheCPUOrAnError(t *testing.T) {
	s := rigtest.NewSavedModelSession(t, func(f *configs.File) {
		sections.Edit(&f.Model.Sections, func(c *tensorflow.Config) { c.Device = "/GPU:7" })
	})
	searcher, note, err := s.Model.Searcher(s.File, 1)
	if err != nil || !strings.Contains(note, "model.tensorflow.device: not granted, the search is on the CPU") {
		t.Fatalf("%q, %v", note, err)
	}
	fatal.If(t, setup.CloseModels(searcher))
	s.File.Loop.Posture = "strict"
	_, _, err = s.Model.Searcher(s.File, 1)
	if !errors.Is(err, tensorflow.ErrNoDevice) || !strings.HasPrefix(err.Error(), "model.tensorflow.device: ") {
		t.Errorf("%v, want ErrNoDevice", err)
	}
}

func TestModel_BundleWithOtherSizesThanItsSavedModelIsRefused(t *testing.T) {
	m, err := setup.OpenModel(savedBundle(t, func(m *tflite.SavedModel) { m.Sizes.Latent = 7 }))
	fatal.If(t, err)
	if _, err := m.Evaluator(configs.Default()); err == nil || !strings.Contains(err.Error(), "import it again") {
		t.Errorf("%v: want an error about the sizes", err)
	}
}
