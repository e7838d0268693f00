package posterior

import (
	"errors"
	"fmt"
	"math"
)

// MaxDim is the largest dimension that New accepts.
const MaxDim = 4096

// The largest and the smallest λ. Between them, and with labels bounded by
// MaxInformation, no computation here overflows or divides by zero.
const (
	MinLambda = 1e-50
	MaxLambda = 1e50
)

// MaxInformation bounds weight, weight·‖φ‖² and weight·reward² of a label. Entries of
// V and b are sums of such terms: no practical number of labels overflows them.
const MaxInformation = 1e100

// ErrForgetsPrior: ρ is so small that the prior would fall below λ/2 between its
// cyclic restores, ρ^(d-1) < 0.5.
var ErrForgetsPrior = errors.New("the prior would decay below λ/2 between its restores")

// ErrNotPositiveDefinite: a downdate would remove information that the belief does
// not have. V would not be positive definite, or less than its prior.
var ErrNotPositiveDefinite = errors.New("downdate exceeds the information of the labels")

// Belief is the linear-Gaussian belief over the task embedding z of dimension
// d: the upper Cholesky factor R of V = RᵀR and the vector b, so that
// ẑ = V⁻¹b. The zero value supports only CopyFrom.
//
// A Belief is not safe for concurrent use, not even its reading methods: they
// share scratch memory.
type Belief struct {
	dim      int
	lambda   float64
	rho      float64
	exact    bool    // Forget restores the whole prior
	nuisance int     // of WithNuisance: the leading dimensions that are not of the task
	slack    float64 // the prior is within [λ/slack, λ·slack]: 1, or PriorRange with WithMovablePrior
	target   float64 // precision to which Forget and TrackPrior restore the prior

	rootRho float64 // √ρ, the factor of R in Forget
	floor   float64 // the smallest possible entry of D: λρ^(d-1) for a prior of λ

	// state is the flat belief: R | b | D | cursor | weight. The fields below
	// point into it.
	state  []float64
	r      []float64 // packed upper triangular, row-major, d(d+1)/2
	task   []float64 // the trailing block of r that belongs to the task
	b      []float64 // d
	prior  []float64 // diagonal of D, d
	cursor *float64  // the direction that the next Forget restores, 0..d-1
	weight *float64  // Σ ρ^k w

	mean      []float64 // ẑ if meanKnown
	meanKnown bool

	x     []float64    // scratch of one vector
	y     []float64    // scratch of another
	block [][4]float64 // scratch of four vectors, interleaved
}

// An Option changes the belief of New.
type Option func(*Belief)

// WithExactRestore makes every Forget restore the whole prior to λ. It costs O(d³)
// instead of O(d²) and supports every ρ in (0, 1].
func WithExactRestore() Option {
	return func(b *Belief) { b.exact = true }
}

// PriorRange bounds SetPrior to [λ/PriorRange, λ·PriorRange].
const PriorRange = 100

// WithMovablePrior permits SetPrior.
func WithMovablePrior() Option {
	return func(b *Belief) { b.slack = PriorRange }
}

// WithNuisance makes the first n dimensions those of effects that are not of the task, such
// as the zero of the operator's scale. Samples, bounds, InvR, LogDet and gains are then those
// of the task, the other dimensions, with the first n integrated out. n is in [0, dim-1].
func WithNuisance(n int) Option {
	return func(b *Belief) { b.nuisance = n }
}

// New returns the belief before the first label: V = λI, b = 0.
//
// dim is in [1, MaxDim], lambda in [MinLambda, MaxLambda]. rho in (0, 1] is the
// factor of a label's weight for each period. If rho^(dim-1) < 0.5, New returns
// ErrForgetsPrior without WithExactRestore.
func New(dim int, lambda, rho float64, opts ...Option) (*Belief, error) {
	b := &Belief{dim: dim, lambda: lambda, rho: rho, slack: 1}
	for _, opt := range opts {
		opt(b)
	}
	if err := b.init(); err != nil {
		return nil, fmt.Errorf("posterior.New: %w", err)
	}
	return b, nil
}

// init checks dim, lambda, rho and exact, and sets all other fields.
func (b *Belief) init() error {
	d := b.dim
	if b.nuisance < 0 || d <= b.nuisance || d > MaxDim {
		return fmt.Errorf("bad dimension (%d, %d of nuisance): give one in [%d, %d]", d, b.nuisance,
			1+max(b.nuisance, 0), MaxDim)
	}
	if !(b.lambda >= MinLambda && b.lambda <= MaxLambda) {
		return fmt.Errorf("bad lambda (%g): give one in [%g, %g]", b.lambda, MinLambda, MaxLambda)
	}
	if !(b.rho > 0 && b.rho <= 1) {
		return fmt.Errorf("bad rho (%g): give one in (0, 1]", b.rho)
	}
	// These products have the order of Forget, so that the bounds of D are exact.
	decay, floor := 1.0, b.lambda
	for range d - 1 {
		decay = float64(decay * b.rho)
		floor = float64(floor * b.rho)
	}
	if b.exact {
		floor = b.lambda
	} else if decay < 0.5 {
		return fmt.Errorf("%w (rho %g to the power of %d is %.3g): raise rho or choose the exact restore",
			ErrForgetsPrior, b.rho, d-1, decay)
	}
	b.floor = float64(floor / b.slack)
	b.target = b.lambda
	b.rootRho = math.Sqrt(b.rho)
	b.allocate()
	b.Reset()
	return nil
}

// allocate allocates the state and the scratch memory and sets the slices.
func (b *Belief) allocate() {
	d := b.dim
	n := d * (d + 1) / 2
	b.state = make([]float64, StateLen(d))
	b.r = b.state[:n:n]
	b.task = b.r[rowStart(d, b.nuisance):]
	b.b = b.state[n : n+d : n+d]
	b.prior = b.state[n+d : n+2*d : n+2*d]
	b.cursor = &b.state[n+2*d]
	b.weight = &b.state[n+2*d+1]
	b.mean = make([]float64, d)
	b.x = make([]float64, d)
	b.y = make([]float64, d)
	b.block = make([][4]float64, d)
}

// Reset restores the belief that New returned.
func (b *Belief) Reset() {
	b.target = b.lambda
	b.Restart()
}

// Restart removes all labels and sets the prior to the precision of SetPrior at once. O(d²).
func (b *Belief) Restart() {
	clear(b.state)
	root := math.Sqrt(b.target)
	for k, off := 0, 0; k < b.dim; k++ {
		b.r[off] = root
		b.prior[k] = b.target
		off += b.dim - k
	}
	b.meanKnown = false
}

// Discount multiplies the weights of all labels, and the prior, by a factor in (0, 1]: the mean
// stays, and variances grow by 1/factor. It is for beliefs that make predictions: Restore may
// refuse the state, because of its prior. O(d²).
func (b *Belief) Discount(factor float64) {
	scale(b.r, math.Sqrt(factor))
	scale(b.b, factor)
	scale(b.prior, factor)
	*b.weight = float64(*b.weight * factor)
	b.meanKnown = false
}

// Dim returns d, the number of features of a label.
func (b *Belief) Dim() int { return b.dim }

// TaskDim returns the dimension of z: Dim less that of WithNuisance.
func (b *Belief) TaskDim() int { return b.dim - b.nuisance }

// Lambda returns λ, the precision of the prior in every direction.
func (b *Belief) Lambda() float64 { return b.lambda }

// Rho returns ρ, the factor of a label's weight for each period.
func (b *Belief) Rho() float64 { return b.rho }

// ExactRestore reports whether each Forget restores the whole prior.
func (b *Belief) ExactRestore() bool { return b.exact }

// MovablePrior reports whether SetPrior has an effect.
func (b *Belief) MovablePrior() bool { return b.slack > 1 }

// Weight returns Σ ρ^k w, the total current weight of all labels.
func (b *Belief) Weight() float64 { return *b.weight }

// Prior writes the diagonal of D, the present part of the prior in V, into dst
// [d]. Without forgetting every entry is λ.
func (b *Belief) Prior(dst []float64) {
	b.checkLen("Prior", "dst", len(dst), b.dim)
	copy(dst, b.prior)
}

// CopyFrom makes b a copy of other, including λ and ρ. It panics if the dimensions
// differ and b is not the zero Belief.
func (b *Belief) CopyFrom(other *Belief) {
	if b.dim == 0 {
		b.dim, b.nuisance, b.slack = other.dim, other.nuisance, other.slack
		b.allocate()
	}
	b.checkLen("CopyFrom", "other", other.dim, b.dim)
	b.checkLen("CopyFrom", "other's task", other.TaskDim(), b.TaskDim())
	b.lambda, b.rho, b.exact, b.target = other.lambda, other.rho, other.exact, other.target
	b.rootRho, b.floor = other.rootRho, other.floor
	copy(b.state, other.state)
	copy(b.mean, other.mean)
	b.meanKnown = other.meanKnown
}

// StopForgetting sets ρ = 1: Forget does nothing from now on, and TrackPrior keeps the prior.
func (b *Belief) StopForgetting() { b.rho, b.rootRho, b.exact = 1, 1, false }

// Clone returns a copy that shares nothing with b.
func (b *Belief) Clone() *Belief {
	c := new(Belief)
	c.CopyFrom(b)
	return c
}

// checkLen panics for a wrong length of a slice, which is an error of the
// programmer.
func (b *Belief) checkLen(method, name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("posterior: %s: length of %s is %d, want %d", method, name, got, want))
	}
}
