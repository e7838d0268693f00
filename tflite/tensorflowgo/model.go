package tensorflowgo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	tf "github.com/tensorflow/tensorflow/tensorflow/go"

	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// Model is a model that TensorFlow evaluates. One goroutine uses it at a time.
type Model struct {
	dims        tflite.Dims
	normZ       bool
	device      string
	mean, scale []float32 // of the observation's normaliser; nil without
	graph       *tf.Graph
	session     *tf.Session

	obs, candidates, action tf.Output
	belief                  struct{ mean, invR, beta tf.Output }
	search, act, psi, phi   []tf.Output // what a call fetches; phi is nil without Cov B

	wide    []float64 // [d], a z in float64
	encoded []byte    // of a tensor
	decoded bytes.Buffer
	garbage int // bytes of tensors since the last garbage collection
}

var _ tflite.Evaluator = (*Model)(nil)

var errClosed = errors.New("tensorflow-go: the model is closed")

// New builds the graph of a bundle on the device and searches once among n candidates, so that the
// first plan is not slow.
func New(b *tflite.Bundle, c Config, n int) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if !b.Architecture.HasForward() {
		return nil, tflite.ErrNoForward
	}
	if n < 1 {
		return nil, fmt.Errorf("tensorflow-go: the number of candidates is %d; use at least 1", n)
	}
	if err := setEnvironment(c); err != nil {
		return nil, fmt.Errorf("tensorflow-go: %w", err)
	}
	m := &Model{dims: b.Dims(), normZ: b.Architecture.NormZ, device: c.Device, graph: tf.NewGraph(),
		wide: make([]float64, b.Dims().Latent)}
	m.mean, m.scale = b.Normaliser()
	var err error
	if m.session, err = tf.NewSession(m.graph, &tf.SessionOptions{Config: c.options().Proto()}); err != nil {
		return nil, fmt.Errorf("tensorflow-go: create a session: %w", err)
	}
	if err := m.open(b, n); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// setEnvironment sets what TensorFlow and CUDA read at their first use: package tensorflow gives
// the reasons for the first two. TensorFlow's package has no call for TF32.
func setEnvironment(c Config) error {
	variables := map[string]string{"TF_ENABLE_ONEDNN_OPTS": "0"}
	if _, ok := os.LookupEnv("TF_CPP_MIN_LOG_LEVEL"); !ok {
		variables["TF_CPP_MIN_LOG_LEVEL"] = "2"
	}
	if !c.TF32 {
		variables["NVIDIA_TF32_OVERRIDE"] = "0"
	}
	var errs []error
	for name, value := range variables {
		errs = append(errs, os.Setenv(name, value))
	}
	return errors.Join(errs...)
}

func (m *Model) open(b *tflite.Bundle, n int) error {
	if err := m.checkDevice(m.device); err != nil {
		return err
	}
	if err := m.graph.Import(tensorflow.GraphDef(b, m.device), ""); err != nil {
		return fmt.Errorf("tensorflow-go: import the graph: %w", err)
	}
	if err := m.connect(b.HasCovariance()); err != nil {
		return err
	}
	d := m.dims.Latent
	obs, candidates := make([]float32, m.dims.Obs), slices.Repeat([]float32{1}, n*d)
	copy(obs, m.mean)
	belief := tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: 1}
	if _, _, err := m.Search(obs, candidates, belief); err != nil {
		return fmt.Errorf("tensorflow-go: the first search on %s failed: %w", m.device, err)
	}
	return nil
}

// checkDevice returns an error unless the session has the device: TensorFlow would report it at the
// first run.
func (m *Model) checkDevice(device string) error {
	devices, err := m.session.ListDevices()
	if err != nil {
		return fmt.Errorf("tensorflow-go: list the devices: %w", err)
	}
	var names []string
	for _, d := range devices {
		_, name, _ := strings.Cut(d.Name, "/device:")
		if "/"+name == device {
			return nil
		}
		names = append(names, "/"+name)
	}
	return fmt.Errorf("tensorflow-go: device: %w: %s (TensorFlow %s has %s); use another device or model.backend: native",
		tensorflow.ErrNoDevice, device, tf.Version(), strings.Join(names, ", "))
}

// connect finds the inputs and outputs of the calls in the graph.
func (m *Model) connect(phi bool) error {
	var err error
	output := func(name string) tf.Output {
		operation := m.graph.Operation(name)
		if operation == nil {
			err = errors.Join(err, fmt.Errorf("tensorflow-go: the graph has no operation %q", name))
			return tf.Output{}
		}
		return operation.Output(0)
	}
	m.obs, m.candidates = output(tensorflow.ObsName), output(tensorflow.CandidateName)
	m.action = output(tensorflow.ActionName)
	m.belief.mean, m.belief.invR = output(tensorflow.MeanName), output(tensorflow.InvRName)
	m.belief.beta = output(tensorflow.BetaName)
	m.search = []tf.Output{
		output(tensorflow.FiniteName), output(tensorflow.BestName), output(tensorflow.ScoreName),
	}
	m.act = []tf.Output{output(tensorflow.ActionFiniteName), m.action}
	m.psi = []tf.Output{output(tensorflow.PsiFiniteName), output(tensorflow.PsiName)}
	if phi {
		m.phi = []tf.Output{output(tensorflow.PhiFiniteName), output(tensorflow.PhiName)}
	}
	return err
}

// Close frees the session. TensorFlow's package frees the graph later.
func (m *Model) Close() error {
	if m.session == nil {
		return nil
	}
	err := m.session.Close()
	m.session, m.graph = nil, nil
	return err
}

// Dims implements tflite.Model.
func (m *Model) Dims() tflite.Dims { return m.dims }

func (m *Model) String() string {
	return fmt.Sprintf("TensorFlow  %s, through its Go package; the graph is on %s", tf.Version(), m.device)
}

// Search implements tflite.Model. Unlike other models it allocates in each call.
func (m *Model) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	d := m.dims.Latent
	if err := belief.Validate(d); err != nil {
		return 0, 0, err
	}
	zs, err := m.projected(candidates)
	if err != nil {
		return 0, 0, err
	}
	invR := make([]float32, d*d)
	for i := range d {
		copy(invR[i*d+i:(i+1)*d], belief.InvR[i*d+i:(i+1)*d])
	}
	in := m.inputs(obs)
	in.feed(m.candidates, zs, len(zs)/d, d)
	in.feed(m.belief.mean, belief.Mean, d, 1)
	in.feed(m.belief.invR, invR, d, d)
	in.feed(m.belief.beta, []float32{belief.Beta})
	results, err := in.run(m.search, "ψ")
	if err != nil {
		return 0, 0, err
	}
	return int(results[1].Value().(int64)), results[2].Value().(float32), nil
}

// Phi implements tflite.Model.
func (m *Model) Phi(dst []float64, obs []float32) error {
	if m.phi == nil {
		return tflite.ErrNoCovariance
	}
	return evaluate(m.inputs(obs), m.phi, dst, m.dims.Latent, "φ")
}

// Act implements tflite.Model.
func (m *Model) Act(dst, obs []float32, z []float64) error {
	in := m.inputs(obs)
	in.feedZ(z)
	return evaluate(in, m.act, dst, m.dims.Action, "the policy's action")
}

// Psi implements tflite.Evaluator.
func (m *Model) Psi(dst, obs, action []float32, z []float64) error {
	in := m.inputs(obs)
	in.feedZ(z)
	in.check("action", action, m.dims.Action)
	in.feed(m.action, action, 1, m.dims.Action)
	return evaluate(in, m.psi, dst, m.dims.Ensemble*m.dims.Latent, "ψ")
}

// projected are the candidates as the networks take them.
func (m *Model) projected(candidates []float32) ([]float32, error) {
	d := m.dims.Latent
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return nil, fmt.Errorf("tensorflow-go: the candidates have %d elements, want a positive multiple of %d",
			len(candidates), d)
	}
	zs := make([]float32, len(candidates))
	for at := 0; at < len(zs); at += d {
		for i := range m.wide {
			m.wide[i] = float64(candidates[at+i])
		}
		if err := tflite.ProjectZ(zs[at:at+d], m.wide, m.normZ); err != nil {
			return nil, err
		}
	}
	return zs, nil
}

// inputs are the tensors of one call, or the first error in making them.
type inputs struct {
	m     *Model
	feeds map[tf.Output]*tf.Tensor
	err   error
}

// inputs begins a call with the observation as the networks take it.
func (m *Model) inputs(obs []float32) *inputs {
	in := &inputs{m: m, feeds: make(map[tf.Output]*tf.Tensor)}
	if m.session == nil {
		in.err = errClosed
	}
	in.check("observation", obs, m.dims.Obs)
	if in.err != nil {
		return in
	}
	normalised := slices.Clone(obs)
	for i, mean := range m.mean {
		normalised[i] = (obs[i] - mean) * m.scale[i]
	}
	in.feed(m.obs, normalised, 1, m.dims.Obs)
	return in
}

// check notes an error unless x has n elements, all finite.
func (in *inputs) check(what string, x []float32, n int) {
	switch {
	case in.err != nil:
	case len(x) != n:
		in.err = fmt.Errorf("tensorflow-go: %s has %d elements, want %d", what, len(x), n)
	case !finite(x):
		in.err = fmt.Errorf("tensorflow-go: an element of the %s is %w", what, tflite.ErrNotFinite)
	}
}

// feedZ adds a single task embedding.
func (in *inputs) feedZ(z []float64) {
	d := in.m.dims.Latent
	if in.err == nil && len(z) != d {
		in.err = fmt.Errorf("tensorflow-go: z has %d elements, want %d", len(z), d)
	}
	if in.err != nil {
		return
	}
	projected := make([]float32, d)
	in.err = tflite.ProjectZ(projected, z, in.m.normZ)
	in.feed(in.m.candidates, projected, 1, d)
}

// feed adds a float32 tensor; without dims it is a scalar.
func (in *inputs) feed(input tf.Output, x []float32, dims ...int) {
	if in.err != nil {
		return
	}
	var shape []int64
	for _, d := range dims {
		shape = append(shape, int64(d))
	}
	m := in.m
	if m.encoded, in.err = binary.Append(m.encoded[:0], binary.NativeEndian, x); in.err != nil {
		return
	}
	m.garbage += len(m.encoded)
	in.feeds[input], in.err = tf.ReadTensor(tf.Float, shape, bytes.NewReader(m.encoded))
}

// maxGarbage is the number of bytes of tensors that wait for a finalizer. The garbage collector
// does not count them: a planner's small heap would hardly ever make it run.
const maxGarbage = 16 << 20

// run returns the results. The first one of fetches is whether what is finite.
func (in *inputs) run(fetches []tf.Output, what string) ([]*tf.Tensor, error) {
	if in.err != nil {
		return nil, in.err
	}
	results, err := in.m.session.Run(in.feeds, fetches, nil)
	if err != nil {
		return nil, fmt.Errorf("tensorflow-go: a run failed: %w", err)
	}
	if in.m.garbage > maxGarbage {
		in.m.garbage = 0
		runtime.GC()
	}
	if !results[0].Value().(bool) {
		return nil, notFinite(what)
	}
	return results, nil
}

// evaluate copies the second result of a call to dst, which has n elements.
func evaluate[T float32 | float64](in *inputs, fetches []tf.Output, dst []T, n int, what string) error {
	if in.err == nil && len(dst) != n {
		return fmt.Errorf("tensorflow-go: %s has %d elements, want %d", what, len(dst), n)
	}
	results, err := in.run(fetches, what)
	if err != nil {
		return err
	}
	in.m.decoded.Reset()
	size, err := results[1].WriteContentsTo(&in.m.decoded)
	if err != nil {
		return fmt.Errorf("tensorflow-go: read %s: %w", what, err)
	}
	in.m.garbage += int(size)
	if _, err := binary.Decode(in.m.decoded.Bytes(), binary.NativeEndian, dst); err != nil {
		return fmt.Errorf("tensorflow-go: read %s: %w", what, err)
	}
	if !finite(dst) {
		return notFinite(what)
	}
	return nil
}

func notFinite(what string) error {
	return fmt.Errorf("tensorflow-go: %s is %w; the observation may be far from the training data",
		what, tflite.ErrNotFinite)
}

func finite[T float32 | float64](x []T) bool {
	return !slices.ContainsFunc(x, func(v T) bool { return v-v != 0 })
}
