package setup

import (
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/errtest"
)

func TestCheckHold_RefusesCommandsThatMoveTheRobot(t *testing.T) {
	for _, c := range []struct {
		hold string
		hal.Channel
		want string // empty: accepted
	}{
		{controller.HoldFailsafe, hal.Channel{Unit: "m/s"}, ""},
		{controller.HoldFailsafe, hal.Channel{Unit: "rpm"}, ""},
		{controller.HoldFailsafe, hal.Channel{}, ""},
		{controller.HoldFailsafe, hal.Channel{Unit: "m/s", Failsafe: 0.1}, "failsafe speed of 0.1"},
		{controller.HoldFailsafe, hal.Channel{Unit: "rad"}, "set robot.hold to last_command"},
		{controller.HoldFailsafe, hal.Channel{Unit: "N·m"}, "is an effort"},
		{controller.HoldLast, hal.Channel{Unit: "rad"}, ""},
		{controller.HoldLast, hal.Channel{}, ""},
		{controller.HoldLast, hal.Channel{Unit: "rad/s"}, "set robot.hold to failsafe"},
		{controller.HoldLast, hal.Channel{Unit: "A"}, "is an effort"},
	} {
		f := configs.Default()
		f.Robot.Driver, f.Robot.Hold, f.Controller.Gate.Pause = "bridge", c.hold, controller.PauseHold
		err := checkHold(f, hal.Spec{Action: []hal.Channel{c.Channel}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %+v: got %v, want %q", c.hold, c.Channel, err, c.want)
		}
		f.Controller.Gate.Pause = ""
		errtest.Nil(t, checkHold(f, hal.Spec{Action: []hal.Channel{c.Channel}}), "without a pause")
	}
}
