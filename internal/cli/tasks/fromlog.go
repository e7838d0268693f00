package tasks

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
	"optibfm/tflite"
)

// Span is a part of a log, in s since its first tick, inclusive.
type Span struct{ From, To float64 }

func (s Span) check() error {
	if !(s.From >= 0 && s.From <= s.To) || math.IsInf(s.To, 0) {
		return fmt.Errorf("--from %g --to %g: no span of time; give seconds since the first tick, "+
			"--from not after --to",
			s.From, s.To)
	}
	return nil
}

// FromLog saves the task "be in the states of this part of the log": z is the mean of B(s), which
// is Cov B times the mean feature. It is the z of a reward that is 1 in those states and 0
// elsewhere, up to a factor.
func FromLog(out io.Writer, o Options, n New, path string, s Span) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	if err := errors.Join(s.check(), taskstore.CheckName(n.Name)); err != nil {
		return fmt.Errorf("task from-log: %w", err)
	}
	task, err := w.goalOf(path, s)
	if err != nil {
		return fmt.Errorf("task from-log: %w", err)
	}
	task.Name, task.Note = n.Name, n.Note
	what := fmt.Sprintf("the mean of %d states, from %g to %g s of %s", task.Origin.States, s.From, s.To, path)
	return w.keep(out, "task from-log", task, n.Replace, what)
}

// goalOf makes the task of a part of a log.
func (w workplace) goalOf(path string, s Span) (t taskstore.Task, err error) {
	r, err := openLog(path)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	network, err := w.openBackward(r.Metadata().ModelHash)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	goal, err := meanBackward(r, network, s)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	t.ModelHash, t.Z = r.Metadata().ModelHash, goal.mean()
	t.Origin = taskstore.Origin{
		At: time.Now().UTC(), Program: version.String(), Robot: r.Metadata().Robot.Name,
		Log: path, FromS: s.From, ToS: s.To, States: goal.states,
	}
	return t, nil
}

// openBackward opens the network B of the configuration's model, if that has this hash.
func (w workplace) openBackward(hash string) (*tflite.Network, error) {
	model, err := setup.ConfiguredModel(w.file)
	if err != nil {
		return nil, err
	}
	if err := setup.CheckModelHash("the log", hash, model); err != nil {
		return nil, fmt.Errorf("%w: give its configuration with -c", err)
	}
	native, ok := model.(setup.NativeModel)
	if !ok {
		return nil, fmt.Errorf("model.bundle: %s is a SavedModel, which has no B; use a forward-backward bundle",
			w.file.Model.Bundle)
	}
	return native.NewNetwork()
}

// goal averages B(s).
type goal struct {
	network *tflite.Network
	back    []float64 // of a state, [d]
	sum     []float64 // [d]
	states  int
}

func (g *goal) add(obs []float32) error {
	if err := g.network.Backward(g.back, obs); err != nil {
		return err
	}
	for i, v := range g.back {
		g.sum[i] += v
	}
	g.states++
	return nil
}

func (g *goal) mean() []float64 {
	z := make([]float64, len(g.sum))
	for i, v := range g.sum {
		z[i] = v / float64(g.states)
	}
	return z
}

// endMargin is the time by which a part may end after its log, s: people round what "log info"
// prints.
const endMargin = 0.5

// meanBackward adds the states of a part of a log, without those that the guard refused.
func meanBackward(r *flightlog.Reader, network *tflite.Network, s Span) (*goal, error) {
	d := network.Dims()
	if is := r.Metadata().Shape; is.Obs != d.Obs || is.Latent != d.Latent {
		return nil, fmt.Errorf("%d observations and d = %d, but the model has %d and %d; use the log's model",
			is.Obs, is.Latent, d.Obs, d.Latent)
	}
	g := &goal{network: network, back: make([]float64, d.Latent), sum: make([]float64, d.Latent)}
	var start clock
	end := 0.0
	for record, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		t := record.Tick
		if t == nil {
			continue
		}
		end = start.seconds(t)
		if end < s.From || end > s.To || t.Flags.Has(controller.FlagBadObs) {
			continue
		}
		if err := g.add(t.Obs); err != nil {
			return nil, fmt.Errorf("tick %d: %w", t.Index, err)
		}
	}
	if s.To > end+endMargin {
		return nil, fmt.Errorf("--to %g is beyond the end of the log; give at most %.2f", s.To, end)
	}
	if g.states == 0 {
		return nil, fmt.Errorf("no valid state from %g to %g s; the log has 0 to %.2f s", s.From, s.To, end)
	}
	return g, nil
}
