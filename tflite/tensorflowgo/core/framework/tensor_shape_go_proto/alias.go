// Package tensor_shape_go_proto has the message that the tests of TensorFlow's Go package use; `go
// mod tidy` needs it.
package tensor_shape_go_proto

import "github.com/wamuir/graft/tensorflow/core/framework/tensor_shape_go_proto"

type TensorShapeProto = tensor_shape_go_proto.TensorShapeProto
