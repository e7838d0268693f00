package flightlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"optibfm/flightlog/flightlogpb"
	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// namedMetadata describes a robot with a name for each channel.
func namedMetadata() Metadata {
	meta := testMetadata(testShape)
	meta.Robot.Obs = []hal.Channel{
		{Name: "position.x"}, {Name: "position_x"}, {Name: "2nd joint"}, {Name: "ψ"}, {Name: "positionX"},
		{Name: "hip_angle", Unit: "rad"}, {Name: "hip_angle"},
	}
	meta.Robot.Action = []hal.Channel{{Name: "left"}, {Name: "right"}}
	return meta
}

var namesOfObs = []string{
	"position_x", "position_x_channel1", "_2nd_joint", "__channel3", "positionX_channel4", "hip_angle",
	"hip_angle_channel6",
}

// publicTicks calls visit with the ticks that the MCAP library reads from a file, which may be cut,
// and the messages that its schema describes. It returns their number.
func publicTicks(t *testing.T, file []byte, visit func(number int, data []byte, m protoreflect.Message)) (n int) {
	t.Helper()
	schemas, channels := map[uint16]*mcap.Schema{}, map[uint16]*mcap.Channel{}
	lexer, err := mcap.NewLexer(bytes.NewReader(file))
	fatal.If(t, err)
	defer lexer.Close()
	for {
		token, data, err := lexer.Next(nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || n > 0 && err != nil {
			return n
		}
		fatal.If(t, err)
		switch token {
		case mcap.TokenSchema:
			s, err := mcap.ParseSchema(data)
			fatal.If(t, err)
			schemas[s.ID] = s
		case mcap.TokenChannel:
			c, err := mcap.ParseChannel(data)
			fatal.If(t, err)
			channels[c.ID] = c
		case mcap.TokenMessage:
			m, err := mcap.ParseMessage(data)
			fatal.If(t, err)
			if c := channels[m.ChannelID]; c.Topic == TopicTick {
				visit(n, m.Data, decodeDynamically(t, schemas[c.SchemaID], m.Data))
				n++
			}
		}
	}
}

func TestWriter_NamesChannelsForPublicReaders(t *testing.T) {
	const ticks = 300
	meta := namedMetadata()
	w, path := create(t, meta, Options{})
	for i := range uint64(ticks) {
		fatal.If(t, w.WriteTick(randomTick(testShape, i)))
	}
	fatal.If(t, w.Close())
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	cutPath, copyPath := filepath.Join(t.TempDir(), "cut.mcap"), filepath.Join(t.TempDir(), "copy.mcap")
	cut := whole[:dataEnd(whole)-100]
	fatal.If(t, os.WriteFile(cutPath, cut, 0o600))
	result, err := Recover(cutPath, copyPath)
	fatal.If(t, err)
	recovered, err := os.ReadFile(copyPath)
	fatal.If(t, err)
	for name, c := range map[string]struct {
		file []byte
		want int
	}{
		"whole": {whole, ticks}, "cut": {cut, int(result.Messages[TopicTick])},
		"recovered": {recovered, int(result.Messages[TopicTick])},
	} {
		n := publicTicks(t, c.file, func(number int, data []byte, m protoreflect.Message) {
			tick := randomTick(testShape, uint64(number))
			checkNamed(t, m, "observed", namesOfObs, tick.Obs)
			checkNamed(t, m, "commanded", []string{"left", "right"}, tick.Action)
			old := new(flightlogpb.Tick) // of a program that does not know the fields
			fatal.If(t, proto.Unmarshal(data, old))
			if len(old.Obs) != len(tick.Obs) || old.Obs[0] != tick.Obs[0] || old.Hash != tick.Hash {
				t.Fatalf("%s: an older reader finds %v", name, old)
			}
		})
		if n != c.want || n < ticks/2 {
			t.Errorf("%s: %d ticks, want %d", name, n, c.want)
		}
	}
}

// checkNamed compares the fields of a message in a tick with the values of channels.
func checkNamed(t *testing.T, tick protoreflect.Message, field string, names []string, want []float32) {
	t.Helper()
	m := tick.Get(tick.Descriptor().Fields().ByName(protoreflect.Name(field))).Message()
	fields := m.Descriptor().Fields()
	if fields.Len() != len(want) || len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has %d fields, want %d", field, fields.Len(), len(want))
	}
	for i, v := range want {
		f := fields.ByName(protoreflect.Name(names[i]))
		if f == nil {
			t.Fatalf("%s has no field %s: %v", field, names[i], fields)
		}
		if got := float32(m.Get(f).Float()); math.Float32bits(got) != math.Float32bits(v) {
			t.Fatalf("%s.%s is %g, want %g", field, names[i], got, v)
		}
	}
}

func TestWriter_NamesAnyChannels(t *testing.T) {
	var strange, many []hal.Channel
	for _, name := range []string{"", "_", "__", "0", "a b", "a_b", "aB", "AB", "\x00", "x\n", "a_b_channel4", "if",
		strings.Repeat("long", 100)} {
		strange = append(strange, hal.Channel{Name: name})
	}
	for i := range 1024 {
		many = append(many, hal.Channel{Name: fmt.Sprint("channel ", i)})
	}
	for _, channels := range [][]hal.Channel{strange, many, nil} {
		meta := testMetadata(testShape)
		meta.Shape.Obs, meta.Robot.Obs = max(1, len(channels)), channels
		w, path := create(t, meta, Options{})
		tick := randomTick(meta.Shape, 1)
		fatal.If(t, w.WriteTick(tick))
		fatal.If(t, w.Close())
		if r := open(t, path); len(r.Damage()) > 0 || r.Cut() != nil {
			t.Fatal(r.Damage(), r.Cut())
		}
		whole, err := os.ReadFile(path)
		fatal.If(t, err)
		publicTicks(t, whole, func(_ int, _ []byte, m protoreflect.Message) {
			f := m.Descriptor().Fields().ByName("observed")
			if named := f != nil; named != (len(channels) > 0) {
				t.Fatalf("%d channels, named: %v", len(channels), named)
			}
			if f != nil && m.Get(f).Message().Descriptor().Fields().Len() != len(channels) {
				t.Error("a channel has no field")
			}
		})
	}
}

// A definition with two fields of one name would be refused by the readers of other languages.
func TestNamedChannels_MakeValidDefinitions(t *testing.T) {
	file := protodesc.ToFileDescriptorProto((*flightlogpb.Tick)(nil).ProtoReflect().Descriptor().ParentFile())
	meta := namedMetadata()
	channelsOf(meta.Robot).extend(file)
	for _, message := range file.MessageType {
		json := map[string]string{}
		for _, field := range message.Field {
			key := fieldKey(field.GetName())
			if other, taken := json[key]; taken {
				t.Errorf("%s: %s and %s have one name in JSON", message.GetName(), other, field.GetName())
			}
			json[key] = field.GetName()
		}
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
	errtest.Nil(t, errtest.Of(protodesc.NewFiles(set)))
}
