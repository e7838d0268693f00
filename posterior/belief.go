package posterior

import (
	"errors"
	"fmt"
	"math"
)

// MaxDim is the largest dimension that New accepts. It keeps a damaged
// snapshot from asking for memory without end.
const MaxDim = 4096

// The largest and the smallest λ. Between them, and with labels bounded by
// MaxInformation, no computation here overflows or divides by zero.
const (
	MinLambda = 1e-50
	MaxLambda = 1e50
)

// MaxInformation bounds what one label may carry: weight, weight·‖φ‖² and
// weight·reward² each stay below it. Entries of V and b are sums of such
// terms, so more labels than any robot will ever see cannot overflow them.
const MaxInformation = 1e100

// ErrForgetsPrior says that ρ is so small that the cyclic restore would let
// the prior fall below half of λ before its turn comes: ρ^(d-1) < 0.5.
var ErrForgetsPrior = errors.New("the prior would decay below λ/2 between its restores")

// ErrNotPositiveDefinite says that a downdate would remove information that
// the belief does not have: V would no longer be positive definite, or be less
// than its prior.
var ErrNotPositiveDefinite = errors.New("more would be taken out of V than labels have put in")

// Belief is the linear-Gaussian belief over the task embedding z of dimension
// d: the upper Cholesky factor R of V = RᵀR and the vector b, so that
// ẑ = V⁻¹b. The zero value is only good for UnmarshalBinary and CopyFrom.
//
// A Belief is not safe for concurrent use, and neither are its reading
// methods: they share its scratch memory.
type Belief struct {
	dim    int
	lambda float64
	rho    float64
	exact  bool // the whole prior is restored in every Forget

	rootRho float64 // √ρ, the factor of R in Forget
	floor   float64 // λρ^(d-1), the least that an entry of D can be

	// state is the belief, flat: R | b | D | cursor | weight. The slices below
	// point into it.
	state  []float64
	r      []float64 // packed upper triangular, row-major, d(d+1)/2
	b      []float64 // d
	prior  []float64 // diagonal of D, d
	cursor *float64  // the direction that the next Forget restores, 0..d-1
	weight *float64  // Σ ρ^k w

	mean      []float64 // ẑ, where meanKnown
	meanKnown bool

	x     []float64    // scratch of one vector
	y     []float64    // scratch of another
	block [][4]float64 // scratch of four vectors, interleaved
}

// An Option changes how New builds a belief.
type Option func(*Belief)

// WithExactRestore makes every Forget bring the whole prior back to λ, which
// costs O(d³) instead of O(d²) and holds for every ρ in (0, 1].
func WithExactRestore() Option {
	return func(b *Belief) { b.exact = true }
}

// New returns the belief before the first label: V = λI, b = 0.
//
// dim is in [1, MaxDim], lambda in [MinLambda, MaxLambda]. rho in (0, 1] is
// what one elapsed period leaves of a label's weight. Where rho^(dim-1) < 0.5,
// New returns ErrForgetsPrior unless WithExactRestore is given.
func New(dim int, lambda, rho float64, opts ...Option) (*Belief, error) {
	b := &Belief{dim: dim, lambda: lambda, rho: rho}
	for _, opt := range opts {
		opt(b)
	}
	if err := b.init(); err != nil {
		return nil, fmt.Errorf("posterior.New: %w", err)
	}
	return b, nil
}

// init checks dim, lambda, rho and exact and builds everything else.
func (b *Belief) init() error {
	d := b.dim
	if d < 1 || d > MaxDim {
		return fmt.Errorf("bad dimension (%d): give one in [1, %d]", d, MaxDim)
	}
	if !(b.lambda >= MinLambda && b.lambda <= MaxLambda) {
		return fmt.Errorf("bad lambda (%g): give one in [%g, %g]", b.lambda, MinLambda, MaxLambda)
	}
	if !(b.rho > 0 && b.rho <= 1) {
		return fmt.Errorf("bad rho (%g): give one in (0, 1]", b.rho)
	}
	// The same products in the same order as Forget's, so that the bounds on D
	// hold exactly.
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
	b.floor = floor
	b.rootRho = math.Sqrt(b.rho)
	b.allocate()
	b.Reset()
	return nil
}

// allocate makes the state and the scratch and points the slices into them.
func (b *Belief) allocate() {
	d := b.dim
	n := d * (d + 1) / 2
	b.state = make([]float64, StateLen(d))
	b.r = b.state[:n:n]
	b.b = b.state[n : n+d : n+d]
	b.prior = b.state[n+d : n+2*d : n+2*d]
	b.cursor = &b.state[n+2*d]
	b.weight = &b.state[n+2*d+1]
	b.mean = make([]float64, d)
	b.x = make([]float64, d)
	b.y = make([]float64, d)
	b.block = make([][4]float64, d)
}

// Reset brings the belief back to what New returned.
func (b *Belief) Reset() {
	clear(b.state)
	root := math.Sqrt(b.lambda)
	for k, off := 0, 0; k < b.dim; k++ {
		b.r[off] = root
		b.prior[k] = b.lambda
		off += b.dim - k
	}
	b.meanKnown = false
}

// Dim returns d, the dimension of z.
func (b *Belief) Dim() int { return b.dim }

// Lambda returns λ, the prior's precision in every direction.
func (b *Belief) Lambda() float64 { return b.lambda }

// Rho returns ρ, what one elapsed period leaves of a label's weight.
func (b *Belief) Rho() float64 { return b.rho }

// ExactRestore tells whether Forget restores the whole prior every time.
func (b *Belief) ExactRestore() bool { return b.exact }

// Weight returns Σ ρ^k w, the present weight of all the labels together.
func (b *Belief) Weight() float64 { return *b.weight }

// Prior writes the diagonal of D, the prior's present share of V, into dst
// [d]. Without forgetting it is λ everywhere.
func (b *Belief) Prior(dst []float64) {
	b.checkLen("Prior", "dst", len(dst), b.dim)
	copy(dst, b.prior)
}

// CopyFrom makes b a copy of other, λ and ρ included. It panics if the
// dimensions differ, except that a zero Belief takes any.
func (b *Belief) CopyFrom(other *Belief) {
	if b.dim == 0 {
		b.dim = other.dim
		b.allocate()
	}
	b.checkLen("CopyFrom", "other", other.dim, b.dim)
	b.lambda, b.rho, b.exact = other.lambda, other.rho, other.exact
	b.rootRho, b.floor = other.rootRho, other.floor
	copy(b.state, other.state)
	copy(b.mean, other.mean)
	b.meanKnown = other.meanKnown
}

// Clone returns a copy that shares nothing with b.
func (b *Belief) Clone() *Belief {
	c := new(Belief)
	c.CopyFrom(b)
	return c
}

// checkLen panics where a slice has a length that only a programmer can have
// chosen.
func (b *Belief) checkLen(method, name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("posterior: %s: length of %s is %d, not %d", method, name, got, want))
	}
}
