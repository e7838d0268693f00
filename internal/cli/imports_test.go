package cli

import (
	"os/exec"
	"strings"
	"testing"
)

// dependencies lists the packages that a pattern imports, directly or not.
func dependencies(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := exec.Command("go", "list", "-deps", pattern).Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	return strings.Fields(string(list))
}

func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// TestImports_PointDownwards lists the forbidden imports of each part of the tree.
func TestImports_PointDownwards(t *testing.T) {
	for _, c := range []struct{ pattern, forbidden string }{
		{"cmd/optibfm", "lab cmd/optibfm-lab"},
		{"internal/cli", "hal/rover hal/bridge hal/composite hal/assembly hal/bno055 hal/dynamixel standard"},
		{"internal/control", "internal/host flightlog/report lab"},
		{"internal/host", "internal/control lab"},
		{"internal/recorder", "internal/host internal/control internal/terminal"},
		{"internal/ipc", "internal/host internal/control internal/setup"},
		{"internal/setup", "standard hal/rover hal/bridge hal/composite hal/assembly " +
			"internal/host internal/control internal/terminal"},
		{"internal/cli/review", "internal/host internal/control internal/setup"},
		{"controller", "internal/ipc/shm internal/setup flightlog rtloop"},
		{"tflite", aboveModels},
		{"tflite/onnx", aboveModels},
		{"flightlog/...", "internal/setup internal/registry internal/shell cmd"},
		{"lab/...", "cmd"},
		// A label device must not be able to arm a robot.
		{"rewardsrc/...", "controller hal rtloop cmd internal/ipc/shm"},
	} {
		deps := dependencies(t, "optibfm/"+c.pattern)
		if len(deps) < 5 {
			t.Errorf("go list -deps %s lists %d packages", c.pattern, len(deps))
		}
		for _, dep := range deps {
			for _, folder := range strings.Fields(c.forbidden) {
				if within(dep, "optibfm/"+folder) {
					t.Errorf("%s imports %s", c.pattern, dep)
				}
			}
		}
	}
	for _, dep := range dependencies(t, "optibfm/cmd/optibfm") {
		if within(dep, "gonum.org/v1/plot") || within(dep, "golang.org/x/image/font") {
			t.Errorf("the robot's program imports %s", dep)
		}
	}
	// purego loads libraries, and makes a program dynamic.
	for _, dep := range dependencies(t, "optibfm/cmd/optibfm") {
		if within(dep, "github.com/ebitengine/purego") {
			t.Errorf("the robot's program imports %s; only optibfm-unitree does", dep)
		}
	}
	for pattern, allowed := range map[string]string{
		"posterior": "", "rtloop": "", "internal/keys": "", "internal/safefile": "", "internal/npz": "internal/safefile",
		"internal/decimal": "", "internal/plaintext": "", "internal/redact": "",
	} {
		for _, dep := range dependencies(t, "optibfm/"+pattern) {
			name, own := strings.CutPrefix(dep, "optibfm/")
			if own && name != pattern && name != allowed {
				t.Errorf("%s imports %s", pattern, dep)
			}
		}
	}
}

// aboveModels are the packages of the floors above tflite.
const aboveModels = "controller flightlog hal rewardsrc configs internal/registry internal/setup internal/shell cmd"

// TestImports_OnlyTheLinkUsesTheSegment keeps each layout of shared memory in one package: that of
// the control and the host process in internal/ipc, that of a driver and its writer processes in
// hal/unitree.
func TestImports_OnlyTheLinkUsesTheSegment(t *testing.T) {
	list, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "optibfm/...").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	for line := range strings.Lines(string(list)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg == "optibfm/internal/ipc" || pkg == "optibfm/hal/unitree" {
			continue
		}
		if strings.Contains(" "+imports+" ", " optibfm/internal/ipc/shm ") {
			t.Errorf("%s imports internal/ipc/shm", pkg)
		}
	}
}
