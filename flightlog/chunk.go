package flightlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// recordLead is the length of an opcode and a record length.
const recordLead = 1 + 8

// records encodes MCAP records into memory with the library's writer. The library does
// not write the file, so a failed write can be undone.
type records struct {
	buf bytes.Buffer
	*mcap.Writer
}

func newRecords() (*records, error) {
	r := new(records)
	w, err := mcap.NewWriter(&r.buf, &mcap.WriterOptions{SkipMagic: true})
	if err != nil {
		return nil, fmt.Errorf("encoding records: %w", err)
	}
	r.Writer = w
	return r, nil
}

// declare writes the schemas and channels of some topics. named are the fields of the run.
func (r *records) declare(channels channelSet, named namedChannels) error {
	if err := r.declareSchemas(channels, named); err != nil {
		return err
	}
	return r.declareChannels(channels)
}

// declareSchemas writes the message definitions with their dependencies.
func (r *records) declareSchemas(channels channelSet, named namedChannels) error {
	for i, t := range topics {
		if !channels.has(i) {
			continue
		}
		message := t.message.ProtoReflect().Descriptor()
		var files descriptorpb.FileDescriptorSet
		for k := range message.ParentFile().Imports().Len() {
			imported := message.ParentFile().Imports().Get(k).FileDescriptor
			files.File = append(files.File, protodesc.ToFileDescriptorProto(imported))
		}
		own := protodesc.ToFileDescriptorProto(message.ParentFile())
		if i == tickChannel {
			named.extend(own)
		}
		files.File = append(files.File, own)
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&files)
		if err != nil {
			return fmt.Errorf("encoding the message definitions: %w", err)
		}
		schema := mcap.Schema{ID: uint16(i + 1), Name: string(message.FullName()), Encoding: "protobuf", Data: data}
		if err := r.WriteSchema(&schema); err != nil {
			return err
		}
	}
	return nil
}

func (r *records) declareChannels(channels channelSet) error {
	for i, t := range topics {
		if !channels.has(i) {
			continue
		}
		id := uint16(i + 1)
		channel := mcap.Channel{ID: id, SchemaID: id, Topic: t.name, MessageEncoding: "protobuf"}
		if err := r.WriteChannel(&channel); err != nil {
			return err
		}
	}
	return nil
}

// chunkIndex appends an encoded chunk index record to dst. It does not change the buffer.
func (r *records) chunkIndex(dst []byte, c *mcap.ChunkIndex) ([]byte, error) {
	before := r.buf.Len()
	err := r.WriteChunkIndex(c)
	dst = append(dst, r.buf.Bytes()[before:]...)
	r.buf.Truncate(before)
	return dst, err
}

// openChunk is the chunk in memory to which messages are added.
type openChunk struct {
	records    *records
	index      [numChannels][]mcap.MessageIndexEntry
	start, end uint64 // log times
	zstd       *zstd.Encoder
	packed     []byte
}

func newOpenChunk(channels channelSet, compress bool) (*openChunk, error) {
	r, err := newRecords()
	if err != nil {
		return nil, err
	}
	if err := r.declare(channels, namedChannels{}); err != nil { // the library needs the channels
		return nil, err
	}
	c := &openChunk{records: r}
	if compress {
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("preparing compression: %w", err)
		}
	}
	c.reset()
	return c, nil
}

func (c *openChunk) reset() {
	c.records.buf.Reset()
	for i := range c.index {
		c.index[i] = c.index[i][:0]
	}
	c.start, c.end = math.MaxUint64, 0
}

func (c *openChunk) size() int { return c.records.buf.Len() }

// mark is the state before an add, for takeBack.
type mark struct {
	size       int
	channel    int
	start, end uint64
}

// add appends a message to the chunk.
func (c *openChunk) add(channel int, m *mcap.Message) (mark, error) {
	before := mark{c.size(), channel, c.start, c.end}
	m.ChannelID = uint16(channel + 1)
	if err := c.records.WriteMessage(m); err != nil {
		return before, fmt.Errorf("encoding a message: %w", err)
	}
	entry := mcap.MessageIndexEntry{Timestamp: m.LogTime, Offset: uint64(before.size)}
	c.index[channel] = append(c.index[channel], entry)
	c.start, c.end = min(c.start, m.LogTime), max(c.end, m.LogTime)
	return before, nil
}

// takeBack undoes the last add.
func (c *openChunk) takeBack(m mark) {
	c.records.buf.Truncate(m.size)
	c.index[m.channel] = c.index[m.channel][:len(c.index[m.channel])-1]
	c.start, c.end = m.start, m.end
}

func compression(packed bool) mcap.CompressionFormat {
	if packed {
		return mcap.CompressionZSTD
	}
	return mcap.CompressionNone
}

// encode appends the chunk and its message indexes to out, for a file offset. It
// returns the chunk index record for the summary.
func (c *openChunk) encode(out *records, offset uint64) (mcap.ChunkIndex, error) {
	body := c.records.buf.Bytes()
	packed := body
	if c.zstd != nil {
		c.packed = c.zstd.EncodeAll(body, c.packed[:0])
		packed = c.packed
	}
	format := compression(c.zstd != nil)
	before := out.buf.Len()
	lead := binary.LittleEndian.AppendUint64([]byte{byte(mcap.OpChunk)},
		uint64(8+8+8+4+4+len(format)+8+len(packed)))
	lead = binary.LittleEndian.AppendUint64(lead, c.start)
	lead = binary.LittleEndian.AppendUint64(lead, c.end)
	lead = binary.LittleEndian.AppendUint64(lead, uint64(len(body)))
	lead = binary.LittleEndian.AppendUint32(lead, crc32.ChecksumIEEE(body))
	lead = binary.LittleEndian.AppendUint32(lead, uint32(len(format)))
	lead = append(lead, format...)
	lead = binary.LittleEndian.AppendUint64(lead, uint64(len(packed)))
	out.buf.Write(lead)
	out.buf.Write(packed)
	end := out.buf.Len()

	closed := mcap.ChunkIndex{
		MessageStartTime: c.start, MessageEndTime: c.end,
		ChunkStartOffset: offset, ChunkLength: uint64(end - before),
		MessageIndexOffsets: make(map[uint16]uint64, numChannels), Compression: format,
		CompressedSize: uint64(len(packed)), UncompressedSize: uint64(len(body)),
	}
	err := out.writeIndexes(&c.index, func(channel uint16, at int) {
		closed.MessageIndexOffsets[channel] = offset + uint64(at-before)
	})
	if err != nil {
		return mcap.ChunkIndex{}, err
	}
	closed.MessageIndexLength = uint64(out.buf.Len() - end)
	return closed, nil
}

// writeIndexes appends the message indexes of a chunk. It calls placed, which may be nil, with the
// channel and the offset in the buffer of each.
func (r *records) writeIndexes(
	index *[numChannels][]mcap.MessageIndexEntry, placed func(channel uint16, at int),
) error {
	for i, entries := range index {
		if len(entries) == 0 {
			continue
		}
		m := mcap.MessageIndex{ChannelID: uint16(i + 1)}
		if placed != nil {
			placed(m.ChannelID, r.buf.Len())
		}
		for _, e := range entries {
			m.Add(e.Timestamp, e.Offset)
		}
		if err := r.WriteMessageIndex(&m); err != nil {
			return fmt.Errorf("encoding an index: %w", err)
		}
	}
	return nil
}
