package tflite

import (
	"fmt"
	"maps"
	"path/filepath"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/internal/safefile"
)

// ImportOptions are the values of a bundle that a checkpoint does not have.
type ImportOptions struct {
	Name        string    // "": that of the directory
	Gamma       float64   // discount; 0: unknown
	Observation []Channel // names of the observation's elements, or none
	Action      []Channel // names of the action's elements, or none
	Provenance  map[string]string
	Float16     bool // rounds the weights of linear layers, which halves their memory: see Difference
}

// Import makes a bundle, outDir, of a checkpoint. It adds cov_b = E[B Bᵀ], uncentred and in
// float64, over observations [n, O] of the training data, with the checkpoint's B. n must be
// at least d. Where rewards are fitted to B itself (FORMAT.md), cov_b is 1.
func Import(checkpointDir string, observations []float32, outDir string, o ImportOptions) error {
	m, tensors, hash, err := readCheckpoint(safefile.Dir(checkpointDir), filepath.Base(filepath.Clean(checkpointDir)))
	if err != nil {
		return fmt.Errorf("tflite: %s: %w", checkpointDir, err)
	}
	if o.Float16 {
		if err := roundWeights(tensors); err != nil {
			return fmt.Errorf("tflite: %s: %w", checkpointDir, err)
		}
	}
	if _, ok := tensors[covName]; !ok {
		b, err := build(m, maps.Clone(tensors), hash, false, &packing{})
		if err != nil {
			return fmt.Errorf("tflite: %s: %w", checkpointDir, err)
		}
		cov, err := b.Covariance(observations)
		if err != nil {
			return err
		}
		tensors[covName] = Tensor{Shape: []int{m.Architecture.Latent, m.Architecture.Latent}, F64: cov}
	}
	m.Gamma, m.Observation, m.Action, m.Provenance = o.Gamma, o.Observation, o.Action, o.Provenance
	if o.Name != "" {
		m.Name = o.Name
	}
	return Save(outDir, m, tensors)
}

// Covariance returns E[B Bᵀ], [d, d] row-major, uncentred, over observations
// [n, O], n >= d. The sums are float64.
func (b *Bundle) Covariance(observations []float32) ([]float64, error) {
	d := b.Dims()
	if len(observations)%d.Obs != 0 {
		return nil, fmt.Errorf("tflite: the observations have %d elements, want a multiple of %d",
			len(observations), d.Obs)
	}
	count := len(observations) / d.Obs
	if count < d.Latent {
		return nil, fmt.Errorf("tflite: %d observations are too few for a covariance of %d features; "+
			"use at least %d, better 10,000", count, d.Latent, d.Latent)
	}
	n, err := b.NewNetwork()
	if err != nil {
		return nil, err
	}
	sum := blas64.Symmetric{
		Uplo: blas.Upper, N: d.Latent, Stride: d.Latent, Data: make([]float64, d.Latent*d.Latent),
	}
	feature := blas64.Vector{N: d.Latent, Inc: 1, Data: make([]float64, d.Latent)}
	for i := range count {
		if err := n.Backward(feature.Data, observations[i*d.Obs:(i+1)*d.Obs]); err != nil {
			return nil, fmt.Errorf("observation %d: %w", i, err)
		}
		blas64.Syr(1/float64(count), feature, sum)
	}
	for i := range d.Latent {
		for j := range i {
			sum.Data[i*d.Latent+j] = sum.Data[j*d.Latent+i]
		}
	}
	return sum.Data, nil
}
