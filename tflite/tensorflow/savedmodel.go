//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"optibfm/tflite"
)

// savedModel evaluates a SavedModel of any architecture. What its networks
// make of an observation and of z is their own affair.
type savedModel struct {
	dims             tflite.Dims
	report           Report
	session          *session
	one, many        rows
	phi, act, psi    *run
	actMany, psiMany *run
	scratch          []float64 // [d]
}

// rows are inputs for a number of candidates.
type rows struct{ obs, z, action tensor }

// LoadSavedModel loads a SavedModel that was saved with three signatures, all
// of float32 tensors with their batch n first:
//
//	phi     obs [n, O]                          -> phi [n, d]
//	policy  obs [n, O], z [n, d]                -> action [n, A]
//	psi     obs [n, O], action [n, A], z [n, d] -> psi [E, n, d]
//
// z has any positive norm: a network that normalises z does so itself. A search
// is a run of policy and one of psi; the scores are made in Go. The graph is
// placed by TensorFlow unless it was saved with devices: on the first GPU what
// has a kernel for it, or, with a CPU as the device, on the CPU.
func LoadSavedModel(dir string, c Config, n int) (Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("tensorflow: a search among %d candidates: want at least 1", n)
	}
	if _, err := os.Stat(filepath.Join(dir, "saved_model.pb")); err != nil {
		return nil, fmt.Errorf("tensorflow: %w: give the directory of a SavedModel", err)
	}
	a, path, err := load(c.Library)
	if err != nil {
		return nil, err
	}
	if err := a.setTF32(c.TF32); err != nil {
		return nil, err
	}
	m := &savedModel{report: Report{Version: a.version(), Library: path, Device: c.Device}}
	signatures, err := m.load(a, dir, c)
	if err != nil {
		return nil, err
	}
	if err := m.open(signatures, n); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), m.Close())
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

func (m *savedModel) open(signatures map[string]signature, n int) error {
	var err error
	if m.report.Devices, err = m.session.devices(); err != nil {
		return err
	}
	if !hasDevice(m.report.Devices, m.report.Device) {
		return missingDevice(m.session.api, m.report)
	}
	if err := m.connect(signatures); err != nil {
		return err
	}
	if err := m.one.grow(m.session.api, 1, m.dims); err != nil {
		return err
	}
	m.phi.values[0] = m.one.obs.handle
	copy(m.act.values, []handle{m.one.obs.handle, m.one.z.handle})
	copy(m.psi.values, []handle{m.one.obs.handle, m.one.action.handle, m.one.z.handle})
	m.scratch = make([]float64, m.dims.Latent)
	d := m.dims.Latent
	for range warmRuns {
		_, _, err := m.Search(make([]float32, m.dims.Obs), slices.Repeat([]float32{1}, n*d), tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d)})
		if err != nil {
			return fmt.Errorf("the first search failed: %w", err)
		}
	}
	return nil
}

// connect finds the signatures' tensors and the model's sizes.
func (m *savedModel) connect(signatures map[string]signature) error {
	call := func(name string, in []string, out string, rank int) (*run, []tensorInfo, error) {
		s := signatures[name]
		from, err := pick(name, s.inputs, in, []int{2, 2, 2})
		if err != nil {
			return nil, nil, err
		}
		to, err := pick(name, s.outputs, []string{out}, []int{rank})
		if err != nil {
			return nil, nil, err
		}
		all := append(from, to...)
		var names []string
		for _, info := range all {
			names = append(names, info.name)
		}
		edges, err := m.session.api.edges(m.session.graph, names...)
		if err != nil {
			return nil, nil, err
		}
		return newRun(edges[:len(in)], edges[len(in):]), all, nil
	}
	var infos []tensorInfo
	var err error
	if m.phi, _, err = call("phi", []string{"obs"}, "phi", 2); err != nil {
		return err
	}
	if m.act, _, err = call("policy", []string{"obs", "z"}, "action", 2); err != nil {
		return err
	}
	if m.psi, infos, err = call("psi", []string{"obs", "action", "z"}, "psi", 3); err != nil {
		return err
	}
	m.actMany, m.psiMany = newRun(m.act.feeds, m.act.fetches), newRun(m.psi.feeds, m.psi.fetches)
	m.dims = tflite.Dims{Obs: infos[0].dims[1], Action: infos[1].dims[1], Latent: infos[2].dims[1], Ensemble: infos[3].dims[0]}
	if d := m.dims; d.Obs < 1 || d.Action < 1 || d.Latent < 1 || d.Ensemble < 1 {
		return fmt.Errorf("signature psi does not fix its sizes (%+v): save it with input shapes, and psi as [E, n, d]", d)
	}
	return nil
}

// grow makes the tensors for n candidates.
func (r *rows) grow(a *api, n int, d tflite.Dims) error {
	r.free(a)
	var errs [3]error
	r.obs, errs[0] = a.newTensor(n, d.Obs)
	r.z, errs[1] = a.newTensor(n, d.Latent)
	r.action, errs[2] = a.newTensor(n, d.Action)
	return errors.Join(errs[:]...)
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
	if err := finite(psi, errPsi); err != nil {
		return 0, 0, err
	}
	highest := math.Inf(-1)
	for i := range n {
		least := math.Inf(1)
		for e := range m.dims.Ensemble {
			at := (e*n + i) * d
			least = min(least, m.bound(psi[at:at+d], belief))
		}
		if least > highest {
			best, highest = i, least
		}
	}
	return best, float32(highest), nil
}

// bound is ψᵀẑ + β‖R⁻ᵀψ‖.
func (m *savedModel) bound(psi []float32, b tflite.Belief) float64 {
	d := len(psi)
	mean := 0.0
	clear(m.scratch)
	for i, x := range psi {
		mean += float64(x) * float64(b.Mean[i])
		for j := i; j < d; j++ {
			m.scratch[j] += float64(x) * float64(b.InvR[i*d+j])
		}
	}
	squares := 0.0
	for _, x := range m.scratch {
		squares += x * x
	}
	return mean + float64(b.Beta)*math.Sqrt(squares)
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
	for i, x := range z {
		m.one.z.f32[i] = float32(x)
	}
	return takenZ(m.one.z.f32)
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
	copy(m.many.z.f32, candidates)
	for at := 0; at < len(candidates); at += d {
		if err := takenZ(candidates[at : at+d]); err != nil {
			return err
		}
	}
	return nil
}

// takenZ refuses a z that no network can normalise.
func takenZ(z []float32) error {
	squares := 0.0
	for _, x := range z {
		squares += float64(x) * float64(x)
	}
	if squares < minNorm*minNorm {
		return tflite.ErrNoDirection
	}
	return finite(z, errZ)
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
