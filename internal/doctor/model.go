package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/npz"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

func (d *doctor) modelChecks() []check {
	if !d.configured {
		return []check{d.unasked("model.bundle", "model")}
	}
	const patience = 2 * time.Minute // large models on slow disks, and TensorFlow's start
	return []check{
		{id: "model.bundle", limit: patience, run: func(context.Context) []finding { return []finding{d.bundle()} }},
		{id: "model.fit", limit: patience, run: func(context.Context) []finding { return []finding{d.fit()} }},
		{id: "model.check", limit: patience, run: func(context.Context) []finding { return []finding{d.networks()} }},
		{id: "model.backend", limit: patience, run: func(ctx context.Context) []finding { return []finding{d.backend(ctx)} }},
	}
}

// model is the opened model, nil where there is none.
func (d *doctor) model() setup.Model {
	if m := d.opened.Load(); m != nil {
		return *m
	}
	return nil
}

// bundle opens the model as a run does, and reads the labels of a warm start.
func (d *doctor) bundle() finding {
	model, err := setup.OpenModel(d.file.Model.Bundle)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(d.file.Model.Bundle):
		return broken(setup.RepositoryAdvice+", or correct model.bundle", "%v", err)
	case err != nil:
		return broken("correct model.bundle; `optibfm model inspect DIR` looks at one", "%v", err)
	}
	d.opened.Store(&model)
	dims := model.Dims()
	if err := errors.Join(d.file.Controller.Validate(dims.Latent), model.Fits(d.file)); err != nil {
		return broken("correct the configuration, or choose another bundle", "%v", err)
	}
	learner, err := controller.NewLearner(d.file.Controller, dims.Latent, d.file.Loop.Period())
	if err == nil {
		var warm setup.WarmStart
		warm, err = setup.LoadWarmStart(d.file.Model, dims.Latent)
		err = errors.Join(err, warm.Apply(context.Background(), learner))
	}
	if err != nil {
		return broken("correct the configuration", "%v", err)
	}
	found := fmt.Sprintf("%s: observation %d, action %d, d %d, ensemble %d", plaintext.Clean(model.Title()), dims.Obs, dims.Action, dims.Latent, dims.Ensemble)
	if caveat := model.Caveat(); caveat != "" {
		return doubtful("a forward-backward bundle has no such limit (tflite/FORMAT.md)", "%s. %s", found, caveat)
	}
	return fine("%s", found)
}

// fit compares the model's channels with the robot's, without opening the robot.
func (d *doctor) fit() finding {
	model := d.model()
	if model == nil {
		return skipped("see model.bundle")
	}
	known, warning, err := setup.CheckChannels(d.file, model)
	switch {
	case err != nil:
		return broken("use a model of this robot, or correct the robot's lists of channels", "%v", err)
	case warning != "":
		return lacking("name the channels in the model", "%s", warning)
	case !known:
		return skipped("not connected to the bridge; a run compares the channels before it arms the robot")
	}
	dims := model.Dims()
	return fine("%d observations and %d actions, by name, unit and order", dims.Obs, dims.Action)
}

// vectorsFile is what scripts write beside a bundle, for `optibfm model check`.
const vectorsFile = "vectors.npz"

// networks evaluates the model: against the training framework's numbers where
// they stand beside the bundle, and for time and finiteness always.
func (d *doctor) networks() finding {
	model := d.model()
	if model == nil {
		return skipped("see model.bundle")
	}
	checked := "no " + vectorsFile + " beside it to compare with"
	if vectors, err := npz.ReadFile(filepath.Join(d.file.Model.Bundle, vectorsFile)); err == nil {
		const tolerance = 1e-4
		e, err := setup.CheckModel(model, vectors)
		if err == nil && !(e.Worst() <= tolerance) {
			err = fmt.Errorf("differs by %.1e from %s", e.Worst(), vectorsFile)
		}
		if err != nil {
			return broken("export the model again; see `optibfm model check`", "%v", err)
		}
		checked = fmt.Sprintf("within %.0e of %s (%d cases)", e.Worst(), vectorsFile, e.Cases)
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrNotExist) && d.file.Model.Bundle != configs.EmbeddedRover {
		return broken("make the file again", "%v", err)
	}
	n, err := model.Evaluator(d.file)
	if err != nil {
		return broken("see `optibfm model backend`", "%v", err)
	}
	times, err := timeTicks(n)
	if err := errors.Join(err, setup.CloseModels(n)); err != nil {
		return broken("see `optibfm model check`", "%v", err)
	}
	return judgeTicks(times, d.file.Loop.Period(), checked)
}

// timeTicks evaluates φ and π for random observations, and refuses numbers that
// are not finite.
func timeTicks(n tflite.Evaluator) ([]time.Duration, error) {
	const most, budget = 500, 2 * time.Second
	dims, normal := n.Dims(), setup.RandomNormals()
	phi, action, z := make([]float64, dims.Latent), make([]float32, dims.Action), make([]float64, dims.Latent)
	var times []time.Duration
	for begun := time.Now(); len(times) < most && time.Since(begun) < budget; {
		obs := normal(dims.Obs)
		for i, x := range normal(dims.Latent) {
			z[i] = float64(x)
		}
		start := time.Now()
		if err := errors.Join(n.Phi(phi, obs), n.Act(action, obs, z)); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		for _, x := range phi {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("φ has %v in it, for an ordinary observation", x)
			}
		}
		for _, x := range action {
			if x != x || math.IsInf(float64(x), 0) {
				return nil, fmt.Errorf("the action has %v in it, for an ordinary observation", x)
			}
		}
	}
	return times, nil
}

func judgeTicks(times []time.Duration, period time.Duration, checked string) finding {
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	found := fmt.Sprintf("φ and π take p50 %s, p99 %s, of %s; %s", shortTime(p50), shortTime(p99), shortTime(period), checked)
	values := map[string]float64{"p50_us": us(p50), "p99_us": us(p99)}
	const mend = "lengthen loop.period_ms, or choose a smaller model; see `optibfm-lab bench`"
	switch {
	case p50 >= period:
		return broken(mend, "%s: they do not fit into the period", found).with(values)
	case p99 > period/2:
		return lacking(mend, "%s: more than half of the period", found).with(values)
	}
	return fine("%s", found).with(values)
}

// backend runs `optibfm model backend` in a process of its own: a library that
// crashes does not end the doctor.
func (d *doctor) backend(ctx context.Context) finding {
	model, m := d.model(), d.file.Model
	_, saved := model.(setup.SavedModel)
	switch {
	case model == nil:
		return skipped("see model.bundle")
	case m.Backend != configs.BackendTensorFlow && !saved:
		return fine("native: this program's own kernels")
	}
	t := m.TensorFlow
	said, err := d.program(ctx, "model", "backend", "--bundle", m.Bundle, "--device", t.Device, "--library", t.Library,
		"--intra-op-threads", strconv.Itoa(t.IntraOpThreads), "--inter-op-threads", strconv.Itoa(t.InterOpThreads),
		"--tf32="+strconv.FormatBool(t.TF32), "--candidates", strconv.Itoa(max(d.file.Controller.NumCandidates(), 1)), "--searches", "10")
	const mend = "scripts/install-tensorflow.sh installs the library (docs/tensorflow.md); `optibfm model backend` tells more"
	switch {
	case err != nil && saved:
		return broken(mend, "%s (%v)", lastLine(said), err)
	case err != nil:
		return lacking(mend, "%s (%v): the search would be native", lastLine(said), err)
	}
	return fine("%s", strings.Join(firstLines(said, 2), "; "))
}

// lastLine is what a program said last: its error.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return plaintext.Clean(strings.TrimPrefix(lines[len(lines)-1], "optibfm: "))
}

func firstLines(text string, n int) (lines []string) {
	for line := range strings.Lines(text) {
		if len(lines) < n {
			lines = append(lines, plaintext.Clean(strings.Join(strings.Fields(line), " ")))
		}
	}
	return lines
}
