//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"

	"optibfm/tflite"
)

// Errors of the calls, allocated once as those of tflite.Network.
var (
	errClosed = errors.New("tensorflow: the model is closed")
	errObs    = fmt.Errorf("tensorflow: an element of the observation is %w; check the sensor", tflite.ErrNotFinite)
	errAction = fmt.Errorf("tensorflow: an element of the action is %w", tflite.ErrNotFinite)
	errPhi    = notFiniteResult("φ")
	errPolicy = notFiniteResult("the policy's action")
	errPsi    = notFiniteResult("ψ")
)

func notFiniteResult(what string) error {
	return fmt.Errorf("tensorflow: %s is %w; the observation may be far from the training data",
		what, tflite.ErrNotFinite)
}

// Go code checks and normalises the inputs, not the graph: in float64, as package
// tflite does, and independent of TensorFlow's flushing of denormal numbers to
// zero, which would affect a small z.

// setObs writes the observation as the networks take it. Every call begins
// with it.
func (m *graphModel) setObs(obs []float32) error {
	if m.session.session == 0 {
		return errClosed
	}
	if err := checkLength("observation", len(obs), m.dims.Obs); err != nil {
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

// setZ writes a single task embedding.
func (m *graphModel) setZ(z []float64) error {
	if err := checkLength("z", len(z), m.dims.Latent); err != nil {
		return err
	}
	return tflite.ProjectZ(m.z.f32, z, m.normZ)
}

func (m *graphModel) setAction(action []float32) error {
	if err := checkLength("action", len(action), m.dims.Action); err != nil {
		return err
	}
	copy(m.action.f32, action)
	return finite(action, errAction)
}

// setCandidates writes the candidates. A new number of candidates gets a new
// tensor.
func (m *graphModel) setCandidates(candidates []float32) error {
	d := m.dims.Latent
	if err := checkCandidates(candidates, d); err != nil {
		return err
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
		widen(m.wide, candidates[at:])
		if err := tflite.ProjectZ(m.candidates.f32[at:at+d], m.wide, m.normZ); err != nil {
			return err
		}
	}
	return nil
}

func checkCandidates(candidates []float32, d int) error {
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return fmt.Errorf("tensorflow: the candidates have %d elements, want a positive multiple of %d",
			len(candidates), d)
	}
	return nil
}

// widen writes the first elements of x to dst.
func widen(dst []float64, x []float32) {
	for i := range dst {
		dst[i] = float64(x[i])
	}
}

// setBelief writes the belief. It ignores what lies below R⁻¹'s diagonal.
func (m *graphModel) setBelief(b tflite.Belief) error {
	d := m.dims.Latent
	if err := b.Validate(d); err != nil {
		return err
	}
	copy(m.belief.mean.f32, b.Mean)
	for i := range d {
		copy(m.belief.invR.f32[i*d+i:(i+1)*d], b.InvR[i*d+i:(i+1)*d])
	}
	m.belief.beta.f32[0] = b.Beta
	return nil
}

// checkLength returns an error if a slice has the wrong length.
func checkLength(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("tensorflow: %s has %d elements, want %d", what, got, want)
	}
	return nil
}

// finite returns err if an element is NaN or infinite.
func finite[T float32 | float64](x []T, err error) error {
	for _, v := range x {
		if v-v != 0 {
			return err
		}
	}
	return nil
}
