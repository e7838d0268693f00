//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"unsafe"

	"gonum.org/v1/gonum/blas/blas64"

	"optibfm/internal/regular"
	"optibfm/tflite"
)

// savedModel evaluates a SavedModel of any architecture. What its networks
// make of an observation and of z is their own affair.
type savedModel struct {
	dims             tflite.Dims
	normZ            bool
	report           Report
	session          *session
	one, many        rows
	phi, act, psi    *run
	actMany, psiMany *run
	wide             []float64 // [d], a z in float64
	scorer           *tflite.Scorer
}

// rows are inputs for a number of candidates.
type rows struct{ obs, z, action tensor }

// LoadSavedModel loads the SavedModel in saved.Dir, which has three signatures
// (saved.Signatures names them), all of float32 tensors with the batch n not
// fixed:
//
//	phi     obs [n, O]                          -> phi [n, d]
//	policy  obs [n, O], z [n, d]                -> action [n, A]
//	psi     obs [n, O], action [n, A], z [n, d] -> psi [E, n, d]
//
// saved.Sizes are what they must have, or zero where they are not known yet, and
// saved.Hash is that of the files, or empty where it is not known yet.
// With saved.NormZ they get √d·z/‖z‖, without z as it is. A search is a run of
// policy and one of psi; tflite.Scorer makes the scores, as it does for the
// native search. (A second graph would have to be fed with R⁻¹ in every search,
// and saves nothing: ψ of 128 candidates is some 50 kB.)
//
// The graph is placed by TensorFlow unless it was saved with devices: on the
// first GPU what has a kernel for it, or, with a CPU as the device, on the CPU.
// Phi, Act, Psi and Search allocate nothing on Go's heap but where the number of
// candidates changes.
func LoadSavedModel(saved tflite.SavedModel, c Config, n int) (Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("tensorflow: a search among %d candidates: want at least 1", n)
	}
	graph, _, err := regular.Open(filepath.Join(saved.Dir, tflite.SavedModelFileName))
	if err != nil {
		return nil, fmt.Errorf("tensorflow: %w; give the directory of a SavedModel", err)
	}
	if err := graph.Close(); err != nil { // TensorFlow opens it again
		return nil, err
	}
	a, path, err := load(c.Library)
	if err != nil {
		return nil, err
	}
	if err := a.setTF32(c.TF32); err != nil {
		return nil, err
	}
	m := &savedModel{normZ: saved.NormZ, report: Report{Version: a.version(), Library: path, Device: c.Device}}
	signatures, err := m.load(a, saved.Dir, c)
	if err != nil {
		return nil, err
	}
	if saved.Hash != "" { // TensorFlow has read the files now
		if err := saved.Verify(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", saved.Dir, err), m.Close())
		}
	}
	if err := m.open(signatures, saved, n); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", saved.Dir, err), m.Close())
	}
	return m, nil
}

func (m *savedModel) load(a *api, dir string, c Config) (map[string]signature, error) {
	meta := a.emptyBuffer()
	defer a.deleteBuffer(meta)
	tag := append([]byte("serve"), 0)
	tags := [1]*byte{&tag[0]}
	var err error
	m.session, err = openSession(a, c, func(graph, options, status handle) handle {
		return a.loadSaved(options, 0, dir, &tags[0], 1, graph, meta, status)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	signatures, err := readSignatures(bytesOf(meta))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: its signatures cannot be read: %w", dir, err), m.Close())
	}
	return signatures, nil
}

func (m *savedModel) open(signatures map[string]signature, saved tflite.SavedModel, n int) error {
	var err error
	if m.report.Devices, err = m.session.devices(); err != nil {
		return err
	}
	if !hasDevice(m.report.Devices, m.report.Device) {
		return missingDevice(m.session.api, m.report)
	}
	if err := m.connect(signatures, saved.Signatures); err != nil {
		return err
	}
	if saved.Sizes != (tflite.Dims{}) && saved.Sizes != m.dims {
		return fmt.Errorf("the SavedModel has the sizes %+v, bfm.json says %+v: import it again", m.dims, saved.Sizes)
	}
	m.wide, m.scorer = make([]float64, m.dims.Latent), tflite.NewScorer(m.dims.Latent)
	if err := m.one.grow(m.session.api, 1, m.dims); err != nil {
		return err
	}
	m.phi.values[0] = m.one.obs.handle
	copy(m.act.values, []handle{m.one.obs.handle, m.one.z.handle})
	copy(m.psi.values, []handle{m.one.obs.handle, m.one.action.handle, m.one.z.handle})
	return m.warm(n)
}

// warm calls everything a few times: the first call of each builds its
// executor. What it answers does not count: no observation is sure to be one of
// the model's.
func (m *savedModel) warm(n int) error {
	d := m.dims
	obs, z, candidates := make([]float32, d.Obs), slices.Repeat([]float64{1}, d.Latent), slices.Repeat([]float32{1}, n*d.Latent)
	phi, action, psi := make([]float64, d.Latent), make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	belief := tflite.Belief{Mean: make([]float32, d.Latent), InvR: make([]float32, d.Latent*d.Latent)}
	for range warmRuns {
		_, _, search := m.Search(obs, candidates, belief)
		for name, err := range map[string]error{"φ": m.Phi(phi, obs), "π": m.Act(action, obs, z), "ψ": m.Psi(psi, obs, action, z), "search": search} {
			if err != nil && !errors.Is(err, tflite.ErrNotFinite) {
				return fmt.Errorf("the first %s failed: %w", name, err)
			}
		}
		clear(action) // where it is not finite
	}
	return nil
}

// connect finds the signatures' tensors and the model's sizes.
func (m *savedModel) connect(signatures map[string]signature, names tflite.Signatures) error {
	found, err := match(signatures, names)
	if err != nil {
		return err
	}
	m.dims = found.dims
	for _, call := range []struct {
		run **run
		of  ends
	}{{&m.phi, found.phi}, {&m.act, found.policy}, {&m.psi, found.psi}} {
		in, err := m.session.api.edges(m.session.graph, call.of.in...)
		if err != nil {
			return err
		}
		out, err := m.session.api.edges(m.session.graph, call.of.out)
		if err != nil {
			return err
		}
		*call.run = newRun(in, out)
	}
	m.actMany, m.psiMany = newRun(m.act.feeds, m.act.fetches), newRun(m.psi.feeds, m.psi.fetches)
	return nil
}

// grow makes the tensors for n candidates.
func (r *rows) grow(a *api, n int, d tflite.Dims) error {
	r.free(a)
	var errs [3]error
	r.obs, errs[0] = a.newTensor(n, d.Obs)
	r.z, errs[1] = a.newTensor(n, d.Latent)
	r.action, errs[2] = a.newTensor(n, d.Action)
	err := errors.Join(errs[:]...)
	if err != nil {
		r.free(a) // or the next search would take the ones that are there for all
	}
	return err
}

func (r *rows) free(a *api) {
	a.free(&r.obs)
	a.free(&r.z)
	a.free(&r.action)
}

// Report implements Model.
func (m *savedModel) Report() Report { return m.report }

// Dims implements tflite.Model.
func (m *savedModel) Dims() tflite.Dims { return m.dims }

// Close implements Model.
func (m *savedModel) Close() error {
	m.one.free(m.session.api)
	m.many.free(m.session.api)
	return m.session.close()
}

// Phi implements tflite.Model.
func (m *savedModel) Phi(dst []float64, obs []float32) error {
	if err := length("φ", len(dst), m.dims.Latent); err != nil {
		return err
	}
	if err := m.takeObs(obs); err != nil {
		return err
	}
	phi, err := m.do(m.phi, len(dst))
	if err != nil {
		return err
	}
	defer m.phi.done(m.session.api)
	for i, x := range phi {
		dst[i] = float64(x)
	}
	return finite(dst, errPhi)
}

// Act implements tflite.Model.
func (m *savedModel) Act(dst, obs []float32, z []float64) error {
	if err := length("action", len(dst), m.dims.Action); err != nil {
		return err
	}
	if err := m.takeOne(obs, z); err != nil {
		return err
	}
	action, err := m.do(m.act, len(dst))
	if err != nil {
		return err
	}
	defer m.act.done(m.session.api)
	copy(dst, action)
	return finite(dst, errPolicy)
}

// Psi implements Model.
func (m *savedModel) Psi(dst, obs, action []float32, z []float64) error {
	if err := length("ψ", len(dst), m.dims.Ensemble*m.dims.Latent); err != nil {
		return err
	}
	if err := length("action", len(action), m.dims.Action); err != nil {
		return err
	}
	if err := finite(action, errAction); err != nil {
		return err
	}
	if err := m.takeOne(obs, z); err != nil {
		return err
	}
	copy(m.one.action.f32, action)
	psi, err := m.do(m.psi, len(dst))
	if err != nil {
		return err
	}
	defer m.psi.done(m.session.api)
	copy(dst, psi)
	return finite(dst, errPsi)
}

// Search implements tflite.Model.
func (m *savedModel) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	d := m.dims.Latent
	if err := m.takeObs(obs); err != nil {
		return 0, 0, err
	}
	if err := checkBelief(belief, d); err != nil {
		return 0, 0, err
	}
	if err := m.takeCandidates(candidates); err != nil {
		return 0, 0, err
	}
	n, a := len(candidates)/d, m.session.api
	action, err := m.do(m.actMany, n*m.dims.Action)
	if err != nil {
		return 0, 0, err
	}
	defer m.actMany.done(a)
	if err := finite(action, errPolicy); err != nil {
		return 0, 0, err
	}
	m.psiMany.values[1] = m.actMany.results[0] // as it is, without a copy
	psi, err := m.do(m.psiMany, m.dims.Ensemble*n*d)
	if err != nil {
		return 0, 0, err
	}
	defer m.psiMany.done(a)
	return m.scorer.Best(psi, m.dims.Ensemble, belief)
}

func (m *savedModel) takeObs(obs []float32) error {
	if m.session.session == 0 {
		return errClosed
	}
	if err := length("observation", len(obs), m.dims.Obs); err != nil {
		return err
	}
	copy(m.one.obs.f32, obs)
	return finite(obs, errObs)
}

func (m *savedModel) takeOne(obs []float32, z []float64) error {
	if err := m.takeObs(obs); err != nil {
		return err
	}
	if err := length("z", len(z), m.dims.Latent); err != nil {
		return err
	}
	copy(m.wide, z)
	return m.takeZ(m.one.z.f32)
}

// takeCandidates writes the candidates, each with the observation beside it.
func (m *savedModel) takeCandidates(candidates []float32) error {
	d := m.dims.Latent
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return fmt.Errorf("tensorflow: the candidates have %d elements, want a multiple of %d that is not 0", len(candidates), d)
	}
	if len(candidates) != len(m.many.z.f32) {
		if err := m.many.grow(m.session.api, len(candidates)/d, m.dims); err != nil {
			return err
		}
		copy(m.actMany.values, []handle{m.many.obs.handle, m.many.z.handle})
		m.psiMany.values[0], m.psiMany.values[2] = m.many.obs.handle, m.many.z.handle
	}
	for row := range slices.Chunk(m.many.obs.f32, m.dims.Obs) {
		copy(row, m.one.obs.f32)
	}
	for at := 0; at < len(candidates); at += d {
		for i, x := range candidates[at : at+d] {
			m.wide[i] = float64(x)
		}
		if err := m.takeZ(m.many.z.f32[at : at+d]); err != nil {
			return err
		}
	}
	return nil
}

// takeZ writes the task embedding in m.wide. One without direction is refused
// here even where the networks normalise it themselves.
func (m *savedModel) takeZ(dst []float32) error {
	if blas64.Nrm2(blas64.Vector{N: len(m.wide), Inc: 1, Data: m.wide}) < minNorm {
		return tflite.ErrNoDirection
	}
	return writeZ(dst, m.wide, m.normZ)
}

// do runs r and returns its result, of n numbers, until r.done.
func (m *savedModel) do(r *run, n int) ([]float32, error) {
	s := m.session
	if !r.do(s.api, s.session, s.status) {
		r.done(s.api)
		return nil, fmt.Errorf("tensorflow: a run on %s failed: %s", m.report.Device, s.api.message(s.status))
	}
	if size := r.size(s.api, 0); size != 4*n {
		r.done(s.api)
		return nil, fmt.Errorf("tensorflow: a signature gives %d bytes, want %d: its result has another shape than docs/tensorflow.md says", size, 4*n)
	}
	return unsafe.Slice((*float32)(r.data(s.api, 0)), n), nil
}
