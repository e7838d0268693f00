package eval

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"optibfm/tflite"
)

// diagnosis is the planner's model in trials of a run with diagnose_every. It compares each search
// with z_r, the z that explains all labelled states of the task best. It does not change what the
// planner chooses.
type diagnosis struct {
	tflite.Model
	task []float32 // z_r, [d]

	searched  bool    // the fields below are those of a search
	distance  float64 // ‖z_r - ẑ‖_V/β; z_r is in the confidence set if it is at most 1
	taskScore float64 // of z_r
	planScore float64 // of the chosen candidate
}

// diagnoses reports whether the trial's plans are compared with z_r.
func (t Trial) diagnoses() bool { return t.diagnoseEvery > 0 && searches(t.Method) }

// searches reports whether a method scores candidates.
func searches(method string) bool { return method == UCB || method == UCBEp || method == UCBSphere }

// diagnose wraps the planner's model.
func (r *trialRun) diagnose(model tflite.Model) (*diagnosis, error) {
	z, err := r.library.explain(r.trial)
	if err != nil {
		return nil, err
	}
	if d := model.Dims().Latent; len(z) != d {
		return nil, fmt.Errorf("eval: diagnosis: z of %s has %d elements, want %d", r.trial.Task, len(z), d)
	}
	return &diagnosis{Model: model, task: narrowed(z)}, nil
}

func narrowed(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// Search implements tflite.Model.
func (g *diagnosis) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	g.searched = false
	best, score, err = g.Model.Search(obs, candidates, belief)
	if err != nil || belief.Beta == 0 { // β = 0 has no confidence set
		return best, score, err
	}
	_, task, err := g.Model.Search(obs, g.task, belief)
	if err != nil {
		return best, score, err
	}
	length, err := lengthInV(g.task, belief)
	if err != nil {
		return best, score, err
	}
	g.searched, g.distance = true, length/float64(belief.Beta)
	g.taskScore, g.planScore = float64(task), float64(score)
	return best, score, nil
}

// lengthInV returns ‖z - ẑ‖_V, V⁻¹ = MMᵀ: the length of M⁻¹(z - ẑ), with M = belief.InvR.
func lengthInV(z []float32, belief tflite.Belief) (float64, error) {
	d := len(z)
	factor, diff := mat.NewDense(d, d, nil), mat.NewVecDense(d, nil)
	for i := range d {
		diff.SetVec(i, float64(z[i])-float64(belief.Mean[i]))
		for j := range d {
			factor.Set(i, j, float64(belief.InvR[i*d+j]))
		}
	}
	var solved mat.VecDense
	if err := solved.SolveVec(factor, diff); err != nil {
		return 0, fmt.Errorf("eval: diagnosis: the belief's factor: %w", err)
	}
	return mat.Norm(&solved, 2), nil
}
