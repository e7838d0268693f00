package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/internal/fatal"
)

// chunkOf returns a chunk record with a body in a compression.
func chunkOf(t *testing.T, format mcap.CompressionFormat, body []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	switch format {
	case mcap.CompressionZSTD:
		w, err := zstd.NewWriter(&packed)
		fatal.If(t, err)
		_, err = w.Write(body)
		fatal.If(t, errors.Join(err, w.Close()))
	case mcap.CompressionLZ4:
		w := lz4.NewWriter(&packed)
		_, err := w.Write(body)
		fatal.If(t, errors.Join(err, w.Close()))
	}
	fields := make([]byte, 16)
	fields = binary.LittleEndian.AppendUint64(fields, uint64(len(body)))
	fields = binary.LittleEndian.AppendUint32(fields, 0) // no checksum
	fields = binary.LittleEndian.AppendUint32(fields, uint32(len(format)))
	fields = append(fields, format...)
	fields = binary.LittleEndian.AppendUint64(fields, uint64(packed.Len()))
	return recordOf(mcap.OpChunk, append(fields, packed.Bytes()...))
}

func recordOf(op mcap.OpCode, content []byte) []byte {
	return append(binary.LittleEndian.AppendUint64([]byte{byte(op)}, uint64(len(content))), content...)
}

// readAll returns the damage of a log and the memory that reading it took, in MiB.
func readAll(t *testing.T, log []byte) (damage []error, peak uint64) {
	t.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		damage = append(damage, err)
	} else {
		defer r.Close()
		for _, err := range r.Records() {
			if err != nil {
				damage = append(damage, err)
			}
		}
	}
	runtime.ReadMemStats(&after)
	return damage, (after.TotalAlloc - before.TotalAlloc) >> 20
}

func TestReader_RefusesBombsBeforeItAllocates(t *testing.T) {
	preamble := preambleOf(t)
	zeros := make([]byte, 250<<20)
	emptyLabels := bytes.Repeat(append(protowire.AppendTag(nil, 19, protowire.BytesType), 0), 4<<20)
	events := func(n int) []byte {
		var fields []byte
		for i := range n {
			key := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), string(rune('A'+i)))
			fields = protowire.AppendBytes(protowire.AppendTag(fields, 4, protowire.BytesType), key)
		}
		return fields
	}
	channels := bytes.Repeat([]byte("{},"), 5<<20)
	metadata := binary.LittleEndian.AppendUint32(nil, uint32(len(metadataName)))
	metadata = append(metadata, metadataName...)
	metadata = binary.LittleEndian.AppendUint32(metadata, uint32(8+len(keyObsChans)+len(channels)))
	metadata = binary.LittleEndian.AppendUint32(metadata, uint32(len(keyObsChans)))
	metadata = append(metadata, keyObsChans...)
	metadata = append(binary.LittleEndian.AppendUint32(metadata, uint32(len(channels))), channels...)
	worst := uint64(0)
	bombs := map[string]struct {
		log  []byte
		want string
	}{
		"zstd":        {append(bytes.Clone(preamble), chunkOf(t, mcap.CompressionZSTD, zeros)...), ""},
		"lz4":         {append(bytes.Clone(preamble), chunkOf(t, mcap.CompressionLZ4, zeros)...), ""},
		"no metadata": {append(bytes.Clone(mcap.Magic), chunkOf(t, mcap.CompressionZSTD, zeros)...), ""},
		"labels of a tick": {append(bytes.Clone(preamble),
			chunkOf(t, mcap.CompressionZSTD, messageRecord(tickChannel+1, emptyLabels))...), "at most"},
		"fields of an event": {append(bytes.Clone(preamble),
			chunkOf(t, mcap.CompressionZSTD, messageRecord(eventChannel+1, events(1_000_000)))...), "at most"},
		"channels of the metadata": {append(bytes.Clone(mcap.Magic), recordOf(mcap.OpMetadata, metadata)...), ""},
	}
	for name, c := range bombs {
		damage, allocated := readAll(t, c.log)
		worst = max(worst, allocated)
		if len(damage) == 0 || !strings.Contains(errors.Join(damage...).Error(), c.want) {
			t.Errorf("%s: %v", name, damage)
		}
		if allocated > 100 {
			t.Errorf("%s: a file of %d KiB allocates %d MiB", name, len(c.log)>>10, allocated)
		}
	}
	t.Logf("%d bombs: each is refused and allocates at most %d MiB", len(bombs), worst)
}

// A chunk within the limits is read, one after the other.
func TestReader_MemoryDoesNotGrowWithTheNumberOfChunks(t *testing.T) {
	var other []byte // records of an opcode that the reader skips
	for len(other) < maxBody-2<<20 {
		other = append(other, recordOf(0x80, make([]byte, 1<<20))...)
	}
	log := preambleOf(t)
	chunk := chunkOf(t, mcap.CompressionZSTD, other)
	for range 60 {
		log = append(log, chunk...)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	damage, allocated := readAll(t, log)
	runtime.ReadMemStats(&after)
	if len(damage) > 0 || allocated < 60 {
		t.Errorf("%d MiB allocated, %v", allocated, damage)
	}
	if grown := (int64(after.HeapSys) - int64(before.HeapSys)) >> 20; grown > 200 {
		t.Errorf("a file of %d KiB took %d MiB", len(log)>>10, grown)
	}
}
