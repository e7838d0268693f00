package beliefstore

import (
	"fmt"
	"time"

	"optibfm/internal/sealed"
	"optibfm/posterior"
)

// ErrDamaged is wrapped by the error for a file that is not a complete record.
var ErrDamaged = sealed.ErrDamaged

// Record is a belief and its origin.
type Record struct {
	ModelHash string            // of the bundle that computed the features
	Sigma     float64           // σ: a label has the weight 1/σ²
	Program   string            // version of the writer
	Robot     string            // name
	SavedAt   time.Time         // wall clock
	Belief    *posterior.Belief // with its λ, its ρ and the age of its labels
}

// Labels returns the number of labels: the sum of their confidences, less what was forgotten.
func (r Record) Labels() float64 { return r.Belief.Weight() * r.Sigma * r.Sigma }

// header is the first line of a file.
type header struct {
	Format    string    `json:"format"`
	ModelHash string    `json:"model_hash"`
	Sigma     float64   `json:"sigma"`
	Program   string    `json:"program"`
	Robot     string    `json:"robot"`
	SavedAt   time.Time `json:"saved_at"`
}

const format = "optibfm belief 1"

// AppendBinary appends the record's bytes, those of its file.
func (r Record) AppendBinary(dst []byte) ([]byte, error) {
	h := header{format, r.ModelHash, r.Sigma, r.Program, r.Robot, r.SavedAt}
	return sealed.Append(dst, h, r.Belief.AppendBinary)
}

// Parse is the inverse of AppendBinary. Its errors wrap ErrDamaged.
func Parse(data []byte) (Record, error) {
	var h header
	body, err := sealed.Parse(data, format, &h)
	if err != nil {
		return Record{}, err
	}
	belief := new(posterior.Belief)
	if err := belief.UnmarshalBinary(body); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return Record{h.ModelHash, h.Sigma, h.Program, h.Robot, h.SavedAt, belief}, nil
}
