// Package examples has small programs. It embeds that of a robot in Go, the template of
// `optibfm new-robot --go`.
package examples

import "embed"

// Robot are the files of a robot in Go, of which RobotName is the name.
//
//go:embed robot/main.go robot/vehicle.go robot/vehicle.yaml
var Robot embed.FS

// RobotName is replaced by the name of a new robot.
const RobotName = "vehicle"
