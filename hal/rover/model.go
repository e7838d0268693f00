package rover

import (
	"embed"
	"io/fs"
)

//go:embed model/bfm.json model/model.safetensors
var modelFiles embed.FS

// Model is the bundle of the forward-backward model that was trained for the
// rover of [DefaultConfig], for tflite.Load.
func Model() fs.FS {
	bundle, err := fs.Sub(modelFiles, "model")
	if err != nil {
		panic(err) // "model" is a valid path: it does not happen
	}
	return bundle
}
