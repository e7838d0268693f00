package setup

import (
	"path/filepath"
	"slices"

	"optibfm/configs"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
)

// SimulatorTasks returns the tasks of a simulated robot that are known before it is opened, nil for others.
func SimulatorTasks(r configs.Robot) []string {
	if r.Driver == configs.DriverRover {
		return RoverTasks()
	}
	script := BridgeScript(r)
	if script == "" {
		return nil
	}
	return bridge.ScriptTasks(filepath.Base(script), r.Bridge.Command[2:])
}

// OtherTasks returns the tasks of the rover without that of a configuration.
func OtherTasks(file configs.File) []string {
	return slices.DeleteFunc(RoverTasks(), func(name string) bool { return name == file.Robot.Rover.Task })
}

// RoverTasks returns the names of the tasks of the rover.
func RoverTasks() (names []string) {
	for _, t := range rover.Tasks() {
		names = append(names, t.Name)
	}
	return names
}
