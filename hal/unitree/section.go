package unitree

import (
	"time"

	"optibfm/hal"
)

// Describe is Spec.
func (c Config) Describe(period time.Duration) (hal.Spec, error) { return c.Spec(period) }

// HasRemote is true: the robot's state has the buttons of its remote control.
func (Config) HasRemote() bool { return true }
