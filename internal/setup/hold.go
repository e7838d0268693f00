package setup

import (
	"fmt"
	"slices"
	"strings"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
)

// efforts are units of commands with which no robot stands still: without its controller, gravity
// moves it.
var efforts = []string{"N", "N·m", "N*m", "N m", "Nm", "mNm", "A", "mA", "V", "mV", "W"}

// checkHold refuses controller.gate.pause hold for a robot whose action channels move it with
// robot.hold. A channel without a unit has the kind that robot.hold declares.
func checkHold(f configs.File, spec hal.Spec) error {
	if f.Controller.Gate.Pause != controller.PauseHold {
		return nil
	}
	for _, c := range spec.Action {
		speed := strings.Contains(c.Unit, "/") || c.Unit == "rpm"
		why := ""
		switch how := f.Robot.HoldWith(); {
		case c.Unit == "":
		case slices.Contains(efforts, c.Unit):
			why = "is an effort, with which the robot cannot stand still; remove controller.gate.pause"
		case speed && how == controller.HoldLast:
			why = "is a speed, so last_command keeps the robot moving; set robot.hold to failsafe"
		case speed && c.Failsafe != 0:
			why = fmt.Sprintf("has a failsafe speed of %g; remove controller.gate.pause", c.Failsafe)
		case !speed && how == controller.HoldFailsafe:
			why = "is not a speed, so its failsafe output may move the robot; set robot.hold to last_command"
		}
		if why != "" {
			return fmt.Errorf("robot.hold: action channel %q (%s) %s", c.Name, c.Unit, why)
		}
	}
	return nil
}
