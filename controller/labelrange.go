package controller

import "optibfm/rewardsrc"

// LabelRange is a range of labels: those of the bad and the good button.
type LabelRange struct{ Bad, Good float64 }

func (r LabelRange) check(v *mistakes) {
	if width := r.Good - r.Bad; r != (LabelRange{}) && (!(width > 0) || !finite(width)) {
		v.add("operator: labels", r, "use finite numbers, good above bad")
	}
}

// Middle returns the label in the middle of the range.
func (r LabelRange) Middle() float64 { return r.Bad/2 + r.Good/2 }

// LabelsConfig is what the belief learns for the labels bad and good of the operator's device, so
// that all ranges of devices teach alike. On a wider scale labels weigh more against the prior,
// Config.Sigma and NoiseConfig.Floor.
type LabelsConfig struct {
	Bad  float64 `yaml:"bad" rule:"[-1, 0.5]"` // in [-1, 0.5], at most good - 0.5
	Good float64 `yaml:"good" rule:"[0, 1]"`   // in [0, 1]
}

// leastLabels is the least difference of LabelsConfig.Good and Bad.
const leastLabels = 0.5

// check accepts the configuration of an earlier program, which has no scale and no range.
func (l LabelsConfig) check(v *mistakes, r LabelRange) {
	if (l != LabelsConfig{} || r != LabelRange{}) && !(l.Good-l.Bad >= leastLabels) {
		v.add("labels.good", l.Good, "use at least labels.bad + 0.5")
	}
}

// LearntScale returns the range of the labels as the belief learns them, zero if it learns them as
// they are: without Config.Offset, whose zero of labels is 0 as in the paper, or without a range.
func (c Config) LearntScale() LabelRange {
	if c.Offset == 0 || c.LabelRange == (LabelRange{}) {
		return LabelRange{}
	}
	return LabelRange(c.Labels)
}

// labelScale maps labels to what the belief learns: learntBad + (label - bad)/unit.
type labelScale struct{ bad, learntBad, unit float64 }

// asTheyAre is the scale of labels that the belief learns as they are.
var asTheyAre = labelScale{unit: 1}

func (c Config) labelScale() labelScale {
	from, to := c.LabelRange, c.LearntScale()
	if to == (LabelRange{}) || to == from {
		return asTheyAre
	}
	return labelScale{from.Bad, to.Bad, (from.Good - from.Bad) / (to.Good - to.Bad)}
}

// learnt returns what the belief learns for a label. Only a value has a zero: the others are
// differences.
func (s labelScale) learnt(kind rewardsrc.Kind, label float64) float64 {
	switch {
	case s == asTheyAre:
		return label
	case kind == rewardsrc.Value:
		return s.learntBad + float64((label-s.bad)/s.unit)
	}
	return label / s.unit
}

// learnt returns what the belief learns for the range of labels, zero for none.
func (r LabelRange) learnt(s labelScale) LabelRange {
	if r == (LabelRange{}) {
		return r
	}
	return LabelRange{s.learnt(rewardsrc.Value, r.Bad), s.learnt(rewardsrc.Value, r.Good)}
}

// label returns the label that the belief learns as x.
func (s labelScale) label(x float64) float64 {
	if s == asTheyAre {
		return x
	}
	return s.bad + float64((x-s.learntBad)*s.unit)
}
