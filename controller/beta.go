package controller

import (
	"fmt"

	"optibfm/posterior"
)

// The schedules of β.
const (
	Constant     = "constant"     // β is Value
	Theory       = "theory"       // √λ·S + σ√(log(det V/λ^d) + 2 log 1/δ)
	Misspecified = "misspecified" // theory, increased for rewards that are only approximately linear
)

// Beta selects the schedule of β, the weight of the uncertainty bonus; see
// posterior.Schedule.
type Beta struct {
	Schedule string  `yaml:"schedule" rule:"constant|theory|misspecified"` // constant, theory or misspecified
	Value    float64 `yaml:"value,omitempty" rule:"[0, inf)"`              // constant: β, >= 0
	S        float64 `yaml:"s,omitempty" rule:"finite"`                    // theory, misspecified: bound on ‖z‖, >= 0
	Noise    float64 `yaml:"noise,omitempty" rule:"finite"`                // theory, misspecified: σ of a label; 0: 1
	// Delta is the risk of being wrong, in (0, 1), for theory and misspecified.
	Delta float64 `yaml:"delta,omitempty" rule:"finite"`
	Zeta  float64 `yaml:"zeta,omitempty" rule:"finite"` // misspecified: the model's largest error, >= 0
	L     float64 `yaml:"l,omitempty" rule:"finite"`    // misspecified: bound on ‖φ‖, > 0
}

// maxBeta bounds the parameters of β, so that β and the candidates stay within
// the range of float32.
const maxBeta = 1e9

func (b Beta) schedule() (posterior.Schedule, error) {
	if largest := max(b.Value, b.S, b.Noise, b.Zeta); !(largest <= maxBeta) {
		return nil, fmt.Errorf("found %g; keep value, s, noise and zeta within %g", largest, maxBeta)
	}
	noise := b.Noise
	if noise == 0 {
		noise = 1
	}
	theory := posterior.Theory{S: b.S, Sigma: noise, Delta: b.Delta}
	var s posterior.Schedule
	switch b.Schedule {
	case Constant:
		s = posterior.Constant(b.Value)
	case Theory:
		s = theory
	case Misspecified:
		s = posterior.Misspecified{Schedule: theory, Zeta: b.Zeta, L: b.L}
	default:
		return nil, fmt.Errorf("schedule: found %q; use %s, %s or %s", b.Schedule, Constant, Theory, Misspecified)
	}
	return s, s.Validate()
}
