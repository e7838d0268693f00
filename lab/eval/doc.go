// Package eval runs experiments: environments x tasks x methods x settings x trials, from a
// protocol file to a file of results.
//
// It evaluates the shipped code. A trial is a controller.Agent with a controller.Planner in
// lockstep, stepped by package episodes, as `optibfm run --fast` does. What is special to a method
// or an experiment uses an extension point of the controller:
//
//	method, β, σ, λ, ρ, candidates, steps,
//	replan_every                            controller.Config
//	labels, their noise, delay and gaps     rewardsrc/scripted, behind the label gate
//	lola                                    a controller.Plans
//	plan_age                                a controller.Plans that returns older plans
//	sampler: transposed                     a controller.Sampler with the mistake
//	inaccuracy                              a tflite.Model with wrong successor features
//	nonlinearity                            a robot with a modified reward
//
// # A protocol
//
// [Load] reads a protocol and reports each mistake with its place. [Protocol.Profile] reduces it,
// for example to a check that takes minutes. [Protocol.Trials] lists the trials. Every setting is a
// list of values, and every combination is run:
//
//	version: 1
//	experiment: main
//	run: {trials: 10, episodes: 10, episode_steps: 1000}
//	environments:
//	  - {name: cheetah, tasks: [walk, run], models: [{bundle: models/cheetah}]}
//	conditions: {noise: [0, 1]}         # of every method that learns from labels
//	methods:
//	  - {name: ucb, beta: [1, 0.1, 0.001]}
//	  - {name: random}
//
// # Environments
//
// The rover is simulated in this process. The robots of dm_control run in Python processes, one for
// each job, behind hal/bridge: MuJoCo computes the step there; all decisions are made here.
//
// # Seeds
//
// The seed of a trial follows from the protocol's seed, the environment, the task and the number of
// the trial, not from the method or the model. So all methods start from the same states and can be
// compared in pairs. All random numbers follow from this seed: a trial gives the same rows on any
// machine and under any load, except for the measured MeasureHz.
//
// # Results
//
// A [Row] is one number with what reproduces it. [Runner] appends the rows of a trial in one write
// when the trial ends. The last row is MeasureHz; [OpenResults] removes everything behind the last
// such row. A run that is started again runs the missing trials. [Merge] joins the results of
// shards.
package eval
