package tflite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// layout is how a project writes its checkpoints.
type layout struct {
	Architecture

	// source returns the name in the file of one of our tensors; nil: the same name.
	source func(name string) string
	// training are the beginnings of the names of further tensors that only training uses.
	training []string
	// linear: the training fits rewards to B(s)ᵀz by least squares, so that φ is B and Cov B is
	// replaced by 1.
	linear bool
	// centred: φ is B less its mean, the tensor features_mean.
	centred bool
}

// parseCheckpoint parses the configuration of a checkpoint of a project that FORMAT.md lists. It
// ignores the keys that do not affect the networks (device, batch sizes, the spread of sampled
// actions, the networks of training). A network that this package does not have is an error with
// its key.
func parseCheckpoint(config, initKwargs []byte) (layout, error) {
	parse, err := parserOf(config, initKwargs != nil)
	if err != nil {
		return layout{}, inFile(CheckpointFileName, err)
	}
	l, err := parse(config, initKwargs)
	if err != nil {
		return layout{}, err
	}
	return l, l.Validate()
}

// parserOf chooses the layout by the keys that only it has.
func parserOf(config []byte, hasInit bool) (func(config, initKwargs []byte) (layout, error), error) {
	var name string
	keys := make(map[string]bool)
	note := func(key string, value json.RawMessage) error {
		keys[key] = true
		return nil
	}
	err := eachKey(config, func(key string, value json.RawMessage) error {
		switch key {
		case "archi":
			return eachKey(value, note)
		case "name":
			return decodeValue(value, &name)
		}
		return note(key, value)
	})
	if err != nil {
		return nil, err
	}
	switch {
	case keys["policy_dim"]:
		return parseMEBE, nil
	case name == "":
		return parseFBCPR, nil
	case !hasInit:
		return nil, fmt.Errorf("%s is missing, which has the sizes of this checkpoint; copy it too", initFileName)
	case slices.Contains(jepaModels, name) && (name != "FBModel" || keys["L_dim"]):
		return parseJEPA(name), nil
	case slices.Contains(bfmZeroModels, name):
		return parseBFMZero, nil
	}
	known := slices.Compact(slices.Sorted(slices.Values(slices.Concat(bfmZeroModels, jepaModels))))
	return nil, fmt.Errorf("name: the model %q is not supported (known: %s)", name, strings.Join(known, ", "))
}

// bfmZeroModels and jepaModels are the models of BFM-Zero or UFO, and of TD-JEPA, by their names in
// config.json.
var (
	bfmZeroModels = []string{"FBModel", "FBcprModel", "FBcprAuxModel"}
	jepaModels    = []string{"BYOLModel", "FBModel", "HilpModel", "RLDPModel", "SFModel", "TDJEPAModel"}
)

func inFile(file string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// replacer returns a source that replaces the beginnings of names: ours, the file's, ours...
func replacer(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if rest, ok := strings.CutPrefix(name, pairs[i]); ok {
				return pairs[i+1] + rest
			}
		}
		return name
	}
}

// trainingParts are the beginnings of the names of tensors that only training uses, in every
// layout.
var trainingParts = []string{"_target_", "_critic.", "_discriminator.", "_aux_critic.", "_aux_reward_normalizer."}

// skips reports whether only training uses a tensor of a checkpoint.
func (l layout) skips(name string) bool {
	return strings.HasSuffix(name, ".num_batches_tracked") ||
		slices.ContainsFunc(slices.Concat(trainingParts, l.training),
			func(part string) bool { return strings.HasPrefix(name, part) })
}

const featuresMeanName = "features_mean"

// convert gives the tensors of a file our names. Its errors have the names of the file.
func (l layout) convert(file map[string]Tensor) (map[string]Tensor, error) {
	d := l.Latent
	ours := l.Tensors()
	want := make(map[string][]int)
	sources := make(map[string]string)
	for name, shape := range ours {
		sources[name] = name
		if l.source != nil {
			sources[name] = l.source(name)
		}
		want[sources[name]] = shape
	}
	if l.centred {
		want[featuresMeanName] = []int{d}
	}
	if err := checkShapes(want, file); err != nil {
		return nil, err
	}
	tensors := make(map[string]Tensor)
	for name := range ours {
		tensors[name] = file[sources[name]]
	}
	if l.centred { // B has no norm, so the mean belongs to its last bias
		name := numbered(backwardName, 1+2*l.B.HiddenLayers) + ".bias"
		bias, mean := slices.Clone(tensors[name].float32s()), file[featuresMeanName].float32s()
		for i := range bias {
			bias[i] -= mean[i]
		}
		tensors[name] = Tensor{Shape: []int{d}, F32: bias}
	}
	if l.linear {
		cov := Tensor{Shape: []int{d, d}, F64: make([]float64, d*d)}
		for i := range d {
			cov.F64[i*d+i] = 1
		}
		tensors[covName] = cov
	}
	return tensors, nil
}
