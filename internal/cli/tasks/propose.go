package tasks

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"optibfm/controller"
	"optibfm/internal/safefile"
	"optibfm/internal/shell"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

const (
	// maxProposed is the largest number of proposed moments.
	maxProposed = 200
	// maxCandidates bounds the moments of a log that Propose compares: a longer log is thinned out
	// evenly.
	maxCandidates = 10_000
	// minSpacingS is the shortest time between two proposed moments, s: closer ones look alike.
	minSpacingS = 0.5
)

// moment is a tick that a person may label.
type moment struct {
	tick     uint64
	at       int64   // ns
	seconds  float64 // since the first tick
	phi      []float64
	obs      []float32
	gain     float64 // D-gap, nats
	expected float64 // label
}

// Propose writes the n moments of a log whose labels would teach most, in the order of choice, to
// the file csv, or to out if csv is empty. It prints how to continue on hint.
func Propose(out, hint io.Writer, path string, n int, csv string) error {
	if n < 1 || n > maxProposed {
		return fmt.Errorf("log label: --propose %d: use 1 to %d", n, maxProposed)
	}
	end, from, err := findCandidates(path)
	if err != nil {
		return fmt.Errorf("log label: %w", err)
	}
	proposed := pick(end, from, n)
	file := csv
	if csv == "" {
		file, err = "moments.csv", writeMoments(out, proposed)
	} else {
		err = createMoments(csv, proposed)
	}
	if err != nil {
		return fmt.Errorf("log label: --out: %w", err)
	}
	next := shell.ThisProgram().Command("log", "label", shell.Operand(path), "--labels", shell.Operand(file),
		"--save", "NAME", "--config", "CONFIG")
	fmt.Fprintf(hint, "%d moments, each the most informative after those above it. "+
		"Fill the column %s (a number, + or -), then:\n    %s\n", len(proposed), columnLabel, next)
	return nil
}

// findCandidates replays a log and returns the moments that a label can be about, at least one.
func findCandidates(path string) (logEnd, []moment, error) {
	var c candidates
	end, err := followLog(path, c.add)
	if err == nil && len(c.moments) == 0 {
		err = fmt.Errorf("%s has no tick that a label can be about", path)
	}
	return end, c.moments, err
}

// createMoments writes a new file: an existing one may hold labels.
func createMoments(path string, moments []moment) error {
	var text bytes.Buffer
	if err := writeMoments(&text, moments); err != nil {
		return err
	}
	return safefile.WriteNew(path, 0o640, text.Bytes())
}

// candidates collects every stride-th tick that a label can be about.
type candidates struct {
	clock
	moments []moment
	stride  uint64 // 0: 1
	seen    uint64
}

func (c *candidates) add(t *controller.Tick) {
	seconds := c.seconds(t)
	if refusal(t) != 0 {
		return
	}
	nth := c.seen
	c.seen++
	if len(c.moments) == maxCandidates {
		c.thin()
	}
	if nth%max(c.stride, 1) != 0 {
		return
	}
	c.moments = append(c.moments, moment{
		tick: t.Index, at: t.SenseAt, seconds: seconds, phi: slices.Clone(t.Phi), obs: slices.Clone(t.Obs),
	})
}

// thin removes every other moment.
func (c *candidates) thin() {
	c.stride = 2 * max(c.stride, 1)
	kept := c.moments[:0]
	for i := 0; i < len(c.moments); i += 2 {
		kept = append(kept, c.moments[i])
	}
	clear(c.moments[len(kept):])
	c.moments = kept
}

// refusal returns the reason why a label about a tick does not count, 0 if it counts.
func refusal(t *controller.Tick) controller.Outcome {
	switch {
	case t.Flags.Has(controller.FlagStopped) || t.ToPose():
		return controller.RobotStopped
	case t.Flags.Has(controller.FlagBadObs):
		return controller.TooOld
	}
	return 0
}

// pick chooses up to n moments, each with the largest D-gap after labels about those before it. It
// changes the learner of end.
func pick(end logEnd, from []moment, n int) (picked []moment) {
	z := make([]float64, end.learner.Belief().TaskDim())
	end.config.Estimate(z, end.learner.Belief(), end.learner.Scale())
	zero := end.learner.Zero()
	for len(picked) < n {
		best, found := moment{gain: -1}, false
		for _, m := range from {
			if tooClose(m, picked) {
				continue
			}
			m.gain = posterior.DGap(end.learner.Gain(m.phi, m.obs), end.learner.LabelWeight())
			if m.gain > best.gain {
				best, found = m, true
			}
		}
		if !found {
			break
		}
		best.expected = end.config.Expected(best.phi, z, zero)
		label(end.learner, best, best.expected) // as expected: only the uncertainty changes
		picked = append(picked, best)
	}
	return picked
}

func tooClose(m moment, picked []moment) bool {
	for _, p := range picked {
		if between := m.seconds - p.seconds; between < minSpacingS && between > -minSpacingS {
			return true
		}
	}
	return false
}

// label gives the learner a label about a moment. The label has the full weight of one about the
// present: the person gives it now, and the age of the log does not count.
func label(l *controller.Learner, m moment, value float64) controller.Outcome {
	l.Observe(m.tick, m.at, m.phi, m.obs)
	return l.Apply(rewardsrc.Label{Kind: rewardsrc.Value, Tick: m.tick, Value: value}, 0).Outcome
}
