package bundle

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"optibfm/internal/npz"
	"optibfm/tflite"
	"optibfm/tflite/onnx"
)

// importONNX makes a bundle without F of a policy and B.
func (o ImportOptions) importONNX(out io.Writer, policy string) error {
	switch {
	case o.Backward == "":
		return errors.New("model import: --backward is missing; give B(s) as an ONNX model")
	case o.Observations == "":
		return errors.New("model import: --observations is missing; give an .npz file with obs [n, O], or obs/GROUP for " +
			"each group, observations of the training data")
	case o.Weights == Float16:
		return fmt.Errorf("model import: --weights %s is for checkpoints; import without it", Float16)
	}
	g, err := onnx.Read(policy, o.Backward, o.NormZ)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	m := &g.Manifest
	if m.Name = o.Name; m.Name == "" {
		m.Name = strings.TrimSuffix(filepath.Base(policy), ".onnx")
	}
	m.Gamma, m.Observation, m.Action = o.Gamma, parseChannels(o.ObsChannels), parseChannels(o.ActionChannels)
	m.Provenance = map[string]string{"policy": policy, "backward": o.Backward, "observations": o.Observations}
	hash, err := hashOfFile(policy)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	o.addOrigin(m.Provenance, policy, hash)
	b, err := o.withCovariance(g)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	if err := verifyONNX(out, g, b); err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	if err := tflite.Save(o.Out, *m, g.Tensors); err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	fmt.Fprintf(out, "%s: %s, a policy and B without F: controller.strategy thompson works, ucb needs ψ\n", o.Out, m.Name)
	reportOrigin(out, m.Provenance)
	reportGroups(out, m.Architecture)
	return o.addPrior(out)
}

// withCovariance adds Cov B of the observations to the tensors.
func (o ImportOptions) withCovariance(g *onnx.Graphs) (*tflite.Bundle, error) {
	a := g.Manifest.Architecture
	d := a.Latent
	cov := tflite.Tensor{Shape: []int{d, d}, F64: make([]float64, d*d)}
	for i := range d {
		cov.F64[i*d+i] = 1
	}
	g.Tensors["cov_b"] = cov
	b, err := tflite.New(g.Manifest, g.Tensors)
	if err != nil {
		return nil, err
	}
	archive, err := npz.ReadFile(o.Observations)
	if err != nil {
		return nil, err
	}
	obs, _, err := tflite.Observations(archive, a.Obs, a.Groups)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Observations, err)
	}
	if cov.F64, err = b.Covariance(obs); err != nil {
		return nil, err
	}
	g.Tensors["cov_b"] = cov
	return b, nil
}

// verifyONNX compares the graphs with the native networks where ONNX Runtime is installed.
func verifyONNX(out io.Writer, g *onnx.Graphs, b *tflite.Bundle) error {
	e, err := g.Verify(b)
	if errors.Is(err, onnx.ErrNoRuntime) {
		fmt.Fprintf(out, "note: not compared with ONNX Runtime: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ONNX Runtime differs in B by %.1e, π by %.1e (relative, the largest of %d cases)\n",
		e.Phi, e.Action, e.Cases)
	if !(e.Worst() <= onnxTolerance) {
		return fmt.Errorf("ONNX Runtime differs from the native networks (%.1e, tolerance %.0e); "+
			"the model cannot be used, report it", e.Worst(), onnxTolerance)
	}
	return nil
}
