package inference

import (
	"errors"
	"fmt"
	"math"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/setup"
	"optibfm/posterior"
)

// Options are the parameters of an inference.
type Options struct {
	Model  string  // bundle that maps observations to features; "" for a file with features
	Lambda float64 // prior precision, above 0
	Rho    float64 // weight that a label keeps per period, in (0, 1]
}

// Result is an inference. DGap and Norm have one element per query.
type Result struct {
	Z      []float64 `json:"z"`              // task embedding, [d]
	LogDet float64   `json:"logdet"`         // log det V
	DGap   []float64 `json:"dgap,omitempty"` // log(1 + ‖q‖²_{V⁻¹}), nats
	Norm   []float64 `json:"norm,omitempty"` // ‖q‖_{V⁻¹}

	Warnings []string `json:"warnings,omitempty"` // about channels whose scale is not that of the training data
}

// FromFile infers the task from the labels of an .npz file: reward [n], and obs [n, o]
// or phi [n, d]. The array query [m, d] is optional.
func FromFile(path string, o Options) (Result, error) {
	result, err := fromFile(path, o)
	if err != nil {
		return Result{}, fmt.Errorf("infer: %s: %w", path, err)
	}
	return result, nil
}

func fromFile(path string, o Options) (Result, error) {
	if !(o.Rho > 0 && o.Rho <= 1) {
		return Result{}, fmt.Errorf("--rho is out of range (%g); give a number above 0 and at most 1", o.Rho)
	}
	archive, err := npz.ReadFile(path)
	if err != nil {
		return Result{}, err
	}
	phi, d, warnings, err := readFeatures(archive, o.Model)
	if err != nil {
		return Result{}, err
	}
	reward, err := archive.Shaped("reward", len(phi)/d)
	if err != nil {
		return Result{}, err
	}
	belief, err := learn(phi, reward.Float64s(), d, o)
	if err != nil {
		return Result{}, err
	}
	result := Result{Z: make([]float64, d), LogDet: belief.LogDet(), Warnings: warnings}
	belief.Mean(result.Z)
	return result, result.addQueries(belief, archive)
}

// readFeatures returns the features of the labels, [n, d] row-major, and warnings about
// observations.
func readFeatures(archive npz.Archive, model string) (phi []float64, d int, warnings []string, err error) {
	if model != "" {
		return computeFeatures(archive, model)
	}
	if _, ok := archive["phi"]; !ok {
		if _, ok := archive["obs"]; ok {
			return nil, 0, nil, errors.New("it has obs but not phi; give the model with --model")
		}
	}
	array, err := archive.Shaped("phi", -1, -1)
	if err != nil {
		return nil, 0, nil, err
	}
	d = array.Shape()[1]
	if d == 0 {
		return nil, 0, nil, errors.New("phi has rows of 0 features; give at least 1")
	}
	return array.Float64s(), d, nil, nil
}

// computeFeatures evaluates φ at the observations of an archive.
func computeFeatures(archive npz.Archive, model string) (phi []float64, d int, warnings []string, err error) {
	opened, err := setup.OpenModel(model)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("--model %s: %w", model, err)
	}
	network, err := opened.Evaluator(configs.Default())
	if err != nil {
		return nil, 0, nil, fmt.Errorf("--model %s: %w", model, err)
	}
	defer func() { err = errors.Join(err, setup.CloseModels(network)) }()
	o, d := network.Dims().Obs, network.Dims().Latent
	array, err := archive.Shaped("obs", -1, o)
	if err != nil {
		return nil, 0, nil, err
	}
	obs, err := array.Float32s()
	if err != nil {
		return nil, 0, nil, err
	}
	if native, ok := opened.(setup.NativeModel); ok {
		warnings = native.CheckScale(obs)
	}
	phi = make([]float64, len(obs)/o*d)
	for i := range len(obs) / o {
		if err := network.Phi(phi[i*d:(i+1)*d], obs[i*o:(i+1)*o]); err != nil {
			return nil, 0, nil, fmt.Errorf("obs row %d: %w", i, err)
		}
	}
	return phi, d, warnings, nil
}

// learn returns the belief after all rows. Each row enters with its final weight, in
// one batch: the prior is then exact for any ρ.
func learn(phi, reward []float64, d int, o Options) (*posterior.Belief, error) {
	belief, err := posterior.New(d, o.Lambda, 1)
	if err != nil {
		return nil, err
	}
	n := len(reward)
	weight := make([]float64, n)
	first := 0 // the weights of earlier rows vanish in float64
	for i := range weight {
		weight[i] = math.Pow(o.Rho, float64(n-1-i))
		if weight[i] < 1e-300 {
			first = i + 1
		}
	}
	return belief, belief.UpdateBatch(phi[first*d:], reward[first:], weight[first:])
}

// addQueries fills DGap and Norm from the array query, if the archive has one.
func (r *Result) addQueries(belief *posterior.Belief, archive npz.Archive) error {
	if _, ok := archive["query"]; !ok {
		return nil
	}
	d := belief.Dim()
	array, err := archive.Shaped("query", -1, d)
	if err != nil {
		return err
	}
	query := array.Float64s()
	for i := range len(query) / d {
		normSq := belief.NormSq(query[i*d : (i+1)*d])
		if math.IsNaN(normSq) || math.IsInf(normSq, 0) {
			return fmt.Errorf("query row %d is not finite or too large; give finite features", i)
		}
		r.DGap = append(r.DGap, posterior.DGap(normSq, 1))
		r.Norm = append(r.Norm, math.Sqrt(normSq))
	}
	return nil
}
