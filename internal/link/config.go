package link

import (
	"optibfm/hal"
	"optibfm/internal/shell"
)

// HostConfig is what the control process tells the host at the start.
type HostConfig struct {
	YAML      []byte // the whole configuration
	ModelHash string // of the bundle that the control process uses
	Spec      hal.Spec
	Posture   string
	Missing   []string // of the posture: what was not granted
	Show      string   // one of the displays of newDisplay
	JSON      bool     // the summary as JSON
	Recalled  string   // what became of earlier runs' belief, in words
	Invoked   shell.Invocation
}
