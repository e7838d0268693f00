package theory

import (
	"fmt"
	"math"

	"optibfm/tflite"
)

// Model is the perfect behaviour foundation model of a process: exact features, the optimal policy
// of every z and its exact successor features. An observation is the number of the state. An action
// is the number of the choice, scaled to [-1, 1]. The ensemble has one member.
type Model struct {
	solution *Solution
	policy   int       // the last one: where policy iteration starts from
	z        []float64 // scratch, [d]
}

var _ tflite.Model = (*Model)(nil)

// NewModel returns a model for one goroutine; models may share a solution.
func NewModel(s *Solution) *Model {
	return &Model{solution: s, z: make([]float64, s.mdp.Dim)}
}

// Dims implements tflite.Model.
func (m *Model) Dims() tflite.Dims {
	return tflite.Dims{Obs: 1, Action: 1, Latent: m.solution.mdp.Dim, Ensemble: 1}
}

// Phi implements tflite.Model.
func (m *Model) Phi(dst []float64, obs []float32) error {
	state, err := m.state(obs)
	if err != nil {
		return err
	}
	if len(dst) != m.solution.mdp.Dim {
		return fmt.Errorf("theory: phi: found room for %d features, want %d", len(dst), m.solution.mdp.Dim)
	}
	copy(dst, m.solution.mdp.phi(state))
	return nil
}

// Act implements tflite.Model.
func (m *Model) Act(dst, obs []float32, z []float64) error {
	state, err := m.state(obs)
	if err != nil {
		return err
	}
	if len(dst) != 1 || len(z) != m.solution.mdp.Dim || !isFinite(z) {
		return fmt.Errorf("theory: act: found %d actions and z %v, want 1 and %d finite numbers",
			len(dst), z, m.solution.mdp.Dim)
	}
	m.policy = m.solution.Optimal(z, m.policy)
	dst[0] = command(m.solution.Action(m.policy, state), m.solution.mdp.Actions)
	return nil
}

// Search implements tflite.Model.
func (m *Model) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	state, err := m.state(obs)
	if err != nil {
		return 0, 0, err
	}
	d := m.solution.mdp.Dim
	if len(candidates) == 0 || len(candidates)%d != 0 || len(belief.Mean) != d || len(belief.InvR) != d*d {
		return 0, 0, fmt.Errorf("theory: search: found %d candidate numbers, Mean %d, InvR %d, want [n, %d], %d, %d",
			len(candidates), len(belief.Mean), len(belief.InvR), d, d, d*d)
	}
	highest := math.Inf(-1)
	for i := 0; i < len(candidates); i += d {
		for j, v := range candidates[i : i+d] {
			m.z[j] = float64(v)
		}
		if !isFinite(m.z) {
			return 0, 0, fmt.Errorf("theory: search: candidate %d is not finite (%v)", i/d, m.z)
		}
		m.policy = m.solution.Optimal(m.z, m.policy)
		if bound := upper(m.solution.Psi(m.policy, state), belief); bound > highest {
			best, highest = i/d, bound
		}
	}
	if math.IsInf(highest, -1) {
		return 0, 0, fmt.Errorf("theory: search: no candidate has a score; give a finite belief")
	}
	return best, float32(highest), nil
}

// upper returns ψᵀẑ + β‖R⁻ᵀψ‖.
func upper(psi []float64, belief tflite.Belief) float64 {
	d := len(psi)
	mean, square := 0.0, 0.0
	for j := range d {
		mean += psi[j] * float64(belief.Mean[j])
		column := 0.0
		for i := range j + 1 {
			column += psi[i] * float64(belief.InvR[i*d+j])
		}
		square += column * column
	}
	return mean + float64(belief.Beta)*math.Sqrt(square)
}

func (m *Model) state(obs []float32) (int, error) {
	if len(obs) == 1 {
		if s := int(obs[0]); float32(s) == obs[0] && s >= 0 && s < m.solution.mdp.States {
			return s, nil
		}
	}
	return 0, fmt.Errorf("theory: observation: found %v, want the number of one of %d states",
		obs, m.solution.mdp.States)
}

// command returns the action of a choice.
func command(choice, choices int) float32 {
	return 2*float32(choice)/float32(choices-1) - 1
}

// choice returns the choice of an action.
func choice(action float32, choices int) int {
	return int(math.Round(float64(action+1) / 2 * float64(choices-1)))
}

func isFinite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
