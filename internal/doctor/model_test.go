package doctor

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

func TestTheModelIsOpenedFittedAndEvaluated(t *testing.T) {
	d := examined(t, fakeMachine(tree()), "rover")
	verdict(t, "fit before", d.fit(), statusSkip)
	verdict(t, "check before", d.networks(), statusSkip)
	verdict(t, "backend before", d.backend(t.Context()), statusSkip)
	verdict(t, "bundle", d.bundle(), statusOK, "rover: observation 6, action 2, d 32")
	verdict(t, "fit", d.fit(), statusOK, "6 observations and 2 actions")
	verdict(t, "check", d.networks(), statusOK, "φ and π take", "no vectors.npz")
	verdict(t, "backend", d.backend(t.Context()), statusOK, "native")
}

func TestAModelThatIsNotThereOrDoesNotFitFails(t *testing.T) {
	d := examined(t, fakeMachine(tree()), "rover", "model.bundle="+filepath.Join(t.TempDir(), "none"))
	verdict(t, "none", d.bundle(), statusFail, "none", "model inspect")
	d = examined(t, fakeMachine(tree()), "rover", "model.warm_start=/no/labels.npz")
	verdict(t, "labels", d.bundle(), statusFail, "model.warm_start")
	d = examined(t, fakeMachine(tree()), "composite", "robot.composite.observation[0].name=elsewhere")
	verdict(t, "bundle", d.bundle(), statusOK)
	verdict(t, "other names", d.fit(), statusFail, "elsewhere", "a model of this robot")
	d = examined(t, fakeMachine(tree()), "rover", "robot.driver=bridge", "robot.bridge.address=unix:/s", "operator.source=none")
	d.bundle()
	verdict(t, "behind a bridge", d.fit(), statusSkip)
}

func TestVectorsBesideABundleAreCompared(t *testing.T) {
	dir := rigtest.ModelBundle(t)
	d := examined(t, fakeMachine(tree()), "rover", "model.bundle="+dir)
	verdict(t, "bundle", d.bundle(), statusOK)
	verdict(t, "no vectors", d.networks(), statusOK, "no vectors.npz")
	arrays := map[string]npz.Array{
		"obs": npz.Float32(make([]float32, 2), 1, 2), "z": npz.Float32([]float32{1, 1, 1}, 1, 3), "phi": npz.Float32([]float32{9, 9, 9}, 1, 3),
		"action": npz.Float32([]float32{9}, 1, 1), "psi": npz.Float32([]float32{9, 9, 9, 9, 9, 9}, 2, 1, 3),
	}
	if err := npz.WriteFile(filepath.Join(dir, vectorsFile), arrays); err != nil {
		t.Fatal(err)
	}
	verdict(t, "others", d.networks(), statusFail, "differs by", "model check")
}

func TestAModelIsJudgedByItsShareOfThePeriod(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		times  []time.Duration
		status string
	}{{[]time.Duration{ms, 2 * ms}, statusOK}, {[]time.Duration{ms, ms, 15 * ms}, statusWarn}, {[]time.Duration{25 * ms}, statusFail}} {
		verdict(t, "ticks", judgeTicks(c.times, 20*ms, "unchecked"), c.status, "of 20 ms; unchecked")
	}
}

func TestTensorFlowIsTriedInAProcessOfItsOwn(t *testing.T) {
	m := fakeMachine(tree())
	var asked []string
	said, err := "TensorFlow  2.18.0, /usr/lib\ndevices     CPU:0, GPU:0 (7000 MiB); the graph is on /GPU:0\noperations  9\n", error(nil)
	m.program = func(_ context.Context, args ...string) (string, error) {
		asked = args
		return said, err
	}
	d := examined(t, m, "rover", "model.backend=tensorflow", "model.tensorflow.device=/GPU:0")
	d.bundle()
	verdict(t, "there", d.backend(t.Context()), statusOK, "TensorFlow 2.18.0, /usr/lib; devices CPU:0, GPU:0 (7000 MiB)")
	if line := strings.Join(asked, " "); !strings.HasPrefix(line, "model backend --bundle embedded:rover --device /GPU:0") || !strings.Contains(line, "--candidates 128") {
		t.Error(line)
	}
	said, err = "warning\noptibfm: the library was not found", errors.New("exit status 1")
	f := d.backend(t.Context())
	verdict(t, "missing", f, statusWarn, "the library was not found", "install-tensorflow")
	if !f.Strict {
		t.Error("posture strict refuses to start without TensorFlow")
	}
	var saved setup.Model = setup.SavedModel{SavedModel: &tflite.SavedModel{}}
	d.opened.Store(&saved)
	verdict(t, "a SavedModel has no other", d.backend(t.Context()), statusFail, "the library was not found")
}

func TestWhatAProgramPrintsIsKeptShort(t *testing.T) {
	if got := lastLine("a\noptibfm: b\x1b[31m\n"); strings.Contains(got, "\x1b") || !strings.HasPrefix(got, "b") {
		t.Errorf("%q", got)
	}
	if got := firstLines("a   b\nc\nd", 2); len(got) != 2 || got[0] != "a b" {
		t.Errorf("%q", got)
	}
}
