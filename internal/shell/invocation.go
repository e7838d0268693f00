package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Invocation is what a person types to run this program, for advice that can be copied. The control
// process passes it to the host process, whose own arguments are others.
type Invocation struct {
	Program  string   // quoted for a shell, such as optibfm, ./optibfm or go run ./cmd/optibfm
	Operate  []string // arguments by which optibfm arm reaches this run
	Keyboard []string // arguments of the same run with a person at the keyboard; nil if run refuses them
	Task     []string // arguments of the same run with another task; nil if run refuses them
}

func ProgramName(path string) string {
	name := filepath.Base(path)
	switch found, err := exec.LookPath(name); {
	case strings.Contains(path, "/go-build"): // `go run` keeps the program in a separate folder
		return "go run ./cmd/optibfm"
	case err == nil && sameFile(found, path):
		return Quote(name)
	}
	return Quote(path)
}

// Command is a command line of this program.
func (i Invocation) Command(args ...string) string {
	line := i.Program
	for _, arg := range args {
		line += " " + Quote(arg)
	}
	return line
}

// OperatorCommand is the command of an operator, such as arm, for this run.
func (i Invocation) OperatorCommand(word string) string {
	return i.Command(append([]string{word}, i.Operate...)...)
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
