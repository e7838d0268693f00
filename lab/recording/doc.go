// Package recording records transitions of any robot under exploring actions, to train its model.
//
// The robot runs under controller.Agent with the guards, limits and stops of its configuration. A
// policy of random actions replaces the model. A simulator with its own time runs in lockstep, in
// short episodes from random states. Any other robot runs in real time, with smooth actions, after
// its operator armed it. Every exit halts the robot and keeps the recording.
//
// `optibfm-lab collect` calls [Run]. scripts/train_fb.py reads the recording.
package recording
