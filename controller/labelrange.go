package controller

import "optibfm/rewardsrc"

// LabelRange is the range of the operator's labels: those of the bad and the good button. With the
// zero value, the belief learns labels as they are.
//
// Otherwise, and with Config.Offset, it learns them on the scale from -1 (bad) to 1 (good). All its
// settings and estimates then have the same meaning for every range: a reward z spans 2, Offset,
// Sigma and Noise.Floor are shares of half the range, and a saved task fits a run with other
// buttons. Without Offset the zero of labels is 0, as in the paper, and the range has no effect.
type LabelRange struct{ Bad, Good float64 }

func (r LabelRange) check(v *mistakes) {
	if half := r.half(); !(half > 0) || !finite(half) {
		v.add("labels", r, "use finite numbers, good above bad")
	}
}

// Middle returns the label in the middle of the range.
func (r LabelRange) Middle() float64 { return r.Bad/2 + r.Good/2 }

// half returns half the width of the range: the factor from the scale of the belief to labels.
func (r LabelRange) half() float64 {
	if r == (LabelRange{}) {
		return 1
	}
	return r.Good/2 - r.Bad/2
}

// learnt returns a label on the scale of the belief. Only a value has a zero: the others are
// differences.
func (r LabelRange) learnt(kind rewardsrc.Kind, label float64) float64 {
	if kind == rewardsrc.Value {
		label -= r.Middle()
	}
	return label / r.half()
}

// label returns the label that the belief learns as x.
func (r LabelRange) label(x float64) float64 {
	if r == (LabelRange{}) {
		return x // -0 too
	}
	return r.Middle() + float64(x*r.half())
}

// ScalesLabels reports whether the belief learns labels on the scale from -1 to 1, not as they are.
func (c Config) ScalesLabels() bool { return c.Offset > 0 && c.LabelRange != (LabelRange{}) }

// learntRange returns the range whose scale the belief learns.
func (c Config) learntRange() LabelRange {
	if c.ScalesLabels() {
		return c.LabelRange
	}
	return LabelRange{}
}
