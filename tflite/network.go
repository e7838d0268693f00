package tflite

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/tflite/internal/kernel"
)

// Sentinels of a Network's methods. They are ready-made: the control thread
// formats no strings.
var (
	// ErrNotFinite: an input or a result is NaN or infinite.
	ErrNotFinite = errors.New("not finite")
	// ErrNoDirection: ‖z‖ is below 1e-9 and the model normalises z.
	ErrNoDirection = errors.New("tflite: z has no direction (‖z‖ < 1e-9): use a unit direction until labels give one")

	errObs    = fmt.Errorf("tflite: an element of the observation is %w: check the sensor", ErrNotFinite)
	errZ      = fmt.Errorf("tflite: an element of z is %w: check the posterior", ErrNotFinite)
	errAction = fmt.Errorf("tflite: an element of the action is %w", ErrNotFinite)
	errBelief = fmt.Errorf("tflite: the belief (mean, R⁻¹ or β) is %w or β is negative: check the posterior", ErrNotFinite)
	errPhi    = fmt.Errorf("tflite: φ is %w: the observation is far from the training data", ErrNotFinite)
	errPolicy = fmt.Errorf("tflite: the policy's action is %w: the observation is far from the training data", ErrNotFinite)
	errPsi    = fmt.Errorf("tflite: ψ is %w: the observation is far from the training data", ErrNotFinite)
)

// minNorm is the least ‖z‖ that has a direction.
const minNorm = 1e-9

// Network evaluates a bundle on the CPU, in float32. It implements Model.
type Network struct {
	weights *weights
	arch    Architecture
	one     scratch     // for one row: Phi, Act, Psi
	actor   shared      // what the actor makes of the observation
	f       []shared    // [E], what the members of F make of it
	obs     []float32   // [O], normalised
	action  kernel.Rows // [1, A]
	z       kernel.Rows // [1, d], as the networks take it
	latent  kernel.Rows // [1, d], B(s) or ψ
	wide    []float64   // [d], φ(s) or z in float64
	search  search
	grad    *gradient // made by the first Gradient
}

// Option changes how a Network works.
type Option func(*Network)

// Workers lets Search use up to n processors, the caller's included: n-1
// goroutines, which the first Search starts and Close ends. Without it, or with
// n below 2, a Network starts no goroutine. The number changes no result.
func Workers(n int) Option { return func(net *Network) { net.search.workers = max(n, 1) } }

// NewNetwork returns an evaluator of the bundle. Networks share the bundle's
// weights, each has its own scratch memory.
func (b *Bundle) NewNetwork(options ...Option) (*Network, error) {
	if b.weights == nil {
		return nil, errors.New("tflite: the bundle is empty: make it with Load, LoadDir or New")
	}
	d := b.Dims()
	n := &Network{
		weights: b.weights,
		arch:    b.Architecture,
		one:     newScratch(1, b.weights.widest),
		actor:   newShared(b.weights.actor),
		obs:     make([]float32, d.Obs),
		action:  kernel.NewRows(1, d.Action),
		z:       kernel.NewRows(1, d.Latent),
		latent:  kernel.NewRows(1, d.Latent),
		wide:    make([]float64, d.Latent),
	}
	for _, f := range b.weights.f {
		n.f = append(n.f, newShared(f))
	}
	n.search.workers = 1
	for _, o := range options {
		o(n)
	}
	return n, nil
}

// Close ends the goroutines of Workers. A Network that is closed works on
// without them.
func (n *Network) Close() { n.search.close() }

// Dims implements Model.
func (n *Network) Dims() Dims { return n.arch.dims() }

// Phi implements Model: φ(s) = (Cov B)⁻¹ B(s), B in float32 and the solve in
// float64. Without cov_b it returns ErrNoCovariance.
func (n *Network) Phi(dst []float64, obs []float32) error {
	if n.weights.cov == nil {
		return ErrNoCovariance
	}
	if err := n.Backward(dst, obs); err != nil {
		return err
	}
	copy(n.wide, dst)
	n.weights.cov.solve(n.wide)
	copy(dst, n.wide)
	for _, x := range dst {
		if x-x != 0 {
			return errPhi
		}
	}
	return nil
}

// Backward writes B(s), [d], which needs no cov_b.
func (n *Network) Backward(dst []float64, obs []float32) error {
	if err := length("φ", len(dst), n.arch.Latent); err != nil {
		return err
	}
	if err := n.takeObs(obs); err != nil {
		return err
	}
	n.one.backward(n.latent, n.weights.b, n.obs)
	back := n.latent.Row(0, n.arch.Latent)
	if !allFinite(back) {
		return errPhi
	}
	for i, x := range back {
		dst[i] = float64(x)
	}
	return nil
}

// Act implements Model.
func (n *Network) Act(dst, obs []float32, z []float64) error {
	if err := length("action", len(dst), n.arch.Action); err != nil {
		return err
	}
	if err := n.takeObs(obs); err != nil {
		return err
	}
	if err := length("z", len(z), n.arch.Latent); err != nil {
		return err
	}
	copy(n.wide, z)
	if err := n.takeZ(n.z.Row(0, n.arch.Latent)); err != nil {
		return err
	}
	n.one.share(n.actor, n.weights.actor, n.obs)
	n.one.twin(n.action, n.weights.actor, n.actor, kernel.Rows{}, n.z, 1)
	if !allFinite(n.action.Row(0, n.arch.Action)) { // tanh would hide an infinity
		return errPolicy
	}
	kernel.Tanh(n.action, 1, n.arch.Action)
	copy(dst, n.action.Data)
	return nil
}

// Psi writes the successor features ψ_m(s, a, z) of every ensemble member,
// [E, d]. z is as in Act.
func (n *Network) Psi(dst, obs, action []float32, z []float64) error {
	d := n.arch.Latent
	if err := length("ψ", len(dst), len(n.weights.f)*d); err != nil {
		return err
	}
	if err := length("action", len(action), n.arch.Action); err != nil {
		return err
	}
	if !allFinite(action) {
		return errAction
	}
	if err := n.takeObs(obs); err != nil {
		return err
	}
	if err := length("z", len(z), n.arch.Latent); err != nil {
		return err
	}
	copy(n.wide, z)
	if err := n.takeZ(n.z.Row(0, d)); err != nil {
		return err
	}
	copy(n.action.Data, action)
	for m, f := range n.weights.f {
		n.one.share(n.f[m], f, n.obs)
		n.one.twin(n.latent, f, n.f[m], n.action, n.z, 1)
		copy(dst[m*d:(m+1)*d], n.latent.Data)
	}
	if !allFinite(dst) {
		return errPsi
	}
	return nil
}

// takeObs checks an observation and normalises it into n.obs.
func (n *Network) takeObs(obs []float32) error {
	if err := length("observation", len(obs), n.arch.Obs); err != nil {
		return err
	}
	if !allFinite(obs) {
		return errObs
	}
	copy(n.obs, obs)
	for i, mean := range n.weights.mean {
		n.obs[i] = (obs[i] - mean) * n.weights.scale[i]
	}
	return nil
}

// takeZ checks the task embedding in n.wide and writes what the networks take.
func (n *Network) takeZ(dst []float32) error {
	scale := 1.0
	if n.arch.NormZ {
		size := blas64.Nrm2(blas64.Vector{N: len(n.wide), Inc: 1, Data: n.wide})
		if size < minNorm {
			return ErrNoDirection
		}
		scale = math.Sqrt(float64(len(n.wide))) / size
	}
	for i, x := range n.wide {
		dst[i] = float32(x * scale)
	}
	if !allFinite(dst) {
		return errZ
	}
	return nil
}

// length is a sentence for a slice of a wrong length, which no correct caller
// passes.
func length(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("tflite: %s has %d elements, the model's has %d", what, got, want)
	}
	return nil
}

func allFinite(x []float32) bool {
	for _, v := range x {
		if !isFinite(v) {
			return false
		}
	}
	return true
}
