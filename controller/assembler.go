package controller

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"optibfm/hal"
	"optibfm/tflite"
)

// Group describes how an agent assembles a group of the model's observation: the concatenation of
// its terms.
type Group struct {
	// Name is the group's name in the model.
	Name string `yaml:"name"`
	// Terms are the parts of the group, in order.
	Terms []Term `yaml:"terms"`
}

// Term is a part of a group: present and past values of channels, or of the policy's actions.
type Term struct {
	// Channels of the robot, in order. A * stands for any characters: joint_*
	// selects the robot's channels with such names, in the robot's order.
	Channels []string `yaml:"channels"`
	// LastAction selects the policy's actions, from -1 to 1, instead of channels.
	LastAction bool `yaml:"last_action"`
	// Steps is the number of ticks, the newest first: the present reading, or
	// the action of the tick before, then older ones. 0: 1. Values before the
	// first tick are 0.
	Steps int `yaml:"steps" rule:"[0, 1000]"`
	// Skip leaves out as many of the newest ticks.
	Skip int `yaml:"skip" rule:"[0, 1000]"`
	// Scale multiplies the values. 0: 1.
	Scale float64 `yaml:"scale" rule:"finite"`
}

// maxSteps limits the history of a term.
const maxSteps = 1000

// Assembler makes observations of a model from a robot's readings and the policy's actions.
// Assemble allocates nothing. An observation is a function of the readings and actions since the
// last Reset.
type Assembler struct {
	spec     hal.Spec // with the channels of the assembled observation
	elements []element
	readings past
	actions  past
	pending  []float32 // the policy's last action
}

type element struct {
	past  *past
	index int
	age   int // 0: the newest
	scale float64
}

// past holds the newest rows of values, in a ring.
type past struct {
	rows   []float32 // [depth, width]
	width  int
	depth  int
	newest int
}

func (p *past) push(row []float32) {
	p.newest = (p.newest + p.depth - 1) % p.depth
	copy(p.rows[p.newest*p.width:][:p.width], row)
}

func (p *past) at(index, age int) float32 {
	return p.rows[(p.newest+age)%p.depth*p.width+index]
}

// NewAssembler returns the assembler of a model's groups, in the model's order, for a robot. Its
// errors wrap ErrConfig.
func NewAssembler(groups []Group, model []tflite.Group, robot hal.Spec) (*Assembler, error) {
	a := &Assembler{spec: robot, pending: make([]float32, len(robot.Action))}
	a.spec.Obs = nil
	a.readings.width, a.actions.width = len(robot.Obs), len(robot.Action)
	for _, g := range groups {
		if !slices.ContainsFunc(model, func(m tflite.Group) bool { return m.Name == g.Name }) {
			return nil, fmt.Errorf("%w: model.groups: the model has no group %q; use %s",
				ErrConfig, g.Name, groupNames(model))
		}
	}
	for _, m := range model {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("%w: model.groups: group %q (%d elements) is missing; add it (the model reads %s)",
				ErrConfig, m.Name, m.Size, groupNames(model))
		}
		before := len(a.elements)
		for k, t := range groups[i].Terms {
			if err := a.add(m.Name, t, robot); err != nil {
				return nil, fmt.Errorf("%w: model.groups: %s: term %d: %w", ErrConfig, m.Name, k, err)
			}
		}
		if n := len(a.elements) - before; n != m.Size {
			return nil, fmt.Errorf("%w: model.groups: %s: the terms give %d elements, the model has %d; "+
				"correct channels, steps or skip", ErrConfig, m.Name, n, m.Size)
		}
	}
	for _, p := range []*past{&a.readings, &a.actions} {
		p.depth = 1
		for _, e := range a.elements {
			if e.past == p {
				p.depth = max(p.depth, e.age+1)
			}
		}
		p.rows = make([]float32, p.depth*p.width)
	}
	return a, nil
}

func groupNames(groups []tflite.Group) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// add appends the elements of a term of a group.
func (a *Assembler) add(group string, t Term, robot hal.Spec) error {
	if t.LastAction == (len(t.Channels) > 0) {
		return fmt.Errorf("found %d channels and last_action: %t; set one of them", len(t.Channels), t.LastAction)
	}
	steps, scale := max(t.Steps, 1), t.Scale
	if scale == 0 {
		scale = 1
	}
	if t.Steps < 0 || t.Skip < 0 || t.Steps > maxSteps || t.Skip > maxSteps || !finite(float64(float32(scale))) {
		return fmt.Errorf("steps %d, skip %d or scale %g out of range; set 0 to %d, 0 to %d and a finite number",
			t.Steps, t.Skip, t.Scale, maxSteps, maxSteps)
	}
	from, channels := &a.actions, robot.Action
	var indices []int
	if t.LastAction {
		for i := range robot.Action {
			indices = append(indices, i)
		}
	} else {
		from, channels = &a.readings, robot.Obs
		for _, pattern := range t.Channels {
			found, err := matching(pattern, robot)
			if err != nil {
				return err
			}
			indices = append(indices, found...)
		}
	}
	for age := t.Skip; age < t.Skip+steps; age++ {
		for _, i := range indices {
			a.elements = append(a.elements, element{from, i, age, scale})
			c := describe(group, channels[i], t, age)
			if slices.ContainsFunc(a.spec.Obs, func(o hal.Channel) bool { return o.Name == c.Name }) {
				c.Name = group + "." + c.Name // two groups have the channel
			}
			a.spec.Obs = append(a.spec.Obs, c)
		}
	}
	return nil
}

// matching returns the channels that a name or a pattern selects.
func matching(pattern string, robot hal.Spec) ([]int, error) {
	var found []int
	for i, c := range robot.Obs {
		if ok, err := path.Match(pattern, c.Name); err != nil {
			return nil, fmt.Errorf("channel %q: %w; * stands for any characters", pattern, err)
		} else if ok || c.Name == pattern {
			found = append(found, i)
		}
	}
	if found == nil {
		_, err := channelIndex(robot, pattern)
		return nil, err
	}
	return found, nil
}

// describe returns the channel of an element. A present reading outside of a history keeps its
// name, and its unit if it is not scaled.
func describe(group string, c hal.Channel, t Term, age int) hal.Channel {
	d := hal.Channel{Name: c.Name}
	if t.LastAction {
		age++
	} else if t.Scale == 0 || t.Scale == 1 {
		d.Unit = c.Unit
	}
	if t.LastAction || t.Steps > 1 || age > 0 {
		d.Name = fmt.Sprintf("%s.%s@-%d", group, c.Name, age)
	}
	return d
}

// Spec returns the robot's description with the channels of the assembled observation instead of
// the readings. The name of an older value has the group and the number of ticks:
// history_actor.gyro_x@-2.
func (a *Assembler) Spec() hal.Spec { return a.spec }

// Reset forgets all readings and actions.
func (a *Assembler) Reset() {
	clear(a.readings.rows)
	clear(a.actions.rows)
	clear(a.pending)
}

// NoteAction keeps the policy's action for the next observation. It ignores an action that is not
// finite.
func (a *Assembler) NoteAction(action []float32) {
	for _, x := range action {
		if !finite(float64(x)) {
			return
		}
	}
	copy(a.pending, action)
}

// Assemble writes the observation of a tick with these readings.
func (a *Assembler) Assemble(dst, readings []float32) {
	a.readings.push(readings)
	a.actions.push(a.pending)
	for i := range dst {
		e := &a.elements[i]
		dst[i] = float32(float64(e.past.at(e.index, e.age)) * e.scale)
	}
}
