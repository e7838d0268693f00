package theory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MaxPolicies bounds the deterministic policies that Solve enumerates.
const MaxPolicies = 4096

// ErrMDP is wrapped by every error about a decision process.
var ErrMDP = errors.New("theory: mdp")

// MDP is a finite Markov decision process with features of its states. After each step an episode
// ends with probability 1-Gamma, so the expected undiscounted return of an episode is the
// discounted value of its first state.
type MDP struct {
	States, Actions, Dim int

	Gamma float64   // probability that an episode continues, in (0, 1)
	P     []float64 // P(s'|s,a), [States, Actions, States]
	Phi   []float64 // φ(s), [States, Dim]
	Start []float64 // distribution of an episode's first state, [States]
}

// Random returns a process of 10 states, 2 actions and 4 features. Each action leads to one of
// three states, and an episode starts in any state, so that every policy visits all states. The
// largest ‖φ‖ is 1.
func Random(seed uint64) MDP { return randomOf(seed, 4, 0.8) }

func randomOf(seed uint64, dim int, gamma float64) MDP {
	rng := rand.New(rand.NewPCG(seed, randomStream))
	m := MDP{States: 10, Actions: 2, Dim: dim, Gamma: gamma}
	m.P = make([]float64, m.States*m.Actions*m.States)
	for row := range m.States * m.Actions {
		total, to := 0.0, rng.Perm(m.States)[:3]
		for _, s := range to {
			m.P[row*m.States+s] = rng.ExpFloat64()
			total += m.P[row*m.States+s]
		}
		for _, s := range to {
			m.P[row*m.States+s] /= total
		}
	}
	m.Phi = gaussian(rng, m.States*m.Dim)
	longest := 0.0
	for s := range m.States {
		longest = max(longest, norm(m.phi(s)))
	}
	for i := range m.Phi {
		m.Phi[i] /= longest
	}
	m.Start = uniform(m.States)
	return m
}

// Fork returns a tree of corridors with 15 states, 2 actions and 4 features: a linear bandit of
// eight arms. Three decisions lead from the root to one of eight rooms, where the episode stays.
// Corridors have zero features, rooms random ones of norm 1. Only the end of an episode is random.
func Fork(seed uint64) MDP { return forkOf(seed, 4, 0.8) }

func forkOf(seed uint64, dim int, gamma float64) MDP {
	const corridors, rooms = 7, 8
	rng := rand.New(rand.NewPCG(seed, forkStream))
	m := MDP{States: corridors + rooms, Actions: 2, Dim: dim, Gamma: gamma}
	m.P = make([]float64, m.States*m.Actions*m.States)
	m.Phi = make([]float64, m.States*m.Dim)
	for s := range m.States {
		for a := range m.Actions {
			to := s
			if s < corridors {
				to = 2*s + 1 + a
			}
			m.P[(s*m.Actions+a)*m.States+to] = 1
		}
		if s >= corridors {
			copy(m.phi(s), direction(rng, m.Dim))
		}
	}
	m.Start = make([]float64, m.States)
	m.Start[0] = 1
	return m
}

// Independent streams of random numbers for one seed.
const (
	randomStream = iota + 1
	forkStream
	taskStream
	lengthStream
	moveStream
	episodeStream
	bootstrapStream
	horizonStream
)

// L returns the largest ‖φ(s)‖, the bound of the schedules.
func (m MDP) L() float64 {
	longest := 0.0
	for s := range m.States {
		longest = max(longest, norm(m.phi(s)))
	}
	return longest
}

// Validate reports the reason why m is not a decision process. The error wraps ErrMDP.
func (m MDP) Validate() error {
	if m.States < 1 || m.Actions < 2 || m.Dim < 1 {
		return fmt.Errorf("%w: found %d states, %d actions and %d features; give at least 1, 2 and 1",
			ErrMDP, m.States, m.Actions, m.Dim)
	}
	if !(m.Gamma > 0 && m.Gamma < 1) {
		return fmt.Errorf("%w: gamma: found %g; give a probability in (0, 1)", ErrMDP, m.Gamma)
	}
	for _, part := range []struct {
		name string
		got  int
		want int
	}{
		{"P", len(m.P), m.States * m.Actions * m.States},
		{"phi", len(m.Phi), m.States * m.Dim},
		{"start", len(m.Start), m.States},
	} {
		if part.got != part.want {
			return fmt.Errorf("%w: %s: found %d numbers, want %d", ErrMDP, part.name, part.got, part.want)
		}
	}
	for row := range m.States * m.Actions {
		if !isDistribution(m.P[row*m.States : (row+1)*m.States]) {
			return fmt.Errorf("%w: P of state %d and action %d: the sum is not 1 or a number is negative",
				ErrMDP, row/m.Actions, row%m.Actions)
		}
	}
	if !isDistribution(m.Start) {
		return fmt.Errorf("%w: start: the sum is not 1 or a number is negative", ErrMDP)
	}
	if longest := m.L(); !(longest > 0) || math.IsInf(longest, 0) {
		return fmt.Errorf("%w: phi: the largest norm is %g; give finite features that are not all 0", ErrMDP, longest)
	}
	return nil
}

func isDistribution(p []float64) bool {
	total := 0.0
	for _, x := range p {
		if !(x >= 0) {
			return false
		}
		total += x
	}
	return math.Abs(total-1) < 1e-9
}

// withFeature returns the process with another feature of each state, [States].
func (m MDP) withFeature(feature []float64) MDP {
	phi := make([]float64, 0, len(m.Phi)+m.States)
	for s := range m.States {
		phi = append(append(phi, m.phi(s)...), feature[s])
	}
	m.Dim, m.Phi = m.Dim+1, phi
	return m
}

func (m MDP) phi(s int) []float64 { return m.Phi[s*m.Dim : (s+1)*m.Dim] }

func (m MDP) next(s, a int) []float64 {
	row := s*m.Actions + a
	return m.P[row*m.States : (row+1)*m.States]
}

// decides reports whether the actions in s differ.
func (m MDP) decides(s int) bool {
	for a := 1; a < m.Actions; a++ {
		if !slices.Equal(m.next(s, a), m.next(s, 0)) {
			return true
		}
	}
	return false
}

// pick draws an index with the given probabilities.
func pick(rng *rand.Rand, p []float64) int {
	u := rng.Float64()
	for i, x := range p {
		if u -= x; u < 0 {
			return i
		}
	}
	for i := len(p) - 1; i > 0; i-- { // rounding: u is just above the sum
		if p[i] > 0 {
			return i
		}
	}
	return 0
}

func gaussian(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// direction draws a point of the unit sphere.
func direction(rng *rand.Rand, n int) []float64 {
	x := gaussian(rng, n)
	length := norm(x)
	for i := range x {
		x[i] /= length
	}
	return x
}

func uniform(n int) []float64 {
	p := make([]float64, n)
	for i := range p {
		p[i] = 1 / float64(n)
	}
	return p
}

// dot returns xᵀy; y may be longer.
func dot(x, y []float64) float64 {
	sum := 0.0
	y = y[:len(x)]
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }
