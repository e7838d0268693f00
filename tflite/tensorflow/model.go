//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"optibfm/tflite"
)

// graphModel evaluates a bundle's graph. What it feeds lies in tensors that
// are used again in every call.
type graphModel struct {
	dims        tflite.Dims
	normZ       bool
	mean, scale []float32 // of the observation's normaliser; nil without
	report      Report
	session     *session
	wide        []float64 // [d], a z in float64

	obs        tensor // [1, O]
	candidates tensor // [n, d], of the last search's n
	z          tensor // [1, d]
	action     tensor // [1, A]
	belief     struct{ mean, invR, beta tensor }

	search, act, psi *run
	phi              *run // nil without Cov B
	gradient         *run // nil where it was not asked for
}

// warmRuns are made before the first plan: the first builds the executor and,
// on a GPU, loads kernels and chooses algorithms.
const warmRuns = 3

// New builds the graph of a bundle, places it and searches among n candidates
// a few times, so that the first plan is not the slow one. Its errors wrap
// ErrNoLibrary, ErrVersion or ErrNoDevice where they are about those. Two
// models may be open at a time; tf32 counts for all of them.
func New(b *tflite.Bundle, c Config, n int) (Model, error) {
	m, err := newGraphModel(b, c, n, false)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// newGraphModel makes the gradient only where it is asked for.
func newGraphModel(b *tflite.Bundle, c Config, n int, gradient bool) (*graphModel, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("tensorflow: a search among %d candidates: want at least 1", n)
	}
	a, path, err := load(c.Library)
	if err != nil {
		return nil, err
	}
	if err := a.setTF32(c.TF32); err != nil {
		return nil, err
	}
	m := &graphModel{dims: b.Dims(), normZ: b.Architecture.NormZ, wide: make([]float64, b.Dims().Latent)}
	m.report = Report{Version: a.version(), Library: path, Device: c.Device}
	if m.session, err = newSession(a, c); err != nil {
		return nil, err
	}
	if err := m.open(b, n, gradient); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *graphModel) open(b *tflite.Bundle, n int, gradient bool) error {
	if err := m.findDevice(); err != nil {
		return err
	}
	a, graph, slope := m.session.api, newGraph(b, m.report.Device).bytes(), ""
	var err error
	if gradient {
		if graph, slope, err = a.differentiate(graph); err != nil {
			return err
		}
	}
	if m.report.Kernels, err = a.kernelsOf(graph); err != nil {
		return err
	}
	if err := a.load(m.session.graph, graph, m.report.Device); err != nil {
		return err
	}
	layers := b.Layers()
	m.mean, m.scale = layers.Mean, layers.Scale
	if err := m.allocate(); err != nil {
		return err
	}
	if err := m.connect(b.HasCovariance(), slope); err != nil {
		return err
	}
	return m.warm(n)
}

// findDevice refuses a device that the session does not have, before a run
// would.
func (m *graphModel) findDevice() (err error) {
	if m.report.Devices, err = m.session.devices(); err != nil {
		return err
	}
	if !hasDevice(m.report.Devices, m.report.Device) {
		return fmt.Errorf("%w; or set model.backend to native", missingDevice(m.session.api, m.report))
	}
	return nil
}

// allocate makes the tensors whose sizes do not change.
func (m *graphModel) allocate() error {
	d, a := m.dims, m.session.api
	for _, t := range []struct {
		tensor *tensor
		dims   []int
	}{
		{&m.obs, []int{1, d.Obs}}, {&m.z, []int{1, d.Latent}}, {&m.action, []int{1, d.Action}},
		{&m.belief.mean, []int{d.Latent, 1}}, {&m.belief.invR, []int{d.Latent, d.Latent}}, {&m.belief.beta, nil},
	} {
		var err error
		if *t.tensor, err = a.newTensor(t.dims...); err != nil {
			return err
		}
	}
	clear(m.belief.invR.f32)
	return nil
}

// connect finds the ends of the calls in the graph. slope is the tensor of the
// gradient, "" where there is none.
func (m *graphModel) connect(phi bool, slope string) error {
	s := m.session
	var err error
	call := func(feeds, fetches []string, values ...tensor) *run {
		from, failedFrom := s.api.edges(s.graph, feeds...)
		to, failedTo := s.api.edges(s.graph, fetches...)
		err = errors.Join(err, failedFrom, failedTo)
		r := newRun(from, to)
		for i, t := range values {
			r.values[i] = t.handle
		}
		return r
	}
	m.search = call([]string{obsName, candidateName, meanName, invRName, betaName}, []string{bestName, scoreName, finiteName},
		m.obs, tensor{}, m.belief.mean, m.belief.invR, m.belief.beta)
	m.act = call([]string{obsName, candidateName}, []string{actionName, actionFiniteName}, m.obs, m.z)
	m.psi = call([]string{obsName, candidateName, actionName}, []string{psiName, psiFiniteName}, m.obs, m.z, m.action)
	if phi {
		m.phi = call([]string{obsName}, []string{phiName, phiFiniteName}, m.obs)
	}
	if slope != "" {
		m.gradient = call([]string{obsName, candidateName, meanName, invRName, betaName}, []string{slope, scoreName, finiteName},
			m.obs, m.z, m.belief.mean, m.belief.invR, m.belief.beta)
	}
	return err
}

func (m *graphModel) warm(n int) error {
	obs, candidates, belief := m.question(n)
	for range warmRuns {
		if _, _, err := m.Search(obs, candidates, belief); err != nil {
			return fmt.Errorf("tensorflow: the first search on %s failed: %w", m.report.Device, err)
		}
	}
	return nil
}

// question is one that any model can answer.
func (m *graphModel) question(n int) (obs, candidates []float32, belief tflite.Belief) {
	d := m.dims.Latent
	obs = make([]float32, m.dims.Obs)
	copy(obs, m.mean)
	return obs, slices.Repeat([]float32{1}, n*d), tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: 1}
}

// Report implements Model.
func (m *graphModel) Report() Report { return m.report }

// Dims implements tflite.Model.
func (m *graphModel) Dims() tflite.Dims { return m.dims }

// Close implements Model.
func (m *graphModel) Close() error {
	for _, t := range []*tensor{&m.obs, &m.candidates, &m.z, &m.action, &m.belief.mean, &m.belief.invR, &m.belief.beta} {
		m.session.api.free(t)
	}
	return m.session.close()
}

// Search implements tflite.Model. It allocates nothing in Go's memory but where
// the number of candidates changes; TensorFlow's own memory of a call is given
// back before it returns.
func (m *graphModel) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	if err := m.takeObs(obs); err != nil {
		return 0, 0, err
	}
	if err := m.takeBelief(belief); err != nil {
		return 0, 0, err
	}
	if err := m.takeCandidates(candidates); err != nil {
		return 0, 0, err
	}
	if err := m.do(m.search); err != nil {
		return 0, 0, err
	}
	defer m.search.done(m.session.api)
	if !*result[bool](m, m.search, 2) {
		return 0, 0, errPsi
	}
	return int(*result[int64](m, m.search, 0)), *result[float32](m, m.search, 1), nil
}

// Phi implements tflite.Model.
func (m *graphModel) Phi(dst []float64, obs []float32) error {
	if m.phi == nil {
		return tflite.ErrNoCovariance
	}
	if err := length("φ", len(dst), m.dims.Latent); err != nil {
		return err
	}
	if err := m.takeObs(obs); err != nil {
		return err
	}
	if err := m.do(m.phi); err != nil {
		return err
	}
	defer m.phi.done(m.session.api)
	if !*result[bool](m, m.phi, 1) {
		return errPhi
	}
	copy(dst, unsafe.Slice(result[float64](m, m.phi, 0), len(dst)))
	return finite(dst, errPhi)
}

// Act implements tflite.Model.
func (m *graphModel) Act(dst, obs []float32, z []float64) error {
	if err := length("action", len(dst), m.dims.Action); err != nil {
		return err
	}
	if err := m.takeObs(obs); err != nil {
		return err
	}
	if err := m.takeOneZ(z); err != nil {
		return err
	}
	if err := m.do(m.act); err != nil {
		return err
	}
	defer m.act.done(m.session.api)
	if !*result[bool](m, m.act, 1) {
		return errPolicy
	}
	copy(dst, unsafe.Slice(result[float32](m, m.act, 0), len(dst)))
	return finite(dst, errPolicy)
}

// Psi implements Model.
func (m *graphModel) Psi(dst, obs, action []float32, z []float64) error {
	if err := length("ψ", len(dst), m.dims.Ensemble*m.dims.Latent); err != nil {
		return err
	}
	if err := m.takeObs(obs); err != nil {
		return err
	}
	if err := m.takeAction(action); err != nil {
		return err
	}
	if err := m.takeOneZ(z); err != nil {
		return err
	}
	if err := m.do(m.psi); err != nil {
		return err
	}
	defer m.psi.done(m.session.api)
	if !*result[bool](m, m.psi, 1) {
		return errPsi
	}
	copy(dst, unsafe.Slice(result[float32](m, m.psi, 0), len(dst)))
	return finite(dst, errPsi)
}

func (m *graphModel) do(r *run) error {
	s := m.session
	if r.do(s.api, s.session, s.status) {
		return nil
	}
	r.done(s.api)
	return fmt.Errorf("tensorflow: a run on %s failed: %s", m.report.Device, s.api.message(s.status))
}

// result is the memory of a run's result.
func result[T bool | int64 | float32 | float64](m *graphModel, r *run, i int) *T {
	return (*T)(r.data(m.session.api, i))
}
