package rover_test

import (
	"math/rand/v2"
	"testing"

	"optibfm/hal/collect"
	"optibfm/hal/rover"
	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/tflite"
)

const episodeTicks = 300

// solver infers tasks from labelled observations, as an oracle does, and runs
// the model's policy for them.
type solver struct {
	network *tflite.Network
	obs     []float32 // [n, O]
	phi     []float64 // [n, d]
}

func newSolver(t *testing.T, n int) *solver {
	t.Helper()
	network, err := loadModel(t).NewNetwork()
	fatal.If(t, err)
	robot, err := rover.New(rover.DefaultConfig())
	fatal.If(t, err)
	recorded, err := collect.Record(robot, n, 12345)
	fatal.If(t, err)
	s := &solver{network: network, obs: recorded.NextObs, phi: make([]float64, n*network.Dims().Latent)}
	for i := range n {
		fatal.If(t, network.Phi(row(s.phi, i, n), row(s.obs, i, n)))
	}
	return s
}

// row is row i of a matrix of n rows.
func row[T any](matrix []T, i, n int) []T {
	width := len(matrix) / n
	return matrix[i*width : (i+1)*width]
}

// infer is the task embedding that least squares find for a task.
func (s *solver) infer(t *testing.T, task string) []float64 {
	t.Helper()
	d := s.network.Dims().Latent
	n := len(s.phi) / d
	belief, err := posterior.New(d, 1, 1)
	fatal.If(t, err)
	rewards, weights := make([]float64, n), make([]float64, n)
	for i := range n {
		weights[i] = 1
		if rewards[i], err = rover.Reward(task, row(s.obs, i, n)); err != nil {
			t.Fatal(err)
		}
	}
	fatal.If(t, belief.UpdateBatch(s.phi, rewards, weights))
	z := make([]float64, d)
	belief.Mean(z)
	return z
}

// earn is the mean return of z over episodes.
func (s *solver) earn(t *testing.T, task string, z func() []float64, episodes int) float64 {
	t.Helper()
	cfg := rover.DefaultConfig()
	cfg.Task = task
	robot, err := rover.New(cfg)
	fatal.If(t, err)
	total := 0.0
	for seed := range episodes {
		total += s.episode(t, robot, uint64(seed), z())
	}
	return total / float64(episodes)
}

func (s *solver) episode(t *testing.T, robot *rover.Rover, seed uint64, z []float64) float64 {
	t.Helper()
	obs, action := make([]float32, 6), make([]float32, 2)
	check := func(err error) { fatal.If(t, err) }
	check(robot.Reset(seed))
	check(robot.Arm())
	_, err := robot.Sense(obs)
	check(err)
	total := 0.0
	for range episodeTicks {
		check(s.network.Act(action, obs, z))
		check(robot.Act(action))
		_, err := robot.Sense(obs)
		check(err)
		reward, _ := robot.Reward()
		total += reward
	}
	return total
}

func TestModel_BeatsRandomPolicy(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many episodes")
	}
	s := newSolver(t, 20_000)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() []float64 {
		z := make([]float64, s.network.Dims().Latent)
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		return z
	}
	for _, task := range rover.Tasks() {
		z := s.infer(t, task.Name)
		oracle := s.earn(t, task.Name, func() []float64 { return z }, 10)
		byChance := s.earn(t, task.Name, random, 20)
		t.Logf("%-12s random %6.1f, oracle %6.1f of %d", task.Name, byChance, oracle, episodeTicks)
		if oracle < byChance+episodeTicks/10 {
			t.Errorf("%s: the inferred policy earns %.1f, random ones %.1f", task.Name, oracle, byChance)
		}
	}
}
