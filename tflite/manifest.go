package tflite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

const (
	formatName    = "optibfm-bundle"
	formatVersion = 2
)

// Manifest describes a bundle, in bfm.json.
type Manifest struct {
	Name         string            // of the model, for people
	Architecture Architecture      // of the networks
	LayerNormEps float64           // 1e-5 in PyTorch, 1e-6 in flax
	Gamma        float64           // discount of the successor features; 0: unknown
	Observation  []Channel         // one for each element, or none if unknown
	Action       []Channel         // one for each element, or none if unknown
	Provenance   map[string]string // origin of the model: free text
}

// Channel names an element of an observation or an action.
type Channel struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // "" for none
}

// Validate returns an error for the first invalid value.
func (m Manifest) Validate() error {
	if err := m.Architecture.Validate(); err != nil {
		return err
	}
	if !(m.LayerNormEps > 0 && m.LayerNormEps < 1) {
		return fmt.Errorf("layernorm_eps is %g, want between 0 and 1 (1e-5 in PyTorch, 1e-6 in flax)", m.LayerNormEps)
	}
	return checkDescription(m.Name, m.Gamma, m.Observation, m.Action, m.Architecture.dims())
}

// checkDescription checks the values that all kinds of bundles have.
func checkDescription(name string, gamma float64, observation, action []Channel, d Dims) error {
	if name == "" {
		return errors.New("name is empty")
	}
	if !(gamma >= 0 && gamma < 1) || math.IsNaN(gamma) {
		return fmt.Errorf("gamma is %g, want at least 0 (unknown) and less than 1", gamma)
	}
	if n := len(observation); n != 0 && n != d.Obs {
		return fmt.Errorf("observation names %d channels, want %d or none", n, d.Obs)
	}
	if n := len(action); n != 0 && n != d.Action {
		return fmt.Errorf("action names %d channels, want %d or none", n, d.Action)
	}
	return nil
}

// manifestFile has the keys of bfm.json in their order.
type manifestFile struct {
	Format       string            `json:"format"`
	Version      int               `json:"version"`
	Name         string            `json:"name"`
	Architecture Architecture      `json:"architecture"`
	LayerNormEps float64           `json:"layernorm_eps"`
	Gamma        float64           `json:"gamma"`
	Observation  []Channel         `json:"observation"`
	Action       []Channel         `json:"action"`
	Weights      string            `json:"weights_sha256"`
	Prior        *priorFile        `json:"prior,omitempty"`
	Provenance   map[string]string `json:"provenance"`
}

func encodeManifest(m Manifest, hash string, prior *Prior) ([]byte, error) {
	file := manifestFile{
		Format: formatName, Version: formatVersion, Name: m.Name, Architecture: m.Architecture,
		LayerNormEps: m.LayerNormEps, Gamma: m.Gamma, Observation: orEmpty(m.Observation), Action: orEmpty(m.Action),
		Weights: hash, Prior: prior.file(), Provenance: orNone(m.Provenance),
	}
	text, err := json.MarshalIndent(file, "", "  ")
	return append(text, '\n'), err
}

// orEmpty and orNone replace nil, which JSON would write as null.
func orEmpty(channels []Channel) []Channel {
	if channels == nil {
		return []Channel{}
	}
	return channels
}

func orNone(provenance map[string]string) map[string]string {
	if provenance == nil {
		return map[string]string{}
	}
	return provenance
}

// parseManifest parses bfm.json. The result has the hashes of the files, but not their tensors.
func parseManifest(raw []byte) (*Bundle, error) {
	m := new(Bundle)
	a := &m.Architecture
	var format string
	var version int
	err := decodeObject(raw, fields{
		"format": &format, "version": &version, "name": &m.Name,
		"architecture": fields{
			"obs": &a.Obs, "action": &a.Action, "latent": &a.Latent, "norm_obs": &a.NormObs, "norm_z": &a.NormZ,
			"groups?":  func(raw json.RawMessage) error { return parseGroups(raw, &a.Groups) },
			"encoder?": func(raw json.RawMessage) error { return parseEncoder(raw, &a.Encoder) },
			"f": fields{"hidden": &a.F.Hidden, "hidden_layers": &a.F.HiddenLayers,
				"embedding_layers": &a.F.EmbeddingLayers, "num_parallel": &a.F.NumParallel,
				"residual?": &a.F.Residual, "inputs?": &a.F.Inputs},
			"b": fields{"hidden": &a.B.Hidden, "hidden_layers": &a.B.HiddenLayers, "norm": &a.B.Norm,
				"inputs?": &a.B.Inputs},
			"actor": fields{"hidden": &a.Actor.Hidden, "hidden_layers": &a.Actor.HiddenLayers,
				"embedding_layers": &a.Actor.EmbeddingLayers, "residual?": &a.Actor.Residual, "inputs?": &a.Actor.Inputs},
		},
		"layernorm_eps": &m.LayerNormEps, "gamma": &m.Gamma,
		"observation":    func(raw json.RawMessage) error { return parseChannels(raw, &m.Observation) },
		"action":         func(raw json.RawMessage) error { return parseChannels(raw, &m.Action) },
		"weights_sha256": &m.Hash,
		"prior?":         optionalPrior(&m.Prior),
		"provenance":     func(raw json.RawMessage) error { return parseProvenance(raw, &m.Provenance) },
	})
	if err != nil {
		return nil, err
	}
	if err := checkFormat(format, version, formatName); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

func checkFormat(format string, version int, want string) error {
	if format != want || version != formatVersion {
		return fmt.Errorf("format %q version %d, want %q version %d", format, version, want, formatVersion)
	}
	return nil
}

func parseChannels(raw []byte, channels *[]Channel) error {
	var entries []json.RawMessage
	if err := decodeValue(raw, &entries); err != nil {
		return err
	}
	for i, entry := range entries {
		var c Channel
		if err := decodeObject(entry, fields{"name": &c.Name, "unit": &c.Unit}); err != nil {
			return fmt.Errorf("channel %d: %w", i, err)
		}
		*channels = append(*channels, c)
	}
	return nil
}

func parseEncoder(raw []byte, encoder **Encoder) error {
	e := new(Encoder)
	*encoder = e
	return decodeObject(raw, fields{
		"size": &e.Size, "hidden": &e.Hidden, "hidden_layers": &e.HiddenLayers, "norm": &e.Norm, "actor": &e.Actor,
	})
}

func parseGroups(raw []byte, groups *[]Group) error {
	var entries []json.RawMessage
	if err := decodeValue(raw, &entries); err != nil {
		return err
	}
	for i, entry := range entries {
		var g Group
		if err := decodeObject(entry, fields{"name": &g.Name, "size": &g.Size, "norm_obs": &g.NormObs}); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
		*groups = append(*groups, g)
	}
	return nil
}

func parseProvenance(raw []byte, p *map[string]string) error {
	*p = make(map[string]string)
	return eachKey(raw, func(key string, value json.RawMessage) error {
		var text string
		if err := decodeValue(value, &text); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		(*p)[key] = text
		return nil
	})
}
