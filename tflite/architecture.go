package tflite

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Architecture describes the networks of a forward-backward model. F and the actor are
// metamotivo's models "simple" or "residual". See FORMAT.md for the layers.
type Architecture struct {
	Obs     int         `json:"obs"`               // elements of an observation
	Action  int         `json:"action"`            // elements of an action
	Latent  int         `json:"latent"`            // d, elements of z, φ and ψ
	NormObs bool        `json:"norm_obs"`          // the networks see (obs - mean)/sqrt(var + 1e-5)
	NormZ   bool        `json:"norm_z"`            // the networks see √d·z/‖z‖
	Groups  []Group     `json:"groups,omitempty"`  // parts of the observation, in order; none: all networks read all of it
	Encoder *Encoder    `json:"encoder,omitempty"` // of the observation, for F; nil: none
	F       ForwardArch `json:"f"`                 // all zero: the model has no F
	B       BackArch    `json:"b"`
	Actor   ActorArch   `json:"actor"`
}

// ForwardArch is the shape of F(s, a, z).
type ForwardArch struct {
	Hidden          int `json:"hidden"`           // width of the layers, even
	HiddenLayers    int `json:"hidden_layers"`    // hidden layers of the trunk, >= 0
	EmbeddingLayers int `json:"embedding_layers"` // linear layers of an embedding, >= 2
	NumParallel     int `json:"num_parallel"`     // members of the ensemble

	Residual bool     `json:"residual,omitempty"` // blocks of LayerNorm, linear and Mish
	Inputs   []string `json:"inputs,omitempty"`   // the groups that the network reads, in order
}

// Encoder is the shape of a network with the layers of B, whose output F reads instead of the
// observation.
type Encoder struct {
	Size         int  `json:"size"`          // elements of its output
	Hidden       int  `json:"hidden"`        // width of the layers
	HiddenLayers int  `json:"hidden_layers"` // 0: a single linear layer
	Norm         bool `json:"norm"`          // the output is scaled to the norm √size
	Actor        bool `json:"actor"`         // the actor reads the output too
}

// BackArch is the shape of B(s).
type BackArch struct {
	Hidden       int  `json:"hidden"`        // width of the layers
	HiddenLayers int  `json:"hidden_layers"` // >= 1
	Norm         bool `json:"norm"`          // B is scaled to the norm √d

	Inputs []string `json:"inputs,omitempty"` // as in ForwardArch
}

// ActorArch is the shape of π_z(s).
type ActorArch struct {
	Hidden          int `json:"hidden"`           // width of the layers, even
	HiddenLayers    int `json:"hidden_layers"`    // hidden layers of the trunk, >= 0
	EmbeddingLayers int `json:"embedding_layers"` // linear layers of an embedding, >= 2

	Residual bool     `json:"residual,omitempty"` // as in ForwardArch
	Inputs   []string `json:"inputs,omitempty"`
}

// Limits, so that a damaged file cannot exhaust the memory.
const (
	maxWidth  = 1 << 14
	maxLayers = 64
)

// Validate returns an error for the first invalid size.
func (a Architecture) Validate() error {
	type size struct {
		name             string
		value, low, high int
	}
	sizes := []size{
		{"obs", a.Obs, 1, maxWidth}, {"action", a.Action, 1, maxWidth}, {"latent", a.Latent, 1, maxWidth},
		{"b.hidden", a.B.Hidden, 1, maxWidth}, {"b.hidden_layers", a.B.HiddenLayers, 1, maxLayers},
		{"actor.hidden", a.Actor.Hidden, 2, maxWidth}, {"actor.hidden_layers", a.Actor.HiddenLayers, 0, maxLayers},
		{"actor.embedding_layers", a.Actor.EmbeddingLayers, 2, maxLayers},
	}
	if a.HasForward() {
		sizes = append(sizes, size{"f.hidden", a.F.Hidden, 2, maxWidth},
			size{"f.hidden_layers", a.F.HiddenLayers, 0, maxLayers},
			size{"f.embedding_layers", a.F.EmbeddingLayers, 2, maxLayers}, size{"f.num_parallel", a.F.NumParallel, 1, maxLayers})
	}
	for _, c := range sizes {
		if c.value < c.low || c.value > c.high {
			return fmt.Errorf("architecture: %s is %d, want %d to %d", c.name, c.value, c.low, c.high)
		}
	}
	if a.F.Hidden%2 != 0 || a.Actor.Hidden%2 != 0 {
		return fmt.Errorf("architecture: f.hidden is %d and actor.hidden %d, want even numbers",
			a.F.Hidden, a.Actor.Hidden)
	}
	if err := a.validateEncoder(); err != nil {
		return err
	}
	return a.validateGroups()
}

func (a Architecture) validateEncoder() error {
	e := a.Encoder
	switch {
	case e == nil:
		return nil
	case len(a.Groups) > 0:
		return errors.New("architecture: an encoder with groups is not supported")
	case e.Size < 1 || e.Size > maxWidth || e.Hidden < 1 || e.Hidden > maxWidth:
		return fmt.Errorf("architecture: encoder.size is %d and encoder.hidden %d, want 1 to %d", e.Size, e.Hidden, maxWidth)
	case e.HiddenLayers < 0 || e.HiddenLayers > maxLayers:
		return fmt.Errorf("architecture: encoder.hidden_layers is %d, want 0 to %d", e.HiddenLayers, maxLayers)
	}
	return nil
}

// HasForward reports whether the model has F, and so ψ.
func (a Architecture) HasForward() bool { return !reflect.ValueOf(a.F).IsZero() }

// Residual reports whether a network consists of residual blocks.
func (a Architecture) Residual() bool { return a.F.Residual || a.Actor.Residual }

// Parameters counts the elements of all tensors.
func (a Architecture) Parameters() int {
	total := 0
	for _, shape := range a.Tensors() {
		total += elements(shape)
	}
	return total
}

func (a Architecture) dims() Dims {
	return Dims{Obs: a.Obs, Action: a.Action, Latent: a.Latent, Ensemble: a.F.NumParallel}
}

// Names of the networks with the layers of B.
const (
	backwardName = "_backward_map.net"
	encoderName  = "_left_encoder.net"
)

// Names of the tensors that are not layers.
const (
	covName  = "cov_b"
	meanName = "_obs_normalizer.running_mean"
	varName  = "_obs_normalizer.running_var"
)

// Tensors returns the names and shapes of the tensors of the networks and of the
// observation normaliser, if any. A bundle also has cov_b, [d, d].
func (a Architecture) Tensors() map[string][]int {
	shapes := make(map[string][]int)
	for _, l := range a.layers() {
		weight, bias := []int{l.out, l.in}, []int{l.out}
		if l.norm {
			weight = []int{l.out}
		}
		if l.members > 1 {
			weight, bias = []int{l.members, l.in, l.out}, []int{l.members, 1, l.out}
		}
		if l.members > 1 && l.norm {
			weight = bias
		}
		shapes[l.name+".weight"], shapes[l.name+".bias"] = weight, bias
	}
	if a.NormObs {
		shapes[meanName], shapes[varName] = []int{a.Obs}, []int{a.Obs}
	}
	for _, g := range a.Groups {
		if g.NormObs {
			shapes[g.tensor("running_mean")], shapes[g.tensor("running_var")] = []int{g.Size}, []int{g.Size}
		}
	}
	return shapes
}

// layer describes one linear layer, or one LayerNorm of width out.
type layer struct {
	name    string
	in, out int
	members int // > 1: the tensors begin with an ensemble axis
	norm    bool
}

func (a Architecture) layers() []layer {
	d, f, actor := a.Latent, a.F, a.Actor
	all := slices.Concat(
		backwardLayers(backwardName, a.width(a.B.Inputs), a.B.Hidden, d, a.B.HiddenLayers),
		a.encoderLayers())
	if a.HasForward() {
		obs := a.fWidth()
		embedding, trunk := shapesOf(f.Residual)
		all = slices.Concat(all,
			embedding("_forward_map.embed_z", obs+d, f.Hidden, f.EmbeddingLayers, f.NumParallel),
			embedding("_forward_map.embed_sa", obs+a.Action, f.Hidden, f.EmbeddingLayers, f.NumParallel),
			trunk("_forward_map.Fs", f.Hidden, d, f.HiddenLayers, f.NumParallel))
	}
	obs := a.actorWidth()
	embedding, trunk := shapesOf(actor.Residual)
	return slices.Concat(all,
		embedding("_actor.embed_z", obs+d, actor.Hidden, actor.EmbeddingLayers, 1),
		embedding("_actor.embed_s", obs, actor.Hidden, actor.EmbeddingLayers, 1),
		trunk("_actor.policy", actor.Hidden, a.Action, actor.HiddenLayers, 1))
}

// shapesOf returns functions for the layers of embeddings and trunks.
func shapesOf(residual bool) (embedding, trunk func(prefix string, in, out, count, members int) []layer) {
	if residual {
		return residualEmbeddingLayers, residualTrunkLayers
	}
	return embeddingLayers, trunkLayers
}

// The numbers in the names are the indices of the modules in a PyTorch Sequential:
// linear, LayerNorm and tanh, then pairs of linear and ReLU.

func backwardLayers(prefix string, in, h, out, hiddenLayers int) []layer {
	if hiddenLayers == 0 {
		return []layer{{prefix + ".0", in, out, 1, false}}
	}
	all := []layer{{prefix + ".0", in, h, 1, false}, {prefix + ".1", h, h, 1, true}}
	for i := range hiddenLayers - 1 {
		all = append(all, layer{numbered(prefix, 3+2*i), h, h, 1, false})
	}
	return append(all, layer{numbered(prefix, 1+2*hiddenLayers), h, out, 1, false})
}

func (a Architecture) encoderLayers() []layer {
	if a.Encoder == nil {
		return nil
	}
	return backwardLayers(encoderName, a.Obs, a.Encoder.Hidden, a.Encoder.Size, a.Encoder.HiddenLayers)
}

func embeddingLayers(prefix string, in, hidden, count, members int) []layer {
	all := []layer{{prefix + ".0", in, hidden, members, false}, {prefix + ".1", hidden, hidden, members, true}}
	for i := range count - 2 {
		all = append(all, layer{numbered(prefix, 3+2*i), hidden, hidden, members, false})
	}
	return append(all, layer{numbered(prefix, 2*count-1), hidden, hidden / 2, members, false})
}

func trunkLayers(prefix string, hidden, out, count, members int) []layer {
	var all []layer
	for i := range count {
		all = append(all, layer{numbered(prefix, 2*i), hidden, hidden, members, false})
	}
	return append(all, layer{numbered(prefix, 2*count), hidden, out, members, false})
}

// In a residual network, block i has LayerNorm of its input as i.mlp.0 and a linear layer as
// i.mlp.1.

func residualEmbeddingLayers(prefix string, in, hidden, count, members int) []layer {
	all := blockLayers(prefix, 0, in, hidden, members)
	for i := range count - 2 {
		all = append(all, blockLayers(prefix, i+1, hidden, hidden, members)...)
	}
	return append(all, blockLayers(prefix, count-1, hidden, hidden/2, members)...)
}

func residualTrunkLayers(prefix string, hidden, out, count, members int) []layer {
	var all []layer
	for i := range count {
		all = append(all, blockLayers(prefix, i, hidden, hidden, members)...)
	}
	return append(all, blockLayers(prefix, count, hidden, out, members)...)
}

func blockLayers(prefix string, block, in, out, members int) []layer {
	name := numbered(prefix, block) + ".mlp"
	return []layer{{name + ".0", in, in, members, true}, {name + ".1", in, out, members, false}}
}

func numbered(prefix string, module int) string { return prefix + "." + strconv.Itoa(module) }
