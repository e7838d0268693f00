// Command optibfm-tensorflow-go is optibfm with one more backend: tensorflow-go, TensorFlow through
// its own Go package. scripts/build-tensorflow-go.sh builds it.
package main

import (
	"optibfm"
	_ "optibfm/standard"
	"optibfm/tflite/tensorflowgo"
)

func main() {
	optibfm.RegisterBackend("tensorflow-go", tensorflowgo.DefaultConfig(), tensorflowgo.Open)
	optibfm.Main()
}
