package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"optibfm/internal/redact"
)

// Invocation is how a person starts this program, for commands that can be copied.
// The control process sends it to the host process, which has other arguments.
type Invocation struct {
	Program  string   // quoted for a shell, such as optibfm, ./optibfm or go run ./cmd/optibfm
	Operate  []string // arguments of arm, disarm, stop, reset and status that reach this run
	Keyboard []string // arguments of the same run with the keyboard as label source; nil where run refuses them
	Save     []string // arguments of task save that find the tasks and the model of this run
	Task     []string // arguments of the same run with another task; nil where run refuses them
}

// ThisProgram is the invocation of this process without arguments.
func ThisProgram() Invocation { return Invocation{Program: ProgramName(os.Args[0])} }

// ProgramName returns the command of the program at path, quoted: its base name
// where the shell finds the same program by that name.
func ProgramName(path string) string {
	name := filepath.Base(path)
	switch found, err := exec.LookPath(name); {
	case strings.Contains(path, "/go-build"): // `go run` builds in a temporary folder
		return "go run " + Quote(packageOf(name))
	case err == nil && sameFile(found, path):
		return Quote(name)
	}
	return Quote(path)
}

// packageOf returns the folder of a program's package, from the folder of its module.
func packageOf(name string) string {
	if info, ok := debug.ReadBuildInfo(); ok && filepath.Base(info.Path) == name {
		if folder, within := strings.CutPrefix(info.Path, info.Main.Path); within {
			return "." + folder
		}
	}
	return "./cmd/" + name
}

// Command returns a command line of this program, quoted. It is for people: secrets in addresses
// are hidden.
func (i Invocation) Command(args ...string) string {
	line := i.Program
	for _, arg := range args {
		line += " " + Quote(redact.Text(arg))
	}
	return line
}

// OperatorCommand returns the command of an operator for this run, such as arm.
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
