package taskstore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"optibfm/controller"
)

// The formats of the version before. The body of a task was a belief or empty. The body of a belief was a head,
// the state and another checksum:
//
//	 0  magic     8 bytes "optibelf"
//	 8  version   uint32, 1 or 2
//	12  d         uint32
//	16  kind      uint32, the sum of 1 with the exact restore and 4 with a movable prior
//	20  nuisance  uint32
//	24  λ, ρ      float64 each
const (
	oldTask      = "optibfm task 1"
	oldBelief    = "optibfm belief 2"
	oldMagic     = "optibelf"
	oldHead      = 40
	exactKind    = 1
	movableKind  = 4
	unknownKinds = ^uint32(exactKind | movableKind)
)

// olderFix is the fix for files that only the version before can read.
const olderFix = "start a run from it with the version before this one, and save its task again"

// oldFiles are the files in run.state_dir of the version before.
var oldFiles = map[string]string{Last: "belief", Previous: "belief.old"}

// parseOldBelief returns the header of a belief of the version before, without the parts that its body has.
func parseOldBelief(line []byte) (h header, err error) {
	var old struct {
		Format    string    `json:"format"`
		ModelHash string    `json:"model_hash"`
		Basis     string    `json:"basis"`
		Offset    float64   `json:"offset"`
		Sigma     float64   `json:"sigma"`
		Estimate  bool      `json:"estimate"`
		Squares   float64   `json:"noise_squares"`
		Count     float64   `json:"noise_count"`
		Labels    *uint64   `json:"labels"`
		Program   string    `json:"program"`
		Robot     string    `json:"robot"`
		SavedAt   time.Time `json:"saved_at"`
	}
	if err := json.Unmarshal(line, &old); err != nil {
		return h, err
	}
	if old.Labels == nil {
		return h, fmt.Errorf("%w: no number of labels; %s", ErrVersion, olderFix)
	}
	noise := controller.NoiseState{Squares: old.Squares, Count: old.Count, Labels: *old.Labels}
	return header{
		Format: old.Format,
		Task: Task{
			ModelHash: old.ModelHash, Origin: Origin{At: old.SavedAt, Program: old.Program, Robot: old.Robot},
		},
		Belief: &beliefHeader{SavedBelief: SavedBelief{
			Basis: old.Basis, Offset: old.Offset, Sigma: old.Sigma, Estimate: old.Estimate, Noise: noise,
			SavedAt: old.SavedAt,
		}},
	}, nil
}

// convert returns the task of a file of the version before. That of a belief has no z.
func convert(h header, body []byte) (t Task, err error) {
	t = h.Task
	if h.Format == oldBelief {
		t.Belief, err = h.Belief.restoreOld(body)
		return t, err
	}
	if len(body) == 0 {
		return t, nil
	}
	line, b, err := parseHeader(body)
	switch {
	case err != nil:
		return t, fmt.Errorf("belief: %w", err)
	case b.Format != oldBelief || b.ModelHash != t.ModelHash:
		return t, fmt.Errorf("belief: %s of the model %.20q in a task of %.20q", b.Format, b.ModelHash, t.ModelHash)
	}
	t.Belief, err = b.Belief.restoreOld(body[line+1 : len(body)-checkLen])
	return t, err
}

func (h beliefHeader) restoreOld(body []byte) (*SavedBelief, error) {
	if len(body) < oldHead+checkLen || string(body[:len(oldMagic)]) != oldMagic {
		return nil, fmt.Errorf("belief: %d bytes of another kind", len(body))
	}
	kind := binary.LittleEndian.Uint32(body[16:])
	if kind&unknownKinds != 0 {
		return nil, fmt.Errorf("%w: belief: kind %d; %s", ErrVersion, kind, olderFix)
	}
	h.ExactRestore, h.MovablePrior = kind&exactKind != 0, kind&movableKind != 0
	h.Dim, h.Nuisance = int(binary.LittleEndian.Uint32(body[12:])), int(binary.LittleEndian.Uint32(body[20:]))
	h.Lambda = math.Float64frombits(binary.LittleEndian.Uint64(body[24:]))
	h.Rho = math.Float64frombits(binary.LittleEndian.Uint64(body[32:]))
	return h.restore(body[oldHead : len(body)-checkLen])
}
