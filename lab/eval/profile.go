package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The profiles of every protocol.
const (
	ProfileFull  = "full"
	ProfileQuick = "quick"
)

// Quick is the quick profile: a reduced experiment that shows that everything works. A 0 changes
// nothing.
type Quick struct {
	// Trials, Episodes, EpisodeSteps and RewardEvery replace those of run.
	Trials       int `yaml:"trials" rule:"[0, 1e7]"`
	Episodes     int `yaml:"episodes" rule:"[0, 1e7]"`
	EpisodeSteps int `yaml:"episode_steps" rule:"[0, 1e7]"`
	RewardEvery  int `yaml:"reward_every" rule:"[0, 1e7]"`
	// Environments, Tasks, Models and Values are the numbers that the profile keeps, from the
	// first: of the environments, of the tasks and models of each, and of the values of each
	// setting.
	Environments int `yaml:"environments" rule:"[0, 1e7]"`
	Tasks        int `yaml:"tasks" rule:"[0, 1e7]"`
	Models       int `yaml:"models" rule:"[0, 1e7]"`
	Values       int `yaml:"values" rule:"[0, 1e7]"`
}

// Profile is a named part of an experiment, for example for one machine. An empty key changes
// nothing.
type Profile struct {
	// Name is the argument of --profile.
	Name string `yaml:"name"`
	// Trials, Episodes and EpisodeSteps replace those of run.
	Trials       int `yaml:"trials" rule:"[0, 1e4]"`
	Episodes     int `yaml:"episodes" rule:"[0, 1e5]"`
	EpisodeSteps int `yaml:"episode_steps" rule:"[0, 1e7]"`
	// Environments, Tasks and Methods are the names that the profile keeps, Models the bundles.
	Environments []string `yaml:"environments"`
	Tasks        []string `yaml:"tasks"`
	Models       []string `yaml:"models"`
	Methods      []string `yaml:"methods"`
	// Values is the number of values of each setting that the profile keeps, from the first.
	Values int `yaml:"values" rule:"[0, 1e7]"`
}

// ProfileNames lists the profiles of the protocol.
func (p Protocol) ProfileNames() []string {
	names := []string{ProfileFull, ProfileQuick}
	for _, own := range p.Profiles {
		names = append(names, own.Name)
	}
	return names
}

// Profile returns the experiment as a profile runs it.
func (p Protocol) Profile(name string) (Protocol, error) {
	switch name {
	case ProfileFull:
		return p, nil
	case ProfileQuick:
		return p.quick(), nil
	}
	for _, own := range p.Profiles {
		if own.Name == name {
			return own.of(p), nil
		}
	}
	return p, fmt.Errorf("eval: profile: unknown (%q); %s has %s",
		name, p.Experiment, strings.Join(p.ProfileNames(), ", "))
}

// of returns the protocol reduced to the profile.
func (own Profile) of(p Protocol) Protocol {
	p.Run.Trials = cmp.Or(own.Trials, p.Run.Trials)
	p.Run.Episodes = cmp.Or(own.Episodes, p.Run.Episodes)
	p.Run.EpisodeSteps = cmp.Or(own.EpisodeSteps, p.Run.EpisodeSteps)
	p.Environments = named(p.Environments, own.Environments, nameOfEnvironment)
	for i, e := range p.Environments {
		p.Environments[i].Tasks = named(e.Tasks, own.Tasks, nameOfTask)
		p.Environments[i].Models = named(e.Models, own.Models, nameOfModel)
	}
	p.Methods = named(p.Methods, own.Methods, nameOfMethod)
	return p.firstValues(own.Values)
}

func (p Protocol) quick() Protocol {
	q := p.Quick
	p.Run.Trials = cmp.Or(q.Trials, p.Run.Trials)
	p.Run.Episodes = cmp.Or(q.Episodes, p.Run.Episodes)
	p.Run.EpisodeSteps = cmp.Or(q.EpisodeSteps, p.Run.EpisodeSteps)
	p.Run.RewardEvery = cmp.Or(q.RewardEvery, p.Run.RewardEvery)
	p.Environments = slices.Clone(first(p.Environments, q.Environments))
	for i, e := range p.Environments {
		p.Environments[i].Tasks, p.Environments[i].Models = first(e.Tasks, q.Tasks), first(e.Models, q.Models)
	}
	p = p.firstValues(q.Values)
	if q.Trials > 0 {
		for i := range p.Methods {
			p.Methods[i].Trials = 0
		}
	}
	return p
}

// firstValues keeps the first n values of each setting, or all if n is 0.
func (p Protocol) firstValues(n int) Protocol {
	p.Methods = slices.Clone(p.Methods)
	for i, m := range p.Methods {
		p.Methods[i].Settings = m.Settings.first(n)
	}
	p.Conditions = p.Conditions.first(n)
	return p
}

// first returns the first n of a list, or all if n is 0.
func first[T any](list []T, n int) []T {
	if n == 0 || n > len(list) {
		return list
	}
	return list[:n]
}

func nameOfEnvironment(e Environment) string { return e.Name }
func nameOfTask(task string) string          { return task }
func nameOfModel(m Model) string             { return m.Bundle }
func nameOfMethod(m Method) string           { return m.Name }

// named copies the elements with one of the names, or all without names.
func named[T any](list []T, names []string, nameOf func(T) string) []T {
	if len(names) == 0 {
		return slices.Clone(list)
	}
	var kept []T
	for _, x := range list {
		if slices.Contains(names, nameOf(x)) {
			kept = append(kept, x)
		}
	}
	return kept
}
