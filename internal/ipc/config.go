package ipc

import (
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/shell"
	"optibfm/internal/taskstore"
)

// HostConfig is the configuration of the host process, from the control process.
type HostConfig struct {
	YAML      []byte            // the whole configuration
	Control   controller.Config // its section controller, with what the model and saved tasks add
	ModelHash string            // of the control process's bundle
	Spec      hal.Spec
	Posture   string
	Missing   []string // requests to the operating system that were not granted
	Show      string   // one of terminal's displays
	JSON      bool     // print the summary as JSON
	View      string   // address of the driver's pictures, "" for none
	Recalled  string   // message about the belief of earlier runs
	Began     string   // name of the saved task with which the run begins, "" for none
	Fresh     bool     // set that belief aside
	Lineage   taskstore.Lineage
	Invoked   shell.Invocation
	Awaits    bool // the robot stands still until the operator's first input
	Timeline  Timeline
}
