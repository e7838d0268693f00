package tflite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// TD-JEPA's code saves its own model, forward-backward ones (FB, RLDP), and ones with learnt
// features (HILP, BYOL, and SFModel for Laplacian and others). All have a network for the features
// (our B), one for successor features (our F), an actor, and perhaps an encoder of the observation
// before F and the actor.

// parseJEPA returns the parser of a model.
func parseJEPA(name string) func(config, initKwargs []byte) (layout, error) {
	switch name {
	case "TDJEPAModel":
		return parseTDJEPA
	case "FBModel", "RLDPModel":
		return parseJEPAForwardBackward
	}
	return parseSuccessorFeatures
}

func parseJEPAForwardBackward(config, initKwargs []byte) (layout, error) {
	l := &layout{training: []string{"_predictor."}}
	l.source = jepaSource("_forward_map.", "_backward_map.", "_left_encoder.")
	e := &Encoder{Actor: true}
	return l.parseJEPA(config, initKwargs, fields{
		"archi": l.jepaArchi(fields{
			"z_dim": &l.Latent, "L_dim": &e.Size, "f": forwardFields(&l.F), "b": backwardFields(&l.B),
			"left_encoder?": l.optionalEncoder(e), "predictor?": ignore,
		}),
		"actor_encode_obs?": boolean(&e.Actor), "inference_batch_size?": ignore, "seq_length?": ignore, "amp?": ignore,
	})
}

func parseSuccessorFeatures(config, initKwargs []byte) (layout, error) {
	l := &layout{linear: true, training: []string{"_features2.", "_z_cov", "_predictor."}}
	l.source = jepaSource("_sf.", "_features.", "_left_encoder.")
	e := &Encoder{Actor: true}
	parsed, err := l.parseJEPA(config, initKwargs, fields{
		"archi": l.jepaArchi(fields{
			"z_dim": &l.Latent, "L_dim": &e.Size, "successor_features": forwardFields(&l.F),
			"features": backwardFields(&l.B), "left_encoder?": l.optionalEncoder(e), "predictor?": ignore,
		}),
		"actor_encode_obs?": boolean(&e.Actor), "center_features?": boolean(&l.centred),
	})
	if err == nil && l.centred && l.B.Norm {
		err = fmt.Errorf("%s: center_features is true and archi.features.norm too, which is not supported",
			CheckpointFileName)
	}
	if !l.centred {
		parsed.training = append(parsed.training, featuresMeanName)
	}
	return parsed, err
}

// parseTDJEPA parses a model whose features are its ψ encoder, of least squares, and whose encoder
// is its φ.
func parseTDJEPA(config, initKwargs []byte) (layout, error) {
	l := &layout{linear: true, training: []string{"_psi_predictor.", "_z_cov"}}
	l.Encoder = &Encoder{Actor: true}
	e, symmetric := l.Encoder, false
	parsed, err := l.parseJEPA(config, initKwargs, fields{
		"archi": l.jepaArchi(fields{
			"phi_dim": &e.Size, "psi_dim": &l.Latent, "phi_predictor": forwardFields(&l.F), "psi_predictor?": ignore,
			"phi_mlp_encoder": encoderFields(e), "psi_mlp_encoder": backwardFields(&l.B),
		}),
		"actor_use_full_encoder?": boolean(&e.Actor), "symmetric?": boolean(&symmetric),
	})
	features := "_psi_mlp_encoder."
	if symmetric { // φ is also ψ
		features = "_phi_mlp_encoder."
		parsed.Latent, parsed.B = e.Size, BackArch{Hidden: e.Hidden, HiddenLayers: e.HiddenLayers, Norm: e.Norm}
	}
	parsed.source = jepaSource("_phi_predictor.", features, "_phi_mlp_encoder.")
	return parsed, err
}

// parseJEPA parses both files. want has the keys of config.json that not all models have.
func (l *layout) parseJEPA(config, initKwargs []byte, want fields) (layout, error) {
	maps.Copy(want, fields{
		"name": ignore, "device?": ignore, "actor_std?": ignore,
		"obs_normalizer": func(raw json.RawMessage) (err error) {
			l.NormObs, err = parseNormaliser(raw)
			return err
		},
	})
	if err := decodeObject(config, want); err != nil {
		return *l, inFile(CheckpointFileName, err)
	}
	sizes := make(map[string]int)
	err := decodeObject(withoutInfinity(initKwargs), fields{
		"action_dim": &l.Action,
		"obs_space":  func(raw json.RawMessage) error { return parseBox(raw, flatObs, sizes) },
	})
	l.Obs = sizes[flatObs]
	return *l, inFile(initFileName, err)
}

// jepaArchi adds the keys of archi that all models have.
func (l *layout) jepaArchi(want fields) fields {
	maps.Copy(want, fields{
		"name?": ignore, "norm_z": boolean(&l.NormZ), "augmentator?": ignore, "rgb_encoder?": noPictures,
		"actor": fields{"name?": only("simple", "actor"), "hidden_dim": &l.Actor.Hidden,
			"hidden_layers": &l.Actor.HiddenLayers, "embedding_layers": &l.Actor.EmbeddingLayers,
			"model": modelKind(&l.Actor.Residual)},
	})
	return want
}

// jepaSource is the source of tensors of a model that has F, B and the encoder under these names.
func jepaSource(f, b, encoder string) func(string) string {
	return replacer("_forward_map.", f, "_backward_map.", b, "_left_encoder.", encoder,
		"_obs_normalizer.", "_obs_normalizer._normalizer.")
}

func forwardFields(f *ForwardArch) fields {
	return fields{"name?": only("ForwardArchi"), "hidden_dim": &f.Hidden, "hidden_layers": &f.HiddenLayers,
		"embedding_layers": &f.EmbeddingLayers, "num_parallel": &f.NumParallel, "model": modelKind(&f.Residual),
		"ensemble_mode": only("batch")}
}

func backwardFields(b *BackArch) fields {
	return fields{"name?": only("BackwardArchi"), "hidden_dim": &b.Hidden, "hidden_layers": &b.HiddenLayers,
		"norm": boolean(&b.Norm)}
}

func encoderFields(e *Encoder) fields {
	return fields{"name?": only("BackwardArchi"), "hidden_dim": &e.Hidden, "hidden_layers": &e.HiddenLayers,
		"norm": boolean(&e.Norm)}
}

// identity is the name of a network that returns its input.
const identity = "Identity"

// optionalEncoder decodes an encoder that may be the identity.
func (l *layout) optionalEncoder(e *Encoder) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if isNamed(raw, identity) {
			return decodeObject(raw, fields{"name": ignore})
		}
		l.Encoder = e
		return decodeObject(raw, encoderFields(e))
	}
}

func noPictures(raw json.RawMessage) error {
	if !isNamed(raw, identity) {
		return errors.New("a model of pictures is not supported")
	}
	return nil
}

// isNamed reports whether an object has this name.
func isNamed(raw json.RawMessage, name string) bool {
	var object struct {
		Name string `json:"name"`
	}
	return json.Unmarshal(raw, &object) == nil && object.Name == name
}

// parseMEBE parses config.json of an FB-MEBE checkpoint. F, B and the actor have observations and
// normalisers of their own: three groups.
func parseMEBE(config, _ []byte) (layout, error) {
	l := &layout{training: []string{"_critic_normalizer."}}
	sizes := struct{ policy, obs, goal int }{}
	normalised := false
	archi := archiFields(&l.Architecture)
	maps.Copy(archi, fields{"critic?": ignore, "discriminator?": ignore})
	err := decodeObject(config, fields{
		"policy_dim": &sizes.policy, "obs_dim": &sizes.obs, "goal_dim": &sizes.goal, "critic_dim?": ignore,
		"action_dim": &l.Action, "norm_obs": boolean(&normalised), "archi": archi,
		"device?": ignore, "momentum?": ignore, "inference_batch_size?": ignore, "actor_std?": ignore, "seq_length?": ignore,
	})
	l.Groups = []Group{
		{"policy", sizes.policy, normalised}, {"obs", sizes.obs, normalised}, {"goal", sizes.goal, normalised},
	}
	l.Obs = sizes.policy + sizes.obs + sizes.goal
	l.Actor.Inputs, l.F.Inputs, l.B.Inputs = []string{"policy"}, []string{"obs"}, []string{"goal"}
	l.source = replacer(l.Groups[0].tensor(""), "_policy_normalizer.", l.Groups[1].tensor(""), "_F_normalizer.",
		l.Groups[2].tensor(""), "_B_normalizer.")
	return *l, inFile(CheckpointFileName, err)
}
