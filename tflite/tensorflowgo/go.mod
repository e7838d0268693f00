module optibfm/tflite/tensorflowgo

go 1.26

require (
	github.com/tensorflow/tensorflow v2.21.0+incompatible
	optibfm v0.0.0
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/nlpodyssey/gopickle v0.3.0 // indirect
	github.com/sbinet/npyio v0.9.0 // indirect
	github.com/tensorflow/tensorflow/tensorflow/go/core v0.0.0-00010101000000-000000000000 // indirect
	github.com/wamuir/graft v0.10.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.23.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace (
	github.com/tensorflow/tensorflow/tensorflow/go/core => ./core
	optibfm => ../..
)
