//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"optibfm/tflite"
)

// graphModel evaluates a bundle's graph. All calls reuse its input tensors.
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
}

// warmUpRuns precede the first plan: the first run builds the executor and,
// on a GPU, loads kernels and chooses algorithms.
const warmUpRuns = 3

// New builds the graph of a bundle, places it on the device and searches among
// n candidates a few times, so that the first plan is not slow. Its errors wrap
// ErrNoLibrary, ErrVersion or ErrNoDevice if these are the cause. Two models
// may be open at a time; tf32 applies to all of them.
func New(b *tflite.Bundle, c Config, n int) (Model, error) {
	if !b.Architecture.HasForward() {
		return nil, tflite.ErrNoForward
	}
	a, report, err := prepare(c, n)
	if err != nil {
		return nil, err
	}
	m := &graphModel{
		dims: b.Dims(), normZ: b.Architecture.NormZ, wide: make([]float64, b.Dims().Latent), report: report,
	}
	if m.session, err = newSession(a, c); err != nil {
		return nil, err
	}
	if err := m.open(b, n); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// prepare checks the arguments of a new model and loads the library.
func prepare(c Config, n int) (*api, Report, error) {
	if err := c.Validate(); err != nil {
		return nil, Report{}, err
	}
	if n < 1 {
		return nil, Report{}, fmt.Errorf("tensorflow: the number of candidates is %d; use at least 1", n)
	}
	a, path, err := load(c.Library)
	if err != nil {
		return nil, Report{}, err
	}
	return a, Report{Version: a.version(), Library: path, Device: c.Device}, a.setTF32(c.TF32)
}

func (m *graphModel) open(b *tflite.Bundle, n int) error {
	var err error
	if m.report.Devices, err = m.session.devices(); err != nil {
		return err
	}
	if !hasDevice(m.report.Devices, m.report.Device) {
		return fmt.Errorf("%w; or set model.backend to native", missingDevice(m.session.api, m.report))
	}
	a, graph := m.session.api, newGraph(b, m.report.Device, true)
	raw := graph.bytes()
	if m.report.Kernels, err = a.kernelsOf(raw); err != nil {
		return err
	}
	if err := a.load(m.session.graph, raw, m.report.Device); err != nil {
		return err
	}
	if err := m.session.assign(graph.variables); err != nil {
		return err
	}
	m.mean, m.scale = b.Normaliser()
	if err := m.allocate(); err != nil {
		return err
	}
	if err := m.connect(b.HasCovariance()); err != nil {
		return err
	}
	return m.warmUp(n)
}

// allocate makes the tensors of fixed sizes.
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

// connect finds the inputs and outputs of the calls in the graph.
func (m *graphModel) connect(phi bool) error {
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
	m.search = call([]string{ObsName, CandidateName, MeanName, InvRName, BetaName},
		[]string{BestName, ScoreName, FiniteName},
		m.obs, tensor{}, m.belief.mean, m.belief.invR, m.belief.beta)
	m.act = call([]string{ObsName, CandidateName}, []string{ActionName, ActionFiniteName}, m.obs, m.z)
	m.psi = call([]string{ObsName, CandidateName, ActionName}, []string{PsiName, PsiFiniteName}, m.obs, m.z, m.action)
	if phi {
		m.phi = call([]string{ObsName}, []string{PhiName, PhiFiniteName}, m.obs)
	}
	return err
}

// warmUp searches with inputs that are valid for every model.
func (m *graphModel) warmUp(n int) error {
	d := m.dims.Latent
	obs, candidates := make([]float32, m.dims.Obs), slices.Repeat([]float32{1}, n*d)
	copy(obs, m.mean)
	belief := tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: 1}
	for range warmUpRuns {
		if _, _, err := m.Search(obs, candidates, belief); err != nil {
			return fmt.Errorf("tensorflow: the first search on %s failed: %w", m.report.Device, err)
		}
	}
	return nil
}

// Report implements Model.
func (m *graphModel) Report() Report { return m.report }

// Dims implements tflite.Model.
func (m *graphModel) Dims() tflite.Dims { return m.dims }

// Close implements Model.
func (m *graphModel) Close() error {
	for _, t := range []*tensor{
		&m.obs, &m.candidates, &m.z, &m.action, &m.belief.mean, &m.belief.invR, &m.belief.beta,
	} {
		m.session.api.free(t)
	}
	return m.session.close()
}

// Search implements tflite.Model. It allocates Go memory only if the number
// of candidates changes, and frees TensorFlow's results before it returns.
func (m *graphModel) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	if err := m.setObs(obs); err != nil {
		return 0, 0, err
	}
	if err := m.setBelief(belief); err != nil {
		return 0, 0, err
	}
	if err := m.setCandidates(candidates); err != nil {
		return 0, 0, err
	}
	if err := m.execute(m.search); err != nil {
		return 0, 0, err
	}
	defer m.search.release(m.session.api)
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
	if err := checkLength("φ", len(dst), m.dims.Latent); err != nil {
		return err
	}
	if err := m.setObs(obs); err != nil {
		return err
	}
	return evaluateInto(m, m.phi, dst, errPhi)
}

// Act implements tflite.Model.
func (m *graphModel) Act(dst, obs []float32, z []float64) error {
	if err := checkLength("action", len(dst), m.dims.Action); err != nil {
		return err
	}
	if err := m.setObs(obs); err != nil {
		return err
	}
	if err := m.setZ(z); err != nil {
		return err
	}
	return evaluateInto(m, m.act, dst, errPolicy)
}

// Psi implements Model.
func (m *graphModel) Psi(dst, obs, action []float32, z []float64) error {
	if err := checkLength("ψ", len(dst), m.dims.Ensemble*m.dims.Latent); err != nil {
		return err
	}
	if err := m.setObs(obs); err != nil {
		return err
	}
	if err := m.setAction(action); err != nil {
		return err
	}
	if err := m.setZ(z); err != nil {
		return err
	}
	return evaluateInto(m, m.psi, dst, errPsi)
}

// evaluateInto executes r and copies its first result to dst. It returns notFinite
// if the second result, the graph's own check, is false or dst is not finite.
func evaluateInto[T float32 | float64](m *graphModel, r *run, dst []T, notFinite error) error {
	if err := m.execute(r); err != nil {
		return err
	}
	defer r.release(m.session.api)
	if !*result[bool](m, r, 1) {
		return notFinite
	}
	copy(dst, unsafe.Slice(result[T](m, r, 0), len(dst)))
	return finite(dst, notFinite)
}

func (m *graphModel) execute(r *run) error {
	s := m.session
	if r.execute(s.api, s.session, s.status) {
		return nil
	}
	r.release(s.api)
	return fmt.Errorf("tensorflow: a run on %s failed: %s", m.report.Device, s.api.message(s.status))
}

// result returns the address of a run's result.
func result[T bool | int64 | float32 | float64](m *graphModel, r *run, i int) *T {
	return (*T)(r.data(m.session.api, i))
}
