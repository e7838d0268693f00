// Package scripts embeds the script that the robot's program writes.
package scripts

import _ "embed"

// Bridge is optibfm_bridge.py, the server of robots in Python.
//
//go:embed optibfm_bridge.py
var Bridge []byte
