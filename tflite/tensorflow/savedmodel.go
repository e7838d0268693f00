//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"unsafe"

	"optibfm/internal/safefile"
	"optibfm/tflite"
)

// savedModel evaluates a SavedModel of any architecture.
type savedModel struct {
	dims             tflite.Dims
	normZ            bool
	report           Report
	session          *session
	one, many        inputTensors
	phi, act, psi    *run
	actMany, psiMany *run
	wide             []float64 // [d], a z in float64
	scorer           *tflite.Scorer
}

// inputTensors are the inputs for a number of candidates.
type inputTensors struct{ obs, z, action tensor }

// LoadSavedModel loads the SavedModel in saved.Dir, which has three signatures
// (saved.Signatures names them), all of float32 tensors with the batch n not
// fixed:
//
//	phi     obs [n, O]                          -> phi [n, d]
//	policy  obs [n, O], z [n, d]                -> action [n, A]
//	psi     obs [n, O], action [n, A], z [n, d] -> psi [E, n, d]
//
// saved.Sizes and saved.Hash, if they are not zero, are the expected sizes of
// the signatures and the expected hash of the files. With saved.NormZ the
// signatures get √d·z/‖z‖, otherwise z. A search is a run of policy and one of
// psi; a tflite.Scorer computes the scores in Go.
//
// TensorFlow places the graph unless it was saved with devices: on the first GPU
// each operation that has a kernel for it or, if the device is a CPU, everything
// on the CPU. Phi, Act, Psi and Search allocate on Go's heap only if the number
// of candidates changes.
func LoadSavedModel(saved tflite.SavedModel, c Config, n int) (Model, error) {
	graph, _, err := safefile.Open(filepath.Join(saved.Dir, tflite.SavedModelFileName))
	if err != nil {
		return nil, fmt.Errorf("tensorflow: %w; use the directory of a SavedModel", err)
	}
	if err := graph.Close(); err != nil { // TensorFlow opens it again
		return nil, err
	}
	a, report, err := prepare(c, n)
	if err != nil {
		return nil, err
	}
	m := &savedModel{normZ: saved.NormZ, report: report}
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
		return nil, errors.Join(fmt.Errorf("%s: signatures: %w", dir, err), m.Close())
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
		return fmt.Errorf("the sizes of the SavedModel are %+v, those in bfm.json %+v; import it again",
			m.dims, saved.Sizes)
	}
	m.wide, m.scorer = make([]float64, m.dims.Latent), tflite.NewScorer(m.dims.Latent)
	if err := m.one.allocate(m.session.api, 1, m.dims); err != nil {
		return err
	}
	m.phi.values[0] = m.one.obs.handle
	copy(m.act.values, []handle{m.one.obs.handle, m.one.z.handle})
	copy(m.psi.values, []handle{m.one.obs.handle, m.one.action.handle, m.one.z.handle})
	return m.warmUp(n)
}

// warmUp calls every method a few times: the first call of each builds its
// executor. Results may be NaN or infinite: the observation may be invalid for the
// model.
func (m *savedModel) warmUp(n int) error {
	d := m.dims
	obs, candidates := make([]float32, d.Obs), slices.Repeat([]float32{1}, n*d.Latent)
	z := slices.Repeat([]float64{1}, d.Latent)
	phi, action, psi := make([]float64, d.Latent), make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	belief := tflite.Belief{Mean: make([]float32, d.Latent), InvR: make([]float32, d.Latent*d.Latent)}
	for range warmUpRuns {
		_, _, search := m.Search(obs, candidates, belief)
		for name, err := range map[string]error{
			"φ": m.Phi(phi, obs), "π": m.Act(action, obs, z), "ψ": m.Psi(psi, obs, action, z), "search": search,
		} {
			if err != nil && !errors.Is(err, tflite.ErrNotFinite) {
				return fmt.Errorf("the first %s failed: %w", name, err)
			}
		}
		clear(action) // which may be not finite
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
		of  tensorNames
	}{{&m.phi, found.phi}, {&m.act, found.policy}, {&m.psi, found.psi}} {
		in, err := m.session.api.edges(m.session.graph, call.of.inputs...)
		if err != nil {
			return err
		}
		out, err := m.session.api.edges(m.session.graph, call.of.output)
		if err != nil {
			return err
		}
		*call.run = newRun(in, out)
	}
	m.actMany, m.psiMany = newRun(m.act.feeds, m.act.fetches), newRun(m.psi.feeds, m.psi.fetches)
	return nil
}

// allocate makes the tensors for n candidates.
func (r *inputTensors) allocate(a *api, n int, d tflite.Dims) error {
	r.free(a)
	var errs [3]error
	r.obs, errs[0] = a.newTensor(n, d.Obs)
	r.z, errs[1] = a.newTensor(n, d.Latent)
	r.action, errs[2] = a.newTensor(n, d.Action)
	err := errors.Join(errs[:]...)
	if err != nil {
		r.free(a) // the next search must not use some of them
	}
	return err
}

func (r *inputTensors) free(a *api) {
	a.free(&r.obs)
	a.free(&r.z)
	a.free(&r.action)
}

// Report implements Model.
func (m *savedModel) Report() Report { return m.report }

// Version implements registry.Versioned.
func (m *savedModel) Version() string { return m.report.Version }

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
	if err := checkLength("φ", len(dst), m.dims.Latent); err != nil {
		return err
	}
	if err := m.setObs(obs); err != nil {
		return err
	}
	phi, err := m.execute(m.phi, len(dst))
	if err != nil {
		return err
	}
	defer m.phi.release(m.session.api)
	widen(dst, phi)
	return finite(dst, errPhi)
}

// Act implements tflite.Model.
func (m *savedModel) Act(dst, obs []float32, z []float64) error {
	if err := checkLength("action", len(dst), m.dims.Action); err != nil {
		return err
	}
	if err := m.setInputs(obs, z); err != nil {
		return err
	}
	action, err := m.execute(m.act, len(dst))
	if err != nil {
		return err
	}
	defer m.act.release(m.session.api)
	copy(dst, action)
	return finite(dst, errPolicy)
}

// Psi implements Model.
func (m *savedModel) Psi(dst, obs, action []float32, z []float64) error {
	if err := checkLength("ψ", len(dst), m.dims.Ensemble*m.dims.Latent); err != nil {
		return err
	}
	if err := checkLength("action", len(action), m.dims.Action); err != nil {
		return err
	}
	if err := finite(action, errAction); err != nil {
		return err
	}
	if err := m.setInputs(obs, z); err != nil {
		return err
	}
	copy(m.one.action.f32, action)
	psi, err := m.execute(m.psi, len(dst))
	if err != nil {
		return err
	}
	defer m.psi.release(m.session.api)
	copy(dst, psi)
	return finite(dst, errPsi)
}

// Search implements tflite.Model.
func (m *savedModel) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	d := m.dims.Latent
	if err := m.setObs(obs); err != nil {
		return 0, 0, err
	}
	if err := belief.Validate(d); err != nil {
		return 0, 0, err
	}
	if err := m.setCandidates(candidates); err != nil {
		return 0, 0, err
	}
	n, a := len(candidates)/d, m.session.api
	action, err := m.execute(m.actMany, n*m.dims.Action)
	if err != nil {
		return 0, 0, err
	}
	defer m.actMany.release(a)
	if err := finite(action, errPolicy); err != nil {
		return 0, 0, err
	}
	m.psiMany.values[1] = m.actMany.results[0] // without a copy
	psi, err := m.execute(m.psiMany, m.dims.Ensemble*n*d)
	if err != nil {
		return 0, 0, err
	}
	defer m.psiMany.release(a)
	return m.scorer.Best(psi, m.dims.Ensemble, belief)
}

func (m *savedModel) setObs(obs []float32) error {
	if m.session.session == 0 {
		return errClosed
	}
	if err := checkLength("observation", len(obs), m.dims.Obs); err != nil {
		return err
	}
	copy(m.one.obs.f32, obs)
	return finite(obs, errObs)
}

func (m *savedModel) setInputs(obs []float32, z []float64) error {
	if err := m.setObs(obs); err != nil {
		return err
	}
	if err := checkLength("z", len(z), m.dims.Latent); err != nil {
		return err
	}
	copy(m.wide, z)
	return m.setZ(m.one.z.f32)
}

// setCandidates writes the candidates, and the observation for each of them.
func (m *savedModel) setCandidates(candidates []float32) error {
	d := m.dims.Latent
	if err := checkCandidates(candidates, d); err != nil {
		return err
	}
	if len(candidates) != len(m.many.z.f32) {
		if err := m.many.allocate(m.session.api, len(candidates)/d, m.dims); err != nil {
			return err
		}
		copy(m.actMany.values, []handle{m.many.obs.handle, m.many.z.handle})
		m.psiMany.values[0], m.psiMany.values[2] = m.many.obs.handle, m.many.z.handle
	}
	for row := range slices.Chunk(m.many.obs.f32, m.dims.Obs) {
		copy(row, m.one.obs.f32)
	}
	for at := 0; at < len(candidates); at += d {
		widen(m.wide, candidates[at:])
		if err := m.setZ(m.many.z.f32[at : at+d]); err != nil {
			return err
		}
	}
	return nil
}

// setZ writes the task embedding in m.wide. It returns ErrNoDirection also where
// the networks normalise z themselves: there every z must have a direction.
func (m *savedModel) setZ(dst []float32) error {
	if err := tflite.ProjectZ(dst, m.wide, true); err != nil || m.normZ {
		return err
	}
	return tflite.ProjectZ(dst, m.wide, false)
}

// execute runs r and returns its result, n numbers that are valid until r.release.
func (m *savedModel) execute(r *run, n int) ([]float32, error) {
	s := m.session
	if !r.execute(s.api, s.session, s.status) {
		r.release(s.api)
		return nil, fmt.Errorf("tensorflow: a run on %s failed: %s", m.report.Device, s.api.message(s.status))
	}
	if size := r.size(s.api, 0); size != 4*n {
		r.release(s.api)
		return nil, fmt.Errorf("tensorflow: the result of a signature has %d bytes, want %d; "+
			"export it with the shapes of docs/tensorflow.md", size, 4*n)
	}
	return unsafe.Slice((*float32)(r.data(s.api, 0)), n), nil
}
