package tflite

import (
	"encoding/json"
	"fmt"
	"strings"
)

// parseMetamotivo parses the config.json of a metamotivo FB checkpoint. It ignores the
// keys that do not affect the networks (device, batch sizes, the spread of sampled
// actions). A network that this package does not have is an error with its key.
func parseMetamotivo(raw []byte) (Architecture, error) {
	var a Architecture
	err := decodeObject(raw, fields{
		"obs_dim": &a.Obs, "action_dim": &a.Action, "norm_obs": &a.NormObs,
		"archi": fields{
			"z_dim": &a.Latent, "norm_z": &a.NormZ,
			"f": fields{"hidden_dim": &a.F.Hidden, "hidden_layers": &a.F.HiddenLayers,
				"embedding_layers": &a.F.EmbeddingLayers, "num_parallel": &a.F.NumParallel,
				"model": only("simple"), "ensemble_mode": only("batch")},
			"b": fields{"hidden_dim": &a.B.Hidden, "hidden_layers": &a.B.HiddenLayers, "norm": &a.B.Norm},
			"actor": fields{"hidden_dim": &a.Actor.Hidden, "hidden_layers": &a.Actor.HiddenLayers,
				"embedding_layers": &a.Actor.EmbeddingLayers, "model": only("simple")},
		},
		"device?": ignore, "inference_batch_size?": ignore, "seq_length?": ignore, "actor_std?": ignore,
	})
	if err != nil {
		return Architecture{}, err
	}
	return a, a.Validate()
}

func ignore(json.RawMessage) error { return nil }

// only decodes a string that must have one value.
func only(want string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var got string
		if err := decodeValue(raw, &got); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%q is not supported; train or export the model with %q", got, want)
		}
		return nil
	}
}

// trainingOnly reports whether only training uses a tensor of a checkpoint.
func trainingOnly(name string) bool {
	return strings.HasPrefix(name, "_target_") || name == "_obs_normalizer.num_batches_tracked"
}
