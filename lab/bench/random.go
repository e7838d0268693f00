package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// architectures are those of public models, as in scripts/reference_checkpoint.py.
var architectures = map[string]tflite.Architecture{
	"s1": {
		Obs: 358, Action: 69, Latent: 256, NormObs: true, NormZ: true,
		F:     tflite.ForwardArch{Hidden: 1024, HiddenLayers: 2, EmbeddingLayers: 2, NumParallel: 2},
		B:     tflite.BackArch{Hidden: 256, HiddenLayers: 1, Norm: true},
		Actor: tflite.ActorArch{Hidden: 1024, HiddenLayers: 2, EmbeddingLayers: 2},
	},
	"bfmzero": {
		Obs: 64 + 463 + 29 + 372, Action: 29, Latent: 256, NormZ: true,
		Groups: []tflite.Group{
			{Name: "state", Size: 64, NormObs: true}, {Name: "privileged_state", Size: 463, NormObs: true},
			{Name: "last_action", Size: 29, NormObs: true}, {Name: "history_actor", Size: 372, NormObs: true},
		},
		F: tflite.ForwardArch{
			Hidden: 2048, HiddenLayers: 6, EmbeddingLayers: 6, NumParallel: 2, Residual: true,
			Inputs: []string{"state", "privileged_state", "last_action", "history_actor"},
		},
		B: tflite.BackArch{
			Hidden: 256, HiddenLayers: 1, Norm: true, Inputs: []string{"state", "privileged_state"},
		},
		Actor: tflite.ActorArch{
			Hidden: 2048, HiddenLayers: 6, EmbeddingLayers: 6, Residual: true,
			Inputs: []string{"state", "last_action", "history_actor"},
		},
	},
}

// randomModel returns a model of the size of a public one, with random weights.
func randomModel(name string) (setup.Model, error) {
	a, ok := architectures[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(architectures)), ", ")
		return nil, fmt.Errorf("bench: no random model of this size (%q); use one of %s", name, known)
	}
	m := tflitetest.Manifest(tflite.Dims{})
	m.Name, m.Architecture = name, a
	b, err := tflite.New(m, tflitetest.Tensors(a, 1))
	return setup.NativeModel{Bundle: b}, err
}
