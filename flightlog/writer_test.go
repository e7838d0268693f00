package flightlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

func TestWriter_RoundTripsTicksAndLabels(t *testing.T) {
	for _, compress := range []bool{false, true} {
		w, path := create(t, testMetadata(testShape), Options{NoSync: true, Compress: compress})
		const n = 300
		for i := range uint64(n) {
			fatal.If(t, w.WriteTick(randomTick(testShape, i)))
			if i%100 == 50 {
				fatal.If(t, w.WriteLabel(testLabel(i)))
			}
		}
		fatal.If(t, w.Close())

		r := open(t, path)
		if r.Cut() != nil {
			t.Fatalf("cut: %+v", r.Cut())
		}
		var ticks uint64
		var labels []rewardsrc.Label
		for record, err := range r.Records() {
			fatal.If(t, err)
			if record.Label != nil {
				labels = append(labels, *record.Label)
			}
			if record.Tick == nil {
				continue
			}
			want := randomTick(testShape, ticks)
			if !reflect.DeepEqual(record.Tick, want) {
				t.Fatalf("tick %d differs:\n%+v\n%+v", ticks, record.Tick, want)
			}
			ticks++
		}
		if ticks != n || !slices.Equal(labels, []rewardsrc.Label{testLabel(50), testLabel(150), testLabel(250)}) {
			t.Fatalf("got %d ticks, labels %v", ticks, labels)
		}
	}
}

func TestWriter_StoresEveryFieldOfATick(t *testing.T) {
	tick := controller.NewTick(testShape)
	tick.NumLabels = controller.MaxLabels
	next := uint64(1)
	var fill func(v reflect.Value, name string)
	fill = func(v reflect.Value, name string) {
		switch {
		case name == "_" || name == "NumLabels":
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i), name)
			}
		case v.CanInt():
			v.SetInt(int64(next))
		case v.CanUint():
			v.SetUint(next % 200)
		case v.CanFloat():
			v.SetFloat(float64(next) + 0.1)
		default:
			t.Fatalf("%s: a %v is not handled", name, v.Kind())
		}
		next++
	}
	fill(reflect.ValueOf(tick.Header).Elem(), "")

	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	_ = w.WriteTick(tick)
	fatal.If(t, w.Close())
	for record, err := range open(t, path).Records() {
		fatal.If(t, err)
		if record.Tick != nil && !reflect.DeepEqual(record.Tick.Header, tick.Header) {
			t.Fatalf("got  %+v\nwant %+v", record.Tick.Header, tick.Header)
		}
	}
}

func TestWriter_KeepsTheBitsOfNonFiniteNumbers(t *testing.T) {
	tick := randomTick(testShape, 0)
	odd := []uint64{0x7ff8000000000001, 0xfff8dead0000beef, math.Float64bits(math.Inf(-1)), 1 << 63, 1}
	for i, bits := range odd {
		tick.Phi[i] = math.Float64frombits(bits)
	}
	tick.Obs[0] = math.Float32frombits(0xffc12345)
	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	fatal.If(t, w.WriteTick(tick))
	fatal.If(t, w.Close())
	for record, err := range open(t, path).Records() {
		fatal.If(t, err)
		for i, bits := range odd {
			if got := math.Float64bits(record.Tick.Phi[i]); got != bits {
				t.Errorf("phi[%d]: got %#x, want %#x", i, got, bits)
			}
		}
		if got := math.Float32bits(record.Tick.Obs[0]); got != 0xffc12345 {
			t.Errorf("obs[0]: got %#x", got)
		}
	}
}

func TestWriter_RoundTripsMetadata(t *testing.T) {
	meta := testMetadata(testShape)
	meta.Clock.Simulated = true
	w, path := create(t, meta, Options{NoSync: true})
	fatal.If(t, w.Close())
	meta.Format = FormatVersion
	if got := open(t, path).Metadata(); !reflect.DeepEqual(got, meta) {
		t.Fatalf("got  %+v\nwant %+v", got, meta)
	}
}

func TestWriter_RoundTripsOtherMessages(t *testing.T) {
	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	at := int64(6_000_000_000)
	request := rewardsrc.Request{ID: 3, Tick: 9, At: at, Until: 20, DGap: 0.1, State: rewardsrc.Open}
	plan := Plan{Tick: 8, At: at, Took: time.Millisecond, Score: 0.3, Strategy: "ucb", Z: make([]float64, 24)}
	event := Event{At: at, Level: Warn, Text: "battery low", Fields: map[string]string{"a": "b"}}
	timing := Timing{At: at, Ticks: 5, Skipped: 1, Late: Percentiles{1, 2, 3, 4}, Busy: Percentiles{5, 6, 7, 8}}
	snapshot := Snapshot{
		Next: 4, Hash: math.MaxUint64, State: []float64{1, math.Copysign(0, -1)},
		Noise: controller.NoiseState{Squares: 2, Count: 3},
	}
	fatal.If(t, w.WriteRequest(request))
	fatal.If(t, w.WritePlan(plan))
	fatal.If(t, w.WriteEvent(event))
	fatal.If(t, w.WriteTiming(timing))
	fatal.If(t, w.WriteSnapshot(snapshot))
	fatal.If(t, w.Close())
	var got []any
	for r, err := range open(t, path).Records() {
		fatal.If(t, err)
		for _, p := range []any{r.Request, r.Plan, r.Event, r.Timing, r.Snapshot} {
			if v := reflect.ValueOf(p); !v.IsNil() {
				got = append(got, v.Elem().Interface())
			}
		}
	}
	if want := []any{request, plan, event, timing, snapshot}; !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// The independent reader is the MCAP library with the definitions in the file.
func TestWriter_IsReadByTheMCAPLibrary(t *testing.T) {
	for _, compress := range []bool{false, true} {
		w, path := create(t, testMetadata(testShape), Options{NoSync: true, Compress: compress})
		const n = 100
		for i := range uint64(n) {
			fatal.If(t, w.WriteTick(randomTick(testShape, i)))
			if i%10 == 0 {
				fatal.If(t, w.WriteLabel(testLabel(i+1)))
			}
		}
		fatal.If(t, w.Close())
		f, err := os.Open(path)
		fatal.If(t, err)
		defer func() { _ = f.Close() }()
		reader, err := mcap.NewReader(f)
		fatal.If(t, err)
		defer reader.Close()

		messages, err := reader.Messages(mcap.UsingIndex(true), mcap.InOrder(mcap.LogTimeOrder))
		fatal.If(t, err)
		var ticks uint64
		fatal.If(t, mcap.Range(messages, func(s *mcap.Schema, c *mcap.Channel, m *mcap.Message) error {
			if c.Topic != TopicTick {
				return nil
			}
			tick := decodeDynamically(t, s, m.Data)
			phi := tick.Get(tick.Descriptor().Fields().ByName("phi")).List()
			want := randomTick(testShape, ticks)
			wall := uint64(want.SenseAt) + 1_699_999_995_000_000_000
			if phi.Get(3).Float() != want.Phi[3] || m.LogTime != wall {
				t.Fatalf("tick %d: phi[3] %v at %d", ticks, phi.Get(3), m.LogTime)
			}
			ticks++
			return nil
		}))
		info, err := reader.Info()
		fatal.If(t, err)
		want := map[string]uint64{TopicTick: n, TopicLabel: n / 10}
		if got := info.ChannelCounts(); ticks != n || !maps.Equal(nonZero(got), want) {
			t.Fatalf("read %d ticks, the summary counts %v", ticks, got)
		}
		checkSummary(t, reader, info)
	}
}

// checkSummary reads the attachments and the metadata by their indexes.
func checkSummary(t *testing.T, reader *mcap.Reader, info *mcap.Info) {
	t.Helper()
	if len(info.AttachmentIndexes) != 2 || len(info.MetadataIndexes) != 3 || len(info.Schemas) != len(Topics()) {
		t.Fatalf("the summary lists %d attachments, %d metadata, %d schemas",
			len(info.AttachmentIndexes), len(info.MetadataIndexes), len(info.Schemas))
	}
	for _, m := range info.MetadataIndexes {
		errtest.Nil(t, errtest.Of(reader.GetMetadata(m.Offset)), "metadata ", m.Name)
	}
	for _, a := range info.AttachmentIndexes {
		ar, err := reader.GetAttachmentReader(a.Offset)
		fatal.If(t, err)
		fatal.If(t, errtest.Of(io.Copy(io.Discard, ar.Data())))
		computed, err := ar.ComputedCRC()
		fatal.If(t, err)
		if parsed, err := ar.ParsedCRC(); err != nil || parsed != computed {
			t.Errorf("attachment %s: checksum %x, want %x (%v)", a.Name, computed, parsed, err)
		}
	}
}

func nonZero(counts map[string]uint64) map[string]uint64 {
	maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
	return counts
}

func decodeDynamically(t *testing.T, s *mcap.Schema, data []byte) *dynamicpb.Message {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	fatal.If(t, proto.Unmarshal(s.Data, &set))
	files, err := protodesc.NewFiles(&set)
	fatal.If(t, err)
	message, err := files.FindDescriptorByName(protoreflect.FullName(s.Name))
	fatal.If(t, err)
	m := dynamicpb.NewMessage(message.(protoreflect.MessageDescriptor))
	fatal.If(t, proto.Unmarshal(data, m))
	return m
}

// The MCAP specification defines the checksums: over the bytes before the data end
// record, and over those from there to the checksum in the footer.
func TestWriter_ChecksumsFollowTheFormat(t *testing.T) {
	log := writeOriginal(t, 40, false).log
	at := dataEnd(log)
	data := binary.LittleEndian.Uint32(log[at+recordLead:])
	if want := crc32.ChecksumIEEE(log[:at]); data != want {
		t.Errorf("data section: got %08x, want %08x", data, want)
	}
	end := len(log) - len(mcap.Magic) - 4
	summary := binary.LittleEndian.Uint32(log[end:])
	if want := crc32.ChecksumIEEE(log[at+recordLead+4 : end]); summary != want {
		t.Errorf("summary section: got %08x, want %08x", summary, want)
	}
}

func TestWriter_TickWithoutSampleHasItsWakeTime(t *testing.T) {
	tick := randomTick(testShape, 0)
	tick.SenseAt, tick.Flags = 0, controller.FlagBadObs
	meta := testMetadata(testShape)
	w, path := create(t, meta, Options{NoSync: true})
	fatal.If(t, w.WriteTick(tick))
	fatal.If(t, w.Close())
	for record, err := range open(t, path).Records() {
		fatal.If(t, err)
		if want := uint64(meta.Clock.Wall(tick.Wake)); record.LogTime != want || record.Tick.SenseAt != 0 {
			t.Fatalf("logged at %d with sense time %d, want %d", record.LogTime, record.Tick.SenseAt, want)
		}
	}
}

func TestCreate_RefusesAnExistingFile(t *testing.T) {
	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	fatal.If(t, w.Close())
	if _, err := Create(path, testMetadata(testShape), Options{}); !errors.Is(err, os.ErrExist) {
		t.Fatalf("got %v", err)
	}
}
