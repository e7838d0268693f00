package tasks

import (
	"errors"
	"fmt"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/shell"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// logEnd is the state after the last tick of a log.
type logEnd struct {
	task    taskstore.Task    // with the learner's belief, without z
	config  controller.Config // of the learner
	learner *controller.Learner
}

// openLog opens a log and refuses a damaged one.
func openLog(path string) (*flightlog.Reader, error) {
	r, err := flightlog.Open(path)
	if err != nil {
		return nil, err
	}
	if damage := r.Damage(); len(damage) > 0 {
		err := fmt.Errorf("%s: %w (%w); copy the readable part: %s", path, flightlog.ErrDamaged, damage[0],
			shell.ThisProgram().Command("log", "recover", shell.Operand(path)))
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// followLog replays a log and calls visit, unless it is nil, with each tick, which visit must
// neither keep nor change. It refuses a damaged log, and one whose last belief is unknown.
func followLog(path string, visit func(t *controller.Tick)) (end logEnd, err error) {
	log, err := openLog(path)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	m := log.Metadata()
	lineage, err := taskstore.LineageOf(m.Extra)
	if err != nil {
		return end, fmt.Errorf("%s: %w", path, err)
	}
	last, until := m.Clock.MonoNS, uint64(0)
	result, err := flightlog.Follow(log, func(t *controller.Tick, _ *posterior.Belief) {
		last, until = flightlog.SampleTime(t), t.Index+1
		if t.Flags.Has(controller.FlagSwitched) || t.Flags.Has(controller.FlagChanged) && m.Control.Gate.Relearn {
			// The log does not have the sessions of the other task; some labels of the current one
			// were removed.
			lineage.Before = nil
		}
		if visit != nil {
			visit(t)
		}
	})
	if err != nil {
		return end, fmt.Errorf("%s: %w", path, err)
	}
	if result.Learner == nil || !result.OK() {
		return end, fmt.Errorf("%s: replay cannot compute the belief after the last tick; see: %s",
			path, shell.ThisProgram().Command("replay", shell.Operand(path)))
	}
	end.config, end.learner = m.Control, result.Learner
	end.task = taskstore.Task{
		ModelHash: m.ModelHash, Origin: taskstore.Origin{Robot: m.Robot.Name, Log: path},
		Belief: &taskstore.SavedBelief{
			Belief: result.Learner.Belief(), Basis: m.Control.BasisHash(), Offset: m.Control.Offset,
			Sigma: m.Control.Sigma, Estimate: m.Control.Noise.Estimate,
			LearntScale: m.Control.LearntScale(), Noise: result.Noise,
			SavedAt: time.Unix(0, m.Clock.Wall(last)).UTC(), Sessions: lineage.Sessions(0, until),
		},
	}
	return end, nil
}

// clock converts times of ticks to seconds since the first tick.
type clock struct {
	first   int64
	started bool
}

func (c *clock) seconds(t *controller.Tick) float64 {
	at := flightlog.SampleTime(t)
	if !c.started {
		c.first, c.started = at, true
	}
	return float64(at-c.first) / float64(time.Second)
}
