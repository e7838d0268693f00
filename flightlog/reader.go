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

// DamageError says where a log is damaged. What stands before and behind that
// place is still good.
type DamageError struct {
	Offset int64 // of the record in the file
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("flightlog: byte %d: damaged: %v", e.Offset, e.Err)
}

// Unwrap returns ErrDamaged and the cause.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// Cut says what is missing at the end of a log that was never closed.
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

// Reader reads a log, also one that was cut off. It belongs to one goroutine.
type Reader struct {
	src     io.ReaderAt
	closer  io.Closer
	size    int64
	meta    Metadata
	hasMeta bool
	header  mcap.Header
	control []byte // controller.json
	// parts are the chunks and the messages outside of chunks, in file order.
	parts    []part
	schemas  map[uint16]string // ID to message name
	channels map[uint16]int    // ID to index in topics
	cut      *Cut
	unpacker *zstd.Decoder
	tick     *controller.Tick
}

// part is a record of the data section that holds messages.
type part struct {
	op     mcap.OpCode
	offset int64 // of the record
	length int64 // of what follows its opcode and length
}

// Open opens a log, complete or cut off. Close it after use.
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
	if err := r.walk(); err != nil {
		return nil, err
	}
	if !r.hasMeta {
		return nil, fmt.Errorf("%w: the metadata record %q is missing%s", ErrNotALog, metadataName, r.cutWords())
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

func (r *Reader) cutWords() string {
	if r.cut == nil {
		return ""
	}
	return fmt.Sprintf(" (valid up to byte %d, then: %s)", r.cut.Offset, r.cut.Reason)
}

func (r *Reader) decodeControl() error {
	if r.control == nil {
		return fmt.Errorf("%w: the attachment %s is missing%s", ErrNotALog, controllerFile, r.cutWords())
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

// walk visits the records of the data section, remembers where messages are
// and reads everything else.
func (r *Reader) walk() error {
	var magic [8]byte
	if _, err := r.src.ReadAt(magic[:], 0); err != nil || !bytes.Equal(magic[:], mcap.Magic) {
		return fmt.Errorf("%w: it does not begin as an MCAP file does", ErrNotALog)
	}
	at := int64(len(magic))
	for {
		op, length, reason := r.lead(at)
		if reason != "" {
			r.cut = &Cut{Offset: at, Bytes: r.size - at, Reason: reason}
			return nil
		}
		next := at + recordLead + length
		if op == mcap.OpDataEnd {
			r.checkEnd(next)
			return nil
		}
		if op == mcap.OpChunk || op == mcap.OpMessage {
			r.parts = append(r.parts, part{op, at, length})
		} else if err := r.read(op, at, length); err != nil {
			return err
		}
		at = next
	}
}

// lead reads the opcode and the length of the record at an offset; reason says
// why there is no whole record.
func (r *Reader) lead(at int64) (op mcap.OpCode, length int64, reason string) {
	var lead [recordLead]byte
	if r.size-at < recordLead {
		if at == r.size {
			return 0, 0, "the file ends without a footer"
		}
		return 0, 0, "a record is cut off in its first bytes"
	}
	if _, err := r.src.ReadAt(lead[:], at); err != nil {
		return 0, 0, "reading failed: " + err.Error()
	}
	op = mcap.OpCode(lead[0])
	claimed := binary.LittleEndian.Uint64(lead[1:])
	switch {
	case op == mcap.OpReserved:
		return 0, 0, "there is no record: zeros"
	case op == mcap.OpHeader && at != int64(len(mcap.Magic)):
		return 0, 0, "there is a second header"
	case claimed > uint64(r.size-at-recordLead):
		return 0, 0, fmt.Sprintf("a %s record is cut off", op)
	}
	return op, int64(claimed), ""
}

// checkEnd tells a summary that is whole from one that is not.
func (r *Reader) checkEnd(at int64) {
	const footer = recordLead + 8 + 8 + 4
	tail := make([]byte, len(mcap.Magic))
	if r.size-at < footer+int64(len(tail)) {
		r.cut = &Cut{Offset: at, Bytes: r.size - at, Reason: "the summary is cut off"}
		return
	}
	if _, err := r.src.ReadAt(tail, r.size-int64(len(tail))); err != nil || !bytes.Equal(tail, mcap.Magic) {
		r.cut = &Cut{Offset: at, Bytes: r.size - at, Reason: "the summary is cut off"}
	}
}

// read decodes a record that holds no messages.
func (r *Reader) read(op mcap.OpCode, at, length int64) error {
	switch op {
	case mcap.OpHeader, mcap.OpSchema, mcap.OpChannel, mcap.OpMetadata, mcap.OpAttachment:
	default:
		return nil
	}
	if length > maxShort {
		return &DamageError{at, fmt.Errorf("a %s record of %d bytes", op, length)}
	}
	data := make([]byte, length)
	if _, err := r.src.ReadAt(data, at+recordLead); err != nil {
		return fmt.Errorf("reading byte %d: %w", at, err)
	}
	if err := guard(func() error { return r.decodeRecord(op, data) }); err != nil {
		if errors.Is(err, ErrVersion) {
			return err
		}
		return &DamageError{at, fmt.Errorf("%s: %w", op, err)}
	}
	return nil
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

func (r *Reader) decodeRecord(op mcap.OpCode, data []byte) error {
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
		return r.decodeMetadata(data)
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
	for i, t := range topics {
		if t.name == c.Topic && r.schemas[c.SchemaID] == string(t.message.ProtoReflect().Descriptor().FullName()) {
			r.channels[c.ID] = i
		}
	}
	return nil
}

func (r *Reader) decodeMetadata(data []byte) error {
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
		r.hasMeta = true
	case extraName:
		r.meta.Extra = m.Metadata
	}
	return nil
}

// decodeAttachment keeps the two attachments that we know.
func (r *Reader) decodeAttachment(data []byte) error {
	if len(data) < 8+8+4+4+8+4 {
		return io.ErrUnexpectedEOF
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if sum != 0 && crc32.ChecksumIEEE(body) != sum {
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

// Records goes through the messages in the order of the file. A damaged chunk
// gives a *DamageError and the next one follows; any other error is of the
// disk and ends it. The Record and its Tick are only valid until the next;
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
	data, err := r.load(p)
	if err != nil {
		return yield(nil, err)
	}
	if p.op == mcap.OpMessage {
		return r.message(p, data, channels, yield)
	}
	for len(data) > 0 {
		if len(data) < recordLead {
			return yield(nil, &DamageError{p.offset, io.ErrUnexpectedEOF})
		}
		op, length := mcap.OpCode(data[0]), binary.LittleEndian.Uint64(data[1:])
		data = data[recordLead:]
		if length > uint64(len(data)) {
			return yield(nil, &DamageError{p.offset, io.ErrUnexpectedEOF})
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
			if err := guard(func() error { return r.decodeRecord(op, record) }); err != nil {
				return yield(nil, &DamageError{p.offset, err})
			}
		}
	}
	return true
}

// load returns the records of a part, unpacked and checked.
func (r *Reader) load(p part) ([]byte, error) {
	if p.length > maxRecord {
		return nil, &DamageError{p.offset, fmt.Errorf("a record of %d bytes is more than any writer makes", p.length)}
	}
	data := make([]byte, p.length)
	if _, err := r.src.ReadAt(data, p.offset+recordLead); err != nil {
		return nil, fmt.Errorf("flightlog: reading byte %d: %w", p.offset, err)
	}
	if p.op == mcap.OpMessage {
		return data, nil
	}
	var chunk *mcap.Chunk
	err := guard(func() (err error) {
		chunk, err = mcap.ParseChunk(data)
		return err
	})
	if err != nil {
		return nil, &DamageError{p.offset, err}
	}
	body, err := r.unpack(chunk)
	if err != nil {
		return nil, &DamageError{p.offset, err}
	}
	if chunk.UncompressedCRC != 0 && crc32.ChecksumIEEE(body) != chunk.UncompressedCRC {
		return nil, &DamageError{p.offset, errors.New("the checksum of the chunk does not agree")}
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
		return yield(nil, &DamageError{p.offset, err})
	}
	channel, ok := r.channels[m.ChannelID]
	if !ok || !channels.has(channel) {
		return true
	}
	record := &Record{Topic: topics[channel].name, LogTime: m.LogTime, Offset: p.offset, channel: channel, data: m.Data}
	if err := r.decode(record, channel, m.Data); err != nil {
		return yield(nil, &DamageError{p.offset, fmt.Errorf("%s: %w", record.Topic, err)})
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
