package setup

import (
	"slices"

	"optibfm/configs"
	"optibfm/hal/rover"
)

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
