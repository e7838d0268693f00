package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/setup"
	"optibfm/posterior"
)

// inferOptions are the flags of infer.
type inferOptions struct {
	model  string  // bundle, "" for a file of features
	lambda float64 // the prior
	rho    float64 // weight of a row after one period
}

func newInferCommand() *cobra.Command {
	var opts inferOptions
	cmd := &cobra.Command{
		Use:   "infer LABELS.npz",
		Short: "Infer the task from labelled observations or features",
		Long: `Infer the task from labelled observations or features.

LABELS.npz holds reward [n] and, with --model, obs [n, o]; without, phi [n, d].
It may hold query [m, d], features whose uncertainty is wanted. Standard output
gets JSON:

  z       the task embedding, V⁻¹ Σ w r φ with V = λI + Σ w φφᵀ
  logdet  log det V
  dgap    for each row of query what its label would teach, log(1 + ‖q‖²), nats
  norm    for each row of query ‖q‖ = √(qᵀV⁻¹q)

With --rho below 1 the rows are in the order of time, one period each: the last
one weighs w = 1, the one before ρ, then ρ², ... The prior does not decay.`,
		Example: `  optibfm infer labels.npz --model embedded:rover
  optibfm infer features.npz --lambda 0.1 --rho 0.999`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return infer(cmd.OutOrStdout(), args[0], opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.model, "model", "", "model bundle: a folder, or "+configs.EmbeddedRover)
	flags.Float64Var(&opts.lambda, "lambda", 1, "the prior, above 0: how little is known without labels")
	flags.Float64Var(&opts.rho, "rho", 1, "what a period leaves of a label's weight, in (0, 1]")
	return cmd
}

// inference is what infer prints.
type inference struct {
	Z      []float64 `json:"z"`
	LogDet float64   `json:"logdet"`
	DGap   []float64 `json:"dgap,omitempty"`
	Norm   []float64 `json:"norm,omitempty"`
}

func infer(w io.Writer, path string, opts inferOptions) error {
	result, err := inferFile(path, opts)
	if err != nil {
		return fmt.Errorf("infer: %s: %w", path, err)
	}
	return json.NewEncoder(w).Encode(result)
}

func inferFile(path string, opts inferOptions) (inference, error) {
	if !(opts.rho > 0 && opts.rho <= 1) {
		return inference{}, fmt.Errorf("--rho is out of range (%g): give a number above 0 and at most 1", opts.rho)
	}
	archive, err := npz.ReadFile(path)
	if err != nil {
		return inference{}, err
	}
	phi, d, err := featuresIn(archive, opts.model)
	if err != nil {
		return inference{}, err
	}
	reward, err := archive.Shaped("reward", len(phi)/d)
	if err != nil {
		return inference{}, err
	}
	belief, err := learn(phi, reward.Float64s(), d, opts)
	if err != nil {
		return inference{}, err
	}
	result := inference{Z: make([]float64, d), LogDet: belief.LogDet()}
	belief.Mean(result.Z)
	return result, result.Answer(belief, archive)
}

// featuresIn returns the labelled features, [n, d] row-major.
func featuresIn(archive npz.Archive, model string) (phi []float64, d int, err error) {
	if model != "" {
		return evaluate(archive, model)
	}
	if _, ok := archive["phi"]; !ok {
		if _, ok := archive["obs"]; ok {
			return nil, 0, fmt.Errorf("it holds obs and no phi: give the model that makes features of them with --model")
		}
	}
	array, err := archive.Shaped("phi", -1, -1)
	if err != nil {
		return nil, 0, err
	}
	d = array.Shape()[1]
	if d == 0 {
		return nil, 0, fmt.Errorf("phi has rows of 0 features: give at least 1")
	}
	return array.Float64s(), d, nil
}

// evaluate computes the features of observations.
func evaluate(archive npz.Archive, model string) (phi []float64, d int, err error) {
	opened, err := setup.OpenModel(model)
	if err != nil {
		return nil, 0, fmt.Errorf("--model %s: %w", model, err)
	}
	network, err := opened.Evaluator(configs.Default())
	if err != nil {
		return nil, 0, fmt.Errorf("--model %s: %w", model, err)
	}
	defer func() { err = errors.Join(err, setup.CloseModels(network)) }()
	o, d := network.Dims().Obs, network.Dims().Latent
	array, err := archive.Shaped("obs", -1, o)
	if err != nil {
		return nil, 0, err
	}
	obs, err := array.Float32s()
	if err != nil {
		return nil, 0, err
	}
	phi = make([]float64, len(obs)/o*d)
	for i := range len(obs) / o {
		if err := network.Phi(phi[i*d:(i+1)*d], obs[i*o:(i+1)*o]); err != nil {
			return nil, 0, fmt.Errorf("obs row %d: %w", i, err)
		}
	}
	return phi, d, nil
}

// learn returns the belief after all rows. A row's weight is given with it, not
// taken from it period by period: the prior then stays whole at any ρ, and
// many rows go in at once.
func learn(phi, reward []float64, d int, opts inferOptions) (*posterior.Belief, error) {
	belief, err := posterior.New(d, opts.lambda, 1)
	if err != nil {
		return nil, err
	}
	n := len(reward)
	weight := make([]float64, n)
	first := 0 // rows before it weigh nothing that a float64 can hold
	for i := range weight {
		weight[i] = math.Pow(opts.rho, float64(n-1-i))
		if weight[i] < 1e-300 {
			first = i + 1
		}
	}
	return belief, belief.UpdateBatch(phi[first*d:], reward[first:], weight[first:])
}

// Answer fills DGap and Norm for the rows of the file's query, if it has one.
func (r *inference) Answer(belief *posterior.Belief, archive npz.Archive) error {
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
			return fmt.Errorf("query row %d is not finite or too large: give finite features", i)
		}
		r.DGap = append(r.DGap, posterior.DGap(normSq, 1))
		r.Norm = append(r.Norm, math.Sqrt(normSq))
	}
	return nil
}
