// Package remote takes labels from the remote control of the robot itself, whose
// buttons the driver reads with the robot's state. The control process passes on
// presses of A, B, X and Y without a shoulder button, and nothing comes back: the
// combinations that stop and arm the robot are decided there.
package remote
