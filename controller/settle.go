package controller

import (
	"fmt"
	"math"
)

const (
	// revisable is the number of newest labels whose weights follow their residuals.
	revisable = 64
	// revisedPerTick is the number of them that a tick checks. It changes one weight at most.
	revisedPerTick = 4
	// revisionStep is the smallest change of a weight, relative to its full weight.
	revisionStep = 1.0 / 64
)

// Revision is a change of the weight of a label in the belief.
type Revision struct {
	ID            uint64  // of the label; 0: none, or a label without ID
	Before, After float64 // its weight
}

// Settle makes one step towards a belief that agrees with the present σ and with its labels. One
// direction of the prior moves towards λσ². A few of the newest labels are compared with the
// belief: Student's t gives a label that contradicts the others less weight, and gives it back when
// later labels agree with it. The agent calls Settle in every tick after the labels. O(d²).
func (l *Learner) Settle(tick uint64) (r Revision) {
	l.former.close(tick)
	l.trackPrior()
	r, e := l.proposeRevision(tick)
	if e == nil || !l.applyRevision(e, r) {
		return Revision{}
	}
	return r
}

// Resettle repeats a logged Settle and returns the revisions that this learner would have made, for
// comparison. The error wraps ErrUnknownFeatures if the logged label is not in this learner's
// ledger.
func (l *Learner) Resettle(tick uint64, logged Revision) (own Revision, err error) {
	l.former.close(tick)
	l.trackPrior()
	own, _ = l.proposeRevision(tick)
	if logged.ID == 0 {
		return own, nil
	}
	e := l.ledger.find(logged.ID)
	if e == nil {
		return own, fmt.Errorf("%w: label %d, whose weight was revised", ErrUnknownFeatures, logged.ID)
	}
	l.age(e)
	if !l.applyRevision(e, logged) {
		return own, fmt.Errorf("%w: label %d, whose weight was revised, is not in the belief",
			ErrUnknownFeatures, logged.ID)
	}
	return own, nil
}

func (l *Learner) trackPrior() {
	if l.noise.Estimate {
		l.belief.SetPrior(float64(l.lambda * l.noise.variance()))
		l.belief.TrackPrior()
	}
}

// proposeRevision checks the labels of a tick and returns the first that needs another weight.
func (l *Learner) proposeRevision(tick uint64) (Revision, *entry) {
	if l.noise.Freedom == 0 || l.unsettled == 0 {
		return Revision{}, nil
	}
	l.unsettled--
	for i := range uint64(revisedPerTick) {
		e := l.ledger.recent(int((tick*revisedPerTick + i) % revisable))
		if !e.active {
			continue
		}
		if r, ok := l.revise(e); ok {
			l.unsettled = SettlingTicks
			return r, e
		}
	}
	return Revision{}, nil
}

// SettlingTicks is the number of ticks in which Settle checks every revisable label twice. If they
// change no weight, the weights are final until the next label or undo.
const SettlingTicks = 2 * revisable / revisedPerTick

// revise returns the revision that the residual of a label calls for.
func (l *Learner) revise(e *entry) (r Revision, ok bool) {
	l.age(e)
	residual := e.reward - l.belief.Predict(e.phi)
	scale := l.noise.scale()
	uncertain := float64(float64(scale*scale) * l.belief.NormSq(e.phi))
	weight := float64(e.full * l.noise.share(float64(residual*residual)+uncertain))
	if math.Abs(weight-e.weight) < float64(revisionStep*e.full) {
		return Revision{}, false
	}
	return Revision{ID: e.id, Before: e.weight, After: weight}, true
}

// applyRevision changes the weight of a label and reports whether the belief allowed it.
func (l *Learner) applyRevision(e *entry, r Revision) bool {
	var err error
	if r.After > r.Before {
		err = l.belief.Update(e.phi, e.reward, r.After-r.Before)
	} else {
		err = l.belief.Downdate(e.phi, e.reward, r.Before-r.After)
	}
	if err == nil {
		e.weight = r.After
	}
	return err == nil
}

// age brings the weights of a label to the present.
func (l *Learner) age(e *entry) {
	decay := l.decay(l.clock - e.clock)
	e.weight, e.full, e.clock = float64(e.weight*decay), float64(e.full*decay), l.clock
	e.former = float64(e.former * decay)
}
