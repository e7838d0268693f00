package tflite_test

import (
	"math"
	"strings"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// faulty is a model with changed results.
type faulty struct {
	*tflite.Network
	calls  int
	phi    func(dst []float64, call int)
	act    func(dst []float32, z []float64, call int)
	search func(score *float32)
}

func (o *faulty) Phi(dst []float64, obs []float32) error {
	err := o.Network.Phi(dst, obs)
	if o.calls++; o.phi != nil {
		o.phi(dst, o.calls)
	}
	return err
}

func (o *faulty) Act(dst, obs []float32, z []float64) error {
	err := o.Network.Act(dst, obs, z)
	if o.calls++; o.act != nil {
		o.act(dst, z, o.calls)
	}
	return err
}

func (o *faulty) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	best, score, err := o.Network.Search(obs, candidates, belief)
	if o.search != nil {
		o.search(&score)
	}
	return best, score, err
}

func TestProbe_FindsInvalidModels(t *testing.T) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 2}
	cases := map[string]struct {
		model faulty
		want  string
	}{
		"valid": {faulty{}, ""},
		"random φ": {
			faulty{phi: func(dst []float64, call int) { dst[0] += float64(call) }}, "differs for the same inputs",
		},
		"random π": {
			faulty{act: func(dst []float32, _ []float64, call int) { dst[0] = float32(call%7) / 10 }},
			"differs for the same inputs",
		},
		"action out of range": {
			faulty{act: func(dst []float32, _ []float64, _ int) { dst[1] = 1.5 }}, "action 1 is 1.5",
		},
		"action not a number": {
			faulty{act: func(dst []float32, _ []float64, _ int) { dst[1] = float32(math.NaN()) }}, "action 1 is NaN",
		},
		"rows affect each other": {
			faulty{search: func(score *float32) { *score++ }}, "depends on that row alone",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.model.Network = tflitetest.Network(dims, 1)
			scaleFree, err := tflite.Probe(&c.model)
			if c.want == "" && (err != nil || !scaleFree) {
				t.Errorf("%v, scale-free %t; want no error and a scale-free π", err, scaleFree)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestProbe_ReportsWhetherPolicyIsScaleFree(t *testing.T) {
	o := faulty{Network: tflitetest.Network(tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 1}, 1)}
	o.act = func(dst []float32, z []float64, _ int) { dst[0] = float32(math.Tanh(z[0])) }
	if _, err := tflite.Probe(&o); err == nil { // Search and Act use different actions
		t.Error("Probe accepts an Act that differs from Search's policy")
	}
	m := tflitetest.Manifest(o.Dims())
	m.Architecture.NormZ = false
	raw := newNetwork(t, m, tflitetest.Tensors(m.Architecture, 1))
	if scaleFree, err := tflite.Probe(raw); err != nil || scaleFree {
		t.Errorf("%v, scale-free %t; want a policy that depends on ‖z‖", err, scaleFree)
	}
}
