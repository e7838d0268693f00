package flightlog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"google.golang.org/protobuf/proto"

	"optibfm/controller"
	"optibfm/flightlog/flightlogpb"
	"optibfm/rewardsrc"
)

// Errors of a Reader.
var (
	// ErrNotALog is returned by Open for a file that is no MCAP file, or not
	// one of ours.
	ErrNotALog = errors.New("not a flight log")
	// ErrVersion is returned by Open for a log of a newer program.
	ErrVersion = errors.New("the log is of a newer program: update this one")
	// ErrDamaged is wrapped by every DamageError.
	ErrDamaged = errors.New("the log is damaged")
)

// DamageError is a damaged place of a log. The bytes before and after it are
// read as usual.
type DamageError struct {
	Offset int64 // of the place in the file
	End    int64 // where the next record that can be read begins; Offset where bytes are missing
	Err    error
}

func (e *DamageError) Error() string {
	if e.End <= e.Offset {
		return fmt.Sprintf("damaged at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("damaged from byte %d to %d: %v", e.Offset, e.End, e.Err)
}

// Unwrap returns ErrDamaged and the cause.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// Cut says what is missing at the end of a log that was never closed. It is the
// normal end of a log whose process was killed or lost its power, and no damage.
type Cut struct {
	Offset   int64  // where the valid records end
	Bytes    int64  // behind that, which belong to no whole record
	Reason   string // what the first of them look like
	HasTick  bool   // a tick stands before Offset
	LastTick uint64 // index of the last one
}

// Record is one message of a log. Exactly one of the pointers is set.
type Record struct {
	Topic    string
	LogTime  uint64 // wall clock, ns since 1970
	Offset   int64  // of the chunk, or record, in the file
	Tick     *controller.Tick
	Label    *rewardsrc.Label
	Request  *rewardsrc.Request
	Plan     *Plan
	Event    *Event
	Timing   *Timing
	Snapshot *Snapshot

	channel int    // index in topics
	data    []byte // the message as it is in the file
}

// Limits on what a file may claim, far above what a Writer writes.
const (
	maxRecord = 256 << 20 // bytes of a record, and of a chunk when unpacked
	maxShort  = 16 << 20  // bytes of a record that is no chunk
)

// Reader reads a log, also one that was cut off or is damaged. It belongs to one
// goroutine.
type Reader struct {
	src     io.ReaderAt
	closer  io.Closer
	size    int64
	meta    Metadata
	hasMeta bool
	header  mcap.Header
	control []byte // controller.json
	// The metadata may announce a checksum of the preamble, in a record of its own.
	announced, summed, sumAgrees bool
	// parts are the chunks, the messages outside of chunks and the damaged
	// places, in file order.
	parts    []part
	schemas  map[uint16]string // ID to message name
	channels map[uint16]int    // ID to index in topics
	cut      *Cut
	unpacker *zstd.Decoder
	tick     *controller.Tick
}

// part is a record of the data section that holds messages, or a damaged place.
type part struct {
	op     mcap.OpCode
	offset int64        // of the record
	length int64        // of what follows its opcode and length
	damage *DamageError // nil for a record
}

// Open opens a log, complete, cut off or damaged, and reads all of it once to
// tell which. Close it after use.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("flightlog.Open: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("flightlog.Open: %w", err)
	}
	r, err := NewReader(f, info.Size())
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("flightlog.Open %s: %w", path, err)
	}
	r.closer = f
	return r, nil
}

// NewReader reads a log of the given size from src.
func NewReader(src io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{src: src, size: size, schemas: make(map[uint16]string), channels: make(map[uint16]int)}
	for i := range topics { // as every Writer numbers them: what declares them may be damaged
		r.channels[uint16(i+1)] = i
	}
	if err := r.walk(); err != nil {
		return nil, err
	}
	if !r.hasMeta {
		return nil, r.missing(fmt.Sprintf("the metadata record %q", metadataName))
	}
	if err := r.decodeControl(); err != nil {
		return nil, err
	}
	r.tick = controller.NewTick(r.meta.Shape)
	if r.cut != nil {
		r.cut.LastTick, r.cut.HasTick = r.lastTick()
	}
	return r, nil
}

// lastTick looks for the last tick, from the end.
func (r *Reader) lastTick() (index uint64, ok bool) {
	for i := len(r.parts) - 1; i >= 0 && !ok; i-- {
		r.visit(r.parts[i], 1<<tickChannel, func(record *Record, err error) bool {
			if err == nil && record.Tick != nil {
				index, ok = record.Tick.Index, true
			}
			return true
		})
	}
	return index, ok
}

// missing is the error for a file without what every log has.
func (r *Reader) missing(what string) error {
	switch damage := r.Damage(); {
	case len(damage) > 0:
		return fmt.Errorf("%s cannot be read: %w", what, damage[0])
	case r.cut != nil:
		return fmt.Errorf("%w: %s is missing (valid up to byte %d, then: %s)", ErrNotALog, what, r.cut.Offset, r.cut.Reason)
	}
	return fmt.Errorf("%w: %s is missing", ErrNotALog, what)
}

func (r *Reader) decodeControl() error {
	if r.control == nil {
		return r.missing("the attachment " + controllerFile)
	}
	if err := json.Unmarshal(r.control, &r.meta.Control); err != nil {
		return fmt.Errorf("%w: attachment %s: %w", ErrDamaged, controllerFile, err)
	}
	return nil
}

// Metadata is what the log says about the run.
func (r *Reader) Metadata() Metadata { return r.meta }

// Size is the file's length in bytes.
func (r *Reader) Size() int64 { return r.size }

// Cut says what is missing at the end, nil for a log that was closed.
func (r *Reader) Cut() *Cut { return r.cut }

// Damage returns the damaged places of the file, each a *DamageError. A log that
// has one is not what was recorded, whatever can still be read of it.
func (r *Reader) Damage() (found []error) {
	for _, p := range r.parts {
		if p.damage != nil {
			found = append(found, p.damage)
		}
	}
	return found
}

// Close releases the file.
func (r *Reader) Close() error {
	if r.unpacker != nil {
		r.unpacker.Close()
	}
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// read decodes a record of the preamble.
func (r *Reader) read(op mcap.OpCode, at, length int64) error {
	if length > maxShort {
		return damaged("a record (%s) of %d bytes", op, length)
	}
	data, err := r.bytes(at+recordLead, at+recordLead+length)
	if err != nil {
		return err
	}
	err = guard(func() error { return r.decodeRecord(op, at, data) })
	if err == nil || errors.Is(err, ErrVersion) {
		return err
	}
	return damaged("%s: %w", op, err)
}

// guard turns a panic of a parser into an error: some of the library's slice
// by lengths that they do not check.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("impossible content: %v", p)
		}
	}()
	return f()
}

func (r *Reader) decodeRecord(op mcap.OpCode, at int64, data []byte) error {
	switch op {
	case mcap.OpHeader:
		h, err := mcap.ParseHeader(data)
		if err != nil {
			return err
		}
		r.header = *h
	case mcap.OpSchema:
		return r.decodeSchema(data)
	case mcap.OpChannel:
		return r.decodeChannel(data)
	case mcap.OpMetadata:
		return r.decodeMetadata(at, data)
	case mcap.OpAttachment:
		return r.decodeAttachment(data)
	}
	return nil
}

func (r *Reader) decodeSchema(data []byte) error {
	s, err := mcap.ParseSchema(data)
	if err != nil {
		return err
	}
	r.schemas[s.ID] = s.Name
	return nil
}

// decodeChannel notes a channel if it is one of ours, by topic and message.
func (r *Reader) decodeChannel(data []byte) error {
	c, err := mcap.ParseChannel(data)
	if err != nil {
		return err
	}
	delete(r.channels, c.ID)
	for i, t := range topics {
		if t.name == c.Topic && r.schemas[c.SchemaID] == string(t.message.ProtoReflect().Descriptor().FullName()) {
			r.channels[c.ID] = i
		}
	}
	return nil
}

func (r *Reader) decodeMetadata(at int64, data []byte) error {
	m, err := mcap.ParseMetadata(data)
	if err != nil {
		return err
	}
	switch m.Name {
	case metadataName:
		config, extra := r.meta.Config, r.meta.Extra
		if r.meta, err = decodeMetadata(m.Metadata); err != nil {
			return err
		}
		r.meta.Config, r.meta.Extra = config, extra
		r.hasMeta, r.announced = true, m.Metadata[keyPreamble] != ""
	case extraName:
		r.meta.Extra = m.Metadata
	case preambleName:
		sum, err := r.checksum(0, at)
		r.summed, r.sumAgrees = true, preambleSum(sum) == m.Metadata[keyPreamble]
		return err
	}
	return nil
}

// ours reports whether a Writer of this package wrote the log.
func (r *Reader) ours() bool { return strings.Contains(r.header.Library, library) }

// decodeAttachment keeps the two attachments that we know.
func (r *Reader) decodeAttachment(data []byte) error {
	if len(data) < 8+8+4+4+8+4 {
		return io.ErrUnexpectedEOF
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if (sum != 0 || r.ours()) && crc32.ChecksumIEEE(body) != sum {
		return errors.New("the checksum does not agree")
	}
	rest := body[16:] // log time and creation time
	name, rest, ok := cutString(rest)
	if !ok {
		return io.ErrUnexpectedEOF
	}
	_, rest, ok = cutString(rest)
	if !ok || len(rest) < 8 || binary.LittleEndian.Uint64(rest) != uint64(len(rest)-8) {
		return io.ErrUnexpectedEOF
	}
	switch name {
	case configFile:
		r.meta.Config = rest[8:]
	case controllerFile:
		r.control = rest[8:]
	}
	return nil
}

// cutString takes a string with its length in front off b.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 4 {
		return "", nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return "", nil, false
	}
	return string(b[4 : 4+n]), b[4+n:], true
}

// Records goes through the messages in the order of the file. A damaged place
// gives a *DamageError, and what follows it comes next; any other error is of
// the disk and ends it. The Record and its Tick are only valid until the next;
// the other pointers are the caller's.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for _, p := range r.parts {
			if !r.visit(p, allChannels, yield) {
				return
			}
		}
	}
}

// channelSet is a set of indices in topics.
type channelSet uint

const allChannels = ^channelSet(0)

func (s channelSet) has(channel int) bool { return s&(1<<channel) != 0 }

// visit yields the messages on some channels of a part and says whether to go
// on.
func (r *Reader) visit(p part, channels channelSet, yield func(*Record, error) bool) bool {
	if p.damage != nil {
		return yield(nil, p.damage)
	}
	data, err := r.load(p)
	if err != nil {
		return yield(nil, p.place(err))
	}
	if p.op == mcap.OpMessage {
		return r.message(p, data, channels, yield)
	}
	for len(data) > 0 {
		if len(data) < recordLead {
			return yield(nil, p.place(damaged("a record ends behind its chunk")))
		}
		op, length := mcap.OpCode(data[0]), binary.LittleEndian.Uint64(data[1:])
		data = data[recordLead:]
		if length > uint64(len(data)) {
			return yield(nil, p.place(damaged("a record ends behind its chunk")))
		}
		record := data[:length]
		data = data[length:]
		if op == mcap.OpMessage {
			if !r.message(p, record, channels, yield) {
				return false
			}
			continue
		}
		// Other programs put schemas and channels into chunks.
		if op == mcap.OpSchema || op == mcap.OpChannel {
			if err := guard(func() error { return r.decodeRecord(op, p.offset, record) }); err != nil {
				return yield(nil, p.place(damaged("%s: %w", op, err)))
			}
		}
	}
	return true
}

// place adds to a DamageError where it is; it returns other errors as they are.
func (p part) place(err error) error {
	var d *DamageError
	if !errors.As(err, &d) {
		return err
	}
	return &DamageError{Offset: p.offset, End: p.offset + recordLead + p.length, Err: d.Err}
}

// load returns the records of a part, unpacked and checked.
func (r *Reader) load(p part) ([]byte, error) {
	if p.length > maxRecord {
		return nil, damaged("a record of %d bytes is more than any writer makes", p.length)
	}
	data, err := r.bytes(p.offset+recordLead, p.offset+recordLead+p.length)
	if err != nil || p.op == mcap.OpMessage {
		return data, err
	}
	if !beginsChunk(data, p.length) {
		return nil, damaged("the lengths in a chunk do not agree")
	}
	chunk, err := mcap.ParseChunk(data)
	if err != nil {
		return nil, damaged("a chunk: %w", err)
	}
	body, err := r.unpack(chunk)
	if err != nil {
		return nil, damaged("a chunk: %w", err)
	}
	if chunk.UncompressedCRC != 0 && crc32.ChecksumIEEE(body) != chunk.UncompressedCRC {
		return nil, damaged("the checksum of a chunk does not agree")
	}
	return body, nil
}

func (r *Reader) unpack(c *mcap.Chunk) ([]byte, error) {
	if c.UncompressedSize > maxRecord {
		return nil, fmt.Errorf("the chunk claims %d bytes", c.UncompressedSize)
	}
	var packed io.Reader
	switch mcap.CompressionFormat(c.Compression) {
	case mcap.CompressionNone:
		return c.Records, nil
	case mcap.CompressionZSTD:
		var err error
		if packed, err = r.unzstd(c.Records); err != nil {
			return nil, err
		}
	case mcap.CompressionLZ4:
		packed = lz4.NewReader(bytes.NewReader(c.Records))
	default:
		return nil, fmt.Errorf("the compression %.20q is not known", c.Compression)
	}
	// Memory grows with what is really there, not with what is claimed.
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(packed, int64(c.UncompressedSize)+1)); err != nil {
		return nil, err
	}
	if uint64(body.Len()) != c.UncompressedSize {
		return nil, fmt.Errorf("the chunk unpacks to %d bytes, not %d", body.Len(), c.UncompressedSize)
	}
	return body.Bytes(), nil
}

// unzstd returns a reader of what is packed.
func (r *Reader) unzstd(packed []byte) (io.Reader, error) {
	source := bytes.NewReader(packed)
	if r.unpacker != nil {
		return r.unpacker, r.unpacker.Reset(source)
	}
	var err error
	r.unpacker, err = zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	return r.unpacker, err
}

// message yields one message, if its channel is one of ours.
func (r *Reader) message(p part, data []byte, channels channelSet, yield func(*Record, error) bool) bool {
	var m mcap.Message
	if err := m.PopulateFrom(data, false); err != nil {
		return yield(nil, p.place(damaged("a message: %w", err)))
	}
	channel, ok := r.channels[m.ChannelID]
	if !ok || !channels.has(channel) {
		return true
	}
	record := &Record{Topic: topics[channel].name, LogTime: m.LogTime, Offset: p.offset, channel: channel, data: m.Data}
	if err := r.decode(record, channel, m.Data); err != nil {
		return yield(nil, p.place(damaged("%s: %w", record.Topic, err)))
	}
	return yield(record, nil)
}

func (r *Reader) decode(record *Record, channel int, data []byte) (err error) {
	m := topics[channel].message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *flightlogpb.Tick:
		record.Tick = r.tick
		return decodeTick(r.tick, m)
	case *flightlogpb.Label:
		record.Label, err = decodeLabel(m)
	case *flightlogpb.Request:
		record.Request, err = decodeRequest(m)
	case *flightlogpb.Plan:
		record.Plan = decodePlan(m)
	case *flightlogpb.Event:
		record.Event, err = decodeEvent(m)
	case *flightlogpb.Timing:
		record.Timing = decodeTiming(m)
	case *flightlogpb.Snapshot:
		record.Snapshot = decodeSnapshot(m)
	}
	return err
}
