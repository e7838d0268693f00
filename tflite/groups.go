package tflite

import (
	"errors"
	"fmt"
	"slices"
)

// Group is a named part of an observation. Networks read the concatenation of the groups that they
// list.
type Group struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`     // elements
	NormObs bool   `json:"norm_obs"` // the networks see (obs - mean)/sqrt(var + 1e-5)
}

// tensor returns the name of a tensor of the group's normaliser.
func (g Group) tensor(name string) string {
	return "_obs_normalizer._normalizers." + g.Name + "._normalizer." + name
}

// validateGroups checks the groups, and that the networks list groups that exist.
func (a Architecture) validateGroups() error {
	inputs := []struct {
		name string
		list []string
	}{{"f", a.F.Inputs}, {"b", a.B.Inputs}, {"actor", a.Actor.Inputs}}
	if len(a.Groups) == 0 {
		for _, in := range inputs {
			if len(in.list) > 0 {
				return fmt.Errorf("architecture: %s.inputs lists groups, but groups is missing", in.name)
			}
		}
		return nil
	}
	if a.NormObs {
		return errors.New("architecture: norm_obs is true; with groups, each group has its own norm_obs")
	}
	total := 0
	for i, g := range a.Groups {
		if g.Name == "" || slices.IndexFunc(a.Groups, func(o Group) bool { return o.Name == g.Name }) != i {
			return fmt.Errorf("architecture: groups: name %q is empty or occurs twice", g.Name)
		}
		if g.Size < 1 || g.Size > maxWidth {
			return fmt.Errorf("architecture: groups: size of %q is %d, want 1 to %d", g.Name, g.Size, maxWidth)
		}
		total += g.Size
	}
	if total != a.Obs {
		return fmt.Errorf("architecture: the groups have %d elements, obs is %d", total, a.Obs)
	}
	for _, in := range inputs {
		if in.name == "f" && !a.HasForward() {
			continue
		}
		if len(in.list) == 0 {
			return fmt.Errorf("architecture: %s.inputs is empty; list the groups that the network reads", in.name)
		}
		for i, name := range in.list {
			if a.group(name) == nil || slices.Index(in.list, name) != i {
				return fmt.Errorf("architecture: %s.inputs: group %q is unknown or occurs twice", in.name, name)
			}
		}
	}
	return nil
}

// group returns the group of a name, or nil.
func (a Architecture) group(name string) *Group {
	i := slices.IndexFunc(a.Groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Groups[i]
}

// width returns the number of elements of a network's observation.
func (a Architecture) width(inputs []string) int {
	if len(a.Groups) == 0 {
		return a.Obs
	}
	sum := 0
	for _, name := range inputs {
		sum += a.group(name).Size
	}
	return sum
}

// fWidth is the number of elements that F reads of an observation or its encoder.
func (a Architecture) fWidth() int {
	if a.Encoder != nil {
		return a.Encoder.Size
	}
	return a.width(a.F.Inputs)
}

// actorWidth is fWidth for the actor.
func (a Architecture) actorWidth() int {
	if a.Encoder != nil && a.Encoder.Actor {
		return a.Encoder.Size
	}
	return a.width(a.Actor.Inputs)
}

// elementSpan is a range of an observation's elements.
type elementSpan struct{ from, to int }

// spans returns the positions of a network's groups in an observation, in the order of the
// network's input.
func (a Architecture) spans(inputs []string) []elementSpan {
	var all []elementSpan
	for _, name := range inputs {
		from := 0
		for _, g := range a.Groups {
			if g.Name == name {
				all = append(all, elementSpan{from, from + g.Size})
			}
			from += g.Size
		}
	}
	return all
}

// reads are the elements of an observation that the networks read; nil for all of them.
type reads struct{ b, f, actor []elementSpan }

func (a Architecture) reads() reads {
	return reads{b: a.spans(a.B.Inputs), f: a.spans(a.F.Inputs), actor: a.spans(a.Actor.Inputs)}
}

// views are the networks' observations.
type views struct{ b, f, actor []float32 }

// newViews returns views of obs, or memory for copies of its parts.
func (r reads) newViews(obs []float32) views {
	view := func(spans []elementSpan) []float32 {
		if spans == nil {
			return obs
		}
		n := 0
		for _, s := range spans {
			n += s.to - s.from
		}
		return make([]float32, n)
	}
	return views{view(r.b), view(r.f), view(r.actor)}
}

// fill copies the parts of obs into v.
func (r reads) fill(v views, obs []float32) {
	gather(v.b, r.b, obs)
	gather(v.f, r.f, obs)
	gather(v.actor, r.actor, obs)
}

func gather(dst []float32, spans []elementSpan, obs []float32) {
	for _, s := range spans {
		dst = dst[copy(dst, obs[s.from:s.to]):]
	}
}
