//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/tflite"
)

// Errors of the calls, ready-made as those of tflite.Network.
var (
	errClosed = errors.New("tensorflow: the model is closed")
	errObs    = fmt.Errorf("tensorflow: an element of the observation is %w: check the sensor", tflite.ErrNotFinite)
	errZ      = fmt.Errorf("tensorflow: an element of z is %w: check the posterior", tflite.ErrNotFinite)
	errAction = fmt.Errorf("tensorflow: an element of the action is %w", tflite.ErrNotFinite)
	errBelief = fmt.Errorf("tensorflow: the belief (mean, R⁻¹ or β) is %w or β is negative: check the posterior", tflite.ErrNotFinite)
	errPhi    = fmt.Errorf("tensorflow: φ is %w: the observation is far from the training data", tflite.ErrNotFinite)
	errPolicy = fmt.Errorf("tensorflow: the policy's action is %w: the observation is far from the training data", tflite.ErrNotFinite)
	errSlope  = fmt.Errorf("tensorflow: the score's gradient is %w: the observation is far from the training data", tflite.ErrNotFinite)
	errPsi    = fmt.Errorf("tensorflow: ψ is %w: the observation is far from the training data", tflite.ErrNotFinite)
)

// minNorm is the least ‖z‖ that has a direction, as in tflite.
const minNorm = 1e-9

// The inputs are checked and normalised here rather than in the graph: in
// float64, as tflite does it, and with TensorFlow's flushing of denormal
// numbers to zero out of the way of small z.

// takeObs writes the observation as the networks take it. Every call begins
// with it.
func (m *graphModel) takeObs(obs []float32) error {
	if m.session.session == 0 {
		return errClosed
	}
	if err := length("observation", len(obs), m.dims.Obs); err != nil {
		return err
	}
	if err := finite(obs, errObs); err != nil {
		return err
	}
	copy(m.obs.f32, obs)
	for i, mean := range m.mean {
		m.obs.f32[i] = (obs[i] - mean) * m.scale[i]
	}
	return nil
}

// takeZ writes the task embedding in m.wide as the networks take it.
func (m *graphModel) takeZ(dst []float32) error { return writeZ(dst, m.wide, m.normZ) }

// writeZ writes z as it is, or √d·z/‖z‖.
func writeZ(dst []float32, z []float64, normalised bool) error {
	scale := 1.0
	if normalised {
		size := blas64.Nrm2(blas64.Vector{N: len(z), Inc: 1, Data: z})
		if size < minNorm {
			return tflite.ErrNoDirection
		}
		scale = math.Sqrt(float64(len(z))) / size
	}
	for i, x := range z {
		dst[i] = float32(x * scale)
	}
	return finite(dst, errZ)
}

// takeOneZ writes a single task embedding.
func (m *graphModel) takeOneZ(z []float64) error {
	if err := length("z", len(z), m.dims.Latent); err != nil {
		return err
	}
	copy(m.wide, z)
	return m.takeZ(m.z.f32)
}

func (m *graphModel) takeAction(action []float32) error {
	if err := length("action", len(action), m.dims.Action); err != nil {
		return err
	}
	copy(m.action.f32, action)
	return finite(action, errAction)
}

// takeCandidates writes the candidates, into another tensor where their
// number is another.
func (m *graphModel) takeCandidates(candidates []float32) error {
	d := m.dims.Latent
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return fmt.Errorf("tensorflow: the candidates have %d elements, want a multiple of %d that is not 0", len(candidates), d)
	}
	if len(candidates) != len(m.candidates.f32) {
		t, err := m.session.api.newTensor(len(candidates)/d, d)
		if err != nil {
			return err
		}
		m.session.api.free(&m.candidates)
		m.candidates, m.search.values[1] = t, t.handle
	}
	for at := 0; at < len(candidates); at += d {
		for i, x := range candidates[at : at+d] {
			m.wide[i] = float64(x)
		}
		if err := m.takeZ(m.candidates.f32[at : at+d]); err != nil {
			return err
		}
	}
	return nil
}

// takeBelief writes the belief; what lies below R⁻¹'s diagonal is not read.
func (m *graphModel) takeBelief(b tflite.Belief) error {
	d := m.dims.Latent
	if err := checkBelief(b, d); err != nil {
		return err
	}
	copy(m.belief.mean.f32, b.Mean)
	for i := range d {
		copy(m.belief.invR.f32[i*d+i:(i+1)*d], b.InvR[i*d+i:(i+1)*d])
	}
	m.belief.beta.f32[0] = b.Beta
	return nil
}

func checkBelief(b tflite.Belief, d int) error {
	if err := length("the belief's mean", len(b.Mean), d); err != nil {
		return err
	}
	if err := length("the belief's R⁻¹", len(b.InvR), d*d); err != nil {
		return err
	}
	if finite(b.Mean, errBelief) != nil || finite(b.InvR, errBelief) != nil || b.Beta-b.Beta != 0 || b.Beta < 0 {
		return errBelief
	}
	return nil
}

// length is a sentence for a slice of a wrong length.
func length(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("tensorflow: %s has %d elements, the model's has %d", what, got, want)
	}
	return nil
}

// finite returns err where an element is NaN or infinite.
func finite[T float32 | float64](x []T, err error) error {
	for _, v := range x {
		if v-v != 0 {
			return err
		}
	}
	return nil
}
