// Package gymnasium embeds this example, the template of `optibfm new-robot --gymnasium`.
package gymnasium

import "embed"

// Files are the files of a new robot for the environment EnvID with the step Period, of which
// Folder is the path and Script the path of the server. record.sh and train.sh are those of
// examples/puck.
//
//go:embed README.md robot.yaml
var Files embed.FS

// They are replaced by those of a new robot.
const (
	EnvID  = "Pendulum-v1"
	Folder = "examples/gymnasium"
	Name   = "pendulum" // in the commands of README.md
	Script = "scripts/gymnasium_bridge.py"
	Period = "period_ms: 50"
)
