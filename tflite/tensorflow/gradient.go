//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/tflite"
)

// climber is a graphModel whose graph has the gradient of the scores.
type climber struct{ *graphModel }

// differentiate adds to a graph the gradient of the scores with respect to the
// candidates, which TensorFlow derives, and returns the name of its tensor. The
// new nodes name no device.
func (a *api) differentiate(graphDef []byte) (extended []byte, name string, err error) {
	graph, buffer := a.newGraph(), a.emptyBuffer()
	defer a.deleteGraph(graph)
	defer a.deleteBuffer(buffer)
	if err := a.load(graph, graphDef, ""); err != nil {
		return nil, "", err
	}
	ends, err := a.edges(graph, leastName, candidateName)
	if err != nil {
		return nil, "", err
	}
	var slope edge
	err = a.withStatus(func(status handle) { a.addGradients(graph, &ends[0], 1, &ends[1], 1, nil, status, &slope) })
	if err == nil {
		err = a.withStatus(func(status handle) { a.exportGraph(graph, buffer, status) })
	}
	if err != nil {
		return nil, "", fmt.Errorf("tensorflow: the graph's gradient: %w", err)
	}
	return bytesOf(buffer), fmt.Sprintf("%s:%d", a.operationName(slope.operation), slope.index), nil
}

// NewDifferentiable is New with the score's gradient, which takes longer to
// start: for a strategy that climbs.
func NewDifferentiable(b *tflite.Bundle, c Config, n int) (Differentiable, error) {
	m, err := newGraphModel(b, c, n, true)
	if err != nil {
		return nil, err
	}
	climber := &climber{m}
	if err := climber.warm(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return climber, nil
}

func (m *climber) warm() error {
	obs, z, belief := m.question(1)
	for range warmRuns {
		if _, err := m.Gradient(make([]float32, m.dims.Latent), obs, z, belief); err != nil {
			return fmt.Errorf("tensorflow: the first gradient on %s failed: %w", m.report.Device, err)
		}
	}
	return nil
}

// Gradient implements tflite.Differentiable: a run of the graph for one
// candidate. It allocates nothing in Go's memory. Where several members have
// the same least bound it is the mean of their gradients.
func (m *climber) Gradient(dz, obs, z []float32, belief tflite.Belief) (score float32, err error) {
	if err := length("the gradient", len(dz), m.dims.Latent); err != nil {
		return 0, err
	}
	if err := length("z", len(z), m.dims.Latent); err != nil {
		return 0, err
	}
	if err := m.takeObs(obs); err != nil {
		return 0, err
	}
	if err := m.takeBelief(belief); err != nil {
		return 0, err
	}
	for i, x := range z {
		m.wide[i] = float64(x)
	}
	if err := m.takeZ(m.z.f32); err != nil {
		return 0, err
	}
	if err := m.do(m.gradient); err != nil {
		return 0, err
	}
	defer m.gradient.done(m.session.api)
	if !*result[bool](m.graphModel, m.gradient, 2) {
		return 0, errPsi
	}
	m.throughNorm(dz, unsafe.Slice(result[float32](m.graphModel, m.gradient, 0), len(dz)))
	return *result[float32](m.graphModel, m.gradient, 1), finite(dz, errSlope)
}

// throughNorm turns g, the gradient with respect to √d·z/‖z‖, into that with
// respect to the z in m.wide, in float64.
func (m *climber) throughNorm(dz, g []float32) {
	if !m.normZ {
		copy(dz, g)
		return
	}
	size := blas64.Nrm2(blas64.Vector{N: len(m.wide), Inc: 1, Data: m.wide})
	along := 0.0
	for i, x := range m.wide {
		along += x / size * float64(g[i])
	}
	scale := math.Sqrt(float64(len(m.wide))) / size
	for i, x := range m.wide {
		dz[i] = float32(scale * (float64(g[i]) - along*x/size))
	}
}
