package main

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
	for _, c := range []struct {
		pattern   string
		forbidden []string
	}{
		{"optibfm/cmd/optibfm", []string{"optibfm/lab", "optibfm/cmd/optibfm-lab", "gonum.org/v1/plot", "golang.org/x/image/font"}},
		{"optibfm/internal/control", []string{"optibfm/internal/host", "optibfm/flightlog/report", "optibfm/lab"}},
		{"optibfm/internal/host", []string{"optibfm/internal/control", "optibfm/lab"}},
		{"optibfm/internal/record", []string{"optibfm/internal/host", "optibfm/internal/control", "optibfm/internal/link"}},
		{"optibfm/internal/link", []string{"optibfm/internal/host", "optibfm/internal/control", "optibfm/internal/setup"}},
		{"optibfm/internal/setup", []string{"optibfm/internal/host", "optibfm/internal/control", "optibfm/internal/terminal"}},
		{"optibfm/controller", []string{"optibfm/internal/shm", "optibfm/internal/setup", "optibfm/flightlog", "optibfm/rtloop"}},
		{"optibfm/flightlog/...", []string{"optibfm/internal/setup", "optibfm/cmd"}},
		{"optibfm/lab/...", []string{"optibfm/cmd"}},
		// A label device must not be able to arm a robot.
		{"optibfm/rewardsrc/...", []string{"optibfm/controller", "optibfm/hal", "optibfm/rtloop", "optibfm/cmd", "optibfm/internal/shm"}},
	} {
		deps := dependencies(t, c.pattern)
		if len(deps) < 5 {
			t.Errorf("go list -deps %s lists %d packages", c.pattern, len(deps))
		}
		for _, dep := range deps {
			for _, folder := range c.forbidden {
				if within(dep, folder) {
					t.Errorf("%s imports %s", c.pattern, dep)
				}
			}
		}
	}
	for _, pattern := range []string{"optibfm/posterior", "optibfm/rtloop"} {
		for _, dep := range dependencies(t, pattern) {
			if strings.HasPrefix(dep, "optibfm/") && dep != pattern {
				t.Errorf("%s imports %s", pattern, dep)
			}
		}
	}
}

// TestImports_OnlyTheLinkUsesTheSegment keeps the layout of the shared memory in one package.
func TestImports_OnlyTheLinkUsesTheSegment(t *testing.T) {
	list, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "optibfm/...").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	for line := range strings.Lines(string(list)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg != "optibfm/internal/link" && strings.Contains(" "+imports+" ", " optibfm/internal/shm ") {
			t.Errorf("%s imports internal/shm", pkg)
		}
	}
}
