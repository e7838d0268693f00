package setup

import (
	"context"
	"fmt"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/npz"
)

// WarmStart holds the labels of model.warm_start, none if that is empty.
type WarmStart struct {
	Path   string
	Dim    int
	Phi    []float64 // [n, dim]
	Reward []float64 // [n]
}

// LoadWarmStart loads the labels of the session, before any device is open.
func (s *Session) LoadWarmStart() (err error) {
	s.Warm, err = LoadWarmStart(s.File.Model, s.Model.Dims().Latent)
	return err
}

// LoadWarmStart reads the features (phi, [n, dim]) and rewards ([n]) of model.warm_start.
func LoadWarmStart(m configs.Model, dim int) (w WarmStart, err error) {
	if m.WarmStart == "" {
		return w, nil
	}
	archive, err := npz.ReadFile(m.WarmStart)
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %w", err)
	}
	phi, err := archive.Shaped("phi", -1, dim)
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %s: %w", m.WarmStart, err)
	}
	reward, err := archive.Shaped("reward", phi.Shape()[0])
	if err != nil {
		return w, fmt.Errorf("model.warm_start: %s: %w", m.WarmStart, err)
	}
	return WarmStart{Path: m.WarmStart, Dim: dim, Phi: phi.Float64s(), Reward: reward.Float64s()}, nil
}

// warmBlock is the number of labels between two checks of the context, about 10 ms. It is a
// multiple of the four labels that the belief updates at a time, so that the blocks change no bit
// of the belief.
const warmBlock = 1 << 10

// Apply gives the labels to a learner until ctx ends.
func (w WarmStart) Apply(ctx context.Context, l *controller.Learner) error {
	for first := 0; first < len(w.Reward); first += warmBlock {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("model.warm_start: %s: interrupted: %w", w.Path, err)
		}
		end := min(first+warmBlock, len(w.Reward))
		if err := l.WarmStart(w.Phi[first*w.Dim:end*w.Dim], w.Reward[first:end]); err != nil {
			return fmt.Errorf("model.warm_start: %s: labels from %d on: %w", w.Path, first, err)
		}
	}
	return nil
}
