package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

// modelFindings runs the four checks of the model: bundle, fit, evaluation and backend.
func modelFindings(t *testing.T, d *doctor) []finding {
	t.Helper()
	var found []finding
	for _, c := range d.modelChecks() {
		found = append(found, c.run(t.Context())...)
	}
	return found
}

func TestDoctor_ChecksModel(t *testing.T) {
	bridge := []string{"robot.driver=bridge", "robot.bridge.address=unix:/s", "operator.source=none"}
	for _, c := range []struct {
		name   string
		config string
		set    []string
		status []string // of bundle, fit, evaluation and backend
		text   string   // expected in the findings of bundle and fit
	}{
		{"rover", "rover", nil,
			[]string{statusOK, statusOK, statusOK, statusOK}, "rover: observation 6, action 2, d 32"},
		{"no bundle", "rover", []string{"model.bundle=/no/bundle"},
			[]string{statusFail, statusSkip, statusSkip, statusSkip}, "correct model.bundle"},
		{"no labels", "rover", []string{"model.warm_start=/no/labels.npz"},
			[]string{statusFail, statusOK, statusOK, statusOK}, "model.warm_start"},
		{"no task", "rover", []string{"run.start_task=none", "run.task_dir=/no/tasks"},
			[]string{statusFail, statusOK, statusOK, statusOK}, "run.start_task"},
		{"no vetted task", "rover",
			[]string{"controller.explore={tasks: [none], within_deg: 9}", "run.task_dir=/no/tasks"},
			[]string{statusFail, statusOK, statusOK, statusOK}, "controller.explore.tasks"},
		{"other names", "composite", []string{"robot.composite.observation[0].name=elsewhere"},
			[]string{statusOK, statusFail, statusOK, statusOK}, "elsewhere"},
		{"bridge", "rover", bridge, []string{statusOK, statusSkip, statusOK, statusOK}, "not open"},
	} {
		found := modelFindings(t, doctorFor(t, fakeMachine(tree()), c.config, c.set...))
		var status []string
		for _, f := range found {
			status = append(status, f.Status)
		}
		if !slices.Equal(status, c.status) {
			t.Errorf("%s: %v, want %v: %+v", c.name, status, c.status, found)
		}
		if text := found[0].Found + found[0].Fix + found[1].Found; !strings.Contains(text, c.text) {
			t.Errorf("%s: no %q in %s", c.name, c.text, text)
		}
	}
}

func TestDoctor_RequiresNamedChannelsUnderStrictPosture(t *testing.T) {
	set := []string{"model.bundle=" + rigtest.RoverBundle(t, rigtest.RemoveChannelNames)}
	for _, driver := range [][]string{nil, {"robot.driver=bridge", "robot.bridge.address=unix:/s"}} {
		d := doctorFor(t, fakeMachine(tree()), "rover", append(slices.Clone(set), driver...)...)
		f := modelFindings(t, d)[1]
		if expect(t, "unnamed", f, statusWarn, "have no names"); !f.Strict {
			t.Error("unnamed channels: not a failure under posture strict")
		}
		d.file.Loop.Posture = "strict"
		expect(t, "unnamed, strict", modelFindings(t, d)[1], statusFail, "have no names")
	}
}

func TestDoctor_ComparesModelDurationWithPeriod(t *testing.T) {
	const ms = time.Millisecond
	for status, times := range map[string][]time.Duration{
		statusOK: {ms, 2 * ms}, statusWarn: {ms, ms, 15 * ms}, statusFail: {25 * ms},
	} {
		expect(t, "duration", gradeTicks(times, 20*ms), status, "period 20 ms")
	}
}

func TestDoctor_TriesTensorFlowInChildProcess(t *testing.T) {
	m := fakeMachine(tree())
	var command string
	output := "TensorFlow  2.18.0, /usr/lib\ndevices     CPU:0, GPU:0 (7000 MiB)\noperations  9\n"
	var err error
	m.program = func(_ context.Context, args ...string) (string, error) {
		command = strings.Join(args, " ")
		return output, err
	}
	d := doctorFor(t, m, "rover", "controller.strategy=ucb", "model.backend=tensorflow",
		"model.tensorflow.device=/GPU:0")
	d.checkBundle()
	f := d.checkBackend(t.Context(), d.model())
	expect(t, "present", f, statusOK, "TensorFlow 2.18.0, /usr/lib; devices CPU:0, GPU:0 (7000 MiB)")
	rigtest.Contains(t, command,
		"model backend --config rover", "--set model.tensorflow.device=/GPU:0", "--candidates 128",
	)
	output, err = "warning\noptibfm: the library was \x1b[31mnot found", errors.New("exit status 1")
	f = d.checkBackend(t.Context(), d.model())
	expect(t, "missing", f, statusWarn, "the library was ?[31mnot found (exit status 1)", "install-tensorflow")
	if !f.Strict {
		t.Error("TensorFlow missing: not a failure under posture strict")
	}
	saved := setup.SavedModel{SavedModel: &tflite.SavedModel{}}
	expect(t, "SavedModel needs TensorFlow", d.checkBackend(t.Context(), saved), statusFail, "not found")
}
