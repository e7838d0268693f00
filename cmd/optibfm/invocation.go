package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"optibfm/configs"
	"optibfm/internal/shell"
)

// invocation is what a person types to run this program, for advice that can be copied. The control
// process passes it to the host process, whose own arguments are others.
type invocation struct {
	Program  string   // quoted for a shell, such as optibfm, ./optibfm or go run ./cmd/optibfm
	Operate  []string // arguments by which optibfm arm reaches this run
	Keyboard []string // arguments of the same run with a person at the keyboard; nil where run refuses them
	Task     []string // arguments of the same run with another task; nil where run refuses them
}

// invoked returns how the program at path, its first argument, was started.
func invoked(path string, f runFlags, file configs.File) invocation {
	i := invocation{Program: programName(path), Operate: operateFlags(f.config, file.Safety.Socket)}
	byHand := f.with("operator.source", func(g *runFlags) { g.operator = configs.SourceKeyboard })
	if other, err := byHand.load(); err == nil && file.Operator.Source != configs.SourceKeyboard &&
		other.Operator.Source == configs.SourceKeyboard {
		i.Keyboard = byHand.args()
	}
	if file.Robot.Driver != configs.DriverRover {
		return i
	}
	elsewhere := f.with("robot.rover.task", func(g *runFlags) { g.task = otherTasks(file)[0] })
	if _, err := elsewhere.load(); err == nil {
		i.Task = elsewhere.args()
	}
	return i
}

func programName(path string) string {
	name := filepath.Base(path)
	switch found, err := exec.LookPath(name); {
	case strings.Contains(path, "/go-build"): // `go run` keeps the program in a folder of its own
		return "go run ./cmd/optibfm"
	case err == nil && sameFile(found, path):
		return shell.Quote(name)
	}
	return shell.Quote(path)
}

// operateFlags are the flags by which optibfm arm, disarm, stop, reset and status find a socket.
func operateFlags(config, socket string) []string {
	if path, err := socketOf("", ""); err == nil && path == socket {
		return nil
	}
	if path, err := socketOf("", config); err == nil && path == socket {
		return []string{"-c", config}
	}
	return []string{"--socket", socket}
}

// otherTasks are the rover's tasks but for the one of a configuration.
func otherTasks(file configs.File) []string {
	return slices.DeleteFunc(roverTasks(), func(name string) bool { return name == file.Robot.Rover.Task })
}

// with returns the flags with a change and without the overrides of the key that it sets. Flags that
// only say how one run is shown, and what it follows or forgets, are left out.
func (f runFlags) with(key string, change func(*runFlags)) runFlags {
	f.plain, f.jsonl, f.json, f.fresh, f.oracle = false, false, false, false, false
	f.set = slices.DeleteFunc(slices.Clone(f.set), func(s string) bool { return strings.HasPrefix(s, key+"=") })
	change(&f)
	return f
}

// args are the arguments of run that give these flags.
func (f runFlags) args() []string {
	list := []string{"run"}
	add := func(given bool, name, value string) {
		if given {
			list = append(list, name, value)
		}
	}
	add(f.config != embeddedConfig, "--config", f.config)
	add(f.task != "", "--task", f.task)
	add(f.strategy != "", "--strategy", f.strategy)
	add(f.operator != "", "--operator", f.operator)
	add(f.givenEpisodes, "--episodes", strconv.Itoa(f.episodes))
	add(f.givenSeed, "--seed", strconv.FormatUint(f.seed, 10))
	if f.fast {
		list = append(list, "--fast")
	}
	if f.shadow {
		list = append(list, "--shadow")
	}
	for _, s := range f.set {
		list = append(list, "--set", s)
	}
	return list
}

// command is a command line of this program.
func (i invocation) command(args ...string) string {
	line := i.Program
	for _, arg := range args {
		line += " " + shell.Quote(arg)
	}
	return line
}

// operate is the command of an operator, such as arm, for this run.
func (i invocation) operate(word string) string {
	return i.command(append([]string{word}, i.Operate...)...)
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
