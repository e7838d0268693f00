package tflite

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/tflite/internal/kernel"
)

// Errors of a Network's methods. They are allocated once: the control thread formats
// no strings.
var (
	// ErrNotFinite: an input or a result is NaN or infinite.
	ErrNotFinite = errors.New("not finite")
	// ErrNoDirection: ‖z‖ is below 1e-9 and the model normalises z.
	ErrNoDirection = errors.New("tflite: z has no direction (‖z‖ < 1e-9); use a unit direction before the first label")

	// ErrNoForward: the model has no F. Psi, Search and Gradient need it.
	ErrNoForward = errors.New("tflite: the model has no F, and so no ψ; use controller.strategy: thompson")

	errObs    = fmt.Errorf("tflite: an element of the observation is %w; check the sensor", ErrNotFinite)
	errZ      = fmt.Errorf("tflite: an element of z is %w; check the posterior", ErrNotFinite)
	errAction = fmt.Errorf("tflite: an element of the action is %w", ErrNotFinite)
	errBelief = fmt.Errorf("tflite: the belief (mean, R⁻¹ or β) is %w or β is negative; check the posterior",
		ErrNotFinite)
	errPhi    = notFiniteResult("φ")
	errPolicy = notFiniteResult("the policy's action")
	errPsi    = notFiniteResult("ψ")
	errState  = notFiniteResult("the encoder's output")
)

func notFiniteResult(what string) error {
	return fmt.Errorf("tflite: %s is %w; the observation may be far from the training data", what, ErrNotFinite)
}

// minNorm is the least ‖z‖ that has a direction.
const minNorm = 1e-9

// Network evaluates a bundle on the CPU, in float32. It implements Model.
type Network struct {
	weights *weights
	arch    Architecture
	one     scratch     // for one row: Phi, Act, Psi
	actor   obsTerms    // of the actor
	f       []obsTerms  // [E], of the members of F
	obs     []float32   // [O], normalised
	seen    views       // what the networks read of obs, or of the encoder
	encoded kernel.Rows // [1, L], the encoder's output
	action  kernel.Rows // [1, A]
	z       kernel.Rows // [1, d], normalised
	latent  kernel.Rows // [1, d], B(s) or ψ
	wide    []float64   // [d], φ(s) or z in float64
	search  search
	grad    *gradient // made by the first Gradient
}

// Option changes how a Network works.
type Option func(*Network)

// Workers lets Search use up to n processors: the caller's and n-1 goroutines, which
// the first Search starts and Close ends. Without it, or with n below 2, a Network
// starts no goroutine. The results do not depend on n.
func Workers(n int) Option { return func(net *Network) { net.search.team = kernel.NewTeam(n) } }

// NewNetwork returns an evaluator of the bundle. Networks share the bundle's weights;
// each has its own scratch memory.
func (b *Bundle) NewNetwork(options ...Option) (*Network, error) {
	if b.weights == nil {
		return nil, errors.New("tflite: the bundle is empty; make it with Load, LoadDir or New")
	}
	d := b.Dims()
	n := &Network{
		weights: b.weights,
		arch:    b.Architecture,
		one:     newScratch(1, b.weights, nil),
		actor:   newObsTerms(b.weights.actor),
		obs:     make([]float32, d.Obs),
		action:  kernel.NewRows(1, d.Action),
		z:       kernel.NewRows(1, d.Latent),
		latent:  kernel.NewRows(1, d.Latent),
		wide:    make([]float64, d.Latent),
	}
	n.seen = b.weights.reads.newViews(n.obs)
	if e := b.Architecture.Encoder; e != nil {
		n.encoded = kernel.NewRows(1, e.Size)
		n.seen.f = n.encoded.Row(0, e.Size)
		if e.Actor {
			n.seen.actor = n.seen.f
		}
	}
	for _, f := range b.weights.f {
		n.f = append(n.f, newObsTerms(f))
	}
	for _, o := range options {
		o(n)
	}
	return n, nil
}

// Close ends the goroutines of Workers and returns nil. A later Search starts them again.
func (n *Network) Close() error {
	n.search.team.Close()
	return nil
}

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

// Backward writes B(s), [d]. It needs no cov_b.
func (n *Network) Backward(dst []float64, obs []float32) error {
	if err := checkLength("φ", len(dst), n.arch.Latent); err != nil {
		return err
	}
	if err := n.setObs(obs); err != nil {
		return err
	}
	n.one.backward(n.latent, n.weights.b, n.seen.b)
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
	if err := checkLength("action", len(dst), n.arch.Action); err != nil {
		return err
	}
	if err := n.setState(obs); err != nil {
		return err
	}
	if err := checkLength("z", len(z), n.arch.Latent); err != nil {
		return err
	}
	if err := ProjectZ(n.z.Row(0, n.arch.Latent), z, n.arch.NormZ); err != nil {
		return err
	}
	n.one.observe(&n.actor, n.weights.actor, n.seen.actor)
	n.one.twoTower(n.action, n.weights.actor, &n.actor, kernel.Rows{}, n.z, 1)
	if !allFinite(n.action.Row(0, n.arch.Action)) { // tanh of infinity is finite
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
	if len(n.weights.f) == 0 {
		return ErrNoForward
	}
	if err := checkLength("ψ", len(dst), len(n.weights.f)*d); err != nil {
		return err
	}
	if err := checkLength("action", len(action), n.arch.Action); err != nil {
		return err
	}
	if !allFinite(action) {
		return errAction
	}
	if err := n.setState(obs); err != nil {
		return err
	}
	if err := checkLength("z", len(z), n.arch.Latent); err != nil {
		return err
	}
	if err := ProjectZ(n.z.Row(0, d), z, n.arch.NormZ); err != nil {
		return err
	}
	copy(n.action.Data, action)
	for m, f := range n.weights.f {
		n.one.observe(&n.f[m], f, n.seen.f)
		n.one.twoTower(n.latent, f, &n.f[m], n.action, n.z, 1)
		copy(dst[m*d:(m+1)*d], n.latent.Data)
	}
	if !allFinite(dst) {
		return errPsi
	}
	return nil
}

// setObs checks an observation and writes it, normalised, to n.obs.
func (n *Network) setObs(obs []float32) error {
	if err := checkLength("observation", len(obs), n.arch.Obs); err != nil {
		return err
	}
	if !allFinite(obs) {
		return errObs
	}
	copy(n.obs, obs)
	for i, mean := range n.weights.mean {
		n.obs[i] = (obs[i] - mean) * n.weights.scale[i]
	}
	n.weights.reads.fill(n.seen, n.obs)
	return nil
}

// setState is setObs, and evaluates the encoder: φ does not need it.
func (n *Network) setState(obs []float32) error {
	if err := n.setObs(obs); err != nil || n.weights.encoder == nil {
		return err
	}
	n.one.backward(n.encoded, *n.weights.encoder, n.obs)
	if !allFinite(n.seen.f) {
		return errState
	}
	return nil
}

// ProjectZ writes √d·z/‖z‖ to dst if normalise is set, and z otherwise.
func ProjectZ(dst []float32, z []float64, normalise bool) error {
	scale := 1.0
	if normalise {
		size := blas64.Nrm2(blas64.Vector{N: len(z), Inc: 1, Data: z})
		if size < minNorm {
			return ErrNoDirection
		}
		scale = math.Sqrt(float64(len(z))) / size
	}
	for i, x := range z {
		dst[i] = float32(x * scale)
	}
	if !allFinite(dst) {
		return errZ
	}
	return nil
}

// checkLength returns an error if a slice has the wrong length, a mistake of the
// caller.
func checkLength(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("tflite: %s has %d elements, want %d", what, got, want)
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
