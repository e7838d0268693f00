package tflite_test

import (
	"math"
	"strings"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// odd is a model with something wrong.
type odd struct {
	*tflite.Network
	calls  int
	phi    func(dst []float64, call int)
	act    func(dst []float32, z []float64, call int)
	search func(score *float32)
}

func (o *odd) Phi(dst []float64, obs []float32) error {
	err := o.Network.Phi(dst, obs)
	if o.calls++; o.phi != nil {
		o.phi(dst, o.calls)
	}
	return err
}

func (o *odd) Act(dst, obs []float32, z []float64) error {
	err := o.Network.Act(dst, obs, z)
	if o.calls++; o.act != nil {
		o.act(dst, z, o.calls)
	}
	return err
}

func (o *odd) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	best, score, err := o.Network.Search(obs, candidates, belief)
	if o.search != nil {
		o.search(&score)
	}
	return best, score, err
}

func TestAProbeFindsWhatNoModelDoes(t *testing.T) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 2}
	cases := map[string]struct {
		odd  odd
		want string
	}{
		"nothing":                   {odd{}, ""},
		"φ that draws":              {odd{phi: func(dst []float64, call int) { dst[0] += float64(call) }}, "in two ways"},
		"π that draws":              {odd{act: func(dst []float32, _ []float64, call int) { dst[0] = float32(call%7) / 10 }}, "in two ways"},
		"an action that is too far": {odd{act: func(dst []float32, _ []float64, _ int) { dst[1] = 1.5 }}, "action 1 is 1.5"},
		"an action that is no number": {odd{act: func(dst []float32, _ []float64, _ int) { dst[1] = float32(math.NaN()) }},
			"action 1 is NaN"},
		"rows that influence each other": {odd{search: func(score *float32) { *score++ }}, "must depend on that row alone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.odd.Network = tflitetest.Network(dims, 1)
			scaleFree, err := tflite.Probe(&c.odd)
			if c.want == "" && (err != nil || !scaleFree) {
				t.Errorf("%v, scale-free %t; want no error and π that does not depend on ‖z‖", err, scaleFree)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAProbeSaysWhetherThePolicyDependsOnTheNormOfZ(t *testing.T) {
	o := odd{Network: tflitetest.Network(tflite.Dims{Obs: 3, Action: 2, Latent: 5, Ensemble: 1}, 1)}
	o.act = func(dst []float32, z []float64, _ int) { dst[0] = float32(math.Tanh(z[0])) }
	o.search = nil
	if _, err := tflite.Probe(&o); err == nil { // ψ at another action than Search's
		t.Error("a policy of its own is taken")
	}
	m := tflitetest.Manifest(o.Dims())
	m.Architecture.NormZ = false
	b, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 1))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	if scaleFree, err := tflite.Probe(raw); err != nil || scaleFree {
		t.Errorf("%v, scale-free %t; want a policy that depends on ‖z‖", err, scaleFree)
	}
}
