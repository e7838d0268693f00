package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"optibfm/internal/shell"
)

// invocation is what a person types to run this program, for advice that can be
// copied. The host process is told it: its own arguments are another matter.
type invocation struct {
	Program string // quoted, such as optibfm, ./optibfm or go run ./cmd/optibfm
	Config  string // of run; "" where run needs none
}

// invoked returns how the program at path, its first argument, was started.
func invoked(path, config string) invocation {
	i := invocation{Program: shell.Quote(path), Config: config}
	if config == embeddedConfig {
		i.Config = ""
	}
	name := filepath.Base(path)
	switch found, err := exec.LookPath(name); {
	case strings.Contains(path, "/go-build"): // `go run` keeps the program in a folder of its own
		i.Program = "go run ./cmd/optibfm"
	case err == nil && sameFile(found, path):
		i.Program = shell.Quote(name)
	}
	return i
}

// run is the command that runs the same configuration again.
func (i invocation) run() string {
	if i.Config == "" {
		return i.Program + " run"
	}
	return i.Program + " run --config " + shell.Quote(i.Config)
}

// replay is the command that replays a log.
func (i invocation) replay(log string) string { return i.Program + " replay " + shell.Quote(log) }

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
