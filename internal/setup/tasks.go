package setup

import (
	"slices"

	"optibfm/configs"
	"optibfm/hal/rover"
)

// OtherTasks are the rover's tasks but for the one of a configuration.
func OtherTasks(file configs.File) []string {
	return slices.DeleteFunc(RoverTasks(), func(name string) bool { return name == file.Robot.Rover.Task })
}

func RoverTasks() (names []string) {
	for _, t := range rover.Tasks() {
		names = append(names, t.Name)
	}
	return names
}
