package setup

import (
	"slices"

	"optibfm/configs"
)

// OtherTasks returns the tasks of a robot without that of a configuration.
func OtherTasks(file configs.File) []string {
	return slices.DeleteFunc(file.Robot.Tasks(), func(name string) bool { return name == file.Robot.Task() })
}
