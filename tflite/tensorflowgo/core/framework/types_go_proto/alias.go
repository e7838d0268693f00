// Package types_go_proto has the message that the tests of TensorFlow's Go package use; `go mod
// tidy` needs it.
package types_go_proto

import "github.com/wamuir/graft/tensorflow/core/framework/types_go_proto"

type DataType = types_go_proto.DataType
