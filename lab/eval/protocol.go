package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
)

// Version of the protocol format that this package reads.
const Version = 1

// Protocol is an experiment: methods, environments, conditions and numbers of trials. Start from
// [Load] or [Parse].
type Protocol struct {
	// Version of the format: 1.
	Version int `yaml:"version"`
	// Experiment is its name in the results.
	Experiment string `yaml:"experiment"`
	// About is its question, in a sentence.
	About string `yaml:"about"`
	// Run is the number and the length of the trials.
	Run Run `yaml:"run"`
	// Environments are the robots with their tasks.
	Environments []Environment `yaml:"environments"`
	// Methods are compared with each other.
	Methods []Method `yaml:"methods"`
	// Conditions are settings of every method that has them.
	Conditions Settings `yaml:"conditions"`
	// Quick is the quick profile.
	Quick Quick `yaml:"quick"`
	// Profiles are further profiles.
	Profiles []Profile `yaml:"profiles,omitempty"`
}

// Run is the number and the length of the trials.
type Run struct {
	// Trials of each combination, each with its own seed.
	Trials int `yaml:"trials" rule:"[1, 1e4]"`
	// Episodes of a trial. The agent learns throughout.
	Episodes int `yaml:"episodes" rule:"[1, 1e5]"`
	// EpisodeSteps is the length of an episode.
	EpisodeSteps int `yaml:"episode_steps" rule:"[1, 1e7]"`
	// RewardEvery gives a row of the mean reward every so many steps; 0: none.
	RewardEvery int `yaml:"reward_every" rule:"[0, 1e7]"`
	// LabelBudgets gives a row of the mean reward and of the labels at the step at which so many
	// labels were used; the trial ends at the largest.
	LabelBudgets []int `yaml:"label_budgets" rule:"[1, 1e7]"`
	// DiagnoseEvery gives rows that compare the plan of every so many steps with the z that
	// explains the task best, for ucb, ucb_ep and ucb_sphere; 0: none.
	DiagnoseEvery int `yaml:"diagnose_every,omitempty" rule:"[0, 1e7]"`
	// Seed is the seed from which all others follow.
	Seed uint64 `yaml:"seed"`
}

// Environment is a robot with tasks and the models that were trained for it.
type Environment struct {
	// Name is rover (built in) or, through the bridge, walker, cheetah, quadruped (dm_control),
	// antmaze (ogbench) or one of the variants of go2.
	Name string `yaml:"name"`
	// Tasks to infer.
	Tasks []string `yaml:"tasks"`
	// Rewards define further tasks.
	Rewards []Reward `yaml:"rewards,omitempty"`
	// Becomes is the task from the middle episode on: one of Rewards or a task of the rover. Empty:
	// the same.
	Becomes string `yaml:"becomes,omitempty"`
	// Models are run one by one.
	Models []Model `yaml:"models"`
	// Settings are values for keys that a method leaves out.
	Settings FamilySettings `yaml:"settings,omitempty"`
}

// FamilySettings are the settings of ucb, of thompson, of their variants and of the labels that
// they collect, and those of lola.
type FamilySettings struct {
	UCB      Settings `yaml:"ucb,omitempty"`
	Thompson Settings `yaml:"thompson,omitempty"`
	LoLA     Settings `yaml:"lola,omitempty"`
}

// Model is a bundle.
type Model struct {
	// Bundle is its folder, or embedded:rover.
	Bundle string `yaml:"bundle"`
	// Seed is the seed of its training.
	Seed int `yaml:"seed"`
	// States is an .npz file of labelled states, see [ReadStates]. Empty: states.npz in the bundle,
	// if there is one; those of the rover are simulated.
	States string `yaml:"states"`
}

// Method is a way to choose z, with its settings. Every combination of values is run.
type Method struct {
	// Name is one of [Methods].
	Name string `yaml:"name"`
	// Trials of each combination, in place of those of run and of profiles, except quick; 0:
	// theirs.
	Trials int `yaml:"trials,omitempty"`
	Settings
}

// The names of the environments.
const (
	Rover     = "rover"
	Walker    = "walker"
	Cheetah   = "cheetah"
	Quadruped = "quadruped"
	AntMaze   = "antmaze"

	Go2               = "go2"
	Go2Exact          = "go2_exact"
	Go2Estimated      = "go2_estimated"
	Go2ExactEstimated = "go2_exact_estimated"
)

// EmbeddedRover as a bundle is the rover's model in the program.
const EmbeddedRover = "embedded:rover"

// Default is the paper's protocol without environments and methods: 10 trials of
// 10 episodes of 1,000 steps.
func Default() Protocol {
	return Protocol{Version: Version, Run: Run{Trials: 10, Episodes: 10, EpisodeSteps: 1000, Seed: 1}}
}

// Hash identifies the experiment as run, after the profile: sha256, hexadecimal. It does not depend
// on the number of trials, so that further trials can be added to a file, nor on the defaults of
// settings that are left out. Results with different hashes must not be mixed.
func (p Protocol) Hash() (string, error) {
	p.Quick, p.Profiles, p.About, p.Run.Trials = Quick{}, nil, "", 0
	p.Methods = slices.Clone(p.Methods)
	for i := range p.Methods {
		p.Methods[i].Trials = 0
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("eval: protocol: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
