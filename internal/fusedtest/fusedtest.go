// Package fusedtest finds fused multiply-adds, for tests.
//
// arm64 has these instructions in its base instruction set. Go uses them for the sum of a product
// that is not wrapped in float64(). They round once instead of twice, so that the same source has
// other results than on amd64.
package fusedtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Instruction is the place of a fused multiply-add in the source.
type Instruction struct{ File, Line string }

var fused = regexp.MustCompile(`([^/(\s]+\.go):(\d+)\)\s+FN?M(?:ADD|SUB)\w*\b`)

// Find returns the fused instructions in the arm64 code of the package in a folder. It skips the
// test in short mode, and without the go command.
func Find(t testing.TB, folder string) (found []Instruction) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles a package for arm64: not in short mode")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to compile arm64 code")
	}
	build := exec.Command(goTool, "build", "-gcflags=-S", "-o", os.DevNull, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	listing, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("building for arm64: %v\n%s", err, listing)
	}
	if absolute, err := filepath.Abs(folder); err != nil || !strings.Contains(string(listing), absolute+"/") {
		t.Fatalf("the listing has no code of the package (%v)", err)
	}
	for _, m := range fused.FindAllStringSubmatch(string(listing), -1) {
		found = append(found, Instruction{m[1], m[2]})
	}
	return found
}
