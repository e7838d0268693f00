// Package wire writes and reads messages of protocol buffers whose schema is small or another
// project's: TensorFlow's GraphDef and ONNX.
package wire

import "google.golang.org/protobuf/encoding/protowire"

// AppendMessage appends a field with an encoded message, or with bytes.
func AppendMessage(wire []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(wire, field, protowire.BytesType), message)
}

// AppendString appends a field with a string.
func AppendString(wire []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(wire, field, protowire.BytesType), s)
}

// AppendVarint appends a field with an integer.
func AppendVarint(wire []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(wire, field, protowire.VarintType), v)
}

// EachField calls f for every field of a message, with value for a field of bytes
// and with number for a varint or a fixed32.
func EachField(wire []byte, f func(field protowire.Number, value []byte, number uint64) error) error {
	for len(wire) > 0 {
		field, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(wire)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(wire)
		case protowire.Fixed32Type:
			var fixed uint32
			fixed, n = protowire.ConsumeFixed32(wire)
			number = uint64(fixed)
		default:
			n = protowire.ConsumeFieldValue(field, kind, wire)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		if err := f(field, value, number); err != nil {
			return err
		}
	}
	return nil
}
