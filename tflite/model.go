package tflite

// Dims are the sizes of a model.
type Dims struct {
	Obs      int // elements of an observation
	Action   int // elements of an action
	Latent   int // d: elements of z, φ and ψ
	Ensemble int // members of the successor-feature ensemble
}

// Belief is the part of the posterior that Search needs, as plain numbers: this
// package does not import posterior.
type Belief struct {
	Mean []float32 // ẑ, [d]
	InvR []float32 // R⁻¹, [d, d] row-major, upper triangular; V = RᵀR
	Beta float32   // weight of the uncertainty bonus, >= 0
}

// Validate returns an error unless b is a finite belief of d elements.
func (b Belief) Validate(d int) error {
	if err := checkLength("the belief's mean", len(b.Mean), d); err != nil {
		return err
	}
	if err := checkLength("the belief's R⁻¹", len(b.InvR), d*d); err != nil {
		return err
	}
	if !allFinite(b.Mean) || !allFinite(b.InvR) || !isFinite(b.Beta) || b.Beta < 0 {
		return errBelief
	}
	return nil
}

// Model evaluates a behaviour foundation model. One goroutine uses an instance at a
// time: its methods share scratch memory. After the first call of a kind and size no
// method allocates. Slices of a wrong length and non-finite numbers are errors, and dst
// is then unspecified.
type Model interface {
	Dims() Dims
	// Phi writes the features φ(s) of an observation, [d].
	Phi(dst []float64, obs []float32) error
	// Act writes the policy's mean action π_z(s), [A], each in [-1, 1].
	// z has length d and any positive norm. Act normalises it if the model
	// needs that.
	Act(dst, obs []float32, z []float64) error
	// Search evaluates the n candidates, [n, d] row-major, of any positive
	// norm, at one observation: for each z the action π_z(s), the successor
	// features ψ_m(s, π_z(s), z) of every ensemble member m, and the score
	//
	//	min over m of  ψ_mᵀẑ + β ‖R⁻ᵀψ_m‖
	//
	// It returns the index of the highest score (the lowest index where
	// scores tie) and that score.
	Search(obs, candidates []float32, belief Belief) (best int, score float32, err error)
}

// Evaluator is a Model that also gives the successor features of an action.
type Evaluator interface {
	Model
	// Psi writes ψ_m(s, a, z) of every ensemble member m, [E, d]. z is as in Act.
	Psi(dst, obs, action []float32, z []float64) error
}

// Differentiable is a Model with the gradient of its score.
type Differentiable interface {
	Model
	// Gradient writes the gradient of Search's score with respect to a candidate
	// z, [d], of any positive norm, and returns the score. At a kink of the
	// score (ReLU, the least of the members) it is a one-sided gradient.
	Gradient(dz, obs, z []float32, belief Belief) (score float32, err error)
}
