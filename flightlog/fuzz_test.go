package flightlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/proto"

	"optibfm/flightlog/flightlogpb"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// FuzzReader feeds damaged logs to the reader. Each error must be one of the Reader's
// kinds, and nothing may panic.
func FuzzReader(f *testing.F) {
	for _, compress := range []bool{false, true} {
		log := writeOriginal(f, 12, compress).log
		f.Add(log)
		f.Add(log[:len(log)/2])
		for i := 0; i < len(log); i += 997 {
			damaged := bytes.Clone(log)
			damaged[i] ^= 0xff
			f.Add(damaged)
		}
	}
	f.Add(hostileRecord(mcap.OpChunk, 1<<62))
	f.Add(hostileRecord(mcap.OpAttachment, 40))
	f.Add(hostileRecord(mcap.OpMetadata, 20))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := NewReader(bytes.NewReader(log), int64(len(log)))
		if err != nil {
			if !errors.Is(err, ErrNotALog) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		defer func() { _ = r.Close() }()
		for record, err := range r.Records() {
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("an error without a kind: %v", err)
				}
				continue
			}
			fatal.If(t, errtest.Of(record.MarshalJSON()))
		}
		if _, _, err := Summarise(r); err != nil {
			t.Fatal(err)
		}
	})
}

// hostileRecord returns a file with one record of a wrong length.
func hostileRecord(op mcap.OpCode, length uint64) []byte {
	file := append(bytes.Clone(mcap.Magic), byte(op))
	file = binary.LittleEndian.AppendUint64(file, length)
	return append(file, bytes.Repeat([]byte{0xff}, 64)...)
}

// FuzzMessages feeds arbitrary messages to the decoders, after a valid preamble and
// without checksums: as a message outside chunks, and as the content of a chunk.
func FuzzMessages(f *testing.F) {
	preamble := preambleOf(f)
	for channel := range uint16(numChannels + 2) {
		f.Add(channel, []byte{}, []byte{})
		f.Add(channel, []byte{0x08, 0x01}, []byte{byte(mcap.OpMessage), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	f.Add(uint16(1), tickBytes(f), messageRecord(1, tickBytes(f)))
	f.Fuzz(func(t *testing.T, channel uint16, message, chunk []byte) {
		log := append(bytes.Clone(preamble), messageRecord(channel, message)...)
		log = append(log, chunkOf(t, mcap.CompressionNone, chunk)...)
		r, err := NewReader(bytes.NewReader(log), int64(len(log)))
		fatal.If(t, err)
		defer func() { _ = r.Close() }()
		for record, err := range r.Records() {
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("an error without a kind: %v", err)
				}
				continue
			}
			fatal.If(t, errtest.Of(record.MarshalJSON()))
		}
	})
}

// preambleOf returns the records before the first message of a log.
func preambleOf(t testing.TB) []byte {
	disk := &fakeDisk{free: -1}
	fatal.If(t, errtest.Of(newWriter("fake", disk, testMetadata(testShape), logChannels, Options{})))
	return disk.data
}

func tickBytes(t testing.TB) []byte {
	var p flightlogpb.Tick
	tickMessage(&p, randomTick(testShape, 2))
	data, err := proto.Marshal(&p)
	fatal.If(t, err)
	return data
}

func messageRecord(channel uint16, data []byte) []byte {
	fields := append(binary.LittleEndian.AppendUint16(nil, channel), make([]byte, 4+8+8)...)
	return recordOf(mcap.OpMessage, append(fields, data...))
}
