package rover

import (
	"embed"
	"io/fs"
)

//go:embed model/bfm.json model/model.safetensors model/prior.safetensors
var modelFiles embed.FS

// Model returns the bundle of the forward-backward model for the rover of
// [DefaultConfig], for tflite.Load.
func Model() fs.FS {
	bundle, err := fs.Sub(modelFiles, "model")
	if err != nil {
		panic(err) // unreachable: "model" is a valid path
	}
	return bundle
}
