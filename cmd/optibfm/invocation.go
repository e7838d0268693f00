package main

import (
	"slices"
	"strconv"
	"strings"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
)

// Invoked returns how the program at path, its first argument, was started.
func Invoked(path string, f runFlags, file configs.File) shell.Invocation {
	i := shell.Invocation{Program: shell.ProgramName(path), Operate: operateFlags(f.config, file.Safety.Socket)}
	byHand := f.with("operator.source", func(g *runFlags) { g.operator = configs.SourceKeyboard })
	if other, err := byHand.load(); err == nil && file.Operator.Source != configs.SourceKeyboard &&
		other.Operator.Source == configs.SourceKeyboard {
		i.Keyboard = byHand.args()
	}
	if file.Robot.Driver != configs.DriverRover {
		return i
	}
	elsewhere := f.with("robot.rover.task", func(g *runFlags) { g.task = setup.OtherTasks(file)[0] })
	if _, err := elsewhere.load(); err == nil {
		i.Task = elsewhere.args()
	}
	return i
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
