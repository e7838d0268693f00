package controller

import (
	"time"

	"optibfm/posterior"
)

// keepS is the time in which the operator can take back that the task has changed.
const keepS = 60

// formerTask is the belief before the newest change of the task. While the operator may keep it, it
// learns all labels too.
type formerTask struct {
	belief *posterior.Belief // nil: Config.Gate has no Relearn
	noise  NoiseState
	open   bool
	fresh  bool   // the host has not read it
	until  uint64 // the tick from which on it can no longer be kept
	lasts  uint64 // ticks
}

func newFormerTask(cfg Config, d int, period time.Duration) (f formerTask, err error) {
	if cfg.Gate.Relearn {
		f.belief, err = cfg.NewBelief(d)
		f.lasts = ticks(keepS, period, 1)
	}
	return f, err
}

// Changed reports whether the newest labels are evidence that the task has changed, see Evidence.
func (l *Learner) Changed() bool { return l.evidence.changed() }

// Evidence returns the evidence of the labels for or against the belief. It is zero unless
// Config.Gate has StopWhenLearnt or Relearn.
func (l *Learner) Evidence() Evidence {
	if l.evidence == nil {
		return Evidence{}
	}
	return l.evidence.out
}

// UseFormerRules weighs evidence by rules of former programs. It is called before the first label.
func (l *Learner) UseFormerRules(rules FormerRules) {
	if l.evidence != nil {
		l.evidence.former = rules
	}
}

// Relearn begins the belief again with the labels since the task changed (Changed). The former
// belief remains for a minute from a tick on: Keep restores it. The agent calls Relearn in the tick
// after FlagChanged. Without Config.Gate.Relearn, or a suspected change, it does nothing. O(n d²)
// for n of these labels, at most 256, in one tick (BenchmarkLearner_Relearn: 1 ms for d = 100, 5.5
// ms for d = 256 on an AMD EPYC): above d = 100 and with periods of a few ms it may skip a period
// once.
func (l *Learner) Relearn(tick uint64) {
	e := l.evidence
	if l.former.belief == nil || e == nil || !e.open {
		return
	}
	l.former.belief.CopyFrom(l.belief)
	l.former.noise = l.noise.state
	l.former.open, l.former.fresh, l.former.until = true, true, tick+l.former.lasts
	l.noise.state = e.noise
	l.noise.state.Labels = 0
	l.trackPrior()
	l.belief.Restart()
	for i := undoable - 1; i >= 0; i-- {
		entry := l.ledger.recent(i)
		l.age(entry)
		entry.former = 0
		if !entry.active {
			continue
		}
		entry.former = entry.weight
		entry.weight = entry.full
		entry.active = entry.order >= e.first && l.belief.Update(entry.phi, entry.reward, entry.full) == nil
		if entry.active {
			l.noise.state.Labels++
		}
	}
	l.unsettled = SettlingTicks
	l.predictions = predictions{}
	l.reaction.restart(l.belief)
	e.restart(e.limit)
}

// Keepable reports whether Keep would restore a former task.
func (l *Learner) Keepable() bool { return l.former.open }

// Former writes the belief before the newest change to state [posterior.StateLen], with its noise,
// once for each change.
func (l *Learner) Former(state []float64) (noise NoiseState, hash uint64, ok bool) {
	f := &l.former
	if !f.fresh {
		return noise, 0, false
	}
	f.fresh = false
	f.belief.State(state)
	return f.noise, f.belief.Hash(), true
}

// keep restores the belief before the newest change, with all labels given since. O(d²).
func (l *Learner) keep() Outcome {
	if !l.former.open {
		return NothingToUndo
	}
	l.former.open = false
	l.belief.CopyFrom(l.former.belief)
	l.noise.state = l.former.noise
	for i := range undoable {
		entry := l.ledger.recent(i)
		l.age(entry)
		entry.active, entry.weight = entry.former > 0, entry.former
	}
	l.unsettled = SettlingTicks
	l.predictions = predictions{}
	l.reaction.restart(l.belief)
	l.evidence.restart(2 * changedAt)
	return Applied
}

// learnFormer gives the former belief a label that the current one learns, with the features in
// l.phi, and returns its weight there.
func (l *Learner) learnFormer(reward, weight float64) float64 {
	if !l.former.open || l.former.belief.Update(l.phi, reward, weight) != nil {
		return 0
	}
	l.former.noise.Labels++
	return weight
}

// forgetFormer removes an undone label from the former belief.
func (l *Learner) forgetFormer(e *entry) {
	if l.former.open && e.former > 0 {
		_ = l.former.belief.Downdate(e.phi, e.reward, e.former) // an error leaves a label that rounding kept
		l.former.noise.Labels -= min(l.former.noise.Labels, 1)
	}
	e.former = 0
}

// close ends the time in which the former task can be kept.
func (f *formerTask) close(tick uint64) { f.open = f.open && tick < f.until }
