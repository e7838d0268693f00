package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/safefile"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

// Check prints the largest relative errors of a model on the test vectors of an .npz
// file. It fails if one of them is above the tolerance. A tolerance of 0 stands for 1e-4, with
// float16 weights for 1e-2: other observations than those of the import may change more than
// MaxRounding.
func Check(w io.Writer, name, vectors string, tolerance float64) error {
	m, err := setup.OpenModel(name)
	if err != nil {
		return err
	}
	if tolerance == 0 {
		tolerance = 1e-4
		if b, ok := m.(setup.NativeModel); ok && b.Float16 {
			tolerance = 2 * MaxRounding
		}
	}
	archive, err := npz.ReadFile(vectors)
	if err != nil {
		return err
	}
	e, err := setup.CheckModel(m, archive)
	if err != nil {
		return fmt.Errorf("%s: %w", vectors, err)
	}
	fmt.Fprintf(w, "phi     %.2e\naction  %.2e\npsi     %.2e\ncases   %d, tolerance %.2e\n",
		e.Phi, e.Action, e.Psi, e.Cases, tolerance)
	if !(e.Worst() <= tolerance) {
		return fmt.Errorf("%s: the largest relative error is above the tolerance (%.2e, %.2e): "+
			"the export or the architecture differs", name, e.Worst(), tolerance)
	}
	return nil
}

// Point is an observation, a task and an action, each a JSON array or @FILE with one.
type Point struct {
	Obs    string // [O]
	Z      string // [d], of any norm
	Action string // [A]; "" for the policy's action
}

// Evaluation is the result of Evaluate.
type Evaluation struct {
	Phi    []float64   `json:"phi,omitempty"` // φ(s), [d]; nil where the model has no Cov B
	Action []float32   `json:"action"`        // π_z(s) or the given action, [A]
	Psi    [][]float32 `json:"psi"`           // ψ of each ensemble member, [E][d]
}

// Evaluate returns φ, π and ψ of a model at a point.
func Evaluate(name string, p Point) (Evaluation, error) {
	m, err := setup.OpenModel(name)
	if err != nil {
		return Evaluation{}, err
	}
	var e Evaluation
	var obs []float32
	var z []float64
	err = errors.Join(readArray("obs", p.Obs, &obs), readArray("z", p.Z, &z), readArray("action", p.Action, &e.Action))
	if err != nil {
		return Evaluation{}, err
	}
	return e, e.fill(m, obs, z)
}

// maxArray is the largest file of an array, bytes.
const maxArray = 16 << 20

func readArray[T float32 | float64](flag, text string, into *[]T) error {
	if text == "" {
		return nil
	}
	raw := []byte(text)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if raw, err = safefile.Read(path, maxArray); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("--%s: not an array of numbers (%w); example: '[0.5, -1]'", flag, err)
	}
	return nil
}

func (e *Evaluation) fill(m setup.Model, obs []float32, z []float64) (err error) {
	n, err := m.Evaluator(configs.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.CloseModels(n)) }()
	d := n.Dims()
	e.Phi = make([]float64, d.Latent)
	switch err := n.Phi(e.Phi, obs); {
	case errors.Is(err, tflite.ErrNoCovariance):
		e.Phi = nil
	case err != nil:
		return err
	}
	if e.Action == nil {
		e.Action = make([]float32, d.Action)
		if err := n.Act(e.Action, obs, z); err != nil {
			return err
		}
	}
	if d.Ensemble == 0 {
		return nil
	}
	psi := make([]float32, d.Ensemble*d.Latent)
	if err := n.Psi(psi, obs, e.Action, z); err != nil {
		return err
	}
	e.Psi = slices.Collect(slices.Chunk(psi, d.Latent))
	return nil
}
