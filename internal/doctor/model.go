package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"optibfm/controller"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/tflite"
)

func (d *doctor) modelChecks() []check {
	const limit = 2 * time.Minute // large models on slow disks, and the start of TensorFlow
	list := []check{bounded("model.bundle", limit, func(context.Context) finding { return d.checkBundle() })}
	for _, c := range []struct {
		id  string
		run func(context.Context, setup.Model) finding
	}{{"model.fit", d.checkFit}, {"model.check", d.checkEvaluation}, {"model.backend", d.checkBackend}} {
		list = append(list, bounded(c.id, limit, func(ctx context.Context) finding {
			if model := d.model(); model != nil {
				return c.run(ctx, model)
			}
			return skip("see model.bundle")
		}))
	}
	return list
}

// model returns the model that checkBundle opened, or nil.
func (d *doctor) model() setup.Model {
	if m := d.opened.Load(); m != nil {
		return *m
	}
	return nil
}

// checkBundle opens the model as a run does, and teaches a learner the labels of a warm start.
func (d *doctor) checkBundle() finding {
	bundle := d.file.Model.Bundle
	model, err := setup.OpenModel(bundle)
	switch {
	case !embedded(bundle) && missing(bundle):
		return fail(setup.MissingModel(bundle), "%v", err)
	case err != nil:
		return fail("correct model.bundle; see `optibfm model inspect DIR`", "%v", err)
	}
	d.opened.Store(&model)
	dims := model.Dims()
	basisErr := setup.SetBasis(&d.file.Controller, model)
	if err := errors.Join(basisErr, d.file.Controller.Validate(dims.Latent), model.Fits(d.file)); err != nil {
		return fail("correct the configuration, or choose another bundle", "%v", err)
	}
	if err := d.tryStart(model); err != nil {
		return fail("correct the configuration", "%v", err)
	}
	text := fmt.Sprintf("%s: observation %d, action %d, d %d, ensemble %d",
		plaintext.Clean(model.Title()), dims.Obs, dims.Action, dims.Latent, dims.Ensemble)
	if caveat := model.Caveat(); caveat != "" {
		return warn("a forward-backward bundle has no such limit (tflite/FORMAT.md)", "%s. %s", text, caveat)
	}
	return pass("%s", text)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// tryStart checks the tasks and the labels with which a run starts.
func (d *doctor) tryStart(model setup.Model) error {
	latent := model.Dims().Latent
	if _, err := setup.LoadStart(&d.file, model); err != nil {
		return err
	}
	if err := setup.LoadVetted(&d.file, model); err != nil {
		return err
	}
	learner, err := controller.NewLearner(d.file.Controller, latent, d.file.Loop.Period())
	if err != nil {
		return err
	}
	warm, err := setup.LoadWarmStart(d.file.Model, latent)
	return errors.Join(err, warm.Apply(context.Background(), learner))
}

// checkFit compares the model's channels with the robot's. It does not open the robot.
func (d *doctor) checkFit(_ context.Context, model setup.Model) finding {
	known, warning, err := setup.CheckChannels(d.file, model)
	switch {
	case err != nil:
		return fail("use a model of this robot, or correct the robot's lists of channels", "%v", err)
	case warning != "":
		return warnStrict("name the channels in the model", "%s", warning)
	case !known:
		return skip("the robot is not open; a run compares the channels before it arms the robot")
	}
	dims := model.Dims()
	return pass("%d observations and %d actions match in name, unit and order", dims.Obs, dims.Action)
}

// checkEvaluation measures the duration of φ and π.
func (d *doctor) checkEvaluation(_ context.Context, model setup.Model) finding {
	n, err := model.Evaluator(d.file)
	if err != nil {
		return fail("see `optibfm model backend`", "%v", err)
	}
	times, err := timeTicks(n)
	if err := errors.Join(err, setup.CloseModels(n)); err != nil {
		return fail("see `optibfm model check`", "%v", err)
	}
	return gradeTicks(times, d.file.Loop.Period())
}

// timeTicks evaluates φ and π for random observations. Non-finite outputs are an error.
func timeTicks(n tflite.Evaluator) (times []time.Duration, err error) {
	const most, budget = 500, 2 * time.Second
	dims, normal := n.Dims(), setup.RandomNormals()
	phi, action, z := make([]float64, dims.Latent), make([]float32, dims.Action), make([]float64, dims.Latent)
	for begin := time.Now(); len(times) < most && time.Since(begin) < budget; {
		obs := normal(dims.Obs)
		for i, x := range normal(dims.Latent) {
			z[i] = float64(x)
		}
		start := time.Now()
		if err := errors.Join(n.Phi(phi, obs), n.Act(action, obs, z)); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		outputs := slices.Clone(phi)
		for _, x := range action {
			outputs = append(outputs, float64(x))
		}
		for _, x := range outputs {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("φ or π returns %v for a finite observation", x)
			}
		}
	}
	return times, nil
}

func gradeTicks(times []time.Duration, period time.Duration) finding {
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	text := fmt.Sprintf("φ and π take p50 %s, p99 %s; period %s", short(p50), short(p99), short(period))
	const fix = "raise loop.period_ms, or choose a smaller model; see `optibfm-lab bench`"
	f := pass("%s", text)
	switch {
	case p50 >= period:
		f = fail(fix, "%s: longer than the period", text)
	case p99 > period/2:
		f = warnStrict(fix, "%s: more than half of the period", text)
	}
	return f.with(map[string]float64{"p50_us": us(p50), "p99_us": us(p99)})
}

// checkBackend runs `optibfm model backend` as a child process, so that a crash of a library does
// not end the doctor.
func (d *doctor) checkBackend(ctx context.Context, model setup.Model) finding {
	m := d.file.Model
	_, saved := model.(setup.SavedModel)
	if m.Backend == registry.BackendNative && !saved {
		return pass("native")
	}
	args := []string{"model", "backend", "--config", d.name}
	for _, set := range d.set {
		args = append(args, "--set", set)
	}
	output, err := d.program(ctx, append(args, "--searches", "10",
		"--candidates", strconv.Itoa(max(d.file.Controller.NumCandidates(), 1)))...)
	lines := cleanLines(output)
	const fix = "see `optibfm model backend`; TensorFlow: scripts/install-tensorflow.sh (docs/tensorflow.md)"
	switch last := strings.TrimPrefix(lines[len(lines)-1], shell.Name()+": "); {
	case err != nil && saved:
		return fail(fix, "%s (%v)", last, err)
	case err != nil:
		return warnStrict(fix, "%s (%v): the search runs natively", last, err)
	}
	return pass("%s", strings.Join(lines[:min(2, len(lines))], "; "))
}

// cleanLines splits the output of a program into at least one line without control characters.
func cleanLines(output string) []string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i, line := range lines {
		lines[i] = plaintext.Clean(strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func embedded(bundle string) bool {
	_, ok := registry.Model(bundle)
	return ok
}
