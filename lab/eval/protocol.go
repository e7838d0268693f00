package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/goccy/go-yaml"
)

// Version of the protocol format that this package reads.
const Version = 1

// Protocol is an experiment: which methods are run in which environments, how
// often and under which conditions. Start from [Load] or [Parse].
type Protocol struct {
	// Version of the format: 1.
	Version int `yaml:"version"`
	// Experiment is its name in the results.
	Experiment string `yaml:"experiment"`
	// About says in a sentence what it asks.
	About string `yaml:"about"`
	// Run says how long a trial is and how many there are.
	Run Run `yaml:"run"`
	// Environments are where it runs.
	Environments []Environment `yaml:"environments"`
	// Methods are what is compared.
	Methods []Method `yaml:"methods"`
	// Conditions are settings of every method that they matter to.
	Conditions Settings `yaml:"conditions"`
	// Quick is what the quick profile leaves of it.
	Quick Quick `yaml:"quick"`
	// Profiles are further parts of it, by name.
	Profiles []Profile `yaml:"profiles,omitempty"`
}

// Run says how long a trial is and how many there are.
type Run struct {
	// Trials of each combination, each with a seed of its own.
	Trials int `yaml:"trials"`
	// Episodes of a trial, during which the agent goes on learning.
	Episodes int `yaml:"episodes"`
	// EpisodeSteps is the length of an episode.
	EpisodeSteps int `yaml:"episode_steps"`
	// RewardEvery gives a row of the mean reward every so many steps; 0: none.
	RewardEvery int `yaml:"reward_every"`
	// LabelBudgets gives a row of the mean reward and of the labels at the step
	// in which so many labels were used; the trial ends with the largest.
	LabelBudgets []int `yaml:"label_budgets"`
	// Seed is that of the whole, from which all others follow.
	Seed uint64 `yaml:"seed"`
}

// Environment is a robot with tasks and the models that were trained for it.
type Environment struct {
	// Name is rover (built in), or, by the bridge, walker, cheetah, quadruped (dm_control) or antmaze (ogbench).
	Name string `yaml:"name"`
	// Tasks whose rewards are to be found out.
	Tasks []string `yaml:"tasks"`
	// Models are tried one by one.
	Models []Model `yaml:"models"`
}

// Model is a bundle.
type Model struct {
	// Bundle is its folder, or embedded:rover.
	Bundle string `yaml:"bundle"`
	// Seed is that of its training.
	Seed int `yaml:"seed"`
	// States is an .npz file of labelled states, see [ReadStates]. Empty:
	// states.npz in the bundle, where there is one; the rover makes its own.
	States string `yaml:"states"`
}

// Method is a way of choosing z, with its settings. Every combination of values
// is run.
type Method struct {
	// Name is one of [Methods].
	Name string `yaml:"name"`
	Settings
}

// The names of the environments.
const (
	Rover     = "rover"
	Walker    = "walker"
	Cheetah   = "cheetah"
	Quadruped = "quadruped"
	AntMaze   = "antmaze"
)

// EmbeddedRover as a bundle is the rover's model within the program.
const EmbeddedRover = "embedded:rover"

// Default is the paper's protocol without environments and methods: 10 trials of
// 10 episodes of 1,000 steps.
func Default() Protocol {
	return Protocol{Version: Version, Run: Run{Trials: 10, Episodes: 10, EpisodeSteps: 1000, Seed: 1}}
}

// Hash identifies what a profile left of an experiment, with the defaults filled
// in: sha256, hexadecimal. Results of different hashes do not belong together.
func (p Protocol) Hash() (string, error) {
	p.Quick, p.Profiles, p.About = Quick{}, nil, ""
	text, err := yaml.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("eval: protocol: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
