package theory

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/tflite"
)

// taught returns a belief after some labels of a task.
func taught(t testing.TB, m MDP, z []float64, labels int, seed uint64) *posterior.Belief {
	t.Helper()
	b, err := posterior.New(m.Dim, 1, 1)
	fatal.If(t, err)
	rng := rand.New(rand.NewPCG(seed, 9))
	for range labels {
		phi := m.phi(rng.IntN(m.States))
		fatal.If(t, b.Update(phi, dot(phi, z)+0.3*rng.NormFloat64(), 11))
	}
	return b
}

// precision returns V of a belief, from R⁻¹.
func precision(t testing.TB, b *posterior.Belief) *mat.Dense {
	t.Helper()
	invR := mat.NewDense(b.Dim(), b.Dim(), nil)
	b.InvR(invR.RawMatrix().Data)
	var covariance, v mat.Dense
	covariance.Mul(invR, invR.T())
	fatal.If(t, v.Inverse(&covariance))
	return &v
}

func TestModel_SearchTakesTheGreatestUpperBound(t *testing.T) {
	m := Random(7)
	s := solved(t, m)
	rng := rand.New(rand.NewPCG(7, 7))
	b := taught(t, m, direction(rng, m.Dim), 30, 7)
	belief := tflite.Belief{Mean: make([]float32, m.Dim), InvR: make([]float32, m.Dim*m.Dim), Beta: 1.5}
	mean, invR := make([]float64, m.Dim), make([]float64, m.Dim*m.Dim)
	b.Mean(mean)
	b.InvR(invR)
	for i := range mean {
		belief.Mean[i] = float32(mean[i])
	}
	for i := range invR {
		belief.InvR[i] = float32(invR[i])
	}
	candidates := make([]float32, 50*m.Dim)
	for i := range candidates {
		candidates[i] = float32(rng.NormFloat64())
	}
	const state = 3
	best, score, err := NewModel(s).Search([]float32{state}, candidates, belief)
	fatal.If(t, err)
	highest, want := math.Inf(-1), 0
	for i := range 50 {
		z := make([]float64, m.Dim)
		for j := range z {
			z[j] = float64(candidates[i*m.Dim+j])
		}
		psi := s.Psi(s.Optimal(z, 0), state)
		if bound := dot(psi, mean) + 1.5*math.Sqrt(b.NormSq(psi)); bound > highest+1e-9 {
			want, highest = i, bound
		}
	}
	if best != want || math.Abs(float64(score)-highest) > 1e-5 {
		t.Errorf("found candidate %d with %g, want %d with %g", best, score, want, highest)
	}
}

func TestModel_RefusesBadInput(t *testing.T) {
	s := solved(t, Random(1))
	m, d := NewModel(s), s.mdp.Dim
	good := tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: 1}
	z, action := make([]float64, d), make([]float32, 1)
	nan := float32(math.NaN())
	bad := tflite.Belief{Mean: []float32{nan, 0, 0, 0}, InvR: good.InvR}
	for name, err := range map[string]error{
		"no observation":        m.Phi(make([]float64, d), nil),
		"half a state":          m.Phi(make([]float64, d), []float32{0.5}),
		"a negative state":      m.Phi(make([]float64, d), []float32{-1}),
		"a state beyond":        m.Phi(make([]float64, d), []float32{10}),
		"a NaN for a state":     m.Phi(make([]float64, d), []float32{nan}),
		"no room for φ":         m.Phi(nil, []float32{1}),
		"no room for an action": m.Act(nil, []float32{1}, z),
		"a short z":             m.Act(action, []float32{1}, z[1:]),
		"a NaN in z":            m.Act(action, []float32{1}, []float64{0, math.NaN(), 0, 0}),
		"no state to act in":    m.Act(action, []float32{99}, z),
		"no candidates":         searchError(m, 1, nil, good),
		"half a candidate":      searchError(m, 1, make([]float32, d+1), good),
		"a NaN in a candidate":  searchError(m, 1, []float32{0, nan, 0, 0}, good),
		"no state to search in": searchError(m, -3, make([]float32, d), good),
		"half a belief":         searchError(m, 1, make([]float32, d), tflite.Belief{Mean: good.Mean}),
		"a NaN in the belief":   searchError(m, 1, make([]float32, d), bad),
	} {
		errtest.NotNil(t, err, name)
	}
}

func searchError(m *Model, state float32, candidates []float32, b tflite.Belief) error {
	_, _, err := m.Search([]float32{state}, candidates, b)
	return err
}

// offer returns the plan for a state and a belief.
func offer(t testing.TB, plans controller.Plans, state int, b *posterior.Belief) *controller.Plan {
	t.Helper()
	s := plans.State()
	s.Next, s.Valid, s.Obs[0], s.Hash, s.Scale = 1, 1, float32(state), b.Hash(), 1
	b.State(s.Belief)
	fatal.If(t, plans.Offer())
	return plans.Latest()
}

func TestExact_HasTheGreatestUpperBound(t *testing.T) {
	for seed := range uint64(10) {
		m := Random(seed)
		s := solved(t, m)
		task := direction(rand.New(rand.NewPCG(seed, 1)), m.Dim)
		b := taught(t, m, task, int(10*seed), seed)
		method := ucb(0.1, 0)
		exact, err := NewExact(s, method.config, confidence(method.config))
		fatal.If(t, err)
		plan := offer(t, exact, 2, b)
		// The z of the plan is on the edge of the confidence set, and the value of its policy is
		// the score.
		mean := make([]float64, m.Dim)
		b.Mean(mean)
		diff := mat.NewVecDense(m.Dim, nil)
		diff.SubVec(mat.NewVecDense(m.Dim, plan.Z), mat.NewVecDense(m.Dim, mean))
		if edge := math.Sqrt(mat.Inner(diff, precision(t, b), diff)); math.Abs(edge-plan.Beta) > 1e-6*plan.Beta {
			t.Errorf("seed %d: z is %g away from the mean, β is %g", seed, edge, plan.Beta)
		}
		if value := dot(s.Psi(s.Optimal(plan.Z, 0), 2), plan.Z); math.Abs(value-plan.Score) > 1e-9 {
			t.Errorf("seed %d: the policy of z has the value %g, its score is %g", seed, value, plan.Score)
		}
		planner, err := controller.NewPlanner(method.config, NewModel(s))
		fatal.If(t, err)
		if sampled := offer(t, controller.NewLockstep(planner), 2, b); sampled.Score > plan.Score+1e-5 {
			t.Errorf("seed %d: a sampled candidate scores %g, above the greatest, %g", seed, sampled.Score, plan.Score)
		}
	}
}
