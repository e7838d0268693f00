package cli

import (
	"slices"
	"strconv"
	"strings"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
)

// invocation describes how the program at path was started, for the commands that a
// run advises.
func invocation(path string, f runFlags, file configs.File) shell.Invocation {
	i := shell.Invocation{Program: shell.ProgramName(path), Operate: socketFlags(f.config, file.Safety.Socket)}
	keyboard := f.with("operator.source", func(g *runFlags) { g.operator, g.lan = configs.SourceKeyboard, false })
	if other, err := keyboard.load(); err == nil && file.Operator.Source != configs.SourceKeyboard &&
		other.Operator.Source == configs.SourceKeyboard {
		i.Keyboard = keyboard.args()
	}
	i.Save = []string{"task", "save", "NAME"}
	if f.config != configs.DefaultName() {
		i.Save = append(i.Save, "--config", shell.Operand(f.config))
	}
	for _, s := range f.set {
		i.Save = append(i.Save, "--set", s)
	}
	others := setup.OtherTasks(file)
	if len(others) == 0 {
		return i
	}
	task := f.with("robot."+file.Robot.Driver+".task", func(g *runFlags) { g.task = others[0] })
	if _, err := task.load(); err == nil {
		i.Task = task.args()
	}
	return i
}

// socketFlags are the flags with which arm, disarm, stop, reset and status find a socket.
func socketFlags(config, socket string) []string {
	if path, err := findSocket("", ""); err == nil && path == socket {
		return nil
	}
	if path, err := findSocket("", config); err == nil && path == socket {
		return []string{"-c", shell.Operand(config)}
	}
	return []string{"--socket", shell.Operand(socket)}
}

// with returns the flags after a change, without the overrides of the key that it sets
// and without the flags that concern only this run.
func (f runFlags) with(key string, change func(*runFlags)) runFlags {
	f.plain, f.jsonl, f.json, f.fresh, f.oracle = false, false, false, false, false
	f.set = slices.DeleteFunc(slices.Clone(f.set), func(s string) bool { return strings.HasPrefix(s, key+"=") })
	change(&f)
	return f
}

// args are the arguments of run that give these flags.
func (f runFlags) args() []string {
	list := []string{"run"}
	add := func(given bool, args ...string) {
		if given {
			list = append(list, args...)
		}
	}
	add(f.config != configs.DefaultName(), "--config", shell.Operand(f.config))
	add(f.task != "", "--task", f.task)
	add(f.start != "", "--start", f.start)
	add(f.strategy != "", "--strategy", f.strategy)
	add(f.operator != "", "--operator", f.operator)
	add(f.episodesGiven, "--episodes", strconv.Itoa(f.episodes))
	add(f.seedGiven, "--seed", strconv.FormatUint(f.seed, 10))
	add(f.fast, "--fast")
	add(f.lan, "--lan")
	add(f.shadow, "--shadow")
	for _, s := range f.set {
		add(true, "--set", s)
	}
	return list
}
