package posterior

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The files with the arithmetic of R, b and the estimates. schedule.go and
// sample.go use logarithms and powers.
var exactFiles = []string{
	"belief.go", "update.go", "factor.go", "loops.go", "state.go", "snapshot.go", "estimate.go", "surprise.go",
}

var fused = regexp.MustCompile(`/posterior/(\w+\.go):\d+\)\s+(FN?M(ADD|SUB)\w*)\b`)

// arm64 has fused multiply-adds in its base instruction set. Go uses them for the sum
// of an unconverted product. They round once instead of twice: a single one makes
// the bits of two CPUs differ.
func TestArithmetic_IsNotFusedOnArm64(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the package for arm64: not in short mode")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to compile arm64 code")
	}
	build := exec.Command(goTool, "build", "-gcflags=-S", "-o", os.DevNull, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	listing, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("building for arm64: %v\n%s", err, listing)
	}
	if !strings.Contains(string(listing), "FSQRTD") {
		t.Fatal("the listing has no arm64 floating-point code")
	}
	elsewhere := 0
	for _, m := range fused.FindAllStringSubmatch(string(listing), -1) {
		elsewhere++
		for _, file := range exactFiles {
			if m[1] == file {
				t.Errorf("%s has %s: wrap the product in float64()", file, m[2])
			}
		}
	}
	// schedule.go does not wrap its products: what finds none there finds none anywhere.
	if elsewhere == 0 {
		t.Error("found no fused instruction at all: the test is ineffective")
	}
}
