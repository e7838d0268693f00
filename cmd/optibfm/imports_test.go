package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoRewardDeviceCanReachWhatArmsARobot looks at what reward devices are made
// of: no package below rewardsrc knows of robots, controllers or this command,
// so that none can be handed what arms one.
func TestNoRewardDeviceCanReachWhatArmsARobot(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", "optibfm/rewardsrc/...").Output()
	if err != nil {
		t.Skipf("no go command here: %v", err)
	}
	deps := strings.Fields(string(list))
	for _, dep := range deps {
		for _, forbidden := range []string{"optibfm/controller", "optibfm/hal", "optibfm/rtloop", "optibfm/cmd", "optibfm/internal/shm"} {
			if dep == forbidden || strings.HasPrefix(dep, forbidden+"/") {
				t.Errorf("a reward device imports %s", dep)
			}
		}
	}
	if len(deps) < 5 {
		t.Errorf("go list knows %d packages", len(deps))
	}
}
