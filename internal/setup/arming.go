package setup

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"optibfm/configs"
	"optibfm/episodes"
	"optibfm/hal"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/rtloop"
)

// IsSimulator reports whether a robot can be reset, which no physical robot can.
func IsSimulator(r hal.Robot) bool { return episodes.Resetter(r) != nil }

// SimulatedOrShadow reports whether a run cannot move actuators: of a simulator, or a shadow run.
func SimulatedOrShadow(r hal.Robot, f configs.File) bool { return IsSimulator(r) || f.Run.Shadow }

// AwaitsOperator reports whether a robot stands still until the operator's first input: a simulator
// that a person labels. A physical robot is armed by an explicit command, which no label device can
// give.
func AwaitsOperator(r hal.Robot, f configs.File) bool {
	return IsSimulator(r) && !f.Run.Shadow && f.Operator.ByPerson() && !f.Safety.Attended()
}

// CheckArming checks safety.arm, the deadman and the positions of a physical robot before anything
// is armed. Findings are errors with posture strict and otherwise warnings on out.
func CheckArming(out io.Writer, robot hal.Robot, file configs.File) error {
	if SimulatedOrShadow(robot, file) {
		return nil
	}
	wrong := missingGuards(file, withoutDeadman(robot, file))
	if err := file.Rules(false).CheckStart(robot.Spec().Action); err != nil {
		wrong = append(wrong, fmt.Errorf("safety.start: this robot cannot be armed: %w", err))
	}
	if file.Loop.Posture == rtloop.Strict {
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		fmt.Fprint(out, plaintext.Wrap("warning: "+err.Error()))
	}
	return nil
}

// MissingGuards returns what CheckArming finds about safety.arm and the deadman, as far as it is
// known before the robot is opened. known is false for a robot that moves nothing, and for a bridge,
// which may be a simulator.
func MissingGuards(file configs.File) (wrong []error, known bool) {
	_, described := file.Robot.Chosen().(registry.Describer)
	if !described || Simulated(file.Robot) || file.Run.Shadow {
		return nil, false
	}
	unguarded := ""
	if p, ok := file.Robot.Chosen().(registry.Parted); ok {
		unguarded = strings.Join(p.Unguarded(file.Loop.Period()), ", ")
	}
	return missingGuards(file, unguarded), true
}

// missingGuards returns the findings for a robot with parts without a deadman.
func missingGuards(file configs.File, unguarded string) (wrong []error) {
	if file.Safety.Arm == configs.ArmAutomatic {
		wrong = append(wrong, errors.New("safety.arm: automatic arms this robot, not a simulator, "+
			"at the first plan; set safety.arm to operator"))
	}
	if unguarded != "" && file.Safety.ExternalDeadman == "" {
		wrong = append(wrong, fmt.Errorf("safety.external_deadman: found no deadman of %s: "+
			"it keeps moving when this computer dies; set deadman_ms if the driver has it, "+
			"or cut supply or enable line with an external watchdog and name that here", unguarded))
	}
	return wrong
}

// CheckStart checks safety.start and safety.rest of a configuration without opening the robot, if
// its channels are known before. impossible is a pose that no run accepts, cannotArm a position
// channel whose first command could be a jump.
func CheckStart(file configs.File) (impossible, cannotArm error) {
	spec, known, err := specUnopened(file)
	if err != nil || !known {
		return err, nil
	}
	rules := file.Rules(Simulated(file.Robot) || file.Run.Shadow)
	return rules.CheckPoses(spec), rules.CheckStart(spec.Action)
}

// CheckHostUser reports a host process with the rights of the control process of a physical robot:
// a program that took it over could open the robot's devices, or stop the control process without a
// halt. It is an error with posture strict and otherwise a warning on out. own is the name of this
// process's user.
func CheckHostUser(out io.Writer, robot hal.Robot, file configs.File, own string) error {
	if SimulatedOrShadow(robot, file) || !SharesUser(file.Run.HostUser, own) {
		return nil
	}
	err := fmt.Errorf("run.host_user: found %q: the host process, which faces the network, has the rights of the control "+
		"process; use the service of the package, or run as root with the name of another user", file.Run.HostUser)
	if file.Loop.Posture == rtloop.Strict {
		return err
	}
	fmt.Fprint(out, plaintext.Wrap("warning: "+err.Error()))
	return nil
}

// SharesUser reports whether the user of the host process has the rights of that of the control
// process.
func SharesUser(host, own string) bool { return host == "" || host == own || host == "root" }

// withoutDeadman names the parts of a robot that have no deadman, if that is known before arming.
func withoutDeadman(robot hal.Robot, file configs.File) string {
	if p, ok := file.Robot.Chosen().(registry.Parted); ok {
		return strings.Join(p.Unguarded(file.Loop.Period()), ", ")
	}
	if _, ok := robot.(hal.DeadmanTimer); ok {
		return ""
	}
	return "this robot's driver"
}

// DescribeDeadman describes what stops the robot when this computer dies. It is empty if the
// driver reports it only after arming.
func DescribeDeadman(robot hal.Robot, s configs.Safety) string {
	switch {
	case s.ExternalDeadman != "":
		return s.ExternalDeadman
	case IsSimulator(robot):
		return "a simulator needs none"
	}
	return ""
}

// CanWaitForHost reports whether a robot may stand still until a slow host has caught up: a
// simulator whose time advances only with its actions.
func CanWaitForHost(r hal.Robot, f configs.File) bool { return IsSimulator(r) && Simulated(f.Robot) }
