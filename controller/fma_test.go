package controller

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exactFiles have what happens to a label on its way to the belief, and to the estimate of its moment.
var exactFiles = []string{
	"learner.go", "ledger.go", "history.go", "noise.go", "settle.go", "former.go", "reaction.go",
}

var fused = regexp.MustCompile(`/controller/(\w+\.go):(\d+)\)\s+FN?M(?:ADD|SUB)\w*\b`)

// The same labels must give the same belief on every CPU: see the test of the same name in posterior.
func TestArithmetic_IsNotFusedOnArm64(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the package for arm64: not in short mode")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not here, so there is no arm64 code to look at")
	}
	build := exec.Command(goTool, "build", "-gcflags=-S", "-o", os.DevNull, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	listing, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("building for arm64: %v\n%s", err, listing)
	}
	elsewhere := 0
	for _, m := range fused.FindAllStringSubmatch(string(listing), -1) {
		if elsewhere++; slices.Contains(exactFiles, m[1]) {
			t.Errorf("%s:%s fuses a product with an addition: wrap the product in float64()", m[1], m[2])
		}
	}
	// evidence.go does not wrap its products: replay compares it to 1e-12.
	if elsewhere == 0 || !strings.Contains(string(listing), "FSQRTD") {
		t.Error("found no fused instruction at all: the test is ineffective")
	}
}
