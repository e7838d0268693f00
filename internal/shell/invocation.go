package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Invocation is the command line of this program as the user typed it, for advice that can be copied. The
// control process passes it to the host process, which has other arguments.
type Invocation struct {
	Program  string   // quoted for a shell, such as optibfm, ./optibfm or go run ./cmd/optibfm
	Operate  []string // arguments of optibfm arm for this run
	Keyboard []string // arguments of this run with the keyboard as operator; nil if invalid
	Task     []string // arguments of this run with another task; nil if invalid
}

// ProgramName returns the name by which a shell starts the program at path, quoted.
func ProgramName(path string) string {
	name := filepath.Base(path)
	switch found, err := exec.LookPath(name); {
	case strings.Contains(path, "/go-build"): // a temporary folder of `go run`
		return "go run ./cmd/optibfm"
	case err == nil && sameFile(found, path):
		return Quote(name)
	}
	return Quote(path)
}

// Command returns a command line of this program.
func (i Invocation) Command(args ...string) string {
	line := i.Program
	for _, arg := range args {
		line += " " + Quote(arg)
	}
	return line
}

// OperatorCommand returns the command line of an operator, such as arm, for this run.
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
