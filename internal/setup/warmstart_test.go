package setup_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/setup"
)

func TestLoadWarmStart_RefusesShapesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct{ rows, dim, rewards int }{
		"features of another model": {3, 5, 3},
		"missing reward":            {3, 8, 2},
	} {
		path := filepath.Join(t.TempDir(), "labels.npz")
		err := npz.WriteFile(path, npz.Archive{
			"phi":    npz.Float64(make([]float64, c.rows*c.dim), c.rows, c.dim),
			"reward": npz.Float64(make([]float64, c.rewards), c.rewards),
		})
		fatal.If(t, err)
		errtest.Contains(t, errtest.Of(setup.LoadWarmStart(configs.Model{WarmStart: path}, 8)), path, name)
	}
}

func TestWarmStart_BlocksGiveTheSameBelief(t *testing.T) {
	const n, dim = 2500, 8 // three blocks
	w := setup.WarmStart{Path: "labels.npz", Dim: dim, Phi: make([]float64, n*dim), Reward: make([]float64, n)}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range w.Phi {
		w.Phi[i] = random.NormFloat64()
	}
	for i := range w.Reward {
		w.Reward[i] = random.NormFloat64()
	}
	var learners [2]*controller.Learner
	for i := range learners {
		var err error
		learners[i], err = controller.NewLearner(configs.Default().Controller, dim, 20*time.Millisecond)
		fatal.If(t, err)
	}
	whole, blocks := learners[0], learners[1]
	fatal.If(t, errors.Join(whole.WarmStart(w.Phi, w.Reward), w.Apply(t.Context(), blocks)))
	if whole.Belief().Hash() != blocks.Belief().Hash() {
		t.Error("the beliefs differ")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := blocks.Belief().Hash()
	if err := w.Apply(ctx, blocks); !errors.Is(err, context.Canceled) || blocks.Belief().Hash() != before {
		t.Errorf("interrupted: %v", err)
	}
}
