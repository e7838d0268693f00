package theory

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func solved(t testing.TB, m MDP) *Solution {
	t.Helper()
	s, err := Solve(m)
	fatal.If(t, err)
	return s
}

// values returns the optimal value of every state by value iteration, without policies or successor
// features.
func values(m MDP, z []float64) []float64 {
	v := make([]float64, m.States)
	for range 500 {
		next := make([]float64, m.States)
		for s := range next {
			next[s] = math.Inf(-1)
			for a := range m.Actions {
				q := 0.0
				for to, p := range m.next(s, a) {
					q += p * (dot(m.phi(to), z) + m.Gamma*v[to])
				}
				next[s] = max(next[s], q)
			}
		}
		v = next
	}
	return v
}

func TestSolution_OptimalAgreesWithValueIteration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(3) {
		for _, m := range []MDP{Random(seed), Fork(seed)} {
			s := solved(t, m)
			for range 20 {
				z := direction(rng, m.Dim)
				policy, want := s.Optimal(z, rng.IntN(s.policies)), values(m, z)
				for state := range m.States {
					got, best := dot(s.Psi(policy, state), z), math.Inf(-1)
					for each := range s.policies {
						best = max(best, dot(s.Psi(each, state), z))
					}
					if math.Abs(got-want[state]) > 1e-9 || math.Abs(got-best) > 1e-9 {
						t.Fatalf("seed %d, state %d: value %g, by value iteration %g, by enumeration %g",
							seed, state, got, want[state], best)
					}
				}
			}
		}
	}
}

func TestSolution_OptimalIgnoresTheScaleOfZ(t *testing.T) {
	s := solved(t, Random(1))
	z := direction(rand.New(rand.NewPCG(3, 4)), s.mdp.Dim)
	want := s.Optimal(z, 0)
	for _, scale := range []float64{1e-6, 1e6} {
		scaled := make([]float64, len(z))
		for i, v := range z {
			scaled[i] = scale * v
		}
		if got := s.Optimal(scaled, 0); got != want {
			t.Errorf("scaled by %g the policy is %d, not %d", scale, got, want)
		}
	}
}

func TestSolution_PsiIsTheMeanSumOfFeatures(t *testing.T) {
	const episodes = 20_000
	m := Random(5)
	s := solved(t, m)
	policy, robot := 777, NewRobot(m, Task{Z: make([]float64, m.Dim)})
	fatal.If(t, robot.Arm())
	rng := rand.New(rand.NewPCG(5, 6))
	const start = 4
	sum, squares := make([]float64, m.Dim), make([]float64, m.Dim)
	for range episodes {
		robot.state = start
		total := make([]float64, m.Dim)
		for range steps(rng, m.Gamma) {
			fatal.If(t, robot.Act([]float32{command(s.Action(policy, robot.state), m.Actions)}))
			for i, v := range m.phi(robot.state) {
				total[i] += v
			}
		}
		for i, v := range total {
			sum[i] += v
			squares[i] += v * v
		}
	}
	for i, want := range s.Psi(policy, start) {
		mean := sum[i] / episodes
		deviation := math.Sqrt((squares[i]/episodes - mean*mean) / episodes)
		if math.Abs(mean-want) > 4.5*deviation {
			t.Errorf("feature %d: ψ is %g, the mean of %d episodes %g ± %g", i, want, episodes, mean, deviation)
		}
	}
}

func TestSolution_AfterActionOfThePolicyIsPsi(t *testing.T) {
	s := solved(t, Random(2))
	dst := make([]float64, s.mdp.Dim)
	for policy := 0; policy < s.policies; policy += 101 {
		for state := range s.mdp.States {
			s.AfterAction(dst, policy, state, s.Action(policy, state))
			for i, want := range s.Psi(policy, state) {
				if math.Abs(dst[i]-want) > 1e-9 {
					t.Fatalf("policy %d, state %d: found %v, want %v", policy, state, dst, s.Psi(policy, state))
				}
			}
		}
	}
}

func TestSolve_RefusesInvalidProcesses(t *testing.T) {
	for name, spoil := range map[string]func(*MDP){
		"no states":           func(m *MDP) { m.States = 0 },
		"a single action":     func(m *MDP) { m.Actions = 1 },
		"no end":              func(m *MDP) { m.Gamma = 1 },
		"a NaN for gamma":     func(m *MDP) { m.Gamma = math.NaN() },
		"P is short":          func(m *MDP) { m.P = m.P[1:] },
		"P does not sum to 1": func(m *MDP) { m.P[0] += 0.5 },
		"a negative P":        func(m *MDP) { m.P[0], m.P[1] = -1, 2 },
		"phi is short":        func(m *MDP) { m.Phi = m.Phi[1:] },
		"phi is all 0":        func(m *MDP) { clear(m.Phi) },
		"phi is not finite":   func(m *MDP) { m.Phi[0] = math.Inf(1) },
		"phi is NaN":          func(m *MDP) { m.Phi[0] = math.NaN() },
		"nowhere to start":    func(m *MDP) { clear(m.Start) },
	} {
		m := Random(1)
		spoil(&m)
		errtest.Is(t, errtest.Of(Solve(m)), ErrMDP, name)
	}
	many := Random(1)
	many.States = 13
	many.P = make([]float64, many.States*many.Actions*many.States)
	for s := range many.States {
		for a := range many.Actions {
			many.P[(s*many.Actions+a)*many.States+(s+a)%many.States] = 1
		}
	}
	many.Phi, many.Start = gaussian(rand.New(rand.NewPCG(1, 1)), many.States*many.Dim), uniform(many.States)
	errtest.Is(t, errtest.Of(Solve(many)), ErrMDP, "too many policies")
}

func TestRobot_ActsOnlyWhenArmed(t *testing.T) {
	r := NewRobot(Fork(1), Task{Z: []float64{1, 0, 0, 0}, Misfit: make([]float64, 15)})
	errtest.Is(t, r.Act([]float32{1}), hal.ErrHalted, "a robot that was never armed acts")
	fatal.If(t, errors.Join(r.Arm(), r.Reset(1)))
	for _, bad := range [][]float32{nil, {2}, {float32(math.NaN())}, {0, 0}} {
		errtest.NotNil(t, r.Act(bad), "the action ", bad, " is taken")
	}
	for range 3 {
		fatal.If(t, r.Act([]float32{1}))
	}
	if r.state != 14 {
		t.Errorf("always right leads to state %d, not to the last room", r.state)
	}
	errtest.NotNil(t, errtest.Of(r.Sense(nil)), "it senses into nothing")
	fatal.If(t, r.Halt())
	errtest.Is(t, r.Act([]float32{1}), hal.ErrHalted, "a halted robot acts")
}
