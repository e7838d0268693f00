package controller

import (
	"math"
	"math/bits"
	"time"
)

const (
	// recentLabels is the number of newest labels whose predictions count.
	recentLabels = 10
	// predictedWithin is the largest error of a label that was predicted, in standard deviations of
	// the prediction.
	predictedWithin = 1.5
	// learntPredicted is the smallest number of recent labels that were predicted for a task to be
	// learnt. An operator who is mistaken in one label of ten leaves 7 of 10 with probability 0.99.
	learntPredicted = 7
	// contradictedPredicted is the largest number with which the labels contradict a learnt task.
	// If one label in five is not predicted, six or more of ten are with probability 0.006.
	contradictedPredicted = 4
	// learntShare is the smallest lower bound of a learnt task's share of the attainable value.
	learntShare = 0.7
	// learntS is the time for which all this must last.
	learntS = 15
)

// predictions holds which of the newest labels the belief predicted before it learnt them.
type predictions struct {
	recent uint32 // bit i: of the label i counted labels ago
	count  uint32 // labels, at most recentLabels
}

// Predicted counts how many of the newest labels, at most ten, the belief predicted to within 1.5
// standard deviations of its prediction.
type Predicted struct {
	Labels, Of uint32
	Last       uint32 // 1: the newest label was predicted
	_          uint32
}

func (p *predictions) summary() Predicted {
	return Predicted{Labels: uint32(bits.OnesCount32(p.recent)), Of: p.count, Last: p.recent & 1}
}

// add notes a label with an error in standard deviations of its prediction.
func (p *predictions) add(deviations float64) {
	p.recent <<= 1
	if math.Abs(deviations) <= predictedWithin {
		p.recent |= 1
	}
	p.recent &= 1<<recentLabels - 1
	p.count = min(p.count+1, recentLabels)
}

// Proficiency decides whether a task is learnt. It is after 15 s of motion in which
//
//   - the lower bound of the planner's appraisal (Plan.Known) is at least 0.7,
//   - the belief predicted 7 of the last 10 labels,
//   - it predicts labels better than a constant does (Evidence), and
//   - it expects labels above the middle of their range (Evidence.Shortfall). The appraisal cannot
//     show a behaviour that the robot never tried; low expected labels show that the operator wants
//     another one.
//
// A learnt task remains so until the belief predicted at most 4 of the last 10 labels, or expects
// labels in the lowest quarter of their range: then the robot asks again.
type Proficiency struct {
	on     bool
	lasts  uint64 // ticks
	held   uint64 // for which the conditions were met
	learnt bool
}

// NewProficiency returns the decision for a gate. Without stop_when_learnt no task is learnt.
func NewProficiency(cfg GateConfig, period time.Duration) *Proficiency {
	return &Proficiency{on: cfg.StopWhenLearnt, lasts: ticks(learntS, period, 1)}
}

// Advance counts a tick of an armed robot and returns whether the task is learnt. It reads Known,
// Predicted and Evidence of the tick.
func (p *Proficiency) Advance(t *Tick) (learnt bool) {
	predicted := t.Predicted
	if !p.on || predicted.Of < recentLabels {
		return p.learnt
	}
	if p.learnt {
		p.learnt = predicted.Labels > contradictedPredicted && !t.Evidence.Poor()
		return p.learnt
	}
	if !(t.Known.Low >= learntShare) || predicted.Labels < learntPredicted || !t.Evidence.BeatsGuessing() ||
		!(t.Evidence.Shortfall <= learntShortfall) {
		p.held = 0
		return false
	}
	p.held += min(t.Moving(), maxAdvance)
	if p.held >= p.lasts {
		p.learnt, p.held = true, 0
	}
	return p.learnt
}

// Learnt returns the newest decision.
func (p *Proficiency) Learnt() bool { return p.learnt }

// Resume continues from a logged decision, after a gap in a log.
func (p *Proficiency) Resume(learnt bool) { p.learnt, p.held = learnt, 0 }
