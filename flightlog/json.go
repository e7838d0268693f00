package flightlog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"optibfm/flightlog/flightlogpb"
	"optibfm/rewardsrc"
)

// noTick is the JSON of an unknown tick of a label.
var noTick = fmt.Appendf(nil, `"tick":"%d"`, rewardsrc.NoTick)

// MarshalJSON returns the message with its topic and log time, in protobuf's JSON
// mapping: fields have the names of flightlog.proto, 64-bit integers and non-finite
// numbers are strings, and fields that are 0 are left out. An unknown tick of a label
// is null.
func (r *Record) MarshalJSON() ([]byte, error) {
	m := topics[r.channel].message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(r.data, m); err != nil {
		return nil, fmt.Errorf("flightlog: %s: %w", r.Topic, err)
	}
	message, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("flightlog: %s: %w", r.Topic, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, message); err != nil {
		return nil, fmt.Errorf("flightlog: %s: %w", r.Topic, err)
	}
	message = compact.Bytes()
	if _, ok := m.(*flightlogpb.Label); ok {
		message = bytes.Replace(message, noTick, []byte(`"tick":null`), 1)
	}
	return json.Marshal(struct {
		Topic   string          `json:"topic"`
		LogTime uint64          `json:"log_time_ns"`
		Message json.RawMessage `json:"message"`
	}{r.Topic, r.LogTime, message})
}
