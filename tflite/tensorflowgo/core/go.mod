module github.com/tensorflow/tensorflow/tensorflow/go/core

go 1.26

require github.com/wamuir/graft v0.10.0

require google.golang.org/protobuf v1.36.12 // indirect
