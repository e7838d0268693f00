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
	Value    float64 `yaml:"value,omitempty" rule:"[0, 1e9]"`              // constant: β, >= 0
	S        float64 `yaml:"s,omitempty" rule:"[0, 1e9]"`                  // theory, misspecified: bound on ‖z‖, >= 0
	Noise    float64 `yaml:"noise,omitempty" rule:"[0, 1e9]"`              // theory, misspecified: σ of a label; 0: 1
	// Delta is the risk of being wrong, in (0, 1), for theory and misspecified.
	Delta float64 `yaml:"delta,omitempty" rule:"[0, 1]"`
	Zeta  float64 `yaml:"zeta,omitempty" rule:"[0, 1e9]"` // misspecified: the model's largest error, >= 0
	L     float64 `yaml:"l,omitempty" rule:"[0, inf)"`    // misspecified: bound on ‖φ‖, > 0
}

// String returns the constant, or names the schedule.
func (b Beta) String() string {
	if b.Schedule == Constant {
		return fmt.Sprintf("%g", b.Value)
	}
	return "by the schedule " + b.Schedule
}

func (b Beta) schedule() (posterior.Schedule, error) {
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
		return nil, fmt.Errorf("schedule: unknown (%q)", b.Schedule)
	}
	return s, s.Validate()
}
