package tflite

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	probeStates = 16
	probeError  = 1e-3 // relative, between rows that are evaluated alone and in a batch
)

// Probe evaluates an imported model at standard normal observations and z. It returns an
// error for a result that is not finite, an action outside [-1, 1], different results for
// the same inputs, and a Search that differs from Act, Psi and the score of one candidate
// at a time (for example because the rows of a batch affect each other). scaleFree
// reports whether π does not depend on the norm of z.
func Probe(m Evaluator) (scaleFree bool, err error) {
	p := newProbe(m)
	scaleFree = true
	for range probeStates {
		free, err := p.state()
		if err != nil {
			return false, fmt.Errorf("at a random observation %.3g: %w", p.obs, err)
		}
		scaleFree = scaleFree && free
	}
	return scaleFree, nil
}

// probe is the memory of Probe.
type probe struct {
	model       Evaluator
	dims        Dims
	rng         *rand.Rand
	scorer      *Scorer
	obs         []float32
	candidates  []float32 // [n, d]
	psi         []float32 // [E, n, d]
	one         []float32 // [E, d]
	action, was []float32 // now and before
	phi, wasPhi []float64
	z           []float64
	belief      Belief
}

func newProbe(m Evaluator) *probe {
	d := m.Dims()
	p := &probe{
		model: m, dims: d, rng: rand.New(rand.NewPCG(1, 2)), scorer: NewScorer(d.Latent),
		obs: make([]float32, d.Obs), candidates: make([]float32, probeStates*d.Latent), z: make([]float64, d.Latent),
		psi: make([]float32, d.Ensemble*probeStates*d.Latent), one: make([]float32, d.Ensemble*d.Latent),
		action: make([]float32, d.Action), was: make([]float32, d.Action),
		phi: make([]float64, d.Latent), wasPhi: make([]float64, d.Latent),
		belief: Belief{Mean: make([]float32, d.Latent), InvR: make([]float32, d.Latent*d.Latent), Beta: 1},
	}
	for i := range d.Latent {
		p.belief.InvR[i*d.Latent+i] = 1
	}
	return p
}

// normal fills dst with standard normal numbers.
func (p *probe) normal(dst []float32) {
	for i := range dst {
		dst[i] = float32(p.rng.NormFloat64())
	}
}

// state checks the model at one observation.
func (p *probe) state() (scaleFree bool, err error) {
	p.normal(p.obs)
	p.normal(p.candidates)
	p.normal(p.belief.Mean)
	if err := p.model.Phi(p.phi, p.obs); err != nil {
		return false, err
	}
	copy(p.wasPhi, p.phi)
	for i := range probeStates {
		if err := p.candidate(i); err != nil {
			return false, err
		}
	}
	if err := p.repeat(); err != nil {
		return false, err
	}
	if err := p.search(); err != nil {
		return false, err
	}
	copy(p.was, p.action)
	for i := range p.z {
		p.z[i] *= 10
	}
	if err := p.model.Act(p.action, p.obs, p.z); err != nil {
		return false, err
	}
	return near(p.action, p.was), nil
}

// candidate evaluates π and ψ of a candidate alone.
func (p *probe) candidate(i int) error {
	d := p.dims.Latent
	for k := range p.z {
		p.z[k] = float64(p.candidates[i*d+k])
	}
	if err := p.model.Act(p.action, p.obs, p.z); err != nil {
		return err
	}
	for k, a := range p.action {
		if !(a >= -1 && a <= 1) {
			return fmt.Errorf("π: action %d is %g, want -1 to 1; end the policy in tanh, or scale its output", k, a)
		}
	}
	if err := p.model.Psi(p.one, p.obs, p.action, p.z); err != nil {
		return err
	}
	for e := range p.dims.Ensemble {
		copy(p.psi[(e*probeStates+i)*d:][:d], p.one[e*d:])
	}
	return nil
}

// repeat evaluates φ and π of the last candidate a second time.
func (p *probe) repeat() error {
	copy(p.was, p.action)
	if err := p.model.Phi(p.phi, p.obs); err != nil {
		return err
	}
	if err := p.model.Act(p.action, p.obs, p.z); err != nil {
		return err
	}
	if !slices.Equal(p.phi, p.wasPhi) || !slices.Equal(p.action, p.was) {
		return errors.New("φ or π differs for the same inputs; " +
			"export the policy's mean, without sampling, dropout or batch statistics")
	}
	return nil
}

// search compares the model's Search with the scores of its Act and Psi.
func (p *probe) search() error {
	best, score, err := p.model.Search(p.obs, p.candidates, p.belief)
	if err != nil {
		return err
	}
	want, wantScore, err := p.scorer.Best(p.psi, p.dims.Ensemble, p.belief)
	if err != nil {
		return err
	}
	if off := math.Abs(float64(score - wantScore)); !(off <= probeError*max(1, math.Abs(float64(wantScore)))) {
		return fmt.Errorf("π and ψ of %d rows at once give candidate %d with score %g, of single rows candidate %d "+
			"with %g; export a model in which a row's result depends on that row alone",
			probeStates, best, score, want, wantScore)
	}
	return nil
}

// near reports whether two actions are equal except for rounding.
func near(a, b []float32) bool {
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > probeError {
			return false
		}
	}
	return true
}
