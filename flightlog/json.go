package flightlog

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// MarshalJSON returns the message with its topic and log time, as protobuf's
// JSON mapping has it: fields in the names of flightlog.proto, 64-bit integers
// and numbers that are not finite as strings.
func (r *Record) MarshalJSON() ([]byte, error) {
	m := topics[r.channel].message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(r.data, m); err != nil {
		return nil, fmt.Errorf("flightlog: %s: %w", r.Topic, err)
	}
	message, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("flightlog: %s: %w", r.Topic, err)
	}
	return json.Marshal(struct {
		Topic   string          `json:"topic"`
		LogTime uint64          `json:"log_time_ns"`
		Message json.RawMessage `json:"message"`
	}{r.Topic, r.LogTime, message})
}
