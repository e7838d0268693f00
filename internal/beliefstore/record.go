package beliefstore

import (
	"fmt"
	"math"
	"time"

	"optibfm/controller"
	"optibfm/internal/sealed"
	"optibfm/posterior"
)

// ErrDamaged is wrapped by the error for a file that is not a complete record.
var ErrDamaged = sealed.ErrDamaged

// Record is a belief and its origin.
type Record struct {
	ModelHash string  // of the bundle that computed the features
	Basis     string  // controller.Basis.Hash of its coordinates; "" for those of z
	Offset    float64 // controller.Config.Offset
	Sigma     float64 // σ: a label has the weight 1/σ², or with Estimate the first guess
	Estimate  bool    // σ is estimated: a label has the weight 1
	Noise     controller.NoiseState
	Program   string            // version of the writer
	Robot     string            // name
	SavedAt   time.Time         // wall clock
	Belief    *posterior.Belief // with its λ, its ρ and the age of its labels
}

// Labels returns the number of labels in the belief.
func (r Record) Labels() uint64 { return r.Noise.Labels }

// estimateLabels returns about the number of labels in a belief that an earlier program saved without it: the sum of
// their confidences, less what was forgotten.
func (r Record) estimateLabels() uint64 {
	confidence := r.Belief.Weight()
	if !r.Estimate {
		confidence *= r.Sigma * r.Sigma
	}
	if !(confidence > 0) {
		return 0
	}
	return uint64(math.Round(min(max(confidence, 1), 1e15)))
}

// header is the first line of a file.
type header struct {
	Format    string    `json:"format"`
	ModelHash string    `json:"model_hash"`
	Basis     string    `json:"basis,omitempty"`
	Offset    float64   `json:"offset,omitempty"`
	Sigma     float64   `json:"sigma"`
	Estimate  bool      `json:"estimate,omitempty"`
	Squares   float64   `json:"noise_squares,omitempty"`
	Count     float64   `json:"noise_count,omitempty"`
	Labels    *uint64   `json:"labels,omitempty"` // in the belief; nil in files of earlier programs
	Program   string    `json:"program"`
	Robot     string    `json:"robot"`
	SavedAt   time.Time `json:"saved_at"`
}

const (
	format = "optibfm belief 2"

	// firstFormat has no basis, offset and estimated noise.
	firstFormat = "optibfm belief 1"
)

// AppendBinary appends the record's bytes, those of its file.
func (r Record) AppendBinary(dst []byte) ([]byte, error) {
	h := header{
		format, r.ModelHash, r.Basis, r.Offset, r.Sigma, r.Estimate, r.Noise.Squares, r.Noise.Count,
		&r.Noise.Labels, r.Program, r.Robot, r.SavedAt,
	}
	return sealed.Append(dst, h, r.Belief.AppendBinary)
}

// Parse is the inverse of AppendBinary. Its errors wrap ErrDamaged.
func Parse(data []byte) (Record, error) {
	var h header
	body, err := sealed.Parse(data, &h, format, firstFormat)
	if err != nil {
		return Record{}, err
	}
	belief := new(posterior.Belief)
	if err := belief.UnmarshalBinary(body); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r := Record{
		h.ModelHash, h.Basis, h.Offset, h.Sigma, h.Estimate,
		controller.NoiseState{Squares: h.Squares, Count: h.Count}, h.Program, h.Robot, h.SavedAt, belief,
	}
	if h.Labels == nil {
		r.Noise.Labels = r.estimateLabels()
	} else {
		r.Noise.Labels = *h.Labels
	}
	return r, nil
}
