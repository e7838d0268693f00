// Package for_core_protos_go_proto has the messages that TensorFlow's Go package uses. TensorFlow's
// own build generates them; its module does not contain them. Those of graft are the same messages.
package for_core_protos_go_proto

import "github.com/wamuir/graft/tensorflow/core/protobuf/for_core_protos_go_proto"

type (
	MetaGraphDef = for_core_protos_go_proto.MetaGraphDef
	SignatureDef = for_core_protos_go_proto.SignatureDef
	TensorInfo   = for_core_protos_go_proto.TensorInfo
)
