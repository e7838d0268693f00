package beliefstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"optibfm/controller"
	"optibfm/posterior"
)

// ErrDamaged is wrapped by the error for a file that is not a complete record.
var ErrDamaged = errors.New("damaged belief record")

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
	Program   string    `json:"program"`
	Robot     string    `json:"robot"`
	SavedAt   time.Time `json:"saved_at"`
}

const (
	format = "optibfm belief 2"

	// firstFormat has no basis, offset and estimated noise.
	firstFormat = "optibfm belief 1"

	checkLen  = 8
	maxHeader = 64 << 10 // bytes of the first line
)

// appendTo appends the record's bytes.
func (r Record) appendTo(dst []byte) ([]byte, error) {
	line, err := json.Marshal(header{
		format, r.ModelHash, r.Basis, r.Offset, r.Sigma, r.Estimate, r.Noise.Squares, r.Noise.Count,
		r.Program, r.Robot, r.SavedAt,
	})
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(append(dst, line...), '\n')
	if dst, err = r.Belief.AppendBinary(dst); err != nil {
		return dst, err
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

// parse is the inverse of appendTo. Its errors wrap ErrDamaged.
func parse(data []byte) (Record, error) {
	r, err := read(data)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}

func read(data []byte) (Record, error) {
	end := bytes.IndexByte(data[:min(len(data), maxHeader)], '\n')
	if end < 0 || len(data) < end+1+checkLen {
		return Record{}, fmt.Errorf("incomplete header (%d bytes)", len(data))
	}
	var h header
	if err := json.Unmarshal(data[:end], &h); err != nil {
		return Record{}, fmt.Errorf("header: %w", err)
	}
	if h.Format != format && h.Format != firstFormat {
		return Record{}, fmt.Errorf("format %.40q, want %q; use the program version that wrote it", h.Format, format)
	}
	body := data[:len(data)-checkLen]
	if got, want := xxhash.Sum64(body), binary.LittleEndian.Uint64(data[len(body):]); got != want {
		return Record{}, fmt.Errorf("wrong checksum (%#x, want %#x)", got, want)
	}
	belief := new(posterior.Belief)
	if err := belief.UnmarshalBinary(body[end+1:]); err != nil {
		return Record{}, err
	}
	return Record{
		h.ModelHash, h.Basis, h.Offset, h.Sigma, h.Estimate,
		controller.NoiseState{Squares: h.Squares, Count: h.Count}, h.Program, h.Robot, h.SavedAt, belief,
	}, nil
}
