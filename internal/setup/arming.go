package setup

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/internal/plaintext"
	"optibfm/rtloop"
	"optibfm/simulate"
)

// simulator reports whether nobody is hurt when the robot moves: it can be
// reset, which no body can.
func simulator(r hal.Robot) bool { return simulate.Resetter(r) != nil }

// SimulatedOrShadow reports whether nothing moves whatever the program does.
func SimulatedOrShadow(r hal.Robot, f configs.File) bool { return simulator(r) || f.Run.Shadow }

// CheckArming refuses, before anything is armed, what a strict posture does not
// allow a real robot, and warns of it in another.
func CheckArming(out io.Writer, robot hal.Robot, file configs.File) error {
	if SimulatedOrShadow(robot, file) {
		return nil
	}
	var wrong []error
	if file.Safety.Arm == configs.ArmAutomatic {
		wrong = append(wrong, errors.New("safety.arm: automatic arms this robot, which is no simulator, as soon as there is a plan: set it to operator"))
	}
	if parts := withoutDeadman(robot, file); parts != "" && file.Safety.ExternalDeadman == "" {
		wrong = append(wrong, fmt.Errorf("safety.external_deadman: found no deadman of %s: when this computer dies it goes on: set deadman_ms where the driver has it, else cut supply or enable line by a watchdog of its own, and say here which", parts))
	}
	if file.Loop.Posture == rtloop.Strict {
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		fmt.Fprint(out, plaintext.Wrap("warning: "+err.Error()))
	}
	return nil
}

// withoutDeadman names what does not stop by itself when nothing is heard, as far as
// that is known before it is armed.
func withoutDeadman(robot hal.Robot, file configs.File) string {
	if file.Robot.Driver == configs.DriverComposite {
		return strings.Join(file.Robot.Composite.Unguarded(), ", ")
	}
	if _, ok := robot.(hal.Guarded); ok {
		return ""
	}
	return "this robot's driver"
}

// DescribeDeadman says in words what stops the robot when this computer dies, where
// that is known before it is armed; else it is empty.
func DescribeDeadman(robot hal.Robot, s configs.Safety) string {
	switch {
	case s.ExternalDeadman != "":
		return s.ExternalDeadman
	case simulator(robot):
		return "a simulator needs none"
	}
	return ""
}

// CanWaitForHost reports whether a robot may stand still until a slow host has
// caught up: it is simulated, and its time passes with its acts alone.
func CanWaitForHost(r hal.Robot, f configs.File) bool { return simulator(r) && Simulated(f.Robot) }
