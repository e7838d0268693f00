package theory

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Solution has the successor features of every deterministic policy of a process, each from a
// linear system. It is read-only after Solve, and goroutines may share it.
//
// The features of a step are those of the state that it leads to, as in a forward-backward model
// and in the return of an episode:
//
//	ψ^π(s) = E Σ_{t ≥ 1} γ^(t-1) φ(s_t),   ψ^π = P_π (Φ + γ ψ^π)
type Solution struct {
	mdp       MDP
	decisions []int // the states where actions differ
	stride    []int // of a decision in a policy's number
	policies  int
	psi       []float64 // ψ^π(s), [policies, States, Dim]
	gain      []float64 // ψ^π(s, a) - ψ^π(s) of each decision, [policies, decisions, Actions, Dim]
	choices   []uint16  // of a policy at each decision, [policies, decisions]
	reach     float64   // upper bound of ‖ψ‖
}

// Solve enumerates the policies of m, at most MaxPolicies. The error wraps ErrMDP.
func Solve(m MDP) (*Solution, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	s := &Solution{mdp: m, policies: 1, reach: m.L() / (1 - m.Gamma)}
	for state := range m.States {
		if !m.decides(state) {
			continue
		}
		s.decisions = append(s.decisions, state)
		s.stride = append(s.stride, s.policies)
		if s.policies *= m.Actions; s.policies > MaxPolicies {
			return nil, fmt.Errorf("%w: more than %d deterministic policies; give fewer states or actions",
				ErrMDP, MaxPolicies)
		}
	}
	s.psi = make([]float64, s.policies*m.States*m.Dim)
	s.gain = make([]float64, s.policies*len(s.decisions)*m.Actions*m.Dim)
	for policy := range s.policies {
		for _, stride := range s.stride {
			s.choices = append(s.choices, uint16(policy/stride%m.Actions))
		}
		if err := s.solve(policy); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// solve computes ψ of a policy from (I - γ P_π) ψ = P_π Φ.
func (s *Solution) solve(policy int) error {
	m := s.mdp
	system, right := mat.NewDense(m.States, m.States, nil), mat.NewDense(m.States, m.Dim, nil)
	features := mat.NewDense(m.States, m.Dim, m.Phi)
	moves := mat.NewDense(m.States, m.States, nil)
	for state := range m.States {
		moves.SetRow(state, m.next(state, s.Action(policy, state)))
	}
	system.Scale(-m.Gamma, moves)
	for state := range m.States {
		system.Set(state, state, 1+system.At(state, state))
	}
	right.Mul(moves, features)
	size := m.States * m.Dim
	psi := s.psi[policy*size : (policy+1)*size]
	if err := mat.NewDense(m.States, m.Dim, psi).Solve(system, right); err != nil {
		return fmt.Errorf("%w: successor features of policy %d: %w", ErrMDP, policy, err)
	}
	for i, state := range s.decisions {
		for action := range m.Actions {
			gain := s.gainOf(policy, i, action)
			s.AfterAction(gain, policy, state, action)
			for j, v := range s.Psi(policy, state) {
				gain[j] -= v
			}
		}
	}
	return nil
}

// AfterAction writes ψ^π(s, a) = Σ_s' P(s'|s,a) (φ(s') + γ ψ^π(s')) into dst
// [Dim]: the successor features of action a, then policy π.
func (s *Solution) AfterAction(dst []float64, policy, state, action int) {
	clear(dst)
	for to, p := range s.mdp.next(state, action) {
		if p == 0 {
			continue
		}
		phi, psi := s.mdp.phi(to), s.Psi(policy, to)
		for i := range dst {
			dst[i] += p * (phi[i] + s.mdp.Gamma*psi[i])
		}
	}
}

// Action returns the action of a policy in a state.
func (s *Solution) Action(policy, state int) int {
	if i := slices.Index(s.decisions, state); i >= 0 {
		return int(s.chosen(policy)[i])
	}
	return 0
}

func (s *Solution) chosen(policy int) []uint16 {
	n := len(s.decisions)
	return s.choices[policy*n : (policy+1)*n]
}

// Psi returns ψ^π(s), [Dim]. The caller must not change it.
func (s *Solution) Psi(policy, state int) []float64 {
	at := (policy*s.mdp.States + state) * s.mdp.Dim
	return s.psi[at : at+s.mdp.Dim : at+s.mdp.Dim]
}

func (s *Solution) gainOf(policy, decision, action int) []float64 {
	at := ((policy*len(s.decisions)+decision)*s.mdp.Actions + action) * s.mdp.Dim
	return s.gain[at : at+s.mdp.Dim : at+s.mdp.Dim]
}

// tie is the smallest gain, relative to the largest value, for which an action replaces another. A
// smaller gain is rounding and could make the iteration cycle.
const tie = 1e-13

// Optimal returns the policy that is optimal for the rewards φ(s)ᵀz in every state, by policy
// iteration from the policy `from`, which also decides between equal actions.
func (s *Solution) Optimal(z []float64, from int) int {
	policy, least := from, tie*s.reach*norm(z)
	for range s.policies {
		better := s.improve(z, policy, least)
		if better == policy {
			break
		}
		policy = better
	}
	return policy
}

// improve returns the policy with the best action of every state if the current policy follows.
func (s *Solution) improve(z []float64, policy int, least float64) int {
	better, d, choices := policy, len(z), s.mdp.Actions
	gains := s.gain[policy*len(s.decisions)*choices*d:]
	for i, now := range s.chosen(policy) {
		best, most := int(now), least
		for action := range choices {
			if action == int(now) {
				continue // its gain is 0
			}
			if gain := dot(z, gains[action*d:]); gain > most {
				best, most = action, gain
			}
		}
		better += (best - int(now)) * s.stride[i]
		gains = gains[choices*d:]
	}
	return better
}
