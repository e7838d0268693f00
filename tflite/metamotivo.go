package tflite

import (
	"encoding/json"
	"fmt"
	"strings"
)

// parseMetamotivo reads the config.json of a metamotivo FB checkpoint. What
// does not change what the networks compute (device, batch sizes, the spread
// of sampled actions) is read and dropped; what does and is not built here is
// refused by name.
func parseMetamotivo(raw []byte) (Architecture, error) {
	var a Architecture
	err := object(raw, fields{
		"obs_dim": &a.Obs, "action_dim": &a.Action, "norm_obs": &a.NormObs,
		"archi":   func(raw json.RawMessage) error { return parseArchi(raw, &a) },
		"device?": drop, "inference_batch_size?": drop, "seq_length?": drop, "actor_std?": drop,
	})
	if err != nil {
		return Architecture{}, err
	}
	return a, a.Validate()
}

func parseArchi(raw []byte, a *Architecture) error {
	return object(raw, fields{
		"z_dim": &a.Latent, "norm_z": &a.NormZ,
		"f": func(raw json.RawMessage) error {
			return object(raw, fields{"hidden_dim": &a.F.Hidden, "hidden_layers": &a.F.HiddenLayers,
				"embedding_layers": &a.F.EmbeddingLayers, "num_parallel": &a.F.NumParallel,
				"model": only("simple"), "ensemble_mode": only("batch")})
		},
		"b": func(raw json.RawMessage) error {
			return object(raw, fields{"hidden_dim": &a.B.Hidden, "hidden_layers": &a.B.HiddenLayers, "norm": &a.B.Norm})
		},
		"actor": func(raw json.RawMessage) error {
			return object(raw, fields{"hidden_dim": &a.Actor.Hidden, "hidden_layers": &a.Actor.HiddenLayers,
				"embedding_layers": &a.Actor.EmbeddingLayers, "model": only("simple")})
		},
	})
}

func drop(json.RawMessage) error { return nil }

// only takes a string that must have one value.
func only(want string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var got string
		if err := takeValue(raw, &got); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%q is not supported, only %q: train or export the model with it", got, want)
		}
		return nil
	}
}

// ofTraining tells the tensors of a checkpoint that only its training uses.
func ofTraining(name string) bool {
	return strings.HasPrefix(name, "_target_") || name == "_obs_normalizer.num_batches_tracked"
}
