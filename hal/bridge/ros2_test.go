package bridge_test

import (
	"os/exec"
	"testing"
)

func TestROS2Server_PassesItsTests(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: scripts/ros2_bridge.py is not tested")
	}
	test := exec.Command(python, "-m", "unittest", "test_ros2_bridge")
	test.Dir = "../../scripts"
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
