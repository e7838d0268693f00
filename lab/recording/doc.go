// Package recording records transitions of any robot under exploring actions, to train its model.
//
// The robot runs under controller.Agent with the guards, limits and stops of its configuration; a
// policy of random actions takes the place of the model. A simulator with its own time runs in
// lockstep, in short episodes from random states. Any other robot runs in real time, with smooth
// actions, after its operator armed it. Every way out halts the robot and keeps what was recorded.
//
// `optibfm-lab collect` calls [Run]. scripts/train_fb.py reads its file.
package recording
