package controller

import "math"

// noiseWindow is the number of labels over which σ is estimated.
const noiseWindow = 200

// firstLabels is the number of labels that the configured sigma counts for.
const firstLabels = 10

// NoiseState holds the estimates of a Learner besides its belief: the noise and the number of
// labels. With NoiseConfig.Estimate off the noise is zero.
type NoiseState struct {
	Squares float64 `json:"squares,omitempty"` // Σ w u² of the newest labels: u is the surprise of a label, w its share
	Count   float64 `json:"count,omitempty"`   // number of these labels, older ones with less weight
	Labels  uint64  `json:"labels"`            // in the belief: neither undone nor forgotten by Relearn or a switch
}

// maxLabels is far above the labels of any robot. JSON has larger integers only approximately.
const maxLabels = 1 << 53

// possible reports whether a Learner can have this state.
func (s NoiseState) possible() bool {
	return s.Squares >= 0 && s.Squares <= maxReward*maxReward && s.Count >= 0 && s.Count <= noiseWindow &&
		s.Labels <= maxLabels
}

// Pool adds the labels of other that are not in base. base is the state with which other began, or
// zero.
func (s NoiseState) Pool(other, base NoiseState) NoiseState {
	own := max(0, other.Count-base.Count)
	if own > 0 {
		s.Squares += float64(other.Squares * own / other.Count)
		s.Count += own
	}
	if s.Count > noiseWindow {
		s.Squares, s.Count = float64(s.Squares*noiseWindow/s.Count), noiseWindow
	}
	s.Labels += other.Labels - min(other.Labels, base.Labels)
	return s
}

// noiseModel models a label as r = φᵀz + σε, where ε has a Student's t distribution with Freedom
// degrees of freedom or, with Freedom 0, a normal distribution.
type noiseModel struct {
	NoiseConfig
	first float64 // configured σ²
	state NoiseState
}

func newNoiseModel(cfg Config) noiseModel {
	return noiseModel{NoiseConfig: cfg.Noise, first: float64(cfg.Sigma * cfg.Sigma)}
}

// variance returns the present σ².
func (n *noiseModel) variance() float64 {
	if !n.Estimate {
		return n.first
	}
	v := (float64(firstLabels*n.first) + n.state.Squares) / (firstLabels + n.state.Count)
	return max(v, float64(n.Floor*n.Floor))
}

// sigma returns the present σ, of the belief's labels.
func (n *noiseModel) sigma() float64 { return math.Sqrt(n.variance()) }

// Scale returns the standard deviation of z in units of R⁻¹ for a logged or saved noise: see
// [Learner.Scale].
func (s NoiseState) Scale(c Config) float64 {
	n := newNoiseModel(c)
	n.state = s
	return n.scale()
}

// scale returns the factor of R⁻¹ that gives the standard deviation of z: with an estimated σ, R is
// that of labels with σ = 1.
func (n *noiseModel) scale() float64 {
	if !n.Estimate {
		return 1
	}
	return n.sigma()
}

// share returns the weight of a label with the expected squared residual, relative to that of a
// label that agrees with the belief. It is one step of the expectation-maximisation algorithm for
// Student's t (Lange, Little & Taylor, "Robust Statistical Modeling Using the t Distribution",
// 1989), at most 1.
func (n *noiseModel) share(square float64) float64 {
	if n.Freedom == 0 {
		return 1
	}
	return min(1, (n.Freedom+1)/(n.Freedom+square/n.variance()))
}

// add counts the surprise of a label.
func (n *noiseModel) add(surprise float64) {
	if !n.Estimate {
		return
	}
	const keep = 1 - 1.0/noiseWindow
	square := float64(surprise * surprise)
	if !(square <= maxReward*maxReward) {
		return
	}
	n.state.Squares = float64(n.state.Squares*keep) + float64(n.share(square)*square)
	n.state.Count = float64(n.state.Count*keep) + 1
}
