// Package eval runs experiments: environments x tasks x methods x settings x
// trials, from a protocol file to a file of results.
//
// What is evaluated is what is shipped. A trial is a controller.Agent with a
// controller.Planner in lockstep, stepped by package simulate as `optibfm run
// --fast` steps them; what a method or an experiment has of its own is put
// where the controller has a place for it:
//
//	method, β, σ, λ, ρ, candidates, steps,
//	replan_every                            controller.Config
//	labels, their noise, delay and gaps     rewardsrc/scripted, behind the label gate
//	lola                                    a controller.Plans of its own
//	plan_age                                a controller.Plans that hands out older plans
//	sampler: transposed                     a controller.Sampler that makes the mistake
//	inaccuracy                              a tflite.Model with wrong successor features
//	nonlinearity                            a robot that tells another reward
//
// # A protocol
//
// [Load] reads one, as strictly as configurations are read: every mistake is
// told with its place. [Protocol.Profile] reduces it, such as to what shows in minutes that
// it works. [Protocol.Trials] lists what there is to do. Every setting is a list
// of values, and every combination is run:
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
// The rover runs within the program. dm_control's robots run in processes of
// Python, one a job, behind hal/bridge: MuJoCo makes the step there, everything
// that decides is here.
//
// # Seeds
//
// A trial's seed follows from the protocol's, the environment, the task and the
// trial's number. Neither the method nor the model is in it: all methods meet the
// same initial states, so that they can be compared in pairs. Everything random
// follows from it, so a trial gives the same rows wherever and beside whatever it
// runs; only what is measured, MeasureHz, differs.
//
// # Results
//
// A [Row] is one number with what reproduces it. [Runner] appends a trial's rows
// in one write when it ends, and the last of them is that of MeasureHz: whatever
// ends a run, what [OpenResults] finds behind the last such row was cut off, and
// is taken out. A run that is started again runs the trials that are missing.
// Results of shards are put together by [Merge].
package eval
