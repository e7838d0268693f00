package tasks

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
)

// Label applies the labels of a file of moments to the belief at the end of a log, and saves the
// result as a task. It saves nothing unless it can read all rows and at least one label counts.
func Label(out io.Writer, o Options, n New, path, csv string) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	task, change, err := w.labelLog(path, csv, n.Name)
	if err != nil {
		return fmt.Errorf("log label: %w", err)
	}
	task.Name, task.Note = n.Name, n.Note
	change.print(out)
	what := fmt.Sprintf("%s, %d of them given to %s afterwards", labelsText(task), change.applied, path)
	return w.keep(out, "log label", task, n.Replace, what)
}

func (w workplace) labelLog(path, csv, name string) (t taskstore.Task, c change, err error) {
	if err := taskstore.CheckName(name); err != nil {
		return t, c, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return t, c, err
	}
	log, err := openLog(path)
	if err != nil {
		return t, c, err
	}
	meta := log.Metadata()
	if err := log.Close(); err != nil {
		return t, c, err
	}
	rows, empty, err := readMoments(csv, scaleOf(meta, operatorOf(path, meta)))
	if err != nil {
		return t, c, err
	}
	states := make(states, len(rows))
	for _, row := range rows {
		states[row.tick] = nil
	}
	end, err := followLog(path, states.add)
	if err != nil {
		return t, c, err
	}
	if c, err = end.apply(rows, states); err != nil {
		return t, c, fmt.Errorf("%s: %w", csv, err)
	}
	c.empty = empty
	t = end.task
	t.Belief.Noise, t.Belief.SavedAt = end.learner.Noise(), time.Now().UTC()
	t.Belief.Sessions = taskstore.With(t.Belief.Sessions, sessionOf(path, rows))
	t.Origin.At, t.Origin.Program, t.Origin.Afterwards = t.Belief.SavedAt, version.String(), c.applied
	err = w.complete(&t, path, &end.config)
	return t, c, err
}

// sessionOf names the labels given to a log afterwards, the same for the same labels.
func sessionOf(log string, rows []labelled) string {
	var sum xxhash.Digest
	sum.Reset()
	fmt.Fprint(&sum, filepath.Base(log))
	for _, row := range rows {
		fmt.Fprintf(&sum, " %d %+v", row.tick, row.value)
	}
	return fmt.Sprintf("afterwards-%016x", sum.Sum64())
}

// states are the ticks of a log that have a label.
type states map[uint64]*state

// state is a tick with the reason why a label about it does not count, 0 if it counts.
type state struct {
	moment
	refusal controller.Outcome
}

func (s states) add(t *controller.Tick) {
	if _, wanted := s[t.Index]; wanted {
		s[t.Index] = &state{
			moment{tick: t.Index, at: t.SenseAt, phi: slices.Clone(t.Phi), obs: slices.Clone(t.Obs)}, refusal(t),
		}
	}
}

// check returns an error if a row cannot be about this log.
func (s states) check(row labelled) error {
	found := s[row.tick]
	if found == nil {
		return fmt.Errorf("line %d: the log has no tick %d; use the log that the moments are of", row.line, row.tick)
	}
	if row.state != "" && row.state != stateOf(found.phi) {
		return fmt.Errorf("line %d: tick %d has another state in the log (%s, not %.20q); "+
			"use the log that the moments are of", row.line, row.tick, stateOf(found.phi), row.state)
	}
	return nil
}

// change is the effect of labels on a belief.
type change struct {
	applied, empty int
	refused        []string
	before, after  estimate
}

// estimate is the task of a belief, with the noise and the zero of its labels.
type estimate struct {
	z           []float64
	sigma, zero float64
}

func (e logEnd) estimate() estimate {
	z := make([]float64, e.learner.Belief().TaskDim())
	e.config.Estimate(z, e.learner.Belief(), e.learner.Scale())
	return estimate{z, e.learner.Sigma(), e.learner.Zero()}
}

// apply gives the learner the labels in their order, if all of them can be about the log.
func (e logEnd) apply(rows []labelled, s states) (c change, err error) {
	for _, row := range rows {
		err = errors.Join(err, s.check(row))
	}
	if err != nil {
		return c, err
	}
	c.before = e.estimate()
	for _, row := range rows {
		about := s[row.tick]
		outcome := about.refusal
		if outcome == 0 {
			outcome = label(e.learner, about.moment, row.value)
		}
		if outcome != controller.Applied {
			c.refused = append(c.refused, fmt.Sprintf("line %d, tick %d: %s", row.line, row.tick, reason(outcome)))
			continue
		}
		c.applied++
		settle(e.learner)
	}
	c.after = e.estimate()
	if c.applied == 0 {
		return c, fmt.Errorf("no label counts (%s)", c.refused[0])
	}
	return c, nil
}

// reason describes a refusal.
func reason(o controller.Outcome) string {
	if o == controller.TooOld {
		return "the tick has no valid observation"
	}
	return o.String()
}

// settle lets the belief agree with its labels and the present σ, as the ticks between two labels
// of a run do. It ends when the weight of no label changes any more.
func settle(l *controller.Learner) {
	const most = 10_000 // ticks; far more than the weights need
	enough := l.Belief().Dim() + controller.SettlingTicks
	for tick, quiet := uint64(0), 0; quiet < enough && tick < most; tick++ {
		quiet++
		if l.Settle(tick) != (controller.Revision{}) {
			quiet = 0
		}
	}
}

// print prints the change.
func (c change) print(out io.Writer) {
	fmt.Fprintf(out, "labels   %d applied, %d refused, %d rows without a label\n", c.applied, len(c.refused), c.empty)
	for _, text := range c.refused {
		fmt.Fprintf(out, "refused  %s\n", text)
	}
	fmt.Fprintf(out, "sigma    %.3g, before %.3g\n", c.after.sigma, c.before.sigma)
	fmt.Fprintf(out, "zero     %.3g, before %.3g\n", c.after.zero, c.before.zero)
	if cosine := flightlog.Cosine(c.after.z, c.before.z); !math.IsNaN(cosine) {
		fmt.Fprintf(out, "z        cosine %.3f with that before\n", cosine)
	} else {
		fmt.Fprintf(out, "z        none before\n")
	}
}
