package theory

import (
	"math"

	"optibfm/controller"
	"optibfm/posterior"
)

// Exact chooses z like the theory: by the highest upper confidence bound over all policies from the
// current state, while a controller.Planner searches a sample of candidates:
//
//	max over π and ‖z - ẑ‖_V ≤ β of ψ^π(s)ᵀz  =  max over π of ψ^π(s)ᵀẑ + β‖ψ^π(s)‖_{V⁻¹}
//
// Its z is that of the maximum, ẑ + β V⁻¹ψ/‖ψ‖_{V⁻¹}, for which π is optimal from s. Exact
// implements controller.Plans for one goroutine.
type Exact struct {
	solution *Solution
	schedule posterior.Schedule
	every    uint64 // ticks between plans; 0: at episode starts only
	belief   *posterior.Belief
	state    *controller.State
	plan     *controller.Plan
	planned  bool
	episode  uint32
	mean     []float64
	invR     []float64
	half     []float64 // R⁻ᵀψ
}

var _ controller.Plans = (*Exact)(nil)

// NewExact returns plans for the belief and the replan interval of cfg, with the β of schedule.
func NewExact(s *Solution, cfg controller.Config, schedule posterior.Schedule) (*Exact, error) {
	d := s.mdp.Dim
	belief, err := cfg.NewBelief(d)
	if err != nil {
		return nil, err
	}
	shape := controller.Shape{Obs: 1, Action: 1, Latent: d}
	return &Exact{
		solution: s, schedule: schedule, every: cfg.Replan, belief: belief,
		state: controller.NewState(shape), plan: controller.NewPlan(shape),
		mean: make([]float64, d), invR: make([]float64, d*d), half: make([]float64, d),
	}, nil
}

// State implements controller.Plans.
func (e *Exact) State() *controller.State { return e.state }

// Offer makes a plan when one is due.
func (e *Exact) Offer() error {
	s := e.state
	if s.Valid == 0 {
		return nil
	}
	e.plan.Confirmed = s.Tick()
	if e.planned && s.Episode == e.episode && (e.every == 0 || s.Tick()-e.plan.Tick < e.every) {
		return nil
	}
	if err := e.belief.Restore(s.Belief); err != nil {
		return err
	}
	e.choose(int(s.Obs[0]))
	e.planned, e.episode, e.plan.Tick = true, s.Episode, s.Tick()
	return nil
}

// Latest implements controller.Plans.
func (e *Exact) Latest() *controller.Plan {
	if !e.planned {
		return nil
	}
	return e.plan
}

func (e *Exact) choose(state int) {
	beta := e.schedule.Beta(e.belief)
	e.belief.Mean(e.mean)
	e.belief.InvR(e.invR)
	highest, best := math.Inf(-1), 0
	for policy := range e.solution.policies {
		psi := e.solution.Psi(policy, state)
		if bound := dot(psi, e.mean) + beta*e.width(psi); bound > highest {
			best, highest = policy, bound
		}
	}
	e.plan.Score, e.plan.Beta = highest, beta
	e.maximise(e.solution.Psi(best, state), beta)
}

// width returns ‖ψ‖ in V⁻¹ and writes R⁻ᵀψ to half.
func (e *Exact) width(psi []float64) float64 {
	clear(e.half)
	d := len(psi)
	for i, v := range psi {
		for j := i; j < d; j++ {
			e.half[j] += v * e.invR[i*d+j]
		}
	}
	return norm(e.half)
}

// maximise writes the z of the confidence set with the largest ψᵀz.
func (e *Exact) maximise(psi []float64, beta float64) {
	copy(e.plan.Z, e.mean)
	length := e.width(psi)
	if length == 0 {
		return
	}
	d := len(psi)
	for i := range d {
		for j := i; j < d; j++ {
			e.plan.Z[i] += beta / length * e.invR[i*d+j] * e.half[j]
		}
	}
}
