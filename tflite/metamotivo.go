package tflite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// parseFBCPR parses the configuration of a metamotivo FB or FB-CPR checkpoint.
func parseFBCPR(config, _ []byte) (l layout, err error) {
	a := &l.Architecture
	archi := archiFields(a)
	maps.Copy(archi, fields{"critic?": ignore, "discriminator?": ignore})
	err = decodeObject(config, fields{
		"obs_dim": &a.Obs, "action_dim": &a.Action, "norm_obs": boolean(&a.NormObs), "archi": archi,
		"device?": ignore, "inference_batch_size?": ignore, "seq_length?": ignore, "actor_std?": ignore,
	})
	return l, inFile(CheckpointFileName, err)
}

// archiFields are the keys that all layouts have.
func archiFields(a *Architecture) fields {
	return fields{
		"z_dim": &a.Latent, "norm_z": boolean(&a.NormZ),
		"f": fields{"hidden_dim": &a.F.Hidden, "hidden_layers": &a.F.HiddenLayers,
			"embedding_layers": &a.F.EmbeddingLayers, "num_parallel": &a.F.NumParallel,
			"model": modelKind(&a.F.Residual), "ensemble_mode": only("batch")},
		"b": fields{"hidden_dim": &a.B.Hidden, "hidden_layers": &a.B.HiddenLayers, "norm": boolean(&a.B.Norm)},
		"actor": fields{"hidden_dim": &a.Actor.Hidden, "hidden_layers": &a.Actor.HiddenLayers,
			"embedding_layers": &a.Actor.EmbeddingLayers, "model": modelKind(&a.Actor.Residual)},
	}
}

// parseBFMZero parses the two files of a checkpoint of BFM-Zero or UFO. Its observation has groups,
// or is flat.
func parseBFMZero(config, initKwargs []byte) (l layout, err error) {
	a := &l.Architecture
	archi := archiFields(a)
	for key, add := range map[string]fields{
		"f":     {"name": only("ForwardArchi"), "input_filter": groupsOf(&a.F.Inputs)},
		"b":     {"name": only("BackwardArchi"), "input_filter": groupsOf(&a.B.Inputs)},
		"actor": {"name": only("actor", "simple", "residual"), "input_filter": groupsOf(&a.Actor.Inputs)},
	} {
		maps.Copy(archi[key].(fields), add)
	}
	maps.Copy(archi, fields{"name?": ignore, "critic?": ignore, "discriminator?": ignore, "aux_critic?": ignore})
	normalised := make(map[string]bool)
	err = decodeObject(config, fields{
		"name": ignore, "archi": archi, "obs_normalizer": fields{
			"name?": ignore, "allow_mismatching_keys?": ignore,
			"normalizers": func(raw json.RawMessage) error { return parseNormalisers(raw, normalised) },
		},
		"device?": ignore, "inference_batch_size?": ignore, "seq_length?": ignore, "actor_std?": ignore,
		"amp?": ignore, "norm_aux_reward?": ignore,
	})
	if err != nil {
		return l, inFile(CheckpointFileName, err)
	}
	sizes := make(map[string]int)
	err = decodeObject(withoutInfinity(initKwargs), fields{
		"action_dim": &a.Action,
		"obs_space":  func(raw json.RawMessage) error { return parseSpace(raw, sizes) },
	})
	if err != nil {
		return l, inFile(initFileName, err)
	}
	if a.F.Residual { // its embeddings have as many layers as its trunk
		a.F.EmbeddingLayers = a.F.HiddenLayers
	}
	if size, flat := sizes[flatObs]; flat {
		a.Obs, a.NormObs = size, normalised[flatObs]
		l.source = replacer("_obs_normalizer.", "_obs_normalizer._normalizers._normalizer.")
		return l, nil
	}
	return l, a.setGroups(sizes, normalised)
}

// setGroups lists the groups that the networks read.
func (a *Architecture) setGroups(sizes map[string]int, normalised map[string]bool) error {
	for _, name := range slices.Concat(a.F.Inputs, a.B.Inputs, a.Actor.Inputs) {
		if a.group(name) != nil {
			continue
		}
		size, ok := sizes[name]
		if !ok {
			return fmt.Errorf("%s: obs_space has no group %q, which a network reads", initFileName, name)
		}
		norm, ok := normalised[name]
		if !ok {
			return fmt.Errorf("%s: obs_normalizer has no group %q, which a network reads", CheckpointFileName, name)
		}
		a.Groups = append(a.Groups, Group{name, size, norm})
		if a.Obs += size; size < 1 || a.Obs > maxWidth {
			return nil // Validate names the size
		}
	}
	return nil
}

// flatObs is the key of the size and the normaliser of an observation without groups.
const flatObs = ""

// parseNormalisers reports for each group, or for a flat observation, whether it has a normaliser
// other than the identity.
func parseNormalisers(raw []byte, normalised map[string]bool) (err error) {
	if isNormaliser(raw) {
		normalised[flatObs], err = parseNormaliser(raw)
		return err
	}
	return eachKey(raw, func(group string, value json.RawMessage) (err error) {
		if normalised[group], err = parseNormaliser(value); err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		return nil
	})
}

// isNormaliser reports whether an object is a normaliser, not a map of groups to normalisers: its
// name is a string.
func isNormaliser(raw []byte) bool {
	var object struct {
		Name *string `json:"name"`
	}
	return json.Unmarshal(raw, &object) == nil && object.Name != nil
}

func parseNormaliser(raw []byte) (normalises bool, err error) {
	var name string
	err = decodeObject(raw, fields{"name": &name, "momentum?": ignore})
	if err == nil && name != "BatchNormNormalizerConfig" && name != "IdentityNormalizerConfig" {
		err = fmt.Errorf("name: %q is not supported", name)
	}
	return name == "BatchNormNormalizerConfig", err
}

// parseSpace returns the size of each group, or of a flat observation.
func parseSpace(raw []byte, sizes map[string]int) error {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &kind) == nil && kind.Type == "Box" {
		return parseBox(raw, flatObs, sizes)
	}
	return decodeObject(raw, fields{
		"type": only("Dict"),
		"spaces": func(raw json.RawMessage) error {
			return eachKey(raw, func(group string, value json.RawMessage) error {
				if err := parseBox(value, group, sizes); err != nil {
					return fmt.Errorf("%s: %w", group, err)
				}
				return nil
			})
		},
	})
}

func parseBox(raw []byte, group string, sizes map[string]int) error {
	var shape []int
	err := decodeObject(raw, fields{
		"shape": &shape, "type": only("Box"), "low?": ignore, "high?": ignore, "dtype?": ignore,
	})
	if err == nil && len(shape) != 1 {
		err = fmt.Errorf("shape is %v, want one dimension", shape)
	}
	if err == nil {
		sizes[group] = shape[0]
	}
	return err
}

// withoutInfinity replaces the words Infinity and NaN, which Python writes but JSON does not have,
// by 0 outside of strings. They stand in bounds, which nothing reads.
func withoutInfinity(raw []byte) []byte {
	var out []byte
	for quoted := false; len(raw) > 0; {
		n := 1
		switch {
		case quoted && raw[0] == '\\' && len(raw) > 1:
			n = 2
		case raw[0] == '"':
			quoted = !quoted
		case !quoted && bytes.HasPrefix(raw, []byte("Infinity")):
			out, raw, n = append(out, '0'), raw[len("Infinity"):], 0
		case !quoted && bytes.HasPrefix(raw, []byte("NaN")):
			out, raw, n = append(out, '0'), raw[len("NaN"):], 0
		}
		out, raw = append(out, raw[:n]...), raw[n:]
	}
	return out
}

func ignore(json.RawMessage) error { return nil }

// only decodes a string that must have one of some values.
func only(want ...string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var got string
		if err := decodeValue(raw, &got); err != nil {
			return err
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("%q is not supported; train or export the model with %q", got, want[0])
		}
		return nil
	}
}

// modelKind decodes the kind of a network.
func modelKind(residual *bool) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var name string
		if err := decodeValue(raw, &name); err != nil {
			return err
		}
		*residual = name == "residual"
		if !*residual && name != "simple" {
			return fmt.Errorf("%q is not supported (known: simple, residual)", name)
		}
		return nil
	}
}

// boolean decodes true, false, 1 or 0: metamotivo's training script writes numbers.
func boolean(set *bool) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		switch string(raw) {
		case "true", "1":
			*set = true
		case "false", "0":
			*set = false
		default:
			return fmt.Errorf("%s, want true or false", excerpt(raw))
		}
		return nil
	}
}

// groupsOf decodes which groups a network reads; none for a flat observation.
func groupsOf(groups *[]string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		return decodeObject(raw, fields{
			"name": only("DictInputFilterConfig", "IdentityInputFilterConfig"),
			"key?": func(raw json.RawMessage) error {
				var one string
				if json.Unmarshal(raw, &one) == nil {
					*groups = []string{one}
					return nil
				}
				return decodeValue(raw, groups)
			},
		})
	}
}
