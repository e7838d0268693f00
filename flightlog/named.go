package flightlog

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"optibfm/hal"
)

// Programs for plots show the names of fields. Therefore the schema of TopicTick in a file has two
// fields that flightlog.proto does not have: messages with one field for each channel of the robot,
// named after it. A reader with flightlog.proto skips them.
const (
	observedField  = 50 // as obs
	commandedField = 51 // as action
)

// namedChannels are the channels of a run as fields.
type namedChannels struct{ observed, commanded []hal.Channel }

// channelsOf returns the channels of a robot, none if they are not described.
func channelsOf(robot hal.Spec) namedChannels { return namedChannels{robot.Obs, robot.Action} }

// extend adds the fields to the definitions of flightlog.proto.
func (n namedChannels) extend(file *descriptorpb.FileDescriptorProto) {
	for _, message := range file.MessageType {
		if message.GetName() != "Tick" {
			continue
		}
		for _, field := range []struct {
			name     string
			number   int32
			channels []hal.Channel
		}{{"observed", observedField, n.observed}, {"commanded", commandedField, n.commanded}} {
			if len(field.channels) == 0 {
				continue
			}
			added := messageOf(strings.ToUpper(field.name[:1])+field.name[1:], field.channels)
			file.MessageType = append(file.MessageType, added)
			message.Field = append(message.Field, &descriptorpb.FieldDescriptorProto{
				Name: &field.name, Number: &field.number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
				Type:     descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
				TypeName: proto.String("." + file.GetPackage() + "." + added.GetName()),
			})
		}
		return
	}
}

// messageOf defines a message with a field for each channel.
func messageOf(name string, channels []hal.Channel) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: &name}
	taken := map[string]bool{}
	for i, c := range channels {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fieldName(c.Name, i, taken)), Number: proto.Int32(int32(fieldNumber(i))),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type:  descriptorpb.FieldDescriptorProto_TYPE_FLOAT.Enum(),
		})
	}
	return m
}

// fieldName returns a name that protocol buffers accept, and notes it in taken. Names that differ
// only in underscores and capitals would have the same name in JSON.
func fieldName(channel string, i int, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, channel)
	if key := fieldKey(name); key == "" || taken[key] {
		name = fmt.Sprintf("%s_channel%d", name, i)
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	for taken[fieldKey(name)] { // another channel has this name
		name += "x"
	}
	taken[fieldKey(name)] = true
	return name
}

func fieldKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// fieldNumber returns the number of the field of a channel. A tick has up to 1024 channels of a
// kind; protocol buffers reserve numbers from 19000 on.
func fieldNumber(i int) protowire.Number { return protowire.Number(i + 1) }

// append appends the fields to an encoded tick.
func (n namedChannels) append(dst []byte, obs, action []float32) []byte {
	if len(n.observed) > 0 {
		dst = appendNamed(dst, observedField, obs)
	}
	if len(n.commanded) > 0 {
		dst = appendNamed(dst, commandedField, action)
	}
	return dst
}

// namedBytes is the largest length of a channel's field.
const namedBytes = 2 + 4

func appendNamed(dst []byte, field protowire.Number, values []float32) []byte {
	size := 0
	for i := range values {
		size += protowire.SizeTag(fieldNumber(i)) + protowire.SizeFixed32()
	}
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	for i, v := range values {
		dst = protowire.AppendTag(dst, fieldNumber(i), protowire.Fixed32Type)
		dst = protowire.AppendFixed32(dst, math.Float32bits(v))
	}
	return dst
}
