// Package puck embeds this example, the template of `optibfm new-robot`.
package puck

import "embed"

// Files are the files of a new robot, of which Name is the name and Folder the path.
//
//go:embed README.md record.sh robot.py robot.yaml train.sh
//go:embed model/bfm.json model/model.safetensors model/prior.safetensors
var Files embed.FS

// Name and Folder are replaced by those of a new robot.
const (
	Name   = `"puck"`
	Folder = "examples/puck"
)
