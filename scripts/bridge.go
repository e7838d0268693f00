// Package scripts embeds the Python package that the robot's program gives to the servers that it
// starts.
package scripts

import "embed"

// Bridge has the Python package optibfm_bridge, the server of robots in Python.
//
//go:embed optibfm_bridge/__init__.py optibfm_bridge/py.typed
var Bridge embed.FS
